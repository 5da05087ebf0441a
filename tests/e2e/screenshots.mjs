// Takes the pictures in docs/ from a real run: `cargo xtask serve` in one terminal, `node tests/e2e/screenshots.mjs` in another.
import { chromium } from 'playwright-core';

const BASE_URL = process.env.BASE_URL ?? 'http://localhost:8080/';
const MODEL = 'models/SmolLM2-135M-Instruct.Q4_1.gguf';
const SIZES = { desktop: { width: 1280, height: 800 }, phone: { width: 390, height: 844 } };
const folder = process.env.SCREENSHOTS ?? new URL('../../docs', import.meta.url).pathname;

const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
  args: ['--no-sandbox'],
});
for (const [size, viewport] of Object.entries(SIZES)) {
  for (const colorScheme of ['light', 'dark']) {
    const page = await browser.newPage({ viewport, colorScheme });
    await page.goto(`${BASE_URL}?model=${MODEL}&autoload=1&prompt=Once%20upon%20a%20time`);
    await page.waitForFunction(() => window.nucleus?.model, null, { timeout: 60_000 });
    // Both modes, so that the speed panel has its two curves; then the run that the picture shows.
    await page.selectOption('#exercise-runs', '1');
    await page.click('#exercise');
    await page.waitForFunction(() => /exercise is done/.test(document.querySelector('#status').textContent), null, { timeout: 180_000 });
    await page.uncheck('#seed-new');
    await page.fill('#seed', '11');
    await page.fill('#max-tokens', '64');
    const before = await page.locator('#output .text').elementHandle();
    await page.click('#generate');
    await page.waitForFunction(before => !before.isConnected, before);
    await page.waitForFunction(() => document.querySelector('#stop').disabled, null, { timeout: 60_000 });
    await page.click('[data-index="9"]');
    await page.screenshot({ path: `${folder}/${size}-${colorScheme}.png`, fullPage: size === 'phone' });
    await page.close();
  }
}
await browser.close();
