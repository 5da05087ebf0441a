// Branches on the real model: a candidate that was not chosen is taken, the cache is cut there, and the text goes on.
import assert from 'node:assert/strict';
import { MODEL, pageTest } from './browser.mjs';

const LOADED = `?model=${MODEL}&autoload=1&prompt=Once%20upon%20a%20time`;
const chips = page => page.locator('#output [data-index]').allTextContents();
const lines = page => page.locator('#branch-list [data-branch]');
const other = (page, nth) => page.locator('#candidates [data-id]:not(.chosen)').nth(nth);

async function over(page) {
  await page.waitForFunction(() => document.querySelector('#stop').disabled, null, { timeout: 60_000 });
}

/** A finished run of so many tokens, the same every time. */
async function written(page, nTokens) {
  await page.waitForFunction(() => window.nucleus.model, null, { timeout: 60_000 });
  await page.uncheck('#seed-new');
  await page.fill('#max-tokens', String(nTokens));
  await page.click('#generate');
  await page.waitForFunction(n => document.querySelectorAll('#output [data-index]').length === n, nTokens, { timeout: 60_000 });
  await over(page);
}

/** Takes a candidate of step `at`, and waits for the end of what it leads to. */
async function branch(page, at, nth) {
  await page.click(`[data-index="${at}"]`);
  const row = other(page, nth);
  const token = await row.locator('.token').textContent();
  const n = await lines(page).count();
  await row.click();
  await page.waitForFunction(n => document.querySelectorAll('#branch-list [data-branch]').length > n, n);
  await over(page);
  return token;
}

pageTest('a candidate is taken: the common part stays, the cache is reused, the text goes on', { query: LOADED }, async page => {
  await written(page, 24);
  assert.equal(await page.isVisible('#branches'), false, 'a text that nothing has left is no tree');
  const root = await chips(page);
  const token = await branch(page, 9, 1);
  const found = await chips(page);
  assert.equal(found.length, 24, 'as long as the run that it left');
  assert.deepEqual(found.slice(0, 9), root.slice(0, 9));
  assert.equal(found[9], token);
  assert.notDeepEqual(found, root);
  assert.equal(await page.locator('#output [data-common]').count(), 9);
  assert.equal(await page.locator('#output [data-fork]').getAttribute('data-index'), '9');
  assert.match(await page.textContent('#status'), /^15 tokens: that was the number asked for/);
  // Four tokens of prompt and nine of text, the last of which gives the logits.
  assert.equal(await page.textContent('#branch-note'), '12 cached tokens reused, 1 position computed.');
  await page.click('[data-index="9"]');
  assert.match(await page.textContent('#say'), /^This token was given, not drawn/);
  assert.equal(await page.textContent('#facts [data-fact="computed this step"] dd'), '1 position');
});

pageTest('branches are kept, compared and returned to', { query: LOADED }, async page => {
  await written(page, 24);
  const texts = [await chips(page)];
  for (const [at, nth] of [[9, 1], [15, 2], [4, 1]]) {
    await branch(page, at, nth);
    texts.push(await chips(page));
  }
  assert.equal(await lines(page).count(), 4);
  assert.equal(await page.getAttribute('[data-branch="3"]', 'aria-current'), 'true');
  assert.match(await page.textContent('[data-branch="2"]'), /^after 15 tokens\s.*9 tokens · \d+\.\d\sbits/);
  assert.match(await page.textContent('[data-branch="0"]'), /^first run .*24 tokens/);
  // What left first comes first: 3 left after 4 tokens, 1 after 9, and 2 left 1.
  const order = await lines(page).evaluateAll(all => all.map(line => line.dataset.branch));
  assert.deepEqual(order, ['0', '3', '1', '2']);
  for (const [index, common, forks] of [[1, 9, [4, 9, 15]], [0, 0, [4, 9]], [2, 15, [4, 9, 15]], [3, 4, [4]]]) {
    await page.click(`[data-branch="${index}"]`);
    await page.waitForFunction(index => document.querySelector(`[data-branch="${index}"]`).ariaCurrent === 'true', index);
    assert.deepEqual(await chips(page), texts[index], `branch ${index}`);
    assert.equal(await page.locator('#output [data-common]').count(), common, `branch ${index}`);
    const found = await page.locator('#output [data-fork]').evaluateAll(all => all.map(chip => Number(chip.dataset.index)));
    assert.deepEqual(found, forks, `branch ${index}`);
  }
  // The same choice again leads to the branch that is there.
  await page.click('[data-branch="0"]');
  await page.click('[data-index="9"]');
  const taken = texts[1][9];
  await page.locator('#candidates [data-id]:not(.chosen)').filter({ hasText: taken }).first().click();
  await page.waitForFunction(() => document.querySelector('[data-branch="1"]').ariaCurrent === 'true');
  assert.equal(await lines(page).count(), 4);
  // Another run is another tree.
  await page.click('#generate');
  await page.waitForFunction(() => document.querySelector('#branches').hidden);
  await over(page);
  assert.deepEqual(await chips(page), texts[0]);
});

