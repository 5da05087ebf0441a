// The engine as shipped (release wasm, in its worker), driven through window.nucleus, against the golden data.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import { MODEL, pageTest } from './browser.mjs';

const fixture = name => JSON.parse(fs.readFileSync(new URL(`../fixtures/${name}`, import.meta.url), 'utf8'));
const llamaCpp = fixture('smollm2-135m-q4_1.json');
const exact = fixture('smollm2-135m-f32.json');
const load = page => page.evaluate(url => window.nucleus.load(url), MODEL);

/** A run; steps without their candidates' details, to keep the transfer small. */
const run = (page, options) => page.evaluate(async options => {
  const steps = [];
  const result = await window.nucleus.generate({ pace: 'free', ...options }, step => steps.push({
    index: step.index, id: step.id, text: step.text, bytes: [...step.bytes], positionsComputed: step.positionsComputed,
    best: step.candidates[0]?.id, bestLogit: step.candidates[0]?.logit,
  }));
  return { steps, result };
}, options);

pageTest('token ids equal llama.cpp\'s, both columns', {}, async page => {
  await load(page);
  const ids = (text, special) => page.evaluate(async ([text, special]) =>
    (await window.nucleus.tokenize(text, { special })).map(token => token.id), [text, special]);
  for (const { text, ids: plain, ids_special: special } of llamaCpp.tokenize) {
    assert.deepEqual(await ids(text, false), plain, JSON.stringify(text));
    assert.deepEqual(await ids(text, true), special, JSON.stringify(text));
  }
});

pageTest('logits are at least as near to float32 as llama.cpp\'s', {}, async page => {
  await load(page);
  const cases = [...exact.forward.map((e, i) => [e.ids, e, llamaCpp.forward[i]]),
    ...exact.long.slice(0, 2).map((e, i) => [llamaCpp.long.ids.slice(0, e.n_tokens), e, llamaCpp.long.at[i]])];
  for (const [ids, { top_ids, top_logits }, theirs] of cases) {
    const known = new Map(top_ids.map((id, i) => [id, top_logits[i]]));
    const common = theirs.top_ids.map((id, i) => ({ id, exact: known.get(id), theirs: theirs.top_logits[i] })).filter(x => x.exact !== undefined);
    assert.ok(common.length >= 24);
    const ours = await page.evaluate(async ([ids, wanted]) => {
      const logits = await window.nucleus.logits(ids);
      return { n: logits.length, values: wanted.map(id => logits[id]) };
    }, [ids, common.map(x => x.id)]);
    assert.equal(ours.n, 49152);
    const rms = distance => Math.sqrt(common.reduce((sum, x, i) => sum + distance(x, i) ** 2, 0) / common.length);
    const [mine, llamaCppDistance] = [rms((x, i) => ours.values[i] - x.exact), rms(x => x.theirs - x.exact)];
    assert.ok(mine <= llamaCppDistance, `${ids.length} tokens: ${mine}, llama.cpp ${llamaCppDistance}`);
    assert.ok(mine < 0.12, `${ids.length} tokens: ${mine}`);
  }
});

pageTest('greedy tokens equal llama.cpp\'s wherever the margin is clear', {}, async page => {
  await load(page);
  let clear = 0;
  for (const { prompt, ids, greedy, greedy_margin: margins, greedy_text: text } of llamaCpp.forward) {
    // Along the fixture's own text, so that one near-tie does not end the comparison.
    const { steps, result } = await run(page, { ids, temperature: 0, maxNewTokens: 48, forceIds: greedy, ignoreEos: true, candidates: 1 });
    assert.equal(steps.length, 48);
    assert.equal(result.text, text);
    for (const [i, step] of steps.entries()) {
      if (margins[i] > 0.5) { clear++; assert.equal(step.best, greedy[i], `${prompt}, step ${i}`); }
    }
  }
  assert.ok(clear > 96, `${clear} clear margins`);
});

