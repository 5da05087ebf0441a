// The page in each browser: it opens, loads the default model, and writes what it writes in Chromium; from a host without headers
// it is isolated, and then opens without a network. Prints what each browser has.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { before, test } from 'node:test';
import { Host } from '../e2e/host.mjs';
import { Session } from './webdriver.mjs';

const URL = process.env.BASE_URL ?? 'http://localhost:8080/';
const MODEL = 'models/SmolLM2-135M-Instruct.Q4_1.gguf';

const CHROMIUM = [['chromedriver'], { 'goog:chromeOptions': {
  binary: process.env.CHROMIUM ?? '/usr/bin/chromium',
  args: ['--headless=new', '--no-sandbox', '--disable-quic', '--no-first-run', '--disable-background-networking'],
} }];
const FIREFOX = [['geckodriver'], { 'moz:firefoxOptions': { args: ['-headless'] } }];
/** WebKitGTK's own small browser has no headless mode. */
const WEBKIT = [['xvfb-run', '--auto-servernum', 'WebKitWebDriver'], { browserName: 'MiniBrowser' }];

/** Whether a command is to be found, as this machine's own shell sees it. */
const isInstalled = command => spawnSync('sh', ['-c', `command -v ${command}`]).status === 0;

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
      const hasFiles = await navigator.storage?.getDirectory?.().then(() => true, () => false);
      const speed = document.querySelector('#tokens-per-second').textContent;
      return { text, nTokens: ids.length, speed, facts: {
        build, threads, backend, backendReason, isolated: crossOriginIsolated,
        webgpu: navigator.gpu ? adapter ? 'adapter' : 'no adapter' : 'none', opfs: hasFiles ?? false, serviceWorker: 'serviceWorker' in navigator,
      } };
    }, MODEL);
    console.log(`${browser.name}: ${JSON.stringify(found.facts)}`);
    await hosting(browser);
    return found;
  } finally {
    await browser.end();
  }
}

/** www/service_worker.js at work. */
async function hosting(browser) {
  const host = await Host.start();
  try {
    await browser.open(host.url);
    await until(browser, 'isolated', async () => crossOriginIsolated && !!window.nucleus?.version);
    await until(browser, 'kept', async () => !!await caches.match(location.href));
  } finally {
    await host.stop();
  }
  await browser.open(host.url);
  await until(browser, 'there without a network', async () => crossOriginIsolated && !!window.nucleus?.version);
}

/** Waits until `what` is true in the page, which may load anew meanwhile. */
async function until(browser, name, what) {
  for (let tries = 0; !await browser.evaluate(what).catch(() => false); tries += 1) {
    assert.ok(tries < 100, `the page is not ${name} in ${browser.name}`);
    await new Promise(resolve => setTimeout(resolve, 100));
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

const missing = WEBKIT[0].filter(command => !command.startsWith('-') && !isInstalled(command));
const skip = missing.length > 0 && `WebKitGTK is left out: ${missing.join(' and ')} not found (Debian: webkit2gtk-driver, xvfb)`;

test('WebKit writes what Chromium writes, in the build that it can run', { timeout: 180_000, skip }, async () => {
  const webkit = await smoke(WEBKIT);
  assert.equal(webkit.nTokens, 20);
  assert.equal(webkit.text, chromium.text);
});
