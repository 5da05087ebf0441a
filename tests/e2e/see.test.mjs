// Seeing inside every step: time travel, slow motion, what if, and the curves over the whole vocabulary.
import assert from 'node:assert/strict';
import { MODEL, pageTest } from './browser.mjs';

const QUERY = `?model=${MODEL}&autoload=1&prompt=Once%20upon%20a%20time`;
const OPEN = { query: QUERY };
const chips = page => page.locator('#output [data-index]').count();

async function loaded(page) {
  await page.waitForFunction(() => window.nucleus.model, null, { timeout: 60_000 });
  await page.uncheck('#seed-new');
}

const over = page => page.waitForFunction(() => document.querySelector('#stop').disabled, null, { timeout: 60_000 });

async function generate(page, nTokens) {
  await page.fill('#max-tokens', String(nTokens));
  const before = await page.locator('#output .text').elementHandle();
  await page.click('#generate');
  await page.waitForFunction(before => !before.isConnected, before);
}

const set = (page, selector, value) => page.locator(selector).evaluate((input, value) => {
  input.value = value;
  input.dispatchEvent(new Event('input', { bubbles: true }));
}, String(value));

/** Rows of the list as they are marked: token id and whether it was kept. */
const mask = page => page.locator('#candidates [data-id]').evaluateAll(rows =>
  rows.map(row => [row.dataset.id, row.classList.contains('kept')]));

pageTest('the slider and its buttons go through the steps, by mouse and by keyboard', OPEN, async page => {
  await loaded(page);
  assert.equal(await page.isDisabled('#scrub'), true, 'nothing to look at yet');
  await generate(page, 12);
  await over(page);
  assert.deepEqual(await page.locator('#scrub').evaluate(s => [s.max, s.value]), ['11', '11']);
  await page.locator('#scrub').focus();
  for (const [key, place] of [['Home', 1], ['ArrowRight', 2], ['ArrowRight', 3], ['ArrowLeft', 2], ['End', 12]]) {
    await page.keyboard.press(key);
    assert.equal(await page.textContent('#step-place'), `step ${place} of 12 tokens`, key);
    assert.equal(await page.getAttribute('#scrub', 'aria-valuetext'), `step ${place} of 12 tokens`);
    assert.equal(await page.getAttribute(`[data-index="${place - 1}"]`, 'aria-current'), 'true');
  }
  await page.click('#scrub-back');
  assert.equal(await page.textContent('#step-place'), 'step 11 of 12 tokens');
  await page.click('#follow');
  assert.equal(await page.locator('#scrub').inputValue(), '11');
});

pageTest('Pause stops the text at once; One token and Generate go on; the text is that of a run without a pause', OPEN, async page => {
  await loaded(page);
  await generate(page, 60);
  await page.waitForFunction(() => document.querySelectorAll('#output [data-index]').length >= 3);
  await page.click('#pause');
  const n = await chips(page);
  assert.ok(n < 60, 'the run was paused on its way');
  assert.equal(await page.locator('#scrub').inputValue(), String(n - 1), 'the slider has caught up');
  await page.waitForTimeout(400);
  assert.equal(await chips(page), n, 'nothing comes while it is paused');
  assert.equal(await page.isDisabled('#pause'), true);
  for (let i = 1; i <= 6; i += 1) {
    await page.click('#step');
    await page.waitForFunction(n => document.querySelectorAll('#output [data-index]').length === n, n + i);
    await page.waitForTimeout(60);
    assert.equal(await chips(page), n + i, 'one at a time');
  }
  await page.click('#generate');
  await over(page);
  assert.equal(await chips(page), 60);
  const paused = await page.textContent('#output .text');
  await generate(page, 60);
  await over(page);
  assert.equal(await page.textContent('#output .text'), paused);
});

pageTest('a paused run can be stopped', OPEN, async page => {
  await loaded(page);
  await generate(page, 500);
  await page.waitForFunction(() => document.querySelectorAll('#output [data-index]').length >= 3);
  await page.click('#pause');
  await page.keyboard.press('Escape');
  await over(page);
  assert.match(await page.textContent('#status'), new RegExp(`^${await chips(page)} tokens: stopped by you`));
});

pageTest('slow motion shows ten tokens a second, and can be left', OPEN, async page => {
  await loaded(page);
  await page.selectOption('#tempo', '10');
  await generate(page, 40);
  const times = await page.evaluate(() => new Promise(resolve => {
    const times = [];
    const watch = () => {
      const n = document.querySelectorAll('#output [data-index]').length;
      while (times.length < n) times.push(performance.now());
      if (n >= 15) resolve(times); else requestAnimationFrame(watch);
    };
    watch();
  }));
  const gap = (times[14] - times[4]) / 10;
  assert.ok(gap > 85 && gap < 180, `${gap} ms a token`);
  await page.selectOption('#tempo', 'full');
  await over(page);
  assert.equal(await chips(page), 40);
});

