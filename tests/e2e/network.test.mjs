// What networks and servers do (HARDENING.md, "Network and storage"): each is survived or refused in words, and the same page
// loads a good file afterwards.
import assert from 'node:assert/strict';
import { fileURLToPath } from 'node:url';
import { after, before } from 'node:test';
import { pageTest } from './browser.mjs';
import { attempt, startFaultServer } from './fault_server.mjs';

const FILE = fileURLToPath(new URL('../fixtures/tiny/llama-q4_1.gguf', import.meta.url));
let server;
let survived = 0;
before(async () => { server = await startFaultServer(FILE); });
after(async () => { await server?.close(); console.log(`${survived} network faults survived`); });

const loads = async (page, route, what) => {
  const outcome = await attempt(page, server.url(route));
  assert.equal(outcome.loaded, true, `${what}: ${outcome.message}`);
  assert.equal(outcome.bytes, server.bytes, what);
  assert.ok(outcome.worst <= 1, `${what}: progress reached ${outcome.worst}`);
  return outcome;
};
const goodAfterwards = async page => { await loads(page, `good?${survived++}`, 'a good file afterwards'); };
/** What the browser says of a failed request, which is the point. */
const PROVOKED = [/Failed to load resource/, /blocked by CORS policy/];

pageTest('what is no file is refused in words, and nothing of it is kept', { provoked: PROVOKED }, async page => {
  const refused = async (route, kind, words) => {
    const outcome = await attempt(page, server.url(route));
    assert.equal(outcome.kind, kind, JSON.stringify(outcome));
    assert.match(outcome.message, words);
    assert.deepEqual(outcome.kept.filter(([url]) => url === server.url(route)), []);
    await goodAfterwards(page);
  };
  await refused('not-found', 'http-status', /404/);
  await refused('html', 'not-gguf', /looks like an HTML page/);
  await refused('no-cors', 'network', /not allow other sites to read the file \(CORS\)/);
});

pageTest('a lost connection is tried again, and gone on with where that is safe', { provoked: PROVOKED }, async page => {
  for (const [route, isResumed, n] of [['cut', true, 2], ['range-ignored', false, 2], ['shifted', false, 3], ['not-satisfiable', false, 3], ['changed', false, 3]]) {
    const { phases } = await loads(page, route, route);
    assert.ok(phases.includes('retry'), `${route}: ${phases}`);
    assert.equal(server.count(route), n, `${route}: requests`);
    assert.equal(server.requests.find(request => request.route === route && request.range)?.range, `bytes=${server.cut}-`, route);
    if (!isResumed && route !== 'range-ignored') assert.equal(server.last(route).range, undefined, `${route} begins anew`);
    await goodAfterwards(page);
  }
});

pageTest('lengths that are missing or lie, redirects, a busy server', { provoked: PROVOKED }, async page => {
  for (const route of ['gzip', 'gzip-hidden', 'no-length', 'too-long', 'redirect', 'busy']) {
    await loads(page, route, route);
    await goodAfterwards(page);
  }
});

pageTest('a connection that goes silent counts as lost', { provoked: PROVOKED }, async page => {
  const { phases } = await loads(page, 'silent', 'silent');
  assert.ok(phases.includes('retry'));
  assert.equal(server.last('silent').range, `bytes=${server.cut}-`);
  await goodAfterwards(page);
});

pageTest('after a few tries it ends, saying how far it came; Stop ends the waiting', { provoked: PROVOKED }, async page => {
  const outcome = await attempt(page, server.url('cut-always'));
  assert.equal(outcome.kind, 'network');
  assert.match(outcome.message, new RegExp(`${server.cut} of ${server.bytes} bytes arrived in 5 tries`));
  assert.equal(server.count('cut-always'), 5);
  assert.deepEqual(outcome.kept, [], 'without a validator nothing of it can be gone on with');
  await goodAfterwards(page);

  const stopped = await page.evaluate(async url => {
    let stop;
    const start = { at: 0 };
    const loading = window.nucleus.load(url, { onProgress: ({ phase }) => {
      if (phase === 'retry' && !stop) { start.at = performance.now(); stop = window.nucleus.stop(); }
    } }).then(() => 'loaded', error => error.kind);
    return [await loading, performance.now() - start.at];
  }, server.url('cut-always'));
  assert.equal(stopped[0], 'cancelled');
  assert.ok(stopped[1] < 400, `heard after ${stopped[1]} ms, while it waited`);
  await goodAfterwards(page);
});
