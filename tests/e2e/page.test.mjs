// The page with the real engine and the real model: what a reader does with mouse and keyboard, and what `window.nucleus` refuses.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import { MODEL, pageTest } from './browser.mjs';

const LOADED = `?model=${MODEL}&autoload=1&prompt=Once%20upon%20a%20time`;
const chips = page => page.locator('#output [data-index]');
const status = page => page.locator('#status').textContent();

/** A model is in place, and every run draws the same: with another seed each time some runs would end before they are due. */
async function loaded(page) {
  await page.waitForFunction(() => window.nucleus.model, null, { timeout: 60_000 });
  await page.uncheck('#seed-new');
}

/** The run that a button started is over: Stop has nothing to stop. */
async function over(page, timeout = 60_000) {
  await page.waitForFunction(() => document.querySelector('#stop').disabled, null, { timeout });
}

/** Starts a run with the button and waits until the page has begun it: a short one may be over by then. */
async function generate(page, nTokens) {
  await page.fill('#max-tokens', String(nTokens));
  const before = await page.locator('#output .text').elementHandle();
  await page.click('#generate');
  await page.waitForFunction(before => !before.isConnected, before);
}

pageTest('before a model is loaded the page says what is missing', {}, async page => {
  for (const id of ['generate', 'step', 'stop', 'exercise']) {
    assert.equal(await page.isDisabled(`#${id}`), true, id);
    assert.notEqual(await page.getAttribute(`#${id}`, 'title'), null, `${id} says why`);
  }
  assert.match(await status(page), /Load a model/);
  assert.equal(await page.isVisible('#backend'), false, 'nothing runs, so nothing is said of it');
  assert.equal(await page.isVisible('#candidates-empty'), true);
});

pageTest('a prompt becomes chips, one per token, and a chip shows its step', { query: LOADED }, async page => {
  await loaded(page);
  assert.match(await page.textContent('#model'), /^SmolLM2-135M-Instruct · Q4_1 · 98\sMB$/);
  assert.match(await page.textContent('#backend'), /CPU · \d+ threads?\b/);
  await page.fill('#prompt', 'The capital of France is');
  await generate(page, 24);
  await over(page);
  assert.equal(await chips(page).count(), 24);
  assert.match(await page.textContent('#output .prompt-text'), /^The capital of France is$/);
  assert.match(await page.textContent('#tokens-per-second'), /^\d+(\.\d)?$/);
  assert.match(await page.textContent('#step-place'), /^step 24 of 24 tokens$/);

  await page.click('[data-index="3"]');
  assert.equal(await page.getAttribute('[data-index="3"]', 'aria-current'), 'true');
  assert.equal(await page.locator('#output [aria-current]').count(), 1);
  assert.match(await page.textContent('#step-place'), /^step 4 of 24 tokens$/);
  const chosen = page.locator('#candidates .chosen[data-id]');
  assert.equal(await chosen.count(), 1, 'the chosen token is among the rows');
  assert.equal(await chosen.locator('.token').textContent(), await page.textContent('[data-index="3"]'));
  assert.match(await page.textContent('#say'), /^Of 49,152 tokens, [\d,]+ holds? the first 90\s% of the probability\./);
});

pageTest('arrow keys walk the chips; Home and End jump', { query: LOADED }, async page => {
  await loaded(page);
  await page.locator('#prompt').focus();
  await page.fill('#max-tokens', '8');
  await page.keyboard.press('Control+Enter');
  await page.waitForFunction(() => document.querySelectorAll('#output [data-index]').length === 8, null, { timeout: 30_000 });
  await over(page);
  assert.equal(await page.locator('#output [tabindex="0"]').count(), 1, 'one chip is in the tab order');
  await page.locator('#output [tabindex="0"]').focus();
  for (const [key, index] of [['ArrowLeft', 6], ['Home', 0], ['ArrowLeft', 0], ['ArrowRight', 1], ['End', 7]]) {
    await page.keyboard.press(key);
    assert.equal(await page.evaluate(() => document.activeElement.dataset.index), String(index), key);
    assert.match(await page.textContent('#step-place'), new RegExp(`^step ${index + 1} of 8`));
  }
  await page.click('#follow');
  assert.equal(await page.isVisible('#follow'), false);
});

