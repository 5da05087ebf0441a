// The guided path: on a recorded run before a model is there, then on the real controls and the real model.
import assert from 'node:assert/strict';
import { MODEL, pageTest } from './browser.mjs';

const N_CARDS = 7;

/** Presses the card's button and waits until the text has `n` tokens, and the status line says `said`. */
async function act(page, n, said = '') {
  await page.click('#lesson-action');
  await page.waitForFunction(([n, said]) => document.querySelectorAll('#output [data-index]').length === n
    && document.querySelector('#status').textContent.includes(said), [n, said], { timeout: 120_000 });
}

pageTest('before a model is there the lesson plays a run that says it is recorded', {}, async page => {
  await page.click('#lesson-open');
  const titles = [];
  for (const n of [1, 1, 1, 1, 16, 32, 24]) {
    titles.push(await page.textContent('#lesson-title'));
    await act(page, n);
    assert.match(await page.textContent('#lesson-note'), /No model is loaded yet: the button plays a run recorded with SmolLM2/);
    assert.ok(await page.isVisible('#recorded'), `${titles.at(-1)}: it says that it is recorded`);
    assert.match(await page.textContent('#status'), /recorded run/);
    assert.ok(await page.locator('#candidates [data-id]').count() > 0, 'candidates are shown');
    if (titles.length < N_CARDS) await page.click('#lesson-next');
  }
  assert.equal(new Set(titles).size, N_CARDS);
  await page.click('#lesson-leave');
  assert.ok(await page.isHidden('#lesson'));
});

pageTest('with a model the cards move the real controls and run it', {}, async page => {
  await page.evaluate(model => window.nucleus.load(model, { backend: 'cpu' }), MODEL);
  await page.click('#lesson-open');
  const expected = [['1', '1'], ['1', '1'], ['0', '1'], ['1', '0.5'], ['0.7', '0.9'], ['0.7', '0.9'], ['0.7', '0.9']];
  const cards = [[1], [1], [1], [1], [16, 'that was the number asked for'], [32, 'The race is over'], [24, 'that was the number asked for']];
  for (const [card, [n, said]] of cards.entries()) {
    await act(page, n, said);
    const values = await page.evaluate(() => ['temperature', 'top-p'].map(id => document.querySelector(`#${id}`).value));
    assert.deepEqual(values, expected[card], `card ${card + 1}`);
    assert.ok(await page.isHidden('#recorded'), 'nothing is recorded');
    if (card === 5) assert.match(await page.innerText('#pair'), /largest logit difference\s+0/);
    if (card < N_CARDS - 1) await page.click('#lesson-next');
  }
  // The focus stayed on the button through its runs, so Escape closes the lesson it is in.
  assert.equal(await page.evaluate(() => document.activeElement.id), 'lesson-action');
  await page.keyboard.press('Escape');
  assert.ok(await page.isHidden('#lesson'));
  assert.equal(await page.evaluate(() => document.activeElement.id), 'lesson-open');
});

pageTest('the lesson goes by keyboard, and leaves where it was entered', { viewport: { width: 390, height: 844 } }, async page => {
  await page.focus('#lesson-open');
  await page.keyboard.press('Enter');
  assert.equal(await page.getAttribute('#lesson-open', 'aria-expanded'), 'true');
  assert.equal(await page.evaluate(() => document.activeElement.closest('#lesson') !== null), true, 'the focus is in the lesson');
  await page.focus('#lesson-next');
  await page.keyboard.press('Enter');
  assert.equal(await page.textContent('#lesson-place'), '2 of 7');
  await page.focus('#lesson-leave');
  await page.keyboard.press('Enter');
  assert.equal(await page.evaluate(() => document.activeElement.id), 'lesson-open');
  assert.equal(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), true, 'nothing is wider than a phone');
});
