// WebGPU that is missing, refuses, computes something else or is lost: each time a reason on the page, the text kept, and a next
// run that works.
import assert from 'node:assert/strict';
import { MODEL, engineWorker, loadFixture, pageTest } from './browser.mjs';
import {
  bindingLimit, changedShader, counter, defaultLimits, failingDevice, fullMemory, gpuBuffers, hardwareAdapter, internalError,
  noAdapter, noDevice, noWebGpu, throwingBuffers,
} from './gpu_scripts.mjs';

/** The tiny model whose shaders compile fastest. */
const TINY = 'tiny/llama-bf16.gguf';
const loadTiny = (page, backend = 'webgpu') => loadFixture(page, TINY, { backend });

const RUN = { ids: [2, 7, 1], temperature: 1, seed: 4, maxNewTokens: 6, ignoreEos: true };
const ids = (page, options = RUN) => page.evaluate(async options => (await window.nucleus.generate(options)).ids, options);
/** What a refused run or load says. */
const refusal = promise => promise.then(() => assert.fail('it was not refused'), error => error);
const model = page => page.evaluate(() => window.nucleus.model);
const chips = page => page.locator('#output [data-index]').count();

/** The CPU engine runs `info`'s model, for a reason that matches `reason` and is on the page, and a run works. */
async function assertOnCpu(page, info, reason) {
  assert.deepEqual([info.backend, info.adapter], ['cpu', null]);
  assert.match(info.backendReason, /^The CPU engine runs/);
  assert.match(info.backendReason, reason);
  assert.match(await page.textContent('#backend-name'), /^CPU/);
  // The page cuts what is longer than anyone would read.
  const shown = await page.textContent('#backend-reason');
  assert.ok(info.backendReason.startsWith(shown.replace(/…$/, '')) && shown.length > 40, shown);
  assert.deepEqual(await model(page), info);
  assert.equal((await ids(page)).length, RUN.maxNewTokens);
  assert.equal(await chips(page), RUN.maxNewTokens);
  const { backend, gpu } = await page.evaluate(() => window.nucleus.diagnostics());
  assert.equal(backend, 'cpu');
  if (gpu) assert.equal(gpu.failure, info.backendReason);
  assert.equal((await gpuBuffers(page)).bytes, 0, 'no GPU memory is held for nothing');
}

pageTest('no WebGPU in this browser: the CPU engine', { inject: [noWebGpu, counter] }, async page => {
  await assertOnCpu(page, await loadTiny(page), /no WebGPU adapter/);
  await assertOnCpu(page, await loadTiny(page, 'auto'), /no WebGPU adapter/);
});

pageTest('no adapter: the CPU engine, and a reason that is one short sentence', { inject: [noAdapter, counter] }, async page => {
  await assertOnCpu(page, await loadTiny(page), /no WebGPU adapter/);
  await assertOnCpu(page, await loadTiny(page, 'auto'), /no WebGPU adapter/);
  const { backendReason, backendRefusal } = await model(page);
  assert.match(backendReason, /^The CPU engine runs\. There is no WebGPU adapter here\./);
  assert.ok(backendReason.length < 140 && backendRefusal.length > 0, `${backendReason} | ${backendRefusal}`);
  assert.ok((await page.textContent('#backend-details')).includes(backendRefusal.slice(0, 150)), 'the details have the whole of it');
});

pageTest('an adapter that gives no device: the CPU engine', { inject: [noDevice, counter] }, async page => {
  await assertOnCpu(page, await loadTiny(page), /gives no device\./);
  assert.match((await model(page)).backendRefusal, /The driver gave up\./);
});

pageTest('limits too small for the model: the CPU engine', { inject: [bindingLimit(256), counter] }, async page => {
  await assertOnCpu(page, await loadTiny(page), /Two rows of `\w+\.weight` exceed a GPU binding/);
});

pageTest('a GPU that is full at layer 17: the CPU engine', { inject: [counter, fullMemory('blk.17.')] }, async page => {
  const info = await page.evaluate(url => window.nucleus.load(url, { backend: 'webgpu' }), MODEL);
  await assertOnCpu(page, info, /The GPU has no memory left for this model/);
});

pageTest('a shader that the browser refuses: the CPU engine', {
  inject: [changedShader('attention', 'fn main(', 'fn main(nonsense '), counter],
}, async page => {
  const info = await loadTiny(page);
  assert.ok(await engineWorker(page).evaluate(() => self.nReplaced > 0), 'a shader was changed');
  await assertOnCpu(page, info, /The GPU refused a part of the work .*attention/s);
});

pageTest('an internal error of the driver: the CPU engine', { inject: [internalError, counter] }, async page => {
  await assertOnCpu(page, await loadTiny(page), /The driver broke\./);
});