pageTest('Escape stops a run and keeps the text', { query: LOADED }, async page => {
  await loaded(page);
  await generate(page, 2000);
  await page.waitForFunction(() => document.querySelectorAll('#output [data-index]').length >= 5);
  await page.keyboard.press('Escape');
  await over(page, 2000);
  const n = await chips(page).count();
  assert.ok(n >= 5 && n < 2000, `${n} chips`);
  assert.match(await status(page), /stopped by you/);
  await generate(page, 3);
  await over(page);
  assert.equal(await chips(page).count(), 3, 'the next run starts afresh');
});

pageTest('One token gives one chip each; Generate goes on; the same text as without pauses', { query: LOADED }, async page => {
  await loaded(page);
  await page.fill('#seed', '7');
  await page.fill('#max-tokens', '12');
  for (let n = 1; n <= 3; n += 1) {
    await page.click('#step');
    await page.waitForFunction(n => document.querySelectorAll('#output [data-index]').length === n, n);
    await page.waitForTimeout(150);
    assert.equal(await chips(page).count(), n, 'no token more than was asked for');
  }
  await page.click('#generate');
  await over(page);
  assert.equal(await chips(page).count(), 12);
  const stepped = await page.textContent('#output .text');
  await generate(page, 12);
  await over(page);
  assert.equal(await page.textContent('#output .text'), stepped);
});

pageTest('changed settings end a paused run and begin another', { query: LOADED }, async page => {
  await loaded(page);
  await page.click('#step');
  await page.waitForFunction(() => document.querySelectorAll('#output [data-index]').length === 1);
  await page.fill('#prompt', 'Two words');
  await page.click('#step');
  await page.waitForFunction(() => document.querySelector('#output .prompt-text')?.textContent === 'Two words');
  await page.waitForFunction(() => document.querySelectorAll('#output [data-index]').length === 1);
  await page.keyboard.press('Escape');
  await over(page);
});

pageTest('two clicks on Generate with changed settings start one run', { query: LOADED }, async page => {
  await loaded(page);
  await page.click('#step');
  await page.waitForFunction(() => document.querySelectorAll('#output [data-index]').length === 1);
  await page.fill('#prompt', 'Two words');
  await page.fill('#max-tokens', '5');
  await page.evaluate(() => {
    window.errors = [];
    new MutationObserver(() => window.errors.push(document.querySelector('#status').textContent))
      .observe(document.querySelector('#status'), { attributeFilter: ['data-error'] });
    document.querySelector('#generate').click();
    document.querySelector('#generate').click();
  });
  await page.waitForFunction(() => document.querySelectorAll('#output [data-index]').length === 5);
  await over(page);
  assert.match(await status(page), /^5 tokens: that was the number asked for/);
  assert.deepEqual((await page.evaluate(() => window.errors)).filter(text => /busy/.test(text)), []);
});

pageTest('stop waits for what it stopped, not for a later run', { query: LOADED }, async page => {
  await loaded(page);
  const first = await page.evaluate(async () => {
    let stopped;
    await window.nucleus.generate({ prompt: 'x', maxNewTokens: 1 }, () => { stopped = window.nucleus.stop(); });
    const later = window.nucleus.generate({ prompt: 'x', maxNewTokens: 60, ignoreEos: true });
    const first = await Promise.race([stopped.then(() => 'stop'), later.then(() => 'later')]);
    await later;
    return first;
  });
  assert.equal(first, 'stop');
});

pageTest('stop ends a load, and the next one is not busy', {}, async page => {
  // A server that takes its time, so that the load is in progress when it is stopped.
  await page.route('**/slow.gguf', () => {});
  const { kind, model } = await page.evaluate(async model => {
    const load = window.nucleus.load('models/slow.gguf').catch(error => error.kind);
    await window.nucleus.stop();
    const next = window.nucleus.load(model).then(info => info.vocabSize, error => error.kind);
    return { kind: await load, model: await next };
  }, MODEL);
  assert.deepEqual({ kind, model }, { kind: 'cancelled', model: 49_152 });
});

