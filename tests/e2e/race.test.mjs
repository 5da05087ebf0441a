// The race with and without the KV cache, the exercise with its files, and where the time of a token goes: on the real model.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import { MODEL, pageTest } from './browser.mjs';

const load = page => page.evaluate(model => window.nucleus.load(model, { backend: 'cpu' }), MODEL);

pageTest('the race writes the same text twice and says what the cache saved', {}, async page => {
  await load(page);
  await page.fill('#max-tokens', '40');
  await page.click('#race-both');
  await page.waitForFunction(() => /race is over/.test(document.querySelector('#status').textContent), null, { timeout: 120_000 });
  const pair = await page.innerText('#pair');
  assert.match(pair, /same tokens\s+40 of 40/);
  assert.match(pair, /largest logit difference\s+0$/m, 'on the CPU both compute the same bits');
  // 4 prompt tokens; from the second step on, one position with the cache, all of them without.
  const without = Array.from({ length: 39 }, (_, i) => 5 + i).reduce((a, b) => a + b, 0);
  assert.match(pair, new RegExp(`positions computed\\s+39 / ${without.toLocaleString('en')}`));
  assert.match(await page.getAttribute('#speed-up-plot', 'aria-label'), /The speed-up with the cache: [\d.]+ times after 39 decode steps/);
});

pageTest('the exercise gives a figure, a plot and two files', { acceptDownloads: true }, async page => {
  await load(page);
  await page.selectOption('#exercise-runs', '1');
  await page.click('#exercise');
  await page.waitForFunction(() => !document.querySelector('#exercise-json').disabled, null, { timeout: 240_000 });
  assert.match(await page.innerText('#exercise-result'), /as fast with the cache after 99 decode steps/);
  const file = async id => {
    const [download] = await Promise.all([page.waitForEvent('download'), page.click(id)]);
    return fs.readFileSync(await download.path(), 'utf8');
  };
  const json = JSON.parse(await file('#exercise-json'));
  const info = await page.evaluate(() => window.nucleus.model);
  assert.equal(json.maxNewTokens, 100);
  assert.equal(json.temperature, 0.7);
  assert.equal(json.sameText, true);
  assert.deepEqual([json.backend, json.build, json.modelBytes, json.modelSha256], ['cpu', info.build, info.bytes, info.sha256]);
  assert.ok(json.speedUp > 1, `the cache saves time: ${json.speedUp}`);
  assert.ok(json.lengthAtSpeedUp5 > 0 && json.lengthAtSpeedUp5 < 99, `5 times is reached: ${json.lengthAtSpeedUp5}`);
  assert.deepEqual([json.msPerTokenWithCache.length, json.msPerTokenWithoutCache.length], [99, 99]);
  const lines = (await file('#exercise-csv')).trim().split('\n').filter(line => !line.startsWith('#'));
  assert.equal(lines[0], 'decode_steps,position,ms_with_cache,ms_without_cache,speed_up');
  assert.equal(lines.length, 1 + 99);
});

pageTest('the strip says where the time of a token goes', {}, async page => {
  await load(page);
  await page.fill('#max-tokens', '30');
  await page.click('#generate');
  await page.waitForFunction(() => document.querySelectorAll('#output [data-index]').length === 30, null, { timeout: 60_000 });
  await page.waitForFunction(() => document.querySelector('#stop').disabled);
  const said = await page.getAttribute('#time-strip', 'aria-label');
  const mean = part => Number(new RegExp(`${part}\\s([\\d.]+)\\sms`).exec(said)?.[1]);
  assert.match(said, /Mean time of the last 29 tokens/);
  for (const part of ['forward', 'sampling', 'painting']) assert.ok(mean(part) > 0, `${part}: ${said}`);
  for (const part of ['readback', 'waiting']) assert.ok(mean(part) >= 0, `${part}: ${said}`);
  const inked = await page.evaluate(() => {
    const canvas = document.querySelector('#time-strip');
    const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
    return data.filter((value, i) => i % 4 === 3 && value > 0).length;
  });
  assert.ok(inked > 0, 'the strip is drawn');
});

pageTest('a branch is no run of the race: the figures of the run before stay', {}, async page => {
  await load(page);
  await page.fill('#max-tokens', '12');
  await page.click('#generate');
  await page.waitForFunction(() => /^4 \+ 12/.test(document.querySelector('#run-on').textContent), null, { timeout: 60_000 });
  const figures = () => page.evaluate(() => ['decode-on', 'run-on', 'pair'].map(id => document.getElementById(id).textContent));
  const before = await figures();
  await page.click('[data-index="6"]');
  await page.locator('#candidates [data-id]:not(.chosen) .take').first().click();
  await page.waitForFunction(() => document.querySelectorAll('#branch-list button').length === 2);
  await page.waitForFunction(() => document.querySelector('#stop').disabled, null, { timeout: 60_000 });
  assert.deepEqual(await figures(), before);
});
