// Records the lesson's runs from the real model, for visitors who have not loaded one yet: `cargo xtask serve` in one terminal,
// `node tests/e2e/record_lesson.mjs` in another. Writes www/recorded_run.json.
import fs from 'node:fs';
import { chromium } from 'playwright-core';

const BASE_URL = process.env.BASE_URL ?? 'http://localhost:8080/';
const MODEL = 'models/SmolLM2-135M-Instruct.Q4_1.gguf';
// The settings of the cards in src/page/lesson.rs; a test compares them.
const PROMPT = 'My favorite animal is the';
const PLAIN = { temperature: 1, topP: 1, seed: 11, maxNewTokens: 1 };
const TEXT = { temperature: 0.7, topP: 0.9, seed: 7 };
const RUNS = [
  ['loop', PLAIN],
  ['logits', PLAIN],
  ['temperature', { ...PLAIN, temperature: 0 }],
  ['nucleus', { ...PLAIN, topP: 0.5 }],
  ['draw', { ...TEXT, maxNewTokens: 16 }],
  ['cache', { ...TEXT, maxNewTokens: 32, kvCache: false }],
  ['cache', { ...TEXT, maxNewTokens: 32, kvCache: true }],
  ['serial', { ...TEXT, maxNewTokens: 24 }],
];
/** By the length of the run: the list has 14 rows, and a long run is watched, not read. */
const N_CANDIDATES = { 1: 24, 16: 14, 24: 10, 32: 6 };

const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium', args: ['--no-sandbox'] });
const page = await browser.newPage();
await page.goto(BASE_URL);
await page.evaluate(() => window.nucleus.ready);
const info = await page.evaluate(url => window.nucleus.load(url, { backend: 'cpu' }), MODEL);
const runs = [];
for (const [card, settings] of RUNS) {
  const options = { prompt: PROMPT, ...settings, ignoreEos: true };
  const steps = await page.evaluate(async options => {
    const steps = [];
    await window.nucleus.generate(options, ({ bytes, tail, ...step }) => { steps.push(step); });
    return steps;
  }, options);
  for (const step of steps) step.candidates = step.candidates.slice(0, N_CANDIDATES[options.maxNewTokens]).map(Object.values);
  runs.push({ card, options, steps });
}
await browser.close();

// Five digits: more than any view shows.
const short = (_, value) => (typeof value === 'number' && !Number.isInteger(value) ? Number(value.toPrecision(5)) : value);
// What one position takes: keys and values in f32, for each layer and KV head.
const kvBytesPerPosition = 2 * 4 * info.layers * info.kvHeads * (info.embedding / info.heads);
const recording = {
  model: MODEL.replace(/^.*\/|\.gguf$/g, ''), backend: `the CPU, ${info.threads} thread${info.threads === 1 ? '' : 's'}`,
  date: new Date().toISOString().slice(0, 10), vocabSize: info.vocabSize, kvBytesPerPosition, runs,
};
const lines = JSON.stringify({ ...recording, runs: undefined }, short).slice(0, -1);
const list = runs.map(run => JSON.stringify(run, short)).join(',\n');
fs.writeFileSync(new URL('../../www/recorded_run.json', import.meta.url), `${lines},"runs":[\n${list}\n]}\n`);
console.log(`${runs.length} runs of ${recording.model} on ${recording.backend}`);
