// One Chromium per test file, and a page that must stay free of errors.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import { createRequire } from 'node:module';
import { after, before, test } from 'node:test';
import { chromium } from 'playwright-core';

/** Where `cargo xtask test` serves dist/; by hand, `cargo xtask serve` does. Ends with a slash. */
export const BASE_URL = process.env.BASE_URL ?? 'http://localhost:8080/';

/** The default model, as the page names it. */
export const MODEL = 'models/SmolLM2-135M-Instruct.Q4_1.gguf';

/** Loads a model of tests/fixtures through `window.nucleus`, as a local file. */
export const loadFixture = (page, name, options = {}) => page.evaluate(async ([base64, options]) => {
  const bytes = Uint8Array.from(atob(base64), char => char.charCodeAt(0));
  return window.nucleus.load(new Blob([bytes]), options);
}, [fs.readFileSync(new URL(`../fixtures/${name}`, import.meta.url), 'base64'), options]);

/** The worker that runs the engine; the compute threads beside it, if any, never answer. */
export const engineWorker = page => page.workers().find(worker => worker.url().includes('engine_loader.js'));

const axe = fs.readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
/** The rules of axe-core that the page breaks, each with the elements that break it. */
export async function violations(page) {
  await page.evaluate(axe);
  return page.evaluate(async () => {
    const { violations } = await window.axe.run(document, { resultTypes: ['violations'] });
    return violations.map(({ id, help, nodes }) => `${id}: ${help}: ${nodes.map(node => node.target.join(' ')).join(', ')}`);
  });
}

let browser;
before(async () => {
  browser = await chromium.launch({
    executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
    // The flags of webdriver.json, less --headless, which Playwright sets.
    args: ['--no-sandbox', '--disable-quic', '--no-first-run', '--disable-background-networking',
      '--disable-component-update', '--disable-sync', '--enable-unsafe-webgpu', '--use-webgpu-adapter=swiftshader'],
  });
});
after(() => browser?.close());

/** A context of its own, with a cache and storage of its own. */
export const newContext = (options = {}) => browser.newContext(options);

/**
 * A test on a fresh page that takes calls, in a context of its own (no cache, no storage). It fails when `body` throws,
 * and also when the page logs an error, throws, or breaks its Content-Security-Policy, or a worker logs or throws one.
 *
 * `body(page, t)`: `t` is node's, for subtests that share the page.
 *
 * `options`: `query` is appended to the address ('?model=...'); `isolated: false` takes the headers away that isolate the page; `inject`, scripts that run before all others in the page and
 * again in each of its workers; `provoked`, one RegExp for each kind of error report that the test brings about on purpose;
 * all else goes to Playwright's newContext (`viewport`, `colorScheme`, ...).
 */
export function pageTest(name, { query = '', isolated = true, inject = [], provoked = [], ...contextOptions }, body) {
  // page.evaluate waits for ever: without a limit, a run that never ends would hang the whole check.
  test(name, { timeout: 300_000 }, async t => {
    const context = await newContext({ serviceWorkers: 'block', ...contextOptions });
    const problems = [];
    const report = problem => provoked.some(pattern => pattern.test(problem)) || problems.push(problem);
    try {
      if (inject.length) await injectInto(context, inject.join('\n'));
      if (!isolated) await context.route(BASE_URL + query, withoutIsolation);
      const page = await context.newPage();
      // Chromium reports a broken policy and a failed download as console errors too.
      page.on('console', message => message.type() === 'error' && report(message.text()));
      page.on('pageerror', error => report(error.stack));
      page.on('crash', () => report('the page crashed'));
      // The first page of a browser that has just started comes late on a busy machine.
      await page.goto(BASE_URL + query, { timeout: 120_000 });
      await page.evaluate(() => window.nucleus.ready);
      await body(page, t);
    } catch (cause) {
      // What the page itself reported is most often the reason.
      throw problems.length ? new Error(`the page reported:\n${problems.join('\n')}`, { cause }) : cause;
    } finally {
      await context.close();
    }
    assert.deepEqual(problems, []);
  });
}

/** What a host sends that cannot set headers. */
async function withoutIsolation(route) {
  const response = await route.fetch();
  const headers = Object.entries(response.headers()).filter(([name]) => !name.startsWith('cross-origin-'));
  await route.fulfill({ response, headers: Object.fromEntries(headers) });
}

/** Playwright's init scripts leave workers out: theirs goes in front of the file that they start with. */
async function injectInto(context, script) {
  await context.addInitScript(script);
  await context.route('**/engine_loader.js*', async route => {
    const response = await route.fetch();
    // The loader's own import comes first wherever it stands, but starts nothing.
    await route.fulfill({ response, body: `${script}\n${await response.text()}` });
  });
}
