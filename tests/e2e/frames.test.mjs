// What a painted frame costs: as much as its new tokens, however long the text is, and without a trace of it to be seen.
import assert from 'node:assert/strict';
import { loadFixture, pageTest } from './browser.mjs';

const N_TOKENS = 450;
/** Chips that the last block may hold: it closes at the first end of a line after 48, and a frame brings 48 at most. */
const N_OPEN = 200;

/** A run of the tiny model; the panel gets another width at step `narrowAt`. */
async function write(page, narrowAt = -1) {
  await loadFixture(page, 'tiny/llama-q4_1.gguf', { backend: 'cpu' });
  await page.evaluate(async ([maxNewTokens, narrowAt]) => {
    const narrow = step => {
      if (step.index === narrowAt) document.querySelector('main').style.maxWidth = '900px';
    };
    await window.nucleus.generate({ prompt: 'The history of the press', maxNewTokens, ignoreEos: true, seed: 3, temperature: 1.5 }, narrow);
    // The observer of the width speaks with a frame.
    await new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)));
  }, [N_TOKENS, narrowAt]);
}

/** Where each chip is, as the page laid it out and again with all of the text in one block. */
const places = page => page.evaluate(() => {
  const text = document.querySelector('#output .text');
  const measure = () => {
    const origin = text.getBoundingClientRect();
    return [...text.querySelectorAll('[data-index]')].map(chip => {
      const { left, top } = chip.getBoundingClientRect();
      return [Math.round(left - origin.left), Math.round(top - origin.top)];
    });
  };
  const shown = measure();
  const [first, ...rest] = text.children;
  first.className = 'lines';
  for (const block of rest) {
    first.append(...block.childNodes);
    block.remove();
  }
  return { shown, plain: measure(), nBlocks: rest.length + 1 };
});

pageTest('the text is in blocks of whole lines: nothing of it is to be seen', {}, async page => {
  await write(page);
  const blocks = await page.evaluate(() => [...document.querySelectorAll('#output .lines')].map(block => ({
    n: block.querySelectorAll('[data-index]').length, contain: getComputedStyle(block).contain,
  })));
  const open = blocks.pop();
  assert.ok(open.n < N_OPEN, `${open.n} chips are laid out again with each token`);
  assert.ok(blocks.length > 0, 'some blocks are closed');
  for (const { n, contain } of blocks) {
    assert.ok(n < N_OPEN, `${n} chips in a block`);
    assert.equal(contain, 'content', 'a closed block is left alone: layout, paint and style');
  }
  const { shown, plain } = await places(page);
  assert.equal(shown.length, N_TOKENS);
  assert.deepEqual(shown, plain, 'lines break where those of one paragraph do');
});

pageTest('another width in the middle of a run: the lines break anew', {}, async page => {
  await write(page, 200);
  assert.ok(await page.locator('#output .lines.joined').count() > 0, 'blocks of the old width are one paragraph');
  const { shown, plain, nBlocks } = await places(page);
  assert.ok(nBlocks > 2, 'blocks are closed before and after');
  assert.deepEqual(shown, plain, 'lines break where those of one paragraph do');
});

pageTest('a further token costs a fraction of its cost in one block', {}, async page => {
  await write(page);
  const ms = await page.evaluate(() => {
    const text = document.querySelector('#output .text');
    const cost = () => {
      const chip = text.querySelector('[data-index]').cloneNode(true);
      const times = Array.from({ length: 60 }, () => {
        const start = performance.now();
        text.lastElementChild.append(chip);
        chip.offsetTop;
        const time = performance.now() - start;
        chip.remove();
        text.offsetHeight;
        return time;
      });
      return times.sort((a, b) => a - b)[15];
    };
    const blocks = cost();
    const [first, ...rest] = text.children;
    for (const block of rest) first.append(...block.childNodes), block.remove();
    first.className = 'lines';
    return { blocks, one: cost() };
  });
  console.log(`layout of one more token after ${N_TOKENS}: ${JSON.stringify(ms)} ms`);
  assert.ok(ms.blocks < ms.one / 1.5, JSON.stringify(ms));
});

pageTest('the chips are buttons to keyboard and mouse; the panel shows the last step when the run is over', {}, async page => {
  await write(page);
  assert.match(await page.textContent('#step-place'), new RegExp(`^step ${N_TOKENS} of ${N_TOKENS}`));
  const last = page.locator('#output [aria-current]');
  assert.equal(await last.getAttribute('data-index'), String(N_TOKENS - 1));
  assert.equal(await page.textContent('#candidates .chosen .token'), await last.textContent(), 'the newest step is in the panel');
  const end = await page.evaluate(() => {
    const { scrollHeight, scrollTop, clientHeight } = document.querySelector('#output');
    return scrollHeight - scrollTop - clientHeight;
  });
  assert.ok(end < 2, `${end} px above the end`);

  await last.focus();
  await page.keyboard.press('Home');
  assert.match(await page.textContent('#step-place'), /^step 1 of/);
  await page.locator('#output [data-index="2"]').focus();
  await page.keyboard.press('Enter');
  assert.match(await page.textContent('#step-place'), /^step 3 of/);
  const copied = await page.evaluate(() => {
    getSelection().selectAllChildren(document.querySelector('#output [data-index="2"]'));
    return getSelection().toString();
  });
  assert.equal(copied, await page.textContent('#output [data-index="2"]'), 'its text can be selected');
});