pageTest('reading a long prompt is said before the first token only', {}, async page => {
  await page.setInputFiles('#model-file', new URL('../fixtures/tiny/llama-q4_1.gguf', import.meta.url).pathname);
  await loaded(page);
  const said = await page.evaluate(async () => {
    const status = document.querySelector('#status');
    const said = [];
    new MutationObserver(() => said.push(status.textContent)).observe(status, { childList: true });
    const ids = Array.from({ length: 300 }, () => 5);
    const atStep = [];
    for (const kvCache of [true, false]) {
      await window.nucleus.generate({ ids, maxNewTokens: 6, ignoreEos: true, kvCache }, async () => atStep.push(status.textContent));
    }
    return { said, atStep };
  });
  assert.ok(said.said.some(text => /^Reading the prompt: \d+ of 300 tokens/.test(text)), JSON.stringify(said));
  assert.deepEqual(said.atStep, Array.from({ length: 12 }, () => 'Writing. Stop with Escape.'));
});

pageTest('the KV switch: a run without the cache computes every position, and both modes are compared', { query: LOADED }, async page => {
  await loaded(page);
  await generate(page, 10);
  await over(page);
  assert.match(await page.textContent('#run-on'), /^4 \+ 10 tokens$|^5 \+ 10 tokens$/);
  assert.equal(await page.textContent('#run-off'), 'not run yet');
  await page.locator('#kv-cache').focus();
  await page.keyboard.press('Space');
  assert.equal(await page.isChecked('#kv-cache'), false);
  await generate(page, 10);
  await over(page);
  const computed = await page.textContent('#facts [data-fact="computed this step"] dd');
  assert.ok(parseInt(computed, 10) > 10, `${computed} at the last step`);
  assert.match(await page.textContent('#speed-up'), /^\d+\.\d×$/);
  assert.match(await page.textContent('#speed-up-note'), /the same 9 decode steps after a prompt of \d+ tokens/);
  assert.equal(await page.locator('#plot .curve[d*="L"]').count(), 2, 'two curves');
});

pageTest('the KV switch works in the middle of a run, and the text stays the same', { query: LOADED }, async page => {
  await loaded(page);
  const { toggled, untouched } = await page.evaluate(async () => {
    const options = { prompt: 'Once upon a time', maxNewTokens: 40, seed: 11, ignoreEos: true };
    const flip = () => document.querySelector('#kv-cache').click();
    const run = async onStep => {
      const computed = [];
      const { text } = await window.nucleus.generate(options, step => {
        computed.push(step.positionsComputed);
        onStep(step);
      });
      return { text, computed };
    };
    return {
      untouched: await run(() => {}),
      toggled: await run(step => (step.index === 4 || step.index === 20) && flip()),
    };
  });
  const off = toggled.computed.map(n => n > 1);
  const from = off.indexOf(true, 1);
  const to = off.indexOf(false, from);
  assert.ok(from > 4 && from < 20 && to > 20, `without the cache from step ${from} to ${to}: ${toggled.computed}`);
  assert.deepEqual([...new Set(untouched.computed.slice(1))], [1]);
  assert.equal(toggled.text, untouched.text);
  assert.match(await page.textContent('#run-on'), /^switched midway$/);
  assert.match(await page.textContent('#run-off'), /^switched midway$/);
  assert.equal(await page.textContent('#decode-on'), '–');
  assert.equal(await page.locator('#plot .curve[d*="L"]').count(), 2, 'each step is on the curve of its mode');
  assert.equal(await page.textContent('#speed-up'), '–');
  await page.click(`[data-index="${from}"]`);
  assert.equal(await page.textContent('#facts [data-fact="computed this step"] dd'), `${toggled.computed[from]} positions`);
});

pageTest('the KV switch says what it does to a paused run', { query: LOADED }, async page => {
  await loaded(page);
  await page.click('#step');
  await page.waitForFunction(() => document.querySelectorAll('#output [data-index]').length === 1);
  await page.locator('#kv-cache').focus();
  await page.keyboard.press('Space');
  assert.match(await status(page), /KV cache off: from the next token on/);
  await page.click('#step');
  await page.waitForFunction(() => document.querySelectorAll('#output [data-index]').length === 2);
  const computed = await page.textContent('#facts [data-fact="computed this step"] dd');
  assert.ok(parseInt(computed, 10) > 1, computed);
  await page.keyboard.press('Escape');
  await over(page);
});

