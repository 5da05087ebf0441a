// A thousand random things that a reader could do, one upon the other: nothing throws, nothing sticks.
// MONKEY_SEED=… makes other ones, MONKEY_N=… more or fewer.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import { pageTest } from './browser.mjs';

const N_ACTIONS = Number(process.env.MONKEY_N ?? 1000);
const SEED = Number(process.env.MONKEY_SEED ?? 1);

/** mulberry32: small, and the same everywhere. */
function generator(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), state | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

const fixture = name => fs.readFileSync(new URL(`../fixtures/${name}`, import.meta.url));
const TINY = fixture('tiny/llama-q4_1.gguf');
/** Files that are dropped, good and bad. */
const FILES = {
  'good.gguf': TINY, 'other.gguf': fixture('tiny/llama.gguf'), 'cut.gguf': TINY.subarray(0, TINY.length / 2), 'empty.gguf': Buffer.alloc(0),
  'page.gguf': Buffer.from('<!doctype html><script>alert(1)</script>'), 'run.json': Buffer.from('{"format":"nucleus-run"}'),
};
const TEXTS = ['', '0', '-1', '1e999', '3.7', '999999999999999999999', 'NaN', 'abc', '  ', '<b onclick=alert(1)>x</b>', 'é'.repeat(300), '1,2,x', '5',
  '🙂\u0000\u202e', '0.5', '12'];
const KEYS = ['Enter', 'Escape', 'Tab', 'Shift+Tab', 'ArrowLeft', 'ArrowRight', 'ArrowUp', 'ArrowDown', 'Home', 'End', ' ', 'Control+Enter', 'PageDown', 'x'];
const HASHES = ['', '#topK=5', '#topK=warm', '#prompt=Once', '#temperature=9e9', '#%E0%A4%A', '#stop=a&stop=b', '#model=x&autoload=1'];

/** Does one thing to the `at`-th of the controls that can be seen. `share`: 0 to 1, for what else there is to choose. Says what it did. */
function act([kind, at, share, text]) {
  const seen = selector => [...document.querySelectorAll(selector)].filter(element =>
    element.checkVisibility() && !element.disabled && element.type !== 'file');
  const one = list => list[Math.floor(at * list.length)];
  const name = element => element && (element.id || `${element.className || element.nodeName} ${element.textContent.slice(0, 12)}`);
  const changed = (element, value) => {
    element.focus();
    element.value = value;
    for (const event of ['input', 'change']) element.dispatchEvent(new Event(event, { bubbles: true }));
    return `${name(element)} = ${value.slice(0, 20)}`;
  };
  if (kind === 'click') {
    const element = one(seen('button, summary, [role="button"], input[type="checkbox"], [data-id], canvas, svg'));
    element?.dispatchEvent(new MouseEvent('click', { bubbles: true, cancelable: true }));
    return name(element);
  }
  if (kind === 'press' || kind === 'look') {
    const buttons = '#generate, #step, #stop, #pause, #race-both, #exercise, #run-again, #save-run, #lesson-open, #lesson-action, #lesson-next, #copy-link';
    const element = one(seen(kind === 'press' ? buttons : '.branch, .chip, #candidates .take, #scrub-back, #scrub-forward'));
    element?.click();
    return name(element);
  }
  if (kind === 'type') {
    const field = one(seen('input:not([type="checkbox"]):not([type="range"]), textarea:not([readonly])'));
    return field && changed(field, text);
  }
  if (kind === 'slide') {
    const slider = one(seen('input[type="range"]'));
    return slider && changed(slider, String(Number(slider.min) + share * (slider.max - slider.min)));
  }
  const list = one(seen('select'));
  return list && changed(list, list.options[Math.floor(share * list.options.length)].value);
}

const KINDS = [['click', 25], ['press', 20], ['look', 12], ['type', 10], ['slide', 10], ['select', 3], ['key', 8], ['file', 4], ['hash', 3], ['theme', 2], ['size', 2], ['back', 1],
  ['api', 2]];

