// The files kept for the next visit: no network then, nothing partial taken for whole, and what breaks heals itself.
import assert from 'node:assert/strict';
import { fileURLToPath } from 'node:url';
import { after, before } from 'node:test';
import { BASE_URL, MODEL, pageTest } from './browser.mjs';
import { attempt, startFaultServer } from './fault_server.mjs';

const FILE = fileURLToPath(new URL('../fixtures/tiny/llama-q4_1.gguf', import.meta.url));
const PROVOKED = [/Failed to load resource/];
let server;
before(async () => { server = await startFaultServer(FILE); });
after(() => server?.close());

/** Writes zeros over a kept file, from `position` on; a negative one counts from its end. */
const spoil = (page, position) => page.evaluate(async position => {
  const folder = await (await navigator.storage.getDirectory()).getDirectoryHandle('nucleus-models-1');
  for await (const [name, file] of folder.entries()) {
    if (!name.endsWith('.data')) continue;
    const size = (await file.getFile()).size;
    const writable = await file.createWritable({ keepExistingData: true });
    await writable.write({ type: 'write', position: position < 0 ? size + position : position, data: new Uint8Array(1000) });
    await writable.close();
  }
}, position);
/** Loads some of the slow route, and stops. */
const loadPartly = async (page, url) => {
  const sent = server.slowlySent;
  const loading = page.evaluate(url => window.nucleus.load(url).then(() => 'loaded', error => error.kind), url);
  while (server.slowlySent < sent + 100_000) await new Promise(resolve => setTimeout(resolve, 20));
  await page.evaluate(() => window.nucleus.stop());
  const kind = await loading;
  const [entry] = await page.evaluate(() => window.nucleus.cache.list());
  return { kind, ...entry };
};
const reload = async page => {
  await page.reload();
  await page.evaluate(() => window.nucleus.ready);
};
const loaded = outcome => { assert.equal(outcome.loaded, true, outcome.message); return outcome; };

pageTest('the second visit needs no network; a deleted file does', {}, async page => {
  const url = server.url('good');
  assert.equal(loaded(await attempt(page, url)).fromCache, false);
  const n = server.requests.length;
  await reload(page);
  const second = loaded(await attempt(page, url));
  assert.equal(second.fromCache, true);
  assert.ok(second.phases.includes('cache') && !second.phases.includes('download'), `${second.phases}`);
  assert.equal(server.requests.length, n, 'no request at all');
  assert.deepEqual(second.kept, [[url, true, server.bytes]]);

  assert.equal(loaded(await attempt(page, url, { cache: false })).fromCache, false, 'asked for anew');
  assert.equal(server.requests.length, n + 1);
  assert.equal((await attempt(page, url, { sha256: '0'.repeat(64) })).kind, 'hash-mismatch');
  assert.equal(server.requests.length, n + 2, 'the kept copy is not the one that is wanted');
  loaded(await attempt(page, url));
  assert.equal(await page.evaluate(url => window.nucleus.cache.delete(url), url), true);
  assert.equal(await page.evaluate(url => window.nucleus.cache.delete(url), url), false);
  assert.equal(loaded(await attempt(page, url)).fromCache, false);
});

pageTest('a kept copy with a zeroed tail is found out, deleted and fetched anew', {}, async page => {
  const url = server.url('good');
  const { sha256 } = loaded(await attempt(page, url));
  for (const position of [-1000, 0]) {
    await spoil(page, position);
    const n = server.requests.length;
    const healed = loaded(await attempt(page, url));
    assert.equal(healed.fromCache, false);
    assert.match(healed.notice, /damaged: it was deleted, and the file was fetched again/);
    assert.match(await page.textContent('#status'), /damaged/);
    assert.equal(healed.sha256, sha256);
    assert.equal(server.requests.length, n + 1);
    assert.equal(loaded(await attempt(page, url)).fromCache, true, 'whole again');
  }
});

pageTest('a stopped download is not taken for a file, and goes on where it was, also after a reload', {}, async page => {
  const url = server.url('slow');
  const { kind, complete, bytes } = await loadPartly(page, url);
  assert.deepEqual([kind, complete], ['cancelled', false]);
  assert.ok(bytes > 0 && bytes < server.bytes, `${bytes} bytes`);
  await reload(page);
  const outcome = loaded(await attempt(page, url));
  assert.equal(outcome.bytes, server.bytes);
  assert.equal(server.last('slow').range, `bytes=${bytes}-`);
  assert.deepEqual(outcome.kept, [[url, true, server.bytes]]);
  const { sha256 } = loaded(await attempt(page, server.url('good')));
  assert.equal(outcome.sha256, sha256);

  await page.evaluate(() => window.nucleus.cache.clear());
  await loadPartly(page, url);
  await spoil(page, 100);
  const spoilt = loaded(await attempt(page, url));
  assert.equal(spoilt.sha256, sha256, 'a part that is damaged is not gone on with');
  assert.equal(server.last('slow').range, undefined);
});