pageTest('the exercise runs both modes and fills the comparison; Stop ends it', { query: LOADED }, async page => {
  await loaded(page);
  await page.selectOption('#exercise-runs', '1');
  await page.click('#exercise');
  await page.waitForFunction(() => document.querySelectorAll('#output [data-index]').length >= 3);
  assert.equal(await page.isDisabled('#generate'), true);
  await page.click('#stop');
  await over(page);
  assert.match(await status(page), /exercise was stopped/);

  await page.click('#exercise');
  await page.waitForFunction(() => /exercise is done/.test(document.querySelector('#status').textContent), null, { timeout: 120_000 });
  assert.equal(await chips(page).count(), 100);
  assert.match(await page.textContent('#run-on'), /\+ 100 tokens$/);
  assert.match(await page.textContent('#run-off'), /\+ 100 tokens$/);
  assert.ok(parseFloat(await page.textContent('#speed-up')) > 1.5, 'the cache saves time');
});

pageTest('options that are not there yet, unknown ones and bad values are refused by name', { query: LOADED }, async page => {
  await loaded(page);
  const refusals = await page.evaluate(async () => {
    const nucleus = window.nucleus;
    const attempt = async call => call().then(() => ['resolved', ''], error => [error.kind, error.message, error instanceof Error]);
    const asked = { prompt: 'x', maxNewTokens: 1 };
    return {
      messages: await attempt(() => nucleus.generate({ messages: [{ role: 'narrator', content: 'x' }] })),
      backend: await attempt(() => nucleus.load('x.gguf', { backend: 'cuda' })),
      threads: await attempt(() => nucleus.load('x.gguf', { threads: 17 })),
      cache: await attempt(() => nucleus.load('x.gguf', { cache: 1 })),
      temprature: await attempt(() => nucleus.generate({ ...asked, temprature: 1 })),
      temperature: await attempt(() => nucleus.generate({ ...asked, temperature: NaN })),
      ids: await attempt(() => nucleus.generate({ ...asked, ids: [1] })),
      source: await attempt(() => nucleus.load(5)),
    };
  });
  for (const [name, [kind, message, isError]] of Object.entries(refusals)) {
    assert.equal(kind, 'bad-option', `${name}: ${message}`);
    assert.ok(message.includes(name) && isError, message);
  }
  assert.notEqual(await page.evaluate(() => window.nucleus.model), null, 'refused loads leave the model in place');
});

pageTest('arguments that throw when they are read are refused, and the promise settles', { query: LOADED }, async page => {
  await loaded(page);
  const kinds = await page.evaluate(async () => {
    const nucleus = window.nucleus;
    const fail = () => { throw new Error('from the caller'); };
    const revoked = Proxy.revocable({}, {});
    revoked.revoke();
    const calls = {
      keys: () => nucleus.generate(new Proxy({ prompt: 'x' }, { ownKeys: fail })),
      property: () => nucleus.generate({ get prompt() { return fail(); } }),
      revoked: () => nucleus.generate(revoked.proxy),
      revokedInside: () => nucleus.generate({ prompt: revoked.proxy }),
      list: () => nucleus.detokenize(new Proxy([1], { get: fail })),
      iterator: () => nucleus.generate({ ids: Object.assign([1], { [Symbol.iterator]: fail }) }),
      file: () => nucleus.load(new Proxy(new File(['x'], 'x.gguf'), {})),
      blob: () => nucleus.load(Object.create(Blob.prototype)),
    };
    const late = () => new Promise(resolve => setTimeout(resolve, 3000, 'never settled'));
    const kinds = {};
    for (const [name, call] of Object.entries(calls)) {
      kinds[name] = await Promise.race([call().then(() => 'resolved', error => error.kind), late()]);
    }
    return kinds;
  });
  for (const [name, kind] of Object.entries(kinds)) {
    assert.equal(kind, 'bad-option', name);
  }
});