pageTest('cache on and off give the same tokens; A, B, A gives the same A', {}, async page => {
  await load(page);
  const a = { prompt: 'Once upon a time', temperature: 0.7, topP: 0.9, seed: 5, maxNewTokens: 20, ignoreEos: true };
  const b = { prompt: 'def fibonacci(n):\n', temperature: 0, maxNewTokens: 10 };
  const on = await run(page, a);
  await run(page, b);
  const off = await run(page, { ...a, kvCache: false });
  await run(page, b);
  assert.deepEqual(await run(page, a).then(again => again.steps), on.steps);
  assert.deepEqual(off.result.ids, on.result.ids);
  assert.deepEqual(on.steps.map(step => step.positionsComputed), [4, ...Array(19).fill(1)]);
  assert.deepEqual(off.steps.map(step => step.positionsComputed), Array.from({ length: 20 }, (_, i) => 4 + i));
});

pageTest('streamed text equals the batch decode for emoji and CJK; no chip is lost', {}, async page => {
  await load(page);
  const text = '日本語のテキスト 🙂🙂 👩‍👩‍👧‍👦 family 🇯🇵 हिन्दी العربية — naïve\n';
  const ids = await page.evaluate(async text => (await window.nucleus.tokenize(text)).map(token => token.id), text);
  const { steps, result } = await run(page, { prompt: 'Say:', forceIds: ids, maxNewTokens: ids.length, ignoreEos: true });
  assert.equal(steps.map(step => step.text).join(''), text);
  assert.equal(result.text, text);
  assert.equal(await page.evaluate(ids => window.nucleus.detokenize(ids), ids), text);
  assert.equal(Buffer.from(steps.flatMap(step => step.bytes)).toString(), text);
  await page.waitForFunction(n => document.querySelectorAll('#output [data-index]').length === n, ids.length);
});

pageTest('stop strings, time, context and the end of a turn end a run', {}, async page => {
  await load(page);
  const free = { prompt: 'Once upon a time', temperature: 0, maxNewTokens: 40, ignoreEos: true };
  const { text } = (await run(page, free)).result;
  const stop = text.slice(24, 36); // begins and ends inside words: it straddles tokens
  const stopped = await run(page, { ...free, stop: ['no such text', stop] });
  assert.equal(stopped.result.stopReason, 'stop');
  assert.equal(stopped.result.text, text.slice(0, text.indexOf(stop)));
  assert.equal(stopped.steps.map(step => step.text).join(''), stopped.result.text);
  const timed = await run(page, { prompt: 'Once', maxNewTokens: 2000, maxTimeMs: 300, ignoreEos: true });
  assert.equal(timed.result.stopReason, 'time');
  const chat = '<|im_start|>user\nWhat is 2+2?<|im_end|>\n<|im_start|>assistant\n';
  const turn = await run(page, { prompt: chat, special: true, temperature: 0, maxNewTokens: 100 });
  assert.equal(turn.result.stopReason, 'eos');
  await page.evaluate(url => window.nucleus.load(url, { contextLength: 16 }), MODEL);
  const full = await run(page, { prompt: 'Once upon a time', maxNewTokens: 100, ignoreEos: true });
  assert.equal(full.result.stopReason, 'context');
  assert.equal(full.result.promptTokens + full.result.newTokens, 16);
});

pageTest('a refused file or a wrong hash leaves the page ready for a good one', {}, async page => {
  const refusal = (source, options) => page.evaluate(async ([source, options]) => {
    const file = Array.isArray(source) ? new Blob([new Uint8Array(source)]) : source;
    return window.nucleus.load(file, options).then(() => 'loaded', error => error.kind);
  }, [source, options]);
  const tiny = [...fs.readFileSync(new URL('../fixtures/tiny/llama-q4_1.gguf', import.meta.url))];
  assert.equal(await refusal([]), 'truncated');
  assert.equal(await refusal([0x1f, 0x8b, 8, 0, 0]), 'not-gguf');
  assert.equal(await refusal(tiny.slice(0, -1)), 'truncated');
  assert.equal(await refusal(MODEL, { sha256: '0'.repeat(64) }), 'hash-mismatch');
  assert.equal(await page.evaluate(() => window.nucleus.model), null);
  const sha256 = 'b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53';
  assert.equal(await refusal(MODEL, { sha256 }), 'loaded');
  assert.equal((await run(page, { prompt: 'Hello', maxNewTokens: 2, ignoreEos: true })).steps.length, 2);
});
