// The decoding chain on the real model, through window.nucleus: each option changes the outcome as it must.
import assert from 'node:assert/strict';
import { MODEL, pageTest } from './browser.mjs';

/** After one common word nearly everything may follow: the distribution is wide. */
const BASE = { prompt: 'The', maxNewTokens: 16, ignoreEos: true, pace: 'free', seed: 11, topP: 1, temperature: 1 };

/** A run of BASE with `options`, and of each step what the tests look at. */
const run = (page, options = {}) => page.evaluate(async options => {
  const steps = [];
  const result = await window.nucleus.generate(options, step => steps.push(step));
  return { ids: result.ids, stopReason: result.stopReason, steps };
}, { ...BASE, ...options });

/** Kept tokens, and how the first step distributes the draw over them. */
const first = async (page, options) => {
  const { steps: [step] } = await run(page, { maxNewTokens: 1, ...options });
  const kept = step.candidates.filter(candidate => candidate.kept);
  return { step, kept, ranks: kept.map(candidate => step.candidates.indexOf(candidate)) };
};

const near = (found, expected, what) =>
  assert.ok(Math.abs(found - expected) <= 1e-4 * Math.abs(expected) + 1e-7, `${what}: ${found}, expected ${expected}`);

/** Some n-gram of `n` ids comes twice. */
const repeats = (ids, n) => {
  const grams = ids.slice(n - 1).map((_, i) => ids.slice(i, i + n).join());
  return new Set(grams).size < grams.length;
};