pageTest('window.nucleus: steps, result, overlap, ids', { query: LOADED }, async page => {
  await loaded(page);
  const seen = await page.evaluate(async () => {
    const nucleus = window.nucleus;
    const steps = [];
    const run = nucleus.generate({ prompt: 'Hello 🌍', maxNewTokens: 8, seed: 3, ignoreEos: true }, step => steps.push(step));
    const overlap = await nucleus.generate({ prompt: 'x' }).catch(error => error.kind);
    const result = await run;
    const tokens = await nucleus.tokenize('Hello 🌍');
    const again = await nucleus.generate({ ids: tokens.map(token => token.id), maxNewTokens: 8, seed: 3, ignoreEos: true, pace: 'free' });
    return {
      overlap, result, again, step: steps[0], indices: steps.map(step => step.index),
      candidates: steps[0].candidates.length, isBytes: steps[0].bytes instanceof Uint8Array,
      chips: document.querySelectorAll('#output [data-index]').length,
      prompt: await nucleus.detokenize(tokens.map(token => token.id)),
      logits: (await nucleus.logits([1, 2])).length, kind: (await nucleus.diagnostics()).backend,
    };
  });
  assert.equal(seen.overlap, 'busy');
  assert.deepEqual(seen.indices, [0, 1, 2, 3, 4, 5, 6, 7]);
  assert.deepEqual(seen.result.ids, seen.again.ids, 'text and its ids give the same run');
  assert.equal(seen.result.stopReason, 'length');
  assert.equal(seen.chips, 8, 'painted when the promise resolves');
  assert.equal(seen.prompt, 'Hello 🌍');
  assert.equal(seen.logits, 49_152);
  assert.ok(seen.isBytes && seen.candidates === 64);
  for (const name of ['index', 'position', 'kvLength', 'positionsComputed', 'id', 'text', 'bytes', 'rank', 'p', 'surprisalBits',
    'u', 'candidates', 'nucleusSize', 'nucleusMass', 'entropyBits', 'ms']) {
    assert.ok(name in seen.step, name);
  }
  for (const name of ['id', 'text', 'logit', 'pRaw', 'pTemperature', 'pFinal', 'cumulative', 'kept']) {
    assert.ok(name in seen.step.candidates[0], name);
  }
});

pageTest('HTML in prompts, links and file names is text', {
  query: `?prompt=${encodeURIComponent('<img src=x onerror="window.hacked=1"><b>bold</b>')}&model=${MODEL}&autoload=1`,
}, async page => {
  await loaded(page);
  await generate(page, 3);
  await over(page);
  assert.equal(await page.textContent('#output .prompt-text'), '<img src=x onerror="window.hacked=1"><b>bold</b>');
  assert.equal(await page.locator('#output img, #output b').count(), 0);
  const refused = await page.evaluate(() => {
    const file = new File(['<!DOCTYPE html>'], '<img src=x onerror="window.hacked=1">.gguf');
    return window.nucleus.load(file).catch(error => error.kind);
  });
  assert.equal(refused, 'not-gguf');
  assert.match(await status(page), /not a file that can be loaded/);
  assert.equal(await page.evaluate(() => window.hacked), undefined);
  assert.equal(await page.evaluate(() => window.nucleus.model), null);
});

pageTest('the page says what runs the model, and why', { query: LOADED }, async page => {
  await loaded(page);
  assert.match(await page.textContent('#backend-name'), /^CPU · \d+ threads?$/);
  const reason = await page.evaluate(() => window.nucleus.model.backendReason);
  assert.ok(reason.length > 0);
  assert.equal(await page.textContent('#backend-reason'), reason);
  assert.equal(await page.isVisible('#backend-reason'), true, 'to be seen without a click');
  await page.evaluate(() => window.nucleus.unload());
  assert.equal(await page.isVisible('#backend'), false);
});

pageTest('the CPU engine on request: by call', {}, async page => {
  const { info, gpu } = await page.evaluate(async model => {
    const info = await window.nucleus.load(model, { backend: 'cpu' });
    return { info, gpu: (await window.nucleus.diagnostics()).gpu };
  }, MODEL);
  assert.deepEqual([info.backend, info.adapter, info.selfTest, gpu], ['cpu', null, null, null]);
});