pageTest('what if: the masks and draws are those of a fresh run on the same tokens', OPEN, async page => {
  await loaded(page);
  await page.fill('#seed', '11');
  await generate(page, 24);
  await over(page);
  const kept = await page.textContent('#output .text');
  const before = await mask(page);
  await page.click('#what-if > summary');
  const n = await chips(page);

  // Fresh runs: step by step the tokens so far are given, and the token after them is drawn with the moved settings.
  const fresh = (settings, n) => page.evaluate(async ([settings, n]) => {
    const options = { prompt: 'Once upon a time', seed: 11, ignoreEos: true, ...settings };
    const { ids } = await window.nucleus.generate({ prompt: 'Once upon a time', seed: 11, maxNewTokens: n });
    const steps = [];
    for (let i = 0; i < n; i += 1) {
      await window.nucleus.generate({ ...options, forceIds: ids.slice(0, i), maxNewTokens: i + 1 }, step => {
        if (step.index === i) steps.push({ id: step.id, size: step.nucleusSize, kept: step.candidates.map(c => [c.id, c.kept]) });
      });
    }
    return { ids, steps };
  }, [settings, n]);
  const cases = [];
  for (const settings of [{ topP: 0.6 }, { topP: 0.9, temperature: 1 }, { topP: 0.8, temperature: 1.2, topK: 20 }]) {
    cases.push({ settings, ...(await fresh(settings, n)) });
  }
  // The run on screen again: the fresh ones have replaced it.
  await generate(page, 24);
  await over(page);
  assert.equal(await page.textContent('#output .text'), kept);
  for (const { settings, ids, steps } of cases) {
    await set(page, '#if-top-p', settings.topP);
    await set(page, '#if-temperature', settings.temperature ?? 0.7);
    await set(page, '#if-top-k', settings.topK ?? 0);
    await page.waitForFunction(() => /^At \d/.test(document.querySelector('#if-result').textContent));
    const verdicts = await page.locator('#output [data-index]').evaluateAll(chips => chips.map(chip => chip.dataset.whatIf ?? 'same'));
    const n_unknown = verdicts.filter(verdict => verdict === 'unknown').length;
    assert.ok(n_unknown <= n / 2, `${n_unknown} of ${n} not known`);
    let nOther = 0;
    for (let i = 0; i < n; i += 1) {
      if (verdicts[i] === 'unknown') continue;
      assert.equal(verdicts[i], steps[i].id === ids[i] ? 'same' : 'other', `step ${i} ${JSON.stringify(settings)}`);
      nOther += verdicts[i] === 'other';
      await set(page, '#scrub', i);
      const shown = await mask(page);
      const expected = new Map(steps[i].kept.map(([id, kept]) => [String(id), kept]));
      for (const [id, isKept] of shown) assert.equal(isKept, expected.get(id), `step ${i}, token ${id} ${JSON.stringify(settings)}`);
      assert.equal(parseInt((await page.textContent('#facts [data-fact="nucleus"] dd')).replace(/,/g, ''), 10), steps[i].size);
    }
    assert.match(await page.textContent('#if-result'), new RegExp(`^At ${nOther} of ${n} steps`));
  }
  await page.click('#as-drawn');
  await page.waitForFunction(() => document.querySelectorAll('#output [data-what-if]').length === 0);
  assert.match(await page.textContent('#if-result'), /^All is as it was drawn/);
  await set(page, '#scrub', n - 1);
  assert.deepEqual(await mask(page), before);
});

pageTest('what if goes on judging while a run goes on', OPEN, async page => {
  await loaded(page);
  for (let n = 1; n <= 3; n += 1) {
    await page.click('#step');
    await page.waitForFunction(n => document.querySelectorAll('#output [data-index]').length === n, n);
  }
  await page.click('#what-if > summary');
  await set(page, '#if-top-k', 1);
  await page.waitForFunction(() => / of 3 steps/.test(document.querySelector('#if-result').textContent));
  await page.click('#scrub-back');
  await set(page, '#if-temperature', 0.5);
  await page.click('#generate');
  await over(page);
  const n = await chips(page);
  await page.waitForFunction(n => document.querySelector('#if-result').textContent.includes(` of ${n} steps`), n);
  // Top-k 1 takes the likeliest: other steps are those whose token was not.
  const marked = await page.locator('#output [data-what-if="other"]').evaluateAll(chips => chips.map(chip => Number(chip.dataset.index)));
  const unlikely = [];
  for (let i = 0; i < n; i += 1) {
    await set(page, '#scrub', i);
    if (/ instead of /.test(await page.textContent('#if-step'))) unlikely.push(i);
  }
  assert.deepEqual(marked, unlikely);
  assert.ok(marked.some(index => index >= 3), `${marked}`);
});