pageTest('every option of the decoding chain does what it says', {}, async (page, t) => {
  await page.evaluate(url => window.nucleus.load(url), MODEL);
  const { step: plain } = await first(page, { candidates: 2000 });
  const [best, second] = plain.candidates;
  assert.equal(plain.nucleusSize, 49152, 'nothing is cut');

  await t.test('suppress and logitBias', async () => {
    const greedy = { temperature: 0, maxNewTokens: 1 };
    assert.equal((await run(page, greedy)).ids[0], best.id);
    assert.equal((await run(page, { ...greedy, suppress: [best.id] })).ids[0], second.id);
    const margin = best.logit - second.logit;
    assert.equal((await run(page, { ...greedy, logitBias: { [second.id]: margin + 0.01 } })).ids[0], second.id);
    assert.equal((await run(page, { ...greedy, logitBias: { [second.id]: margin - 0.01 } })).ids[0], best.id);
    const { step } = await first(page, { suppress: [best.id], candidates: 64 });
    assert.equal(step.nucleusSize, 49151);
    const [now] = step.candidates;
    assert.deepEqual([now.id, now.logit, now.pRaw], [second.id, second.logit, second.pRaw], 'raw figures are the model\'s own');
    near(now.pTemperature, second.pRaw / (1 - best.pRaw), 'what is left is stretched');
    near(step.entropyBits, plain.entropyBits, 'entropy of the model');
  });

  await t.test('typicalP keeps what is near the entropy', async () => {
    const entropy = plain.entropyBits;
    const distance = candidate => Math.abs(-Math.log2(candidate.pRaw) - entropy);
    const { step, kept, ranks } = await first(page, { typicalP: 0.3, candidates: 2000 });
    assert.equal(kept.length, step.nucleusSize);
    assert.ok(ranks[0] > 0, 'the likeliest are cut');
    const farthest = Math.max(...kept.map(distance));
    const cut = step.candidates.filter(candidate => !candidate.kept);
    assert.ok(cut.every(candidate => distance(candidate) > farthest - 1e-4), 'no cut token is nearer than a kept one');
    const mass = kept.reduce((sum, candidate) => sum + candidate.pRaw, 0);
    const last = kept.find(candidate => distance(candidate) === farthest).pRaw;
    assert.ok(mass >= 0.3 && mass - last < 0.3, `mass ${mass}, the last has ${last}`);
    near(step.nucleusMass, mass, 'the mass');
    assert.equal((await first(page, { typicalP: 1 })).step.nucleusSize, 49152);
  });

  await t.test('epsilonCutoff and etaCutoff', async () => {
    const { kept, step } = await first(page, { epsilonCutoff: 0.01, candidates: 2000 });
    const likely = plain.candidates.filter(candidate => candidate.pRaw >= 0.01);
    assert.deepEqual(kept.map(candidate => candidate.id), likely.map(candidate => candidate.id));
    assert.ok(step.nucleusSize > 1);
    const eta = Math.min(0.01, Math.sqrt(0.01) * 2 ** -plain.entropyBits);
    const atLeastEta = plain.candidates.filter(candidate => candidate.pRaw >= eta);
    const found = await first(page, { etaCutoff: 0.01, candidates: 2000 });
    assert.deepEqual(found.kept.map(candidate => candidate.id), atLeastEta.map(candidate => candidate.id));
    assert.ok(atLeastEta.length > likely.length, `${atLeastEta.length} at ${eta}, ${likely.length} at 0.01`);
    assert.equal((await first(page, { epsilonCutoff: 0.999 })).step.nucleusSize, 1, 'one is always kept');
  });

  await t.test('noRepeatNgramSize', async () => {
    const long = { prompt: 'one two one two one two one', temperature: 0, maxNewTokens: 24 };
    const prompt = await page.evaluate(async text => (await window.nucleus.tokenize(text)).map(token => token.id), long.prompt);
    assert.ok(repeats([...prompt, ...(await run(page, long)).ids], 4), 'the model goes on repeating');
    const { ids } = await run(page, { ...long, noRepeatNgramSize: 2 });
    const all = [...prompt, ...ids];
    const news = ids.map((id, i) => [all[prompt.length + i - 1], id].join());
    const old = prompt.slice(1).map((id, i) => [prompt[i], id].join());
    assert.ok(news.every((gram, i) => !old.includes(gram) && news.indexOf(gram) === i), 'no pair comes again');
  });

  await t.test('minNewTokens', async () => {
    const chat = { prompt: '<|im_start|>user\nWhat is 2+2?<|im_end|>\n<|im_start|>assistant\n', special: true, temperature: 0,
      maxNewTokens: 80, ignoreEos: false };
    const free = await run(page, chat);
    assert.equal(free.stopReason, 'eos');
    const end = free.ids.at(-1);
    const least = free.ids.length + 5;
    const longer = await run(page, { ...chat, minNewTokens: least });
    assert.ok(longer.ids.length > free.ids.length && longer.ids.length >= least, `${longer.ids.length}`);
    assert.deepEqual(longer.ids.slice(0, free.ids.length - 1), free.ids.slice(0, -1), 'the same until the end is forbidden');
    assert.ok(!longer.ids.slice(0, least).includes(end));
    assert.deepEqual((await run(page, { ...chat, minNewTokens: free.ids.length - 1 })).ids, free.ids, 'no longer than it must');
  });

  await t.test('samplerOrder: the same top-p, another nucleus', async () => {
    const hot = { temperature: 1.8, topP: 0.5, candidates: 2000 };
    const [hf, llamaCpp] = [await first(page, hot), await first(page, { ...hot, samplerOrder: 'llama.cpp' })];
    const untempered = await first(page, { ...hot, temperature: 1 });
    assert.ok(hf.kept.length > llamaCpp.kept.length, `${hf.kept.length}, ${llamaCpp.kept.length}`);
    assert.equal(llamaCpp.kept.length, untempered.kept.length, 'top-p comes before the temperature');
    const weight = llamaCpp.kept.map(candidate => candidate.logit / 1.8);
    const total = weight.reduce((sum, x) => sum + Math.exp(x - weight[0]), 0);
    llamaCpp.kept.forEach((candidate, i) => near(candidate.pFinal, Math.exp(weight[i] - weight[0]) / total, `kept ${i}`));
    near(llamaCpp.step.candidates[0].pTemperature, hf.step.candidates[0].pTemperature, 'after temperature, nothing cut');
    near(llamaCpp.step.candidates[0].pRaw, best.pRaw, 'raw');
  });

  await t.test('seeded runs repeat, whatever is on', async () => {
    const all = { temperature: 0.9, topK: 200, topP: 0.95, minP: 0.01, typicalP: 0.9, epsilonCutoff: 1e-4, etaCutoff: 1e-4,
      repetitionPenalty: 1.1, noRepeatNgramSize: 3, minNewTokens: 4, logitBias: { 28: -1 }, suppress: [0] };
    for (const samplerOrder of ['hf', 'llama.cpp']) {
      const { ids } = await run(page, { ...all, samplerOrder });
      assert.equal(ids.length, 16);
      assert.deepEqual((await run(page, { ...all, samplerOrder })).ids, ids);
    }
  });

  await t.test('bad values are refused by name', async () => {
    const bad = [['typicalP', 0], ['typicalP', 1.5], ['epsilonCutoff', 1], ['etaCutoff', -1], ['noRepeatNgramSize', 1.5],
      ['minNewTokens', -1], ['logitBias', [1]], ['logitBias', { x: 1 }], ['logitBias', { 5: Infinity }], ['suppress', 'x'],
      ['suppress', [-1]], ['samplerOrder', 'vllm'], ['suppress', [49152], 'bad-token'], ['logitBias', { 49152: 1 }, 'bad-token'],
      // The whole vocabulary: nothing is left to draw.
      ['suppress', Array.from({ length: 49152 }, (_, id) => id)]];
    for (const [name, value, expected = 'bad-option'] of bad) {
      const [kind, message] = await page.evaluate(options =>
        window.nucleus.generate(options).then(() => ['resolved', ''], error => [error.kind, error.message]), { ...BASE, [name]: value });
      assert.equal(kind, expected, `${name}: ${message}`);
      assert.ok(message.includes(name), message);
    }
  });

  await t.test('the controls behind More ask for the same', async () => {
    const set = (id, value) => page.evaluate(([id, value]) => {
      const control = document.getElementById(id);
      control.value = value;
      control.dispatchEvent(new Event('input'));
    }, [id, value]);
    await set('temperature', 0);
    await set('max-tokens', 1);
    await page.click('#generate');
    // The text before had more tokens.
    await page.waitForFunction(() => document.querySelectorAll('#output [data-index]').length === 1);
    const chip = () => page.textContent('#output [data-index="0"]');
    const free = await chip();
    await page.click('.more summary');
    await set('typical-p', 0.5);
    assert.equal(await page.textContent('#typical-p-value'), '0.50');
    await set('suppress', `${best.id}, x`);
    await page.click('#generate');
    await page.waitForFunction(() => document.querySelector('#status[data-error]')?.textContent.includes('suppress[1]'));
    await set('suppress', ` ${best.id}, `);
    await page.click('#generate');
    await page.waitForFunction(before => document.querySelector('#output [data-index="0"]')?.textContent !== before, free);
  });
});
