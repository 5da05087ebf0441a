// Links and run files on the real model: what is shared comes back as it was, and what is hostile is refused in words.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import { BASE_URL, MODEL, pageTest } from './browser.mjs';

const LOADED = `?model=${MODEL}&autoload=1&prompt=Once%20upon%20a%20time`;
const ready = page => page.waitForFunction(() => window.nucleus.model, null, { timeout: 60_000 });
const chips = page => page.locator('#output [data-index]').allTextContents();
const status = page => page.textContent('#status');

async function over(page) {
  await page.waitForFunction(() => document.querySelector('#stop').disabled, null, { timeout: 60_000 });
}

async function written(page, nTokens) {
  await ready(page);
  await page.uncheck('#seed-new');
  await page.fill('#max-tokens', String(nTokens));
  await page.click('#generate');
  await page.waitForFunction(n => document.querySelectorAll('#output [data-index]').length === n, nTokens, { timeout: 60_000 });
  await over(page);
}

/** The run on screen as its file. */
async function saved(page) {
  if (!await page.isVisible('#save-run')) await page.click('#share summary');
  const [download] = await Promise.all([page.waitForEvent('download'), page.click('#save-run')]);
  return fs.readFileSync(await download.path(), 'utf8');
}

/** Opens a text as a run file, and waits until it was shown or refused; in other words than the one before. */
async function open(page, text) {
  await page.evaluate(() => { document.querySelector('#status').textContent = 'opening'; });
  await page.setInputFiles('#run-file', { name: 'run.json', mimeType: 'application/json', buffer: Buffer.from(text) });
  await page.waitForFunction(() => document.querySelector('#status').textContent !== 'opening');
  return status(page);
}

const SETTINGS = {
  '#prompt': 'Tea & <b>cake</b> = 100 %\nsecond line #1', '#temperature': '0.35', '#top-p': '0.8', '#top-k': '40', '#seed': '77',
  '#max-tokens': '9', '#min-tokens': '3', '#no-repeat-ngram': '4', '#suppress': '1, 2', '#stop-strings': 'end\n\\n\\n',
};
const valuesOf = (page, ids) => page.evaluate(ids => ids.map(id => document.querySelector(id).value), ids);

pageTest('a copied link restores prompt and settings on another page', { permissions: ['clipboard-read', 'clipboard-write'] }, async page => {
  await page.click('.more summary');
  await page.uncheck('#seed-new');
  for (const [id, value] of Object.entries(SETTINGS)) await page.fill(id, value);
  await page.selectOption('#sampler-order', 'llama.cpp');
  await page.locator('.switch').click();
  await page.click('#share summary');
  await page.click('#copy-link');
  await page.waitForFunction(() => /^Link copied/.test(document.querySelector('#status').textContent));
  const link = await page.evaluate(() => navigator.clipboard.readText());
  assert.ok(link.startsWith(`${BASE_URL}#`), link);
  assert.doesNotMatch(link.split('#')[0], /cake/, 'the prompt is sent to no server');
  const before = await valuesOf(page, Object.keys(SETTINGS));

  const other = await page.context().newPage();
  await other.goto(link);
  await other.evaluate(() => window.nucleus.ready);
  assert.deepEqual(await valuesOf(other, Object.keys(SETTINGS)), before);
  assert.equal(await other.inputValue('#sampler-order'), 'llama.cpp');
  assert.equal(await other.isChecked('#kv-cache'), false);
  assert.equal(await other.isChecked('#seed-new'), false);
  assert.equal(await other.textContent('#temperature-value'), '0.35');
  assert.equal(await other.evaluate(() => window.nucleus.model), null, 'a link of the page loads nothing by itself');
  await other.close();
});

pageTest('a link may name what no slider reaches, and a page that is open follows it', {}, async page => {
  await page.evaluate(() => { location.hash = '#temperature=2.345&topP=0.9551&prompt=There'; });
  await page.waitForFunction(() => document.querySelector('#prompt').value === 'There');
  assert.deepEqual(await valuesOf(page, ['#temperature', '#top-p', '#top-k']), ['2.345', '0.9551', '0']);
});

for (const [what, query, said] of [
  ['a number out of range', '?temperature=-1', /`temperature`/],
  ['no number', '#seed=%3Cscript%3E', /`seed`/],
  ['an endless prompt', `#prompt=${'x'.repeat(20_000)}`, /20006 characters/],
  ['a backend that is none', '?backend=abacus&autoload=1', /backend/],
]) {
  pageTest(`a link with ${what} is refused in words, and the page works`, { query }, async page => {
    assert.match(await status(page), said);
    assert.equal(await page.getAttribute('#status', 'data-error'), 'bad-option');
    assert.deepEqual(await valuesOf(page, ['#prompt', '#temperature', '#seed']), ['Once upon a time', '0.7', '11']);
    assert.equal(await page.isEnabled('#load-default'), true);
  });
}

