// One Chromium per test file, and a page that must stay free of errors.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { chromium } from 'playwright-core';

/** Where `cargo xtask test` serves dist/; by hand, `cargo xtask serve` does. Ends with a slash. */
export const BASE_URL = process.env.BASE_URL ?? 'http://localhost:8080/';

/** The default model, as the page names it. */
export const MODEL = 'models/SmolLM2-135M-Instruct.Q4_1.gguf';

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

/**
 * A test on a fresh page that takes calls, in a context of its own (no cache, no storage). It fails when `body` throws,
 * and also when the page logs an error, throws, or breaks its Content-Security-Policy, or a worker logs or throws one.
 *
 * `options`: `query` is appended to the address ('?model=...'); all else goes to Playwright's newContext (`viewport`,
 * `colorScheme`, ...).
 */
export function pageTest(name, { query = '', ...contextOptions }, body) {
  // page.evaluate waits for ever: without a limit, a run that never ends would hang the whole check.
  test(name, { timeout: 300_000 }, async () => {
    const context = await browser.newContext(contextOptions);
    const problems = [];
    try {
      const page = await context.newPage();
      // Chromium reports a broken policy and a failed download as console errors too.
      page.on('console', message => message.type() === 'error' && problems.push(message.text()));
      page.on('pageerror', error => problems.push(error.stack));
      page.on('crash', () => problems.push('the page crashed'));
      await page.goto(BASE_URL + query);
      await page.evaluate(() => window.nucleus.ready);
      await body(page);
    } catch (cause) {
      // What the page itself reported is most often the reason.
      throw problems.length ? new Error(`the page reported:\n${problems.join('\n')}`, { cause }) : cause;
    } finally {
      await context.close();
    }
    assert.deepEqual(problems, []);
  });
}
