// Calls that get in each other's way, prompts of awkward lengths: each ends in a defined way, and the next run works.
// (Hidden tabs are in page.test.mjs, GPUs that fail in gpu_failures.test.mjs.)
import assert from 'node:assert/strict';
import { MODEL, loadFixture, pageTest } from './browser.mjs';
import { bindingLimit, counter, gpuBuffers } from './gpu_scripts.mjs';

const TINY = 'tiny/llama-q4_1.gguf';
const tiny = new URL(`../fixtures/${TINY}`, import.meta.url).pathname;
const loadTiny = (page, options = {}) => loadFixture(page, TINY, { backend: 'cpu', ...options });
const endOf = promise => promise.then(({ stopReason }) => stopReason, error => error.kind);

/** Serves the tiny model as `tiny.gguf`, and as `slow.gguf` when `page.release()` has been called. */
async function serveTiny(page) {
  const answer = route => route.fulfill({ path: tiny, contentType: 'application/octet-stream' });
  const released = new Promise(resolve => { page.release = resolve; });
  await page.route('**/tiny.gguf', answer);
  // A request that was aborted meanwhile can no longer be answered.
  await page.route('**/slow.gguf', route => released.then(() => answer(route)).catch(() => {}));
  await page.evaluate(() => {
    window.LONG = { ids: [2, 7, 1], maxNewTokens: 400, ignoreEos: true, seed: 1 };
    /** How each of the promises ends: its error's kind, its stop reason, its model, or else `done`. */
    window.ends = async promises => {
      const end = promise => promise.then(value => value?.stopReason ?? value?.architecture ?? 'done', error => error.kind ?? `${error}`);
      return Object.fromEntries(await Promise.all(Object.entries(promises).map(async ([name, promise]) => [name, await end(promise)])));
    };
    /** A run that has made its first step. */
    window.begun = () => new Promise(resolve => {
      const run = window.nucleus.generate(window.LONG, ({ index }) => { if (index === 0) resolve({ run }); });
    });
    window.load = name => window.nucleus.load(name, { backend: 'cpu' });
  });
}

/** The page says that nothing goes on, and a run works. */
async function assertWorks(page) {
  const { ids } = await page.evaluate(() => window.nucleus.generate({ ...window.LONG, maxNewTokens: 4 }));
  assert.equal(ids.length, 4);
  assert.equal(await page.locator('#output [data-index]').count(), 4);
  assert.equal(await page.isDisabled('#stop'), true, 'there is nothing to stop');
  assert.equal(await page.isEnabled('#generate'), true);
}