pageTest('the CPU engine on request: by link and by the picker', {
  query: `?model=${MODEL}&backend=cpu&autoload=1`,
}, async page => {
  await loaded(page);
  assert.equal(await page.evaluate(() => window.nucleus.model.backend), 'cpu');
  assert.equal(await page.inputValue('#load-backend'), 'cpu', 'the control shows what the link asked for');
  await page.click('#model');
  assert.deepEqual(await page.locator('#load-backend option').evaluateAll(all => all.map(option => option.value)),
    ['auto', 'webgpu', 'cpu']);
  await page.getByLabel('Run on').selectOption('cpu');
  await page.evaluate(() => { window.before = window.nucleus.model; });
  await page.click('#load');
  await page.waitForFunction(() => window.nucleus.model && window.nucleus.model !== window.before, null, { timeout: 60_000 });
  assert.equal(await page.evaluate(() => window.nucleus.model.backend), 'cpu');
  assert.equal(await page.inputValue('#load-backend'), 'cpu', 'the choice stays for the next load');
});

pageTest('a link that names no backend is refused and loads nothing', {
  query: `?model=${MODEL}&backend=cuda&autoload=1`,
}, async page => {
  assert.equal(await page.getAttribute('#status', 'data-error'), 'bad-option');
  assert.match(await status(page), /"cuda": expected 'auto' or 'webgpu' or 'cpu'/);
  assert.equal(await page.isEnabled('#load'), true, 'no load is in progress');
  assert.equal(await page.inputValue('#load-backend'), 'auto');
});

pageTest('a long name is cut; the query of a URL is no part of it', {}, async page => {
  const tiny = new URL('../fixtures/tiny/llama-q4_1.gguf', import.meta.url).pathname;
  await page.route('**/tiny.gguf*', route => route.fulfill({ path: tiny, contentType: 'application/octet-stream' }));
  await page.evaluate(() => window.nucleus.load('tiny.gguf?download=true#part'));
  assert.match(await page.textContent('#model'), /^tiny · /);
  const kind = await page.evaluate(() => window.nucleus.load(new File(['no model'], 'x'.repeat(1e6))).catch(error => error.kind));
  assert.equal(kind, 'not-gguf');
  for (const id of ['model', 'status', 'progress-text', 'backend-reason']) {
    const text = await page.textContent(`#${id}`);
    assert.ok(text.length < 600, `#${id} has ${text.length} characters`);
  }
});

pageTest('a failed load from the controls is shown once', {}, async page => {
  await page.evaluate(() => {
    window.shown = 0;
    new MutationObserver(records => { window.shown += records.filter(({ target }) => target.hasAttribute('data-error')).length; })
      .observe(document.querySelector('#status'), { attributeFilter: ['data-error'] });
  });
  await page.setInputFiles('#model-file', { name: 'x.gguf', mimeType: '', buffer: Buffer.from('no model at all') });
  await page.waitForFunction(() => document.querySelector('#status').dataset.error === 'not-gguf');
  assert.equal(await page.evaluate(() => window.shown), 1);
  await page.fill('#model-url', ' ');
  await page.click('#load');
  await page.waitForFunction(() => document.querySelector('#status').dataset.error === 'bad-option');
  assert.equal(await page.evaluate(() => window.shown), 2, 'what is refused before it loads is shown, too');
});

pageTest('a local file is loaded by the picker', {}, async page => {
  await page.setInputFiles('#model-file', new URL('../fixtures/tiny/llama-q4_1.gguf', import.meta.url).pathname);
  await loaded(page);
  assert.equal(await page.isVisible('#picker'), false, 'the panel makes room');
  await generate(page, 4);
  await over(page);
  assert.equal(await chips(page).count(), 4);
});

