// The page in each browser: it opens, loads the default model, and writes what it writes in Chromium. Prints what each one has.
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { Session } from './webdriver.mjs';

const URL = process.env.BASE_URL ?? 'http://localhost:8080/';
const MODEL = 'models/SmolLM2-135M-Instruct.Q4_1.gguf';

const CHROMIUM = ['chromedriver', { 'goog:chromeOptions': {
  binary: process.env.CHROMIUM ?? '/usr/bin/chromium',
  args: ['--headless=new', '--no-sandbox', '--disable-quic', '--no-first-run', '--disable-background-networking'],
} }];
const FIREFOX = ['geckodriver', { 'moz:firefoxOptions': { args: ['-headless'] } }];

async function smoke([driver, capabilities]) {
  const browser = await Session.start(driver, capabilities);
  try {
    await browser.open(URL);
    const found = await browser.evaluate(async model => {
      for (let waited = 0; !window.nucleus?.version && waited < 30_000; waited += 50) {
        await new Promise(resolve => setTimeout(resolve, 50));
      }
      const { build, threads, backend, backendReason } = await window.nucleus.load(model, { threads: 2 });
      const { text, ids } = await window.nucleus.generate({ prompt: 'Once upon a time', temperature: 0, maxNewTokens: 20, ignoreEos: true });
      const adapter = navigator.gpu ? await navigator.gpu.requestAdapter() : null;
      // A private window has the interface, and refuses.
      const hasFiles = await navigator.storage?.getDirectory?.().then(() => true, () => false) ?? false;
      const speed = document.querySelector('#tokens-per-second').textContent;
      return { text, nTokens: ids.length, speed, facts: {
        build, threads, backend, backendReason, isolated: crossOriginIsolated,
        webgpu: navigator.gpu ? adapter ? 'adapter' : 'no adapter' : 'none', opfs: hasFiles, serviceWorker: 'serviceWorker' in navigator,
      } };
    }, MODEL);
    console.log(`${browser.name}: ${JSON.stringify(found.facts)}`);
    return found;
  } finally {
    await browser.end();
  }
}

let chromium;
before(async () => { chromium = await smoke(CHROMIUM); });

test('Firefox writes what Chromium writes, on as many threads, in the fast build', { timeout: 180_000 }, async () => {
  const firefox = await smoke(FIREFOX);
  assert.equal(firefox.nTokens, 20);
  assert.equal(firefox.text, chromium.text);
  assert.deepEqual([firefox.facts.build, firefox.facts.threads, firefox.facts.isolated],
    ['simd128, relaxed SIMD, threads', 2, true]);
});