pageTest('a tab that is closed while it loads loses little: the rest is asked for', { provoked: PROVOKED }, async page => {
  const real = await startFaultServer(fileURLToPath(new URL(`../../www/${MODEL}`, import.meta.url)));
  try {
    const url = real.url('silent');
    await page.evaluate(url => new Promise(resolve => {
      window.nucleus.load(url, { onProgress: ({ received, total }) => received / total > 0.58 && resolve() }).catch(() => {});
    }), url);
    await reload(page);
    const outcome = loaded(await attempt(page, url));
    const [, start] = real.last('silent').range.match(/bytes=(\d+)-/);
    assert.ok(start > real.cut - 9e6 && start <= real.cut, `from ${start}, cut at ${real.cut}`);
    assert.equal(outcome.bytes, real.bytes);
    assert.equal(outcome.sha256, 'b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53');
  } finally {
    await real.close();
  }
});

pageTest('a full disk costs the copy, not the load', {}, async page => {
  const devtools = await page.context().newCDPSession(page);
  const origin = new URL(BASE_URL).origin;
  await devtools.send('Storage.overrideQuotaForOrigin', { origin, quotaSize: 100_000 });
  const full = loaded(await attempt(page, server.url('good')));
  assert.match(full.notice, /no room to keep the file/);
  assert.deepEqual(full.kept, []);
  await devtools.send('Storage.overrideQuotaForOrigin', { origin });
  loaded(await attempt(page, server.url('good')));
  assert.equal(loaded(await attempt(page, server.url('good'))).fromCache, true);
});

pageTest('two tabs load and keep the same file at once', {}, async page => {
  const other = await page.context().newPage();
  await other.goto(BASE_URL);
  await other.evaluate(() => window.nucleus.ready);
  const url = server.url('slow');
  const both = await Promise.all([attempt(page, url), attempt(other, url)]);
  both.forEach(loaded);
  assert.ok(both.some(outcome => /another tab is storing it/.test(outcome.notice ?? '')), 'one of them went without');
  for (const tab of [page, other]) assert.equal(loaded(await attempt(tab, url)).fromCache, true);
  const again = await Promise.all([attempt(page, url), attempt(other, url)]);
  again.forEach(outcome => assert.equal(loaded(outcome).fromCache, true, 'any number of readers'));
});

pageTest('offline: said in words, with what is there; the kept file loads', { provoked: PROVOKED }, async page => {
  const url = server.url('good');
  loaded(await attempt(page, url));
  await page.context().setOffline(true);
  const outcome = await attempt(page, server.url('cut'));
  assert.equal(outcome.kind, 'network', JSON.stringify(outcome));
  assert.match(outcome.message, /offline/);
  assert.ok(outcome.message.includes(url), outcome.message);
  assert.equal(loaded(await attempt(page, url)).fromCache, true);
  await page.context().setOffline(false);
  loaded(await attempt(page, server.url('cut')));
});

// The page's own model: Playwright's scripts for workers come by a route, which other sites' servers do not get through.
pageTest('without a private file system it works as before, and says so', {
  inject: ['navigator.storage.getDirectory = () => Promise.reject(new DOMException("no", "SecurityError"));'],
}, async page => {
  const outcome = loaded(await attempt(page, MODEL));
  assert.match(outcome.notice, /keeps no files/);
  assert.match(await page.textContent('#status'), /keeps no files.* is ready/);
  assert.equal(outcome.fromCache, false);
  assert.deepEqual(outcome.kept, []);
  const local = await page.evaluate(() => window.nucleus.load(new Blob([]), { cache: true }).catch(error => [error.kind, error.message]));
  assert.match(`${local}`, /bad-option,.*a local file is not kept/);
});

pageTest('the real model: kept, listed on the page, deleted there', {}, async page => {
  assert.equal(loaded(await attempt(page, MODEL)).fromCache, false);
  const second = loaded(await attempt(page, MODEL));
  assert.equal(second.fromCache, true);
  await page.click('#model');
  assert.match(await page.textContent('#kept-summary'), /Kept in this browser: 1 file, 98.MB of /);
  await page.click('#kept-summary');
  await page.waitForSelector('#kept-list li');
  assert.match(await page.textContent('#kept-list'), /SmolLM2-135M-Instruct\.Q4_1\.gguf.*98.MB/s);
  await page.click('#kept-list [aria-label^="Delete"]');
  await page.waitForSelector('#kept-list li', { state: 'detached' });
  assert.equal(await page.textContent('#kept-summary'), 'Nothing is kept in this browser');
  assert.equal(await page.evaluate(() => document.activeElement.id), 'kept-summary', 'the focus stays in the list');
  assert.deepEqual(await page.evaluate(() => window.nucleus.cache.list()), []);
});
