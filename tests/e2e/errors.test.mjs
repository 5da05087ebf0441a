// Every failure ends in the status line, with what happened, what was found and what to do; and the page goes on.
import assert from 'node:assert/strict';
import { BASE_URL, engineWorker, loadFixture, pageTest } from './browser.mjs';

const TINY = 'tiny/llama-q4_1.gguf';
const loadTiny = page => loadFixture(page, TINY, { backend: 'cpu' });
const SECRET = 'a prompt that is mine alone';

/** Waits for a message of this kind. Returns it. */
async function failure(page, kind) {
  await page.waitForFunction(kind => document.querySelector('#status').dataset.error === kind, kind, { timeout: 20_000 });
  const text = await page.textContent('#status');
  assert.match(text, /^[A-Z].*\. .*\.$/, 'sentences');
  assert.equal(await page.isVisible('#copy-diagnostics'), true, `${kind}: the diagnostics can be copied`);
  return text;
}

/** Loads and runs as if nothing had been. */
async function assertUsable(page, what) {
  await loadTiny(page);
  assert.equal(await page.isVisible('#copy-diagnostics'), false, `${what}: the next message is none of a failure`);
  const before = await page.locator('#output .text').elementHandle();
  await page.fill('#max-tokens', '5');
  await page.click('#generate');
  await page.waitForFunction(before => !before.isConnected, before);
  await page.waitForFunction(() => document.querySelector('#stop').disabled
    && document.querySelectorAll('#output [data-index]').length === 5, null, { timeout: 20_000 });
  for (const id of ['#generate', '#step', '#exercise', '#race-both', '#save-run', '#load']) {
    assert.equal(await page.isDisabled(id), false, `${what}: ${id}`);
  }
}

const api = (name, ...given) => page => page.evaluate(([name, given]) => window.nucleus[name](...given).catch(() => {}), [name, given]);
const file = (input, text) => page =>
  page.setInputFiles(input, { name: 'x.gguf', mimeType: 'application/octet-stream', buffer: Buffer.from(text) });
const inPage = code => page => page.evaluate(code);

/** What is done, the kind of its message, and a part of it. */
const FAILURES = [
  ['a model that is not there', api('load', 'models/nothing.gguf'), 'http-status', /404/],
  ['an address that is none', api('load', 'http://'), 'bad-option', /source/],
  ['a local file that is no model', file('#model-file', '<!doctype html>'), 'not-gguf', /GGUF/],
  ['a call before a model is there', api('tokenize', 'hello'), 'no-model', /Load/],
  ['a call with a bad option', api('generate', { prompt: 'x', temperature: -1 }), 'bad-option', /temperature/],
  ['a run file that is none', file('#run-file', '{"format":"other"}'), 'bad-run-file', /run file/],
  ['a bad link', inPage(() => { location.hash = '#topK=warm'; }), 'bad-option', /topK/],
  ['an error of a script', inPage(() => { setTimeout(() => { throw new Error('the cat sat on it'); }); }), 'page-failed', /cat sat on it/],
  ['a rejected promise', inPage(() => { setTimeout(() => Promise.reject(new Error('nobody listens'))); }), 'page-failed', /nobody listens/],
  ['a promise rejected with nothing', inPage(() => { setTimeout(() => Promise.reject()); }), 'page-failed', /a promise was rejected/],
];

pageTest('every failure is said, with what to do, and the page goes on', {
  provoked: [/404/, /cat sat on it/, /nobody listens/, /^$/, /Uncaught/],
}, async page => {
  for (const [what, cause, kind, said] of FAILURES) {
    await page.evaluate(() => window.nucleus.unload());
    await cause(page);
    assert.match(await failure(page, kind), said, what);
    await assertUsable(page, what);
  }
});

pageTest('settings that cannot be used are said by every button that starts a run', {}, async page => {
  await loadTiny(page);
  await page.click('.more summary');
  await page.fill('#suppress', 'x');
  for (const id of ['#generate', '#step', '#race-both', '#exercise']) {
    await page.evaluate(() => { document.querySelector('#status').dataset.error = ''; });
    await page.click(id);
    assert.match(await failure(page, 'bad-option'), /suppress/, id);
  }
  await page.fill('#suppress', '');
  await assertUsable(page, 'settings');
});

pageTest('a crashed engine says why, in the middle of a run and of nothing', { provoked: [/the engine fell over/] }, async page => {
  for (const isRunning of [true, false]) {
    await loadTiny(page);
    if (isRunning) await page.evaluate(() => new Promise(resolve => {
      window.nucleus.generate({ prompt: 'The', maxNewTokens: 400, ignoreEos: true }, resolve).catch(() => {});
    }));
    await engineWorker(page).evaluate(() => { setTimeout(() => { throw new Error('the engine fell over'); }); });
    assert.match(await failure(page, 'engine-failed'), /the engine fell over.*Load the model again/);
    assert.equal(await page.isDisabled('#generate'), true, 'no model is there');
    await assertUsable(page, 'a crash');
  }
});

/** The next so many attributes that are set make the page's wasm panic. */
const panic = (page, n) => page.evaluate(n => {
  const { setAttribute } = Element.prototype;
  Element.prototype.setAttribute = function (...given) {
    if (n > 0) {
      n -= 1;
      throw new Error('no attributes today');
    }
    return setAttribute.apply(this, given);
  };
}, n);