pageTest('calls that get in each other\'s way end as busy or cancelled, and the next run works', {}, async (page, t) => {
  await serveTiny(page);
  await loadTiny(page);
  /** `calls` runs in the page; what it returns is how each of its promises ended. */
  const overlap = (name, calls, expected) => t.test(name, async () => {
    assert.deepEqual(await page.evaluate(calls), expected);
    await assertWorks(page);
  });

  await overlap('Generate twice', async () => {
    const { generate } = window.nucleus;
    return window.ends({ first: generate({ ...window.LONG, maxNewTokens: 9 }), second: generate(window.LONG) });
  }, { first: 'length', second: 'busy' });
  await overlap('Generate twice, in the middle', async () => {
    const { run } = await window.begun();
    const second = await window.ends({ second: window.nucleus.generate(window.LONG), logits: window.nucleus.logits([1, 2]) });
    await window.nucleus.stop();
    return { ...await window.ends({ run }), ...second };
  }, { run: 'cancelled', second: 'busy', logits: 'busy' });
  await overlap('Stop, then Generate at once', async () => {
    const { run } = await window.begun();
    return window.ends({ run, stop: window.nucleus.stop(), next: window.nucleus.generate(window.LONG) });
  }, { run: 'cancelled', stop: 'done', next: 'busy' });
  await overlap('Stop many times, then Generate when the first of them is done', async () => {
    const { run } = await window.begun();
    const stops = [1, 2, 3].map(() => window.nucleus.stop());
    const next = stops[0].then(() => window.nucleus.generate({ ...window.LONG, maxNewTokens: 9 }));
    return window.ends({ run, next, ...stops });
  }, { run: 'cancelled', next: 'length', 0: 'done', 1: 'done', 2: 'done' });
  await overlap('Stop with nothing to stop', () => window.ends({ stop: window.nucleus.stop() }), { stop: 'done' });
  await overlap('a load in the middle of a run', async () => {
    const { run } = await window.begun();
    return window.ends({ run, load: window.load('tiny.gguf') });
  }, { run: 'cancelled', load: 'llama' });
  await overlap('a load in the middle of a run, and Generate as soon as that run is over', async () => {
    const { run } = await window.begun();
    const load = window.load('tiny.gguf');
    return window.ends({ run, load, next: run.then(() => window.nucleus.generate(window.LONG)) });
  }, { run: 'cancelled', load: 'llama', next: 'no-model' });
  await overlap('unload in the middle of a run', async () => {
    const { run } = await window.begun();
    const ends = await window.ends({ run, unload: window.nucleus.unload() });
    const without = await window.ends({ next: window.nucleus.generate(window.LONG) });
    return { ...ends, ...without, ...await window.ends({ load: window.load('tiny.gguf') }) };
  }, { run: 'cancelled', unload: 'done', next: 'no-model', load: 'llama' });
  await overlap('two loads', () => window.ends({ first: window.load('tiny.gguf'), second: window.load('tiny.gguf') }),
    { first: 'llama', second: 'busy' });
  await overlap('a file dropped in the middle of a run', async () => {
    const { run } = await window.begun();
    const before = window.nucleus.model;
    const dataTransfer = new DataTransfer();
    dataTransfer.items.add(new File([await (await fetch('tiny.gguf')).blob()], 'dropped.gguf'));
    document.body.dispatchEvent(new DragEvent('drop', { dataTransfer, bubbles: true, cancelable: true }));
    const ends = await window.ends({ run });
    while (!window.nucleus.model || window.nucleus.model === before) await new Promise(resolve => setTimeout(resolve, 10));
    return ends;
  }, { run: 'cancelled' });
  await overlap('calls within a call of onStep', async () => {
    const { detokenize, diagnostics, generate } = window.nucleus;
    let inside;
    const run = generate({ ...window.LONG, maxNewTokens: 6 }, ({ index }) => {
      if (index === 1) inside = window.ends({ next: generate(window.LONG), text: detokenize([1]), diagnostics: diagnostics() });
    });
    return { ...await window.ends({ run }), ...await inside };
  }, { run: 'length', next: 'busy', text: 'done', diagnostics: 'done' });

  await t.test('buttons pressed faster than anything can answer', async () => {
    await page.fill('#max-tokens', '300');
    await page.evaluate(() => {
      const press = id => document.querySelector(`#${id}`).click();
      for (const id of ['generate', 'generate', 'stop', 'generate', 'step', 'stop', 'stop', 'step', 'generate']) press(id);
    });
    await page.waitForTimeout(200);
    await page.keyboard.press('Escape');
    await page.waitForFunction(() => document.querySelector('#stop').disabled);
    await assertWorks(page);
  });

  await t.test('calls while a model is loading', async () => {
    await page.evaluate(() => {
      const { diagnostics, generate, logits, tokenize } = window.nucleus;
      window.during = window.ends({
        first: window.load('slow.gguf'), second: window.load('tiny.gguf'), generate: generate(window.LONG),
        // The engine answers these between two pieces of the download.
        logits: logits([1]), tokenize: tokenize('x'), diagnostics: diagnostics(),
      });
    });
    page.release();
    assert.deepEqual(await page.evaluate(() => window.during), {
      first: 'llama', second: 'busy', generate: 'no-model', logits: 'busy', tokenize: 'no-model', diagnostics: 'done',
    });
    await assertWorks(page);
  });
});

pageTest('unload while a model is loading ends the load', {}, async page => {
  await serveTiny(page);
  const ends = await page.evaluate(async () => {
    const load = window.load('slow.gguf');
    return window.ends({ load, unload: window.nucleus.unload() });
  });
  assert.deepEqual(ends, { load: 'cancelled', unload: 'done' });
  assert.equal(await page.evaluate(() => window.nucleus.model), null);
  await loadTiny(page);
  await assertWorks(page);
});