pageTest('a run is saved, opened on a page without a model, and run again to the bit', { query: LOADED }, async page => {
  await written(page, 20);
  const text = await chips(page);
  const file = await saved(page);
  const run = JSON.parse(file);
  assert.equal(run.model.sha256, await page.evaluate(() => window.nucleus.model.sha256));
  assert.equal(run.ids.length, 20);
  assert.equal(run.options.seed, 11);
  assert.ok(run.steps.every(step => step.candidates.length >= 12
    && (step.rank >= 64 || step.candidates.some(candidate => candidate.id === step.id))));

  const other = await page.context().newPage();
  await other.goto(`${BASE_URL}?model=${MODEL}`);
  await other.evaluate(() => window.nucleus.ready);
  await other.fill('#prompt', 'Something else');
  assert.match(await open(other, file), /^A recorded run: nothing was computed now/);
  assert.deepEqual(await chips(other), text);
  assert.equal(await other.inputValue('#prompt'), 'Once upon a time');
  assert.equal(await other.inputValue('#max-tokens'), '20');
  await other.click('[data-index="4"]');
  assert.equal(await other.locator('#candidates .chosen .token').textContent(), text[4]);
  assert.equal(await other.isDisabled('#run-again'), true);
  assert.ok(await saved(other) === file, 'what was opened is saved as it was');

  await other.evaluate(model => window.nucleus.load(model), MODEL);
  await other.click('#run-again');
  await other.waitForFunction(() => /identical/.test(document.querySelector('#comparison').textContent), null, { timeout: 60_000 });
  assert.match(await other.textContent('#comparison'), /^All 20 tokens are identical\. The probabilities of \d+ candidates are equal to the bit\.$/);
  assert.deepEqual(await chips(other), text);
  await other.close();
});

pageTest('what comes out differently is named', { query: LOADED }, async page => {
  await written(page, 12);
  const run = JSON.parse(await saved(page));
  const forged = structuredClone(run);
  const step = forged.steps[7];
  step.candidates[0].pRaw -= 0.125;
  const another = step.candidates.find(candidate => candidate.id !== step.id);
  Object.assign(step, { id: another.id, text: another.text });
  forged.ids[7] = another.id;
  forged.model.sha256 = '0'.repeat(64);
  await open(page, JSON.stringify(forged));
  await page.click('#run-again');
  await page.waitForFunction(() => /identical/.test(document.querySelector('#comparison').textContent), null, { timeout: 60_000 });
  assert.match(await page.textContent('#comparison'),
    /^The first 7 tokens are identical; then number 8 is “.+”, recorded was “.+”\. Of \d+ candidates, no probability differs by more than 1·10⁻¹ \(token 8\)\. It was run on another model file\.$/);
});

pageTest('a saved branch is run again as one run', { query: LOADED }, async page => {
  await written(page, 16);
  await page.click('[data-index="5"]');
  await page.locator('#candidates [data-id]:not(.chosen)').nth(1).click();
  await page.waitForFunction(() => document.querySelectorAll('#branch-list [data-branch]').length === 2);
  await over(page);
  const text = await chips(page);
  const run = JSON.parse(await saved(page));
  assert.equal(run.options.forceIds.length, 6);
  assert.equal(run.options.resumeIds, undefined);
  assert.equal(run.steps.length, 16);
  await page.click('#run-again');
  await page.waitForFunction(() => /identical/.test(document.querySelector('#comparison').textContent), null, { timeout: 60_000 });
  assert.match(await page.textContent('#comparison'), /^All 16 tokens are identical \(the first 6 were given\)\./);
  assert.deepEqual(await chips(page), text);
});

pageTest('hostile run files are refused in words or shown as text', { query: LOADED }, async page => {
  await written(page, 4);
  const file = await saved(page);
  const shown = await chips(page);
  for (const bad of ['', '{}', 'GGUF\u0000', ' <!DOCTYPE html>', '['.repeat(200_000), file.slice(0, -40), file.replace('"temperature":0.7', '"temperature":-1'),
    file.replace('"version":1', '"version":2'), file.replace('"ids":[', '"ids":[1,'), file.replace(/"pRaw":[\d.e-]+/, '"pRaw":7'), ' '.repeat(17 << 20)]) {
    assert.match(await open(page, bad), /^The run file was refused\. /, bad.slice(0, 60));
    assert.equal(await page.getAttribute('#status', 'data-error'), 'bad-run-file');
    assert.deepEqual(await chips(page), shown, 'what was there stays');
  }
  const markup = '<img src=x onerror=document.title=1>';
  const run = JSON.parse(file);
  run.model.name = run.engine.build = run.options.prompt = run.steps[0].text = run.steps[0].candidates[0].text = markup;
  assert.match(await open(page, JSON.stringify(run)), /^A recorded run/);
  assert.equal(await page.textContent('[data-index="0"]'), markup);
  assert.match(await page.textContent('#comparison'), /<img src=x/);
  assert.equal(await page.locator('main img').count(), 0);
  assert.match(await page.title(), /^Nucleus/);
});