pageTest('the keyboard takes a candidate', { query: LOADED }, async page => {
  await written(page, 12);
  await page.locator('[data-index="5"]').click();
  await page.locator('#candidates').focus();
  const focused = () => page.evaluate(() => document.activeElement.parentElement.dataset.id);
  const ids = await page.locator('#candidates [data-id]:not(.chosen)').evaluateAll(rows => rows.map(row => row.dataset.id));
  for (const [key, id] of [['ArrowDown', ids[0]], ['ArrowDown', ids[1]], ['ArrowUp', ids[0]], ['End', ids.at(-1)], ['Home', ids[0]]]) {
    await page.keyboard.press(key);
    assert.equal(await focused(), id, key);
  }
  const name = await page.evaluate(() => document.getElementById(document.activeElement.getAttribute('aria-labelledby')).textContent);
  assert.match(name, /%/, 'the button is named by its row');
  await page.keyboard.press('Enter');
  await page.waitForFunction(() => document.querySelectorAll('#branch-list [data-branch]').length === 2);
  await over(page);
  await page.click('[data-index="5"]');
  assert.equal(await page.getAttribute('#candidates .chosen', 'data-id'), ids[0]);
  await page.locator('[data-branch="0"]').focus();
  await page.keyboard.press('Enter');
  await page.waitForFunction(() => document.querySelector('[data-branch="0"]').ariaCurrent === 'true');
  assert.equal(await page.evaluate(() => document.activeElement.dataset.branch), '0', 'the focus stays on the line');
});

pageTest('a click during a run ends it and branches; the interrupted text can be returned to', { query: LOADED }, async page => {
  await page.waitForFunction(() => window.nucleus.model, null, { timeout: 60_000 });
  await page.uncheck('#seed-new');
  await page.fill('#max-tokens', '400');
  await page.click('#generate');
  await page.waitForFunction(() => document.querySelectorAll('#output [data-index]').length > 8);
  await page.click('[data-index="3"]');
  await other(page, 0).click();
  await page.waitForFunction(() => document.querySelectorAll('#branch-list [data-branch]').length === 2);
  await page.waitForFunction(() => document.querySelectorAll('#output [data-index]').length > 12);
  assert.match(await page.textContent('[data-branch="1"]'), /writing…/);
  await page.click('[data-branch="0"]');
  await page.waitForFunction(() => document.querySelector('[data-branch="0"]').ariaCurrent === 'true');
  await over(page);
  assert.ok((await chips(page)).length > 8);
  assert.doesNotMatch(await page.textContent('#branch-list'), /writing…/);
});

pageTest('a branch has the steps of a fresh run of its ids, and the cache says so', { query: LOADED }, async page => {
  await page.waitForFunction(() => window.nucleus.model, null, { timeout: 60_000 });
  const outcome = await page.evaluate(async () => {
    const run = async options => {
      const steps = [];
      const result = await window.nucleus.generate({ seed: 5, maxNewTokens: 16, pace: 'free', ...options }, step => steps.push(step));
      return { steps, result };
    };
    const prompt = 'The old lighthouse keeper';
    const root = await run({ prompt });
    const again = await run({ prompt });
    const at = 6;
    const token = root.steps[at].candidates.find(candidate => candidate.id !== root.steps[at].id).id;
    const beginning = root.result.ids.slice(0, at);
    await run({ prompt });
    const branch = await run({ prompt, resumeIds: beginning, forceIds: [token], reuseCache: true });
    const back = await run({ prompt, resumeIds: beginning, reuseCache: true });
    const fresh = await run({ prompt, forceIds: [...beginning, token] });
    const off = await run({ prompt, resumeIds: beginning, forceIds: [token], reuseCache: true, kvCache: false });
    const brief = steps => steps.map(({ index, position, id, u, p, candidates }) => ({
      index, position, id, u, p, logits: candidates.map(candidate => [candidate.id, candidate.logit]),
    }));
    return {
      nPrompt: root.result.promptTokens, reused: [root, again, branch, back, fresh, off].map(run => run.result.reusedTokens),
      computed: branch.steps.map(step => step.positionsComputed), back: back.result.ids, rest: root.result.ids.slice(at),
      branch: brief(branch.steps), fresh: brief(fresh.steps.slice(at)), backend: window.nucleus.model.backend,
    };
  });
  const { nPrompt } = outcome;
  assert.equal(outcome.backend, 'cpu');
  assert.deepEqual(outcome.reused, [0, 0, nPrompt + 5, nPrompt + 5, 0, 0]);
  assert.deepEqual(outcome.computed, Array(10).fill(1));
  assert.deepEqual(outcome.back, outcome.rest, 'the numbers of the stream go by the index of the step');
  assert.deepEqual(outcome.branch, outcome.fresh, 'to the bit');
});

pageTest('what another run or another question left in the cache is never taken for this run\'s', { query: LOADED }, async page => {
  await page.waitForFunction(() => window.nucleus.model, null, { timeout: 60_000 });
  const [fresh, ...found] = await page.evaluate(async () => {
    const options = { ids: [1, 2, 3, 4, 5, 6], temperature: 0, maxNewTokens: 4, ignoreEos: true, pace: 'free' };
    const reuse = async () => {
      const { ids, reusedTokens } = await window.nucleus.generate({ ...options, reuseCache: true });
      return { ids, reusedTokens };
    };
    const first = await reuse();
    const same = await reuse();
    await window.nucleus.logits([1, 2, 3, 9]);
    const afterLogits = await reuse();
    await window.nucleus.generate({ ...options, ids: [1, 2, 9, 9, 9, 9, 9] });
    const afterOther = await reuse();
    return [first, same, afterLogits, afterOther];
  });
  assert.deepEqual(found.map(run => run.ids), Array(3).fill(fresh.ids));
  assert.deepEqual([fresh, ...found].map(run => run.reusedTokens), [0, 5, 0, 2]);
});