pageTest('a panic of the page: it begins anew, says so, and keeps the settings', {
  provoked: [/panicked at/, /unreachable/, /no attributes today/],
}, async page => {
  const anew = async what => {
    const text = await failure(page, 'page-failed');
    assert.match(text, /begun anew, without a model.*panicked at .* reload the page\.$/, what);
    await page.evaluate(() => window.nucleus.ready);
    assert.equal(await page.evaluate(() => window.nucleus.model), null, 'the model went with its engine');
    assert.equal(await page.inputValue('#prompt'), SECRET);
    await assertUsable(page, what);
    assert.equal(page.workers().length, 1, 'the engine before has ended');
  };
  await page.fill('#prompt', SECRET);
  await loadTiny(page);
  // In a run, while it is painted.
  const ended = page.evaluate(() => window.nucleus.generate({ prompt: 'The', maxNewTokens: 300, ignoreEos: true }).catch(error => error.kind));
  await page.waitForFunction(() => document.querySelectorAll('#output [data-index]').length > 3);
  await panic(page, 1);
  assert.equal(await ended, 'page-failed', 'the caller hears of it');
  await anew('a panic in a run');
  // In a click.
  await panic(page, 1);
  await page.evaluate(() => document.querySelector('#lesson-open').click());
  await anew('a panic in a click');
  // In a load.
  await panic(page, 1);
  const loaded = loadTiny(page).then(() => 'loaded', error => error.message);
  await anew('a panic in a load');
  assert.match(await loaded, /panicked/, 'the caller hears of it');
});

pageTest('without its wasm the page says that it could not start', { provoked: [/./] }, async page => {
  const other = await page.context().newPage();
  await other.route('**/page*_bg.wasm', route => route.abort());
  await other.goto(BASE_URL);
  await other.waitForFunction(() => document.querySelector('#status').dataset.error === 'page-failed');
  assert.match(await other.textContent('#status'), /^Nucleus could not start\..*reload the page/);
});

/** The diagnostics, which are JSON, and hold nothing of what was written. */
function check(text, kind) {
  const found = JSON.parse(text);
  assert.doesNotMatch(text, /mine alone/, 'no prompt');
  assert.equal(found.page, BASE_URL, 'no more of the address than the page');
  assert.equal(found.lastFailure?.kind, kind);
  assert.ok(found.browser.userAgent.includes('Chrome') && found.browser.cores > 0);
  assert.equal(typeof found.browser.isolated, 'boolean');
  assert.equal(found.settings.promptCharacters, SECRET.length);
  assert.equal(found.settings.temperature > 0, true);
  assert.ok(found.engine.memoryBytes > 0, 'the engine has answered');
  return found;
}

pageTest('Copy diagnostics: what a report needs, and no prompt', {
  permissions: ['clipboard-read', 'clipboard-write'], query: '?utm=1#prompt=mine%20alone', provoked: [/404/],
}, async page => {
  await page.fill('#prompt', SECRET);
  await api('load', 'models/nothing.gguf')(page);
  await failure(page, 'http-status');
  await page.click('#copy-diagnostics');
  await page.waitForFunction(() => /^Diagnostics copied/.test(document.querySelector('#copied').textContent));
  const found = check(await page.evaluate(() => navigator.clipboard.readText()), 'http-status');
  assert.equal(found.engine.model, null);
  assert.match(await page.textContent('#status'), /404/, 'the message stays');

  await loadTiny(page);
  assert.equal(await page.textContent('#copied'), '');
  await page.click('.engine-more summary');
  await page.click('#copy-engine-diagnostics');
  await page.waitForFunction(() => /^Diagnostics copied/.test(document.querySelector('#copied').textContent));
  const loaded = check(await page.evaluate(() => navigator.clipboard.readText()), 'http-status');
  assert.equal(loaded.engine.model.backend, 'cpu');
  assert.deepEqual([loaded.now.run, loaded.now.loading], ['idle', false]);
});

for (const [what, take] of [
  ['refused', () => { navigator.clipboard.writeText = () => Promise.reject(new DOMException('no', 'NotAllowedError')); }],
  ['missing, as on a page that is not secure', () => { Object.defineProperty(navigator, 'clipboard', { value: undefined }); }],
]) {
  pageTest(`where the clipboard is ${what}, a box shows the text, selected`, { provoked: [/404/] }, async page => {
    await page.evaluate(take);
    await page.fill('#prompt', SECRET);
    await api('load', 'models/nothing.gguf')(page);
    await page.click('#copy-diagnostics');
    await page.waitForSelector('#diagnostics:not([hidden])');
    const [text, selected] = await page.locator('#diagnostics-text').evaluate(area =>
      [area.value, document.activeElement === area && area.value.slice(area.selectionStart, area.selectionEnd)]);
    check(text, 'http-status');
    assert.equal(selected, text);
    await page.click('#diagnostics-close');
    assert.equal(await page.isVisible('#diagnostics'), false);
    // A link goes into the address bar instead.
    await page.click('#share summary');
    await page.click('#copy-link');
    await page.waitForFunction(() => location.hash.includes('mine'));
    await assertUsable(page, 'the clipboard');
  });
}
