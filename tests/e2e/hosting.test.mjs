// The page on hosts that send headers and on hosts that cannot: isolated where the browser has any way to it, and loaded twice only
// for that. Below a path, as on GitHub Pages.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { loadFixture, newContext } from './browser.mjs';
import { Host } from './host.mjs';

const withoutServiceWorkers = () => { delete Navigator.prototype.serviceWorker; };

/** `body(open, host)`: `open()` opens the page in the test's context, and counts how often it loads there, in `loads`. */
function hostTest(name, { isolates = false, script = undefined }, body) {
  test(name, { timeout: 120_000 }, async () => {
    const host = await Host.start({ isolates });
    const context = await newContext();
    try {
      if (script) await context.addInitScript(script);
      await body(async (until = ready) => {
        const page = await context.newPage();
        page.loads = 0;
        page.problems = [];
        page.on('domcontentloaded', () => { page.loads += 1; });
        page.on('pageerror', error => page.problems.push(error.stack));
        await page.goto(host.url, { timeout: 60_000 });
        await until(page);
        return page;
      }, host);
    } finally {
      await context.close();
      await host.stop();
    }
  });
}

/** The page takes calls, and has had the time to load anew. */
async function ready(page) {
  await page.waitForFunction(() => window.nucleus?.version, null, { timeout: 30_000 });
  await page.waitForTimeout(300);
  await page.evaluate(() => window.nucleus.ready);
}

const isolated = page => page.evaluate(() => crossOriginIsolated);

/** What the page has, and what it writes. */
async function run(page) {
  const { threads, backendReason } = await loadFixture(page, 'tiny/llama-q4_1.gguf', { backend: 'cpu', threads: 2 });
  const { ids } = await page.evaluate(() => window.nucleus.generate({ ids: [1, 2, 3], maxNewTokens: 20, temperature: 0, ignoreEos: true }));
  assert.equal(ids.length, 20);
  return { threads, backendReason, ids };
}

hostTest('a host that isolates the page: it loads once, and keeps a service worker for when there is no network', { isolates: true }, async open => {
  const page = await open();
  assert.equal(await isolated(page), true);
  assert.equal((await run(page)).threads, 2);
  await page.evaluate(() => navigator.serviceWorker.ready);
  await page.waitForTimeout(500);
  assert.deepEqual([page.loads, page.problems], [1, []]);
});

hostTest('a host without headers: the first visit loads twice and is isolated, a later one loads once', {}, async open => {
  const first = await open();
  assert.deepEqual([await isolated(first), first.loads], [true, 2]);
  const { threads, ids } = await run(first);
  assert.equal(threads, 2);
  const second = await open();
  assert.deepEqual([await isolated(second), second.loads], [true, 1]);
  assert.deepEqual((await run(second)).ids, ids);
  await second.reload();
  await ready(second);
  assert.deepEqual([await isolated(second), second.loads], [true, 2]);
  assert.deepEqual([...first.problems, ...second.problems], []);
});

for (const [name, script, serviceWorker] of [
  ['a browser without service workers', withoutServiceWorkers, undefined],
  ['a host that lost the service worker', undefined, null],
]) {
  hostTest(`${name}, and no headers: one thread, and the page says why`, { script }, async (open, host) => {
    host.answers['service_worker.js'] = serviceWorker;
    const page = await open();
    assert.deepEqual([await isolated(page), page.loads], [false, 1]);
    const { threads, backendReason } = await run(page);
    assert.equal(threads, 1);
    assert.match(backendReason, /^The CPU engine was asked for\. It has one thread: the page is not isolated /);
    assert.equal(await page.textContent('#backend-reason'), backendReason);
    assert.equal(await page.isVisible('#backend-reason'), true);
    assert.deepEqual(page.problems, []);
  });
}

hostTest('a service worker that isolates nothing makes no loop', {}, async (open, host) => {
  host.answers['service_worker.js'] = 'addEventListener("install", () => skipWaiting());';
  const page = await open();
  await page.waitForTimeout(1000);
  assert.equal(await isolated(page), false);
  assert.equal(page.loads, 2);
  await page.reload();
  await ready(page);
  assert.equal(page.loads, 3);
});

hostTest('the page does not load anew under a reader who has begun', {}, async (open, host) => {
  host.delays['service_worker.js'] = 1500;
  const first = await open(async page => {
    await page.fill('#prompt', 'What I wrote');
    await ready(page);
    await page.evaluate(() => navigator.serviceWorker.ready);
    await page.waitForTimeout(500);
  });
  assert.deepEqual([await isolated(first), first.loads], [false, 1]);
  assert.equal(await first.inputValue('#prompt'), 'What I wrote');
  const second = await open();
  assert.deepEqual([await isolated(second), second.loads], [true, 1]);
});

hostTest('the page starts though its service worker is late, and does not load anew then', {}, async (open, host) => {
  host.delays['service_worker.js'] = 4500;
  const page = await open();
  await page.evaluate(() => navigator.serviceWorker.ready);
  await page.waitForTimeout(500);
  assert.deepEqual([await isolated(page), page.loads], [false, 1]);
});