pageTest('prompts of no, few and too many tokens', {}, async (page, t) => {
  await serveTiny(page);
  const CONTEXT = 16;
  await loadTiny(page, { contextLength: CONTEXT });
  const generate = options => endOf(page.evaluate(async options => {
    const { stopReason, promptTokens, newTokens } = await window.nucleus.generate(options)
      .catch(({ kind, message }) => ({ stopReason: kind, promptTokens: message.length > 0 && message.length < 300, newTokens: 0 }));
    return { stopReason: `${stopReason} ${promptTokens} ${newTokens}` };
  }, { maxNewTokens: 40, ignoreEos: true, seed: 1, ...options }));
  const ids = n => Array.from({ length: n }, (_, i) => 20 + i);
  for (const [what, options, expected] of [
    ['an empty prompt', { prompt: '' }, 'empty-prompt true 0'],
    ['no ids', { ids: [] }, 'empty-prompt true 0'],
    ['one space', { prompt: ' ', maxNewTokens: 3 }, /^length [12] 3$/],
    ['one token', { ids: ids(1), maxNewTokens: 3 }, 'length 1 3'],
    ['context - 1', { ids: ids(CONTEXT - 1) }, `context ${CONTEXT - 1} 1`],
    ['context', { ids: ids(CONTEXT) }, `context ${CONTEXT} 0`],
    ['context + 1', { ids: ids(CONTEXT + 1) }, 'prompt-too-long true 0'],
    ['context - 1, without the cache', { ids: ids(CONTEXT - 1), kvCache: false }, `context ${CONTEXT - 1} 1`],
    ['context, without the cache', { ids: ids(CONTEXT), kvCache: false }, `context ${CONTEXT} 0`],
    ['no tokens asked for', { ids: ids(3), maxNewTokens: 0 }, 'bad-option true 0'],
    ['an id past the vocabulary', { ids: [2 ** 32 - 1] }, 'bad-token true 0'],
  ]) {
    await t.test(what, async () => {
      const end = await generate(options);
      if (expected instanceof RegExp) assert.match(end, expected);
      else assert.equal(end, expected);
      await assertWorks(page);
    });
  }
  await t.test('an empty prompt, from the form', async () => {
    await page.fill('#prompt', '');
    await page.click('#generate');
    await page.waitForFunction(() => document.querySelector('#status').dataset.error === 'empty-prompt');
    await assertWorks(page);
  });
});

pageTest('100,000 characters: read in time, refused where they do not fit, and the page goes on', {}, async (page, t) => {
  await serveTiny(page);
  await page.evaluate(model => window.nucleus.load(model, { backend: 'cpu' }), MODEL);
  const { times, wrong } = await page.evaluate(async () => {
    const texts = n => ({
      'one letter': 'a'.repeat(n), spaces: ' '.repeat(n), newlines: '\n'.repeat(n), digits: '7'.repeat(n),
      'characters, all different': Array.from({ length: n }, (_, i) => String.fromCodePoint(0x10000 + i)).join(''),
      emoji: Array.from({ length: n }, (_, i) => String.fromCodePoint(0x1f300 + i * 7919 % 0x2ff)).join(''),
    });
    const [times, wrong] = [{}, []];
    const read = async text => {
      const start = performance.now();
      const ids = (await window.nucleus.tokenize(text)).map(token => token.id);
      const took = Math.round(performance.now() - start);
      if (await window.nucleus.detokenize(ids) !== text) wrong.push(text.slice(0, 9));
      return took;
    };
    const [short, long] = [texts(10_000), texts(100_000)];
    for (const what of Object.keys(long)) {
      // On a busy machine a single measurement means little. What is quadratic takes a hundred times as long for ten times as much.
      for (let i = 0; i < 5 && !(times[what]?.isLinear); i += 1) {
        const [few, many] = [await read(short[what]), await read(long[what])];
        times[what] = { few, many, isLinear: many < 1500 || many < 40 * few };
      }
    }
    return { times, wrong };
  });
  t.diagnostic(`milliseconds for 10,000 and 100,000: ${JSON.stringify(times)}`);
  assert.deepEqual(wrong, [], 'texts that came back as others');
  assert.ok(Object.values(times).every(({ isLinear }) => isLinear), JSON.stringify(times));
  await page.fill('#prompt', 'a'.repeat(100_000));
  await page.click('#generate');
  await page.waitForFunction(() => document.querySelector('#status').dataset.error === 'prompt-too-long', null, { timeout: 60_000 });
  await page.fill('#prompt', 'Hello');
  await assertWorks(page);
});

// A cache of 256 positions takes exactly this, the embedding of this model 256 rows of 512 bytes and more.
const LIMIT = 1 << 17;
pageTest('a binding limit below the embedding\'s size: the GPU takes it in parts', { inject: [bindingLimit(LIMIT), counter] }, async page => {
  const info = await loadFixture(page, 'tiny/llama-bf16.gguf', { backend: 'webgpu', contextLength: 64 });
  assert.deepEqual([info.backend, info.selfTest?.passed], ['webgpu', true], info.backendReason);
  const { gpu } = await page.evaluate(() => window.nucleus.diagnostics());
  assert.equal(gpu.limits.maxStorageBufferBindingSize, LIMIT);
  assert.ok((await gpuBuffers(page)).bytes > LIMIT);
});