pageTest('a file dropped anywhere on the page is loaded', {}, async page => {
  const bytes = [...fs.readFileSync(new URL('../fixtures/tiny/llama-q4_1.gguf', import.meta.url))];
  const wasTaken = await page.evaluate(bytes => {
    const dataTransfer = new DataTransfer();
    dataTransfer.items.add(new File([new Uint8Array(bytes)], 'dropped.gguf'));
    const event = name => new DragEvent(name, { dataTransfer, bubbles: true, cancelable: true });
    // A drop is only delivered where dragging over was allowed; dispatchEvent tells by false.
    return !document.querySelector('#output').dispatchEvent(event('dragover')) && !document.querySelector('#output').dispatchEvent(event('drop'));
  }, bytes);
  assert.equal(wasTaken, true);
  await loaded(page);
  assert.match(await page.textContent('#model'), /dropped/);
});

pageTest('while it generates: no long task, no layout shift', { query: LOADED, viewport: { width: 1280, height: 800 } }, async page => {
  await loaded(page);
  await page.evaluate(() => {
    window.seen = { tasks: [], shifts: [] };
    new PerformanceObserver(list => window.seen.tasks.push(...list.getEntries().map(entry => entry.duration)))
      .observe({ type: 'longtask' });
    new PerformanceObserver(list => window.seen.shifts.push(...list.getEntries().map(entry => [
      entry.value, ...entry.sources.map(source => `${source.node?.parentElement?.className}/${source.node?.nodeName}`)])))
      .observe({ type: 'layout-shift' });
  });
  // Tasks are timed by the wall clock, which a busy machine stretches at random: a task of ours would be long every time.
  const attempts = [];
  for (let i = 0; i < 5 && !attempts.some(tasks => tasks.length === 0); i += 1) {
    await page.evaluate(() => { window.seen.tasks.length = 0; });
    await generate(page, 120);
    await over(page, 90_000);
    await page.waitForTimeout(300);
    attempts.push(await page.evaluate(() => [...window.seen.tasks]));
  }
  assert.deepEqual(await page.evaluate(() => window.seen.shifts), [], 'layout shifts');
  assert.ok(attempts.some(tasks => tasks.length === 0), `main-thread tasks over 50 ms: ${JSON.stringify(attempts)}`);
});

pageTest('in a hidden tab a run goes on without frames', { query: LOADED }, async page => {
  await loaded(page);
  // Hidden for the page: what it asks, and the frames that it no longer gets.
  await page.evaluate(() => {
    Object.defineProperty(document, 'hidden', { get: () => true, configurable: true });
    window.requestAnimationFrame = () => 0;
    document.dispatchEvent(new Event('visibilitychange'));
  });
  await generate(page, 60);
  await over(page);
  assert.equal(await chips(page).count(), 60);
});

pageTest('a crashed engine fails its requests; the next load works without a reload', { query: LOADED }, async page => {
  // Keeps the worker that the page starts in reach of the test.
  await page.addInitScript(() => {
    const Original = window.Worker;
    window.Worker = class extends Original {
      constructor(...args) {
        super(...args);
        window.lastWorker = this;
      }
    };
  });
  await page.reload();
  await page.waitForFunction(() => window.nucleus?.model, null, { timeout: 60_000 });
  const outcome = await page.evaluate(async () => {
    let run;
    await new Promise(stepped => {
      run = window.nucleus.generate({ prompt: 'x', maxNewTokens: 2000 }, stepped).catch(error => error.kind);
    });
    // What a trap in the worker looks like from here.
    window.lastWorker.dispatchEvent(new ErrorEvent('error', { message: 'unreachable', cancelable: true }));
    return { kind: await run, model: window.nucleus.model };
  });
  assert.deepEqual(outcome, { kind: 'engine-failed', model: null });
  assert.equal(await page.getAttribute('#status', 'data-error'), 'engine-failed');
  const model = await page.evaluate(model => window.nucleus.load(model), MODEL);
  assert.equal(model.vocabSize, 49_152);
  await generate(page, 3);
  await over(page);
  assert.equal(await chips(page).count(), 3);
});

