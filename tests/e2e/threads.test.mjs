// The CPU engine's threads: the same text on any number of them, and a reason where there are fewer than asked for.
import assert from 'node:assert/strict';
import { MODEL, loadFixture, pageTest } from './browser.mjs';

/** Scripts for the page and its workers: a worker's own workers cannot start. */
const refusedThreads = `if (!globalThis.window) globalThis.Worker = class { constructor() { throw new Error('refused'); } };`;
const silentThreads = `if (!globalThis.window) globalThis.Worker = class { postMessage() {} terminate() {} };`;

const load = (page, threads) =>
  page.evaluate(([url, threads]) => window.nucleus.load(url, { backend: 'cpu', threads }), [MODEL, threads]);
const run = page => page.evaluate(async () => {
  const prompt = 'The old lighthouse keeper told a story about the sea. '.repeat(4);
  return (await window.nucleus.generate({ prompt, temperature: 0, maxNewTokens: 16, ignoreEos: true })).ids;
});

pageTest('one, two and three threads write the same text', {}, async page => {
  const texts = [];
  for (const threads of [1, 2, 3]) {
    const info = await load(page, threads);
    assert.deepEqual([info.threads, info.backendReason], [threads, 'The CPU engine was asked for.']);
    assert.equal(await page.textContent('#backend-name'), `CPU · ${threads} ${threads > 1 ? 'threads' : 'thread'}`);
    texts.push(await run(page));
  }
  assert.deepEqual(texts[1], texts[0]);
  assert.deepEqual(texts[2], texts[0]);
});

pageTest('one core is left to the page where no number of threads is asked for', {}, async page => {
  const { threads } = await loadFixture(page, 'tiny/llama-q4_1.gguf', { backend: 'cpu' });
  assert.equal(threads, Math.max(1, Math.min(8, await page.evaluate(() => navigator.hardwareConcurrency) - 1)));
});

pageTest('loading again and again leaves no worker behind', {}, async page => {
  for (let i = 0; i < 4; i++) await loadFixture(page, 'tiny/llama-q4_1.gguf', { backend: 'cpu', threads: 3 });
  await page.evaluate(() => window.nucleus.unload());
  const threads = () => page.workers().filter(worker => worker.url().endsWith('/thread.js')).length;
  for (let waited = 0; threads() > 0; waited += 50) {
    assert.ok(waited < 5000, `${threads()} workers are left`);
    await page.waitForTimeout(50);
  }
});

for (const [name, script, reason] of [
  ['are refused', refusedThreads, /1 of 3 threads: a worker was refused\.$/],
  ['never answer', silentThreads, /1 of 3 threads: a worker did not answer in time\.$/],
]) {
  pageTest(`workers that ${name} cost threads, not the model`, { inject: [script] }, async page => {
    const info = await loadFixture(page, 'tiny/llama-q4_1.gguf', { backend: 'cpu', threads: 3 });
    assert.equal(info.threads, 1);
    assert.match(info.backendReason, reason);
    const { ids } = await page.evaluate(() => window.nucleus.generate({ ids: [1, 2, 3], maxNewTokens: 4, ignoreEos: true }));
    assert.equal(ids.length, 4);
  });
}

pageTest('a page that is not isolated has the fast build on one thread, and says why', { isolated: false }, async page => {
  assert.equal(await page.evaluate(() => crossOriginIsolated), false);
  const info = await loadFixture(page, 'tiny/llama-q4_1.gguf', { backend: 'cpu', threads: 2 });
  assert.deepEqual([info.threads, info.build], [1, 'simd128, relaxed SIMD, threads']);
  assert.match(info.backendReason, /isolated/);
  const { ids } = await page.evaluate(() => window.nucleus.generate({ ids: [1, 2, 3], maxNewTokens: 4, ignoreEos: true }));
  assert.equal(ids.length, 4);
});