pageTest('what if over a long run never blocks the page, and a run with a penalty says why not', {}, async page => {
  await page.setInputFiles('#model-file', new URL('../fixtures/tiny/llama-q4_1.gguf', import.meta.url).pathname);
  await loaded(page);
  await page.evaluate(() => window.nucleus.generate({ ids: [5], maxNewTokens: 2000, ignoreEos: true, seed: 3 }));
  await page.click('#what-if > summary');
  const longest = await page.evaluate(async () => {
    const tasks = [];
    const observer = new PerformanceObserver(list => tasks.push(...list.getEntries().map(entry => entry.duration)));
    observer.observe({ entryTypes: ['longtask'] });
    const slider = document.querySelector('#if-top-p');
    for (const p of [0.3, 0.31, 0.32]) {
      slider.value = p;
      slider.dispatchEvent(new Event('input', { bubbles: true }));
      await new Promise(resolve => setTimeout(resolve, 30));
    }
    while (!/^At \d/.test(document.querySelector('#if-result').textContent)) await new Promise(resolve => setTimeout(resolve, 10));
    await new Promise(resolve => setTimeout(resolve, 200));
    return Math.max(0, ...tasks);
  });
  console.log(`longest task ${longest} ms`);
  assert.ok(longest < 100, `${longest} ms`);
  await page.evaluate(() => window.nucleus.generate({ ids: [5], maxNewTokens: 5, ignoreEos: true, repetitionPenalty: 1.2 }));
  await set(page, '#if-top-p', 0.5);
  assert.match(await page.textContent('#if-result'), /which its steps do not keep/);
});

pageTest('the rank curve is that of all logits, sorted; the list has raw, tempered and final probabilities', OPEN, async page => {
  await loaded(page);
  const result = await page.evaluate(async () => {
    const last = [];
    const { ids } = await window.nucleus.generate({ prompt: 'Once upon a time', seed: 11, maxNewTokens: 4 }, step => { last[0] = step; });
    const label = document.querySelector('#rank-curve').getAttribute('aria-label');
    const prompt = (await window.nucleus.tokenize('Once upon a time')).map(token => token.id);
    const logits = Array.from(await window.nucleus.logits([...prompt, ...ids.slice(0, 3)])).sort((a, b) => b - a);
    return { label, logits, step: last[0] };
  });
  const weight = result.logits.reduce((sum, logit) => sum + Math.exp((logit - result.logits[0]) / 0.7), 0);
  const points = [...result.label.matchAll(/rank ([\d,]+): ([\d.e+-]+)/g)].map(([, rank, p]) => [Number(rank.replace(/,/g, '')), Number(p)]);
  assert.deepEqual(points.map(([rank]) => rank), [1, 10, 100, 1000, 10_000, 49_152]);
  for (const [rank, p] of points) {
    const expected = Math.exp((result.logits[rank - 1] - result.logits[0]) / 0.7) / weight;
    // 1/16 of a logit at temperature 0.7, and rounding of the label and of the engine's two ways to the same logits.
    assert.ok(Math.abs(Math.log(p / expected)) < 1 / 16 / 0.7 + 0.01, `rank ${rank}: ${p}, expected ${expected}`);
  }
  const row = page.locator('#candidates .row.kept').first().locator('.number');
  const [raw, tempered, final] = (await row.allTextContents()).map(text => parseFloat(text) / 100);
  const best = result.step.candidates[0];
  for (const [shown, p] of [[raw, best.pRaw], [tempered, best.pTemperature], [final, best.pFinal]]) {
    assert.ok(Math.abs(shown - p) < 0.0051, `${shown}, expected ${p}`);
  }
  assert.match(await page.textContent('#sum-caption'), /crosses 0\.90, number \d+\. u = 0\.\d{4} of what is kept/);
  assert.match(await page.textContent('#cumulative'), /% cut off/);
});

pageTest('a step tells a caller of the tokens beyond its candidates', OPEN, async page => {
  await loaded(page);
  const { vocabSize, steps } = await page.evaluate(async () => {
    const steps = [];
    for (const candidates of [64, 0]) {
      await window.nucleus.generate({ prompt: 'Once', maxNewTokens: 1, seed: 3, candidates }, ({ candidates, tail }) => steps.push({
        listed: candidates.map(({ logit }) => logit), tail: tail && { logits: [...tail.logits], counts: [...tail.counts], unknown: tail.unknown },
      }));
    }
    return { vocabSize: window.nucleus.model.vocabSize, steps };
  });
  const [{ listed, tail }, none] = steps;
  assert.equal(none.tail, null);
  assert.equal(tail.logits.length, tail.counts.length);
  assert.equal(listed.length + tail.counts.reduce((a, b) => a + b) + tail.unknown, vocabSize, 'every token is counted once');
  assert.deepEqual(tail.logits, [...tail.logits].sort((a, b) => b - a), 'from the top down');
  assert.ok(tail.logits[0] <= listed.at(-1) + 1 / 16, 'below the candidates');
});