pageTest(`${N_ACTIONS} random actions (MONKEY_SEED=${SEED})`, {
  permissions: ['clipboard-read', 'clipboard-write'], acceptDownloads: true,
  // The address field of the picker may name what is not there.
  provoked: [/Failed to load resource/, /ERR_|net::/],
}, async page => {
  const random = generator(SEED);
  const pick = list => list[Math.floor(random() * list.length)];
  const trail = [];
  const worker = [];
  page.on('worker', made => made.on('console', message => message.type() === 'error' && worker.push(message.text())));
  await page.evaluate(() => {
    window.failures = [];
    addEventListener('error', event => window.failures.push(event.message));
    addEventListener('unhandledrejection', event => window.failures.push(String(event.reason?.stack ?? event.reason)));
  });
  const loadGood = () => page.setInputFiles('#model-file', { name: 'good.gguf', mimeType: '', buffer: TINY });
  await loadGood();
  await page.waitForFunction(() => window.nucleus.model);
  await page.selectOption('#exercise-runs', '1');

  const total = KINDS.reduce((sum, [, weight]) => sum + weight, 0);
  const others = {
    key: async () => { const key = pick(KEYS); await page.keyboard.press(key); return key; },
    file: async () => {
      const name = pick(Object.keys(FILES));
      const input = name.endsWith('.json') ? '#run-file' : '#model-file';
      if (await page.isDisabled(input)) return 'no file';
      // Bad ones as often as good ones, so that most of the time a model is there.
      await page.setInputFiles(input, { name, mimeType: '', buffer: FILES[name] });
      return name;
    },
    hash: async () => { const hash = pick(HASHES); await page.evaluate(hash => { location.hash = hash; }, hash); return hash; },
    theme: async () => { const colorScheme = pick(['light', 'dark']); await page.emulateMedia({ colorScheme }); return colorScheme; },
    size: async () => { const width = pick([390, 800, 1280]); await page.setViewportSize({ width, height: 800 }); return String(width); },
    back: () => page.evaluate(forward => { history[forward ? 'forward' : 'back'](); return 'history'; }, random() < 0.5),
    api: () => page.evaluate(call => {
      const calls = {
        tokenize: () => window.nucleus.tokenize('a b'), stop: () => window.nucleus.stop(), bad: () => window.nucleus.generate({ prompt: 3 }),
        busy: () => window.nucleus.generate({ prompt: 'x', maxNewTokens: 20 }), diagnostics: () => window.nucleus.diagnostics(),
      };
      calls[call]().catch(() => {});
      return call;
    }, pick(['tokenize', 'stop', 'bad', 'busy', 'diagnostics'])),
  };
  const check = async () => {
    const failures = [...await page.evaluate(() => window.failures), ...worker];
    assert.deepEqual(failures, [], `after ${trail.slice(-12).join(' | ')} (MONKEY_SEED=${SEED})`);
  };
  for (let i = 0; i < N_ACTIONS; i += 1) {
    let at = random() * total;
    const [kind] = KINDS.find(([, weight]) => (at -= weight) < 0);
    const did = others[kind] ? await others[kind]()
      : await page.evaluate(act, [kind, random(), random(), pick(TEXTS)]);
    trail.push(`${kind} ${did}`);
    if (process.env.MONKEY_TRAIL) console.log(i, trail.at(-1));
    // Long runs are for other tests.
    await page.evaluate(() => {
      const tokens = document.querySelector('#max-tokens');
      if (tokens.value > 40) tokens.value = '40';
    });
    if (i % 50 === 49) {
      await check();
      // Without a model half of the controls are off.
      if (!await page.evaluate(() => window.nucleus.model) && !await page.isDisabled('#model-file')) await loadGood();
    }
  }
  await check();

  // Whatever it was left in: the page stops, loads and writes.
  await page.evaluate(() => window.nucleus.stop());
  await page.waitForFunction(() => document.querySelector('#stop').disabled, null, { timeout: 20_000 });
  const settings = { 'top-k': '0', 'min-p': '0', 'max-tokens': '6', seed: '1', suppress: '', 'no-repeat-ngram': '0', 'min-tokens': '0', 'stop-strings': '', prompt: 'Once' };
  await page.evaluate(settings => {
    for (const [id, value] of Object.entries(settings)) document.getElementById(id).value = value;
    document.getElementById('tempo').value = 'full';
    document.getElementById('tempo').dispatchEvent(new Event('change', { bubbles: true }));
    location.hash = '';
  }, settings);
  await page.setInputFiles('#model-file', { name: 'last.gguf', mimeType: '', buffer: TINY });
  await page.waitForFunction(() => /last/.test(document.querySelector('#model').textContent) && !document.querySelector('#generate').disabled, null, { timeout: 20_000 });
  await page.evaluate(() => document.querySelector('#generate').click());
  await page.waitForFunction(() => document.querySelector('#stop').disabled && document.querySelectorAll('#output [data-index]').length > 0
    && /Seed|token/.test(document.querySelector('#status').textContent), null, { timeout: 20_000 });
  assert.equal(await page.getAttribute('#status', 'data-error'), null, await page.textContent('#status'));
  await check();
});