pageTest('a phone: nothing scrolls sideways, everything is there', {
  query: LOADED, viewport: { width: 390, height: 844 },
}, async page => {
  await loaded(page);
  await generate(page, 20);
  await over(page);
  const width = await page.evaluate(() => document.documentElement.scrollWidth);
  assert.ok(width <= 390, `${width} px wide`);
  for (const id of ['prompt', 'generate', 'kv-cache', 'tokens-per-second', 'candidates', 'exercise']) {
    await page.locator(`#${id}`).scrollIntoViewIfNeeded();
    const box = await page.locator(`#${id}`).boundingBox();
    assert.ok(box.x >= 0 && box.x + box.width <= 390.5, `${id} fits`);
  }
});

for (const viewport of [{ width: 390, height: 844 }, { width: 1280, height: 800 }]) {
  pageTest(`the text box shows whole lines only: ${viewport.width} px`, { query: LOADED, viewport }, async page => {
    await loaded(page);
    await generate(page, 150);
    await over(page);
    const { cut, n, scrolled } = await page.evaluate(() => {
      const output = document.querySelector('#output');
      const box = output.getBoundingClientRect();
      const rects = [...output.querySelectorAll('[data-index]')].map(chip => chip.getBoundingClientRect());
      const crosses = (rect, y) => rect.top < y - 1 && rect.bottom > y + 1;
      return {
        n: rects.length, scrolled: output.scrollTop,
        cut: rects.filter(rect => crosses(rect, box.top) || crosses(rect, box.bottom)).length,
      };
    });
    assert.ok(n > 50 && scrolled > 0, 'the text is longer than its box');
    assert.equal(cut, 0, 'chips cut in half');
  });
}

pageTest('the first screen shows what matters without scrolling', { viewport: { width: 1280, height: 800 } }, async page => {
  for (const id of ['prompt', 'generate', 'candidates', 'tokens-per-second', 'kv-cache']) {
    const box = await page.locator(`#${id}`).boundingBox();
    assert.ok(box.y >= 0 && box.y + box.height <= 800, `${id} ends at ${box.y + box.height}`);
  }
});

for (const colorScheme of ['light', 'dark']) {
  pageTest(`text keeps its contrast: ${colorScheme}`, { query: LOADED, colorScheme }, async page => {
    await loaded(page);
    await generate(page, 20);
    await over(page);
    const poor = await page.evaluate(() => {
      // Colours through a canvas, whatever notation they are in.
      const context = new OffscreenCanvas(1, 1).getContext('2d', { willReadFrequently: true });
      const over = colours => {
        for (const colour of colours) {
          context.fillStyle = colour;
          context.fillRect(0, 0, 1, 1);
        }
        return [...context.getImageData(0, 0, 1, 1).data].slice(0, 3);
      };
      const luminance = rgb => {
        const [r, g, b] = rgb.map(v => (v / 255 <= 0.04045 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4));
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
      };
      const found = [];
      const selector = 'p, b, button:enabled, label, summary, dt, dd, .token, .number, .chip, .line-text, th, td, h1, h2';
      for (const element of document.querySelectorAll(selector)) {
        if (!element.checkVisibility() || !element.textContent.trim()) continue;
        const grounds = [];
        for (let up = element; up; up = up.parentElement) grounds.unshift(getComputedStyle(up).backgroundColor);
        const ground = over(grounds);
        const ink = over([...grounds, getComputedStyle(element).color]);
        const [low, high] = [luminance(ground), luminance(ink)].sort((a, b) => a - b);
        const ratio = (high + 0.05) / (low + 0.05);
        if (ratio < 4.5) found.push(`${element.className || element.tagName} "${element.textContent.slice(0, 20)}": ${ratio.toFixed(2)}`);
      }
      return found;
    });
    assert.deepEqual(poor, []);
  });
}

pageTest('a server that answers with a web page is explained; then a good file loads', {}, async page => {
  await page.route('**/none.gguf', route => route.fulfill({ contentType: 'text/html', body: '<!DOCTYPE html><p>Not here' }));
  const kind = await page.evaluate(() => window.nucleus.load('models/none.gguf').catch(error => error.kind));
  assert.equal(kind, 'not-gguf');
  assert.equal(await page.getAttribute('#status', 'data-error'), 'not-gguf');
  assert.equal((await page.evaluate(model => window.nucleus.load(model), MODEL)).vocabSize, 49_152);
});
