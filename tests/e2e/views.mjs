// Takes the pictures in docs/views/ from real runs: `cargo xtask serve` in one terminal, `node tests/e2e/views.mjs` in another; with
// names as arguments, only those.
import fs from 'node:fs';
import { chromium } from 'playwright-core';

const BASE_URL = process.env.BASE_URL ?? 'http://localhost:8080/';
const MODEL = 'models/SmolLM2-135M-Instruct.Q4_1.gguf';
const folder = process.env.SCREENSHOTS ?? new URL('../../docs/views', import.meta.url).pathname;
fs.mkdirSync(folder, { recursive: true });

const stopped = page => page.waitForFunction(() => document.querySelector('#stop').disabled, null, { timeout: 180_000 });
const said = (page, text) => page.waitForFunction(text => document.querySelector('#status').textContent.includes(text), text, { timeout: 240_000 });

async function write(page, n = 48) {
  await page.fill('#max-tokens', String(n));
  const before = await page.locator('#output .text').elementHandle();
  await page.click('#generate');
  await page.waitForFunction(before => !before.isConnected, before);
  await stopped(page);
}

const slide = (page, id, value) => page.locator(id).evaluate((input, value) => {
  input.value = value;
  input.dispatchEvent(new Event('input', { bubbles: true }));
}, value);

/** What is done, and what of the page the picture is: a selector, or nothing for all that is in view. */
const VIEWS = {
  'inspector': [async page => {
    await write(page);
    await page.click('[data-index="9"]');
  }, 'section.see'],
  'what-if': [async page => {
    await write(page);
    await page.click('#what-if > summary');
    await slide(page, '#if-temperature', '1');
    await page.waitForFunction(() => /^At /.test(document.querySelector('#if-result').textContent));
    await page.locator('[data-what-if="other"]').nth(1).click();
  }, 'section.write'],
  'branches': [async page => {
    await write(page, 24);
    for (const [index, candidate] of [[6, 1], [6, 2], [11, 1]]) {
      await page.click(`[data-index="${index}"]`);
      await page.locator('#candidates [data-id]:not(.chosen)').nth(candidate).click();
      await page.waitForTimeout(100);
      await stopped(page);
    }
  }, 'section.write'],
  'race': [async page => {
    await page.fill('#max-tokens', '48');
    await page.click('#race-both');
    await said(page, 'race is over');
  }, 'section.race'],
  'exercise': [async page => {
    await page.selectOption('#exercise-runs', '1');
    await page.click('#exercise');
    await said(page, 'exercise is done');
  }, 'section.exercise'],
  'time': [async page => { await write(page, 120); }, 'section.token-time'],
  'lesson': [async page => {
    await page.click('#lesson-open');
    for (let i = 0; i < 3; i += 1) await page.click('#lesson-next');
    await page.click('#lesson-action');
    await page.waitForSelector('#output [data-index]');
    await page.waitForTimeout(300);
  }, null],
  'lesson-race': [async page => {
    await page.click('#lesson-open');
    for (let i = 0; i < 5; i += 1) await page.click('#lesson-next');
    await page.click('#lesson-action');
    await said(page, 'race is over');
  }, null],
  'error': [async page => {
    await page.evaluate(() => window.nucleus.load('models/nothing.gguf').catch(() => {}));
  }, null],
};
/** Those that another width changes. */
const ON_PHONE = ['what-if', 'branches', 'race', 'lesson', 'lesson-race', 'error'];

const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium', args: ['--no-sandbox'] });
const wanted = process.argv.slice(2);
for (const [name, [prepare, panel]] of Object.entries(VIEWS)) {
  if (wanted.length && !wanted.includes(name)) continue;
  for (const [size, viewport] of [['', { width: 1280, height: 800 }], ['-phone', { width: 390, height: 844 }]]) {
    if (size && !ON_PHONE.includes(name)) continue;
    const page = await browser.newPage({ viewport });
    await page.goto(`${BASE_URL}?prompt=Once%20upon%20a%20time`);
    await page.evaluate(async model => {
      await window.nucleus.ready;
      await window.nucleus.load(model, { backend: 'cpu' });
    }, MODEL);
    await page.uncheck('#seed-new');
    await page.fill('#seed', '11');
    await prepare(page);
    await page.evaluate(() => document.activeElement?.blur());
    for (const colorScheme of size ? ['light'] : ['light', 'dark']) {
      await page.emulateMedia({ colorScheme });
      await page.waitForTimeout(100);
      const path = `${folder}/${name}${size}-${colorScheme}.png`;
      await (panel ? page.locator(panel) : page).screenshot({ path });
      console.log(path, fs.statSync(path).size);
    }
    await page.close();
  }
}
await browser.close();