// One kernel each of three kinds: what decode adds to X, the list of the likeliest tokens, the sums over all.
const WRONG = [
  ['matvec', '] += y.x', '] -= y.x', /its logits differ by \S+ of their size/],
  ['collect_best', 'vec2(i, bitcast', 'vec2(i + 1u, bitcast', /it finds other tokens the likeliest/],
  ['logit_sums', 'vec4(0.0, weight,', 'vec4(0.0, 2.0 * weight,', /other sums over all/],
];
for (const [label, from, to, reason] of WRONG) {
  pageTest(`a kernel that computes something else (${label}): the self-test says so and the CPU engine runs`, {
    inject: [changedShader(label, from, to), counter],
  }, async page => {
    const info = await loadTiny(page);
    assert.ok(await engineWorker(page).evaluate(() => self.nReplaced > 0), 'a shader was changed');
    assert.equal(info.selfTest.passed, false);
    await assertOnCpu(page, info, reason);
    assert.match(await page.textContent('#self-test'), /^Self-test failed: .* so the CPU engine runs\.$/);
  });
}

pageTest('a hardware adapter with default limits: auto takes WebGPU', {
  inject: [hardwareAdapter, defaultLimits],
}, async page => {
  const info = await loadTiny(page, 'auto');
  assert.deepEqual([info.backend, info.selfTest.passed], ['webgpu', true]);
  const { gpu: { limits } } = await page.evaluate(() => window.nucleus.diagnostics());
  assert.deepEqual([limits.maxBufferSize, limits.maxStorageBufferBindingSize], [2 ** 28, 2 ** 27]);
  assert.equal((await ids(page)).length, RUN.maxNewTokens);
});

pageTest('a GPU that fails in a run: the text is kept, the next run is the CPU engine\'s', {
  inject: [counter, failingDevice],
}, async page => {
  await loadTiny(page, 'cpu');
  const onCpu = await ids(page);
  // The results may fail to come before the browser says why.
  const lost = /The GPU (was lost: it was destroyed|did not give its results back)/;
  for (const [how, reason] of [['lost', lost], ['error', /The GPU reported an error/]]) {
    assert.equal((await loadTiny(page)).backend, 'webgpu');
    await engineWorker(page).evaluate(how => self.failAfter(3, how), how);
    const { kind, message, steps } = await page.evaluate(async options => {
      let steps = 0;
      return window.nucleus.generate(options, () => { steps += 1; })
        .then(() => ({}), ({ kind, message }) => ({ kind, message, steps }));
    }, { ...RUN, maxNewTokens: 40 });
    assert.equal(kind, 'device-lost');
    assert.match(message, reason);
    // An error outside any scope is heard of after the results that it spoils nothing of.
    assert.ok(how === 'lost' ? steps === 3 : steps >= 3 && steps < 40, `${steps} steps`);
    assert.equal(await chips(page), steps, 'the text is still there');
    const status = await page.textContent('#status');
    assert.match(status, /^The GPU stopped working\./);
    assert.match(status, reason);
    const info = await model(page);
    await assertOnCpu(page, info, reason);
    assert.deepEqual(await ids(page), onCpu);
  }
});

pageTest('a GPU that fails between runs: the next run is the CPU engine\'s', { inject: [counter, failingDevice] }, async page => {
  await loadTiny(page);
  await engineWorker(page).evaluate(() => self.failNow('lost'));
  assert.equal((await ids(page)).length, RUN.maxNewTokens);
  await assertOnCpu(page, await model(page), /The GPU was lost: it was destroyed/);
});

pageTest('no GPU memory for a longer cache: that run is refused, a shorter one works', { inject: [fullMemory()] }, async page => {
  await loadTiny(page);
  const before = await ids(page);
  await engineWorker(page).evaluate(() => { self.fullFor = 'keys'; });
  const { message } = await refusal(ids(page, { ...RUN, maxNewTokens: 300 }));
  assert.match(message, /The GPU has no memory left/);
  assert.match(await page.textContent('#status'), /The GPU has no memory left/);
  assert.equal((await model(page)).backend, 'webgpu');
  assert.deepEqual(await ids(page), before);
});

pageTest('a browser that throws where WebGPU never does: the engine ends, and a fresh one works', {
  inject: [throwingBuffers], provoked: [/panicked at/, /unreachable/],
}, async page => {
  const { message } = await refusal(loadTiny(page));
  assert.match(message, /unreachable|engine/);
  assert.match(await page.textContent('#status'), /^The engine stopped\./);
  assert.equal(await model(page), null);
  assert.equal((await loadTiny(page, 'cpu')).backend, 'cpu');
  assert.equal((await ids(page)).length, RUN.maxNewTokens);
});

// The last test: from its second crash on, Chromium has no GPU for anyone.
pageTest('a GPU process that crashes in a run: the text is kept, the next run is the CPU engine\'s', {
  inject: [counter],
}, async page => {
  assert.equal((await loadTiny(page)).backend, 'webgpu');
  const run = page.evaluate(options => window.nucleus.generate(options).then(() => 'finished', error => error.kind),
    { ...RUN, maxNewTokens: 500 });
  await page.waitForFunction(() => document.querySelectorAll('#output [data-index]').length >= 3);
  const session = await page.context().browser().newBrowserCDPSession();
  await session.send('Browser.crashGpuProcess');
  assert.equal(await run, 'device-lost');
  const n = await chips(page);
  assert.ok(n >= 3 && n < 500, `${n} tokens are still there`);
  assert.match(await page.textContent('#status'), /^The GPU stopped working\. .* press Generate\.$/);
  await assertOnCpu(page, await model(page), /the GPU failed/);
});
