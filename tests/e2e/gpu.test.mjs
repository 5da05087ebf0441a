// The model on WebGPU, in Chromium's software adapter: right numbers, and no more calls a token than are needed. A pass takes
// seconds there, so the tests count their tokens; what does not need the real model is done with a tiny one.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import { MODEL, engineWorker, loadFixture, pageTest } from './browser.mjs';
import { counter, gpuBuffers, gpuCalls, hardwareAdapter } from './gpu_scripts.mjs';

const fixture = name => JSON.parse(fs.readFileSync(new URL(`../fixtures/${name}`, import.meta.url), 'utf8'));
const llamaCpp = fixture('smollm2-135m-q4_1.json');
const exact = fixture('smollm2-135m-f32.json');

/** The tiny model whose shaders compile fastest, and one whose format has a kernel of our own on the CPU. */
const TINY = 'tiny/llama-bf16.gguf';
const TINY_Q4_0 = 'tiny/llama-q4_0.gguf';

const load = (page, backend) => page.evaluate(([url, backend]) => window.nucleus.load(url, { backend }), [MODEL, backend]);

/** A run; of each step, what the tests look at. */
const run = (page, options) => page.evaluate(async options => {
  const steps = [];
  const result = await window.nucleus.generate({ pace: 'free', ignoreEos: true, ...options }, step => steps.push({
    id: step.id, positionsComputed: step.positionsComputed, nucleusSize: step.nucleusSize, nCandidates: step.candidates.length,
    best: step.candidates[0]?.id, p: step.p,
  }));
  return { steps, result };
}, options);

/** The CPU engine, in place now, gives each token of the GPU's run the GPU's probability, as near as quantized activations allow. */
async function assertAgrees(page, options, onGpu, tolerance) {
  const onCpu = await run(page, { ...options, forceIds: onGpu.result.ids });
  for (const [i, { id, p }] of onCpu.steps.entries()) {
    const gpu = onGpu.steps[i];
    assert.equal(id, gpu.id);
    assert.ok(Math.abs(p - gpu.p) <= tolerance, `step ${i}: ${p} on the CPU, ${gpu.p} on the GPU`);
  }
}

/** Calls for each token after the first, from two runs of different lengths. */
async function callsPerToken(page, options, short, long) {
  const counts = [await gpuCalls(page)];
  for (const maxNewTokens of [short, long]) {
    assert.equal((await run(page, { ...options, maxNewTokens })).steps.length, maxNewTokens);
    counts.push(await gpuCalls(page));
  }
  const [before, afterShort, afterLong] = counts;
  return Object.fromEntries(Object.keys(before).map(call =>
    [call, (afterLong[call] - 2 * afterShort[call] + before[call]) / (long - short)]));
}

function assertFewCalls(calls, nLayers, dispatchesPerToken) {
  const { dispatch, write, mapBytes, ...others } = calls;
  assert.deepEqual(others, { adapter: 0, encoder: 1, pass: 1, submit: 1, map: 1, buffer: 0, bindGroup: 0, pipeline: 0 });
  assert.ok(write >= 1 && write <= 2, `${write} writes`);
  assert.ok(mapBytes > 0 && mapBytes <= 16_384, `${mapBytes} bytes read back`);
  assert.ok(dispatch <= 8 * nLayers + 8, `${dispatch} dispatches for ${nLayers} layers`);
  assert.equal(dispatch, dispatchesPerToken, 'diagnostics say how many there are');
}

// As the page sets it, and greedy without candidates.
const SAMPLING = [{ temperature: 0.7, topP: 0.9, candidates: 64, seed: 3 }, { temperature: 0, candidates: 0 }];

pageTest('the default model on WebGPU', { inject: [counter] }, async (page, t) => {
  const info = await load(page, 'webgpu');

  await t.test('the page says what runs the model and how it was tested', async () => {
    assert.equal(info.backend, 'webgpu');
    assert.match(info.adapter, /swiftshader/i);
    assert.ok(info.backendReason.includes(info.adapter), info.backendReason);
    const { passed, error, tolerance, nTokens, sameTop } = info.selfTest;
    assert.ok(passed && sameTop && nTokens >= 8 && error <= 5e-3 && error < tolerance, JSON.stringify(info.selfTest));
    assert.equal(await page.textContent('#backend-name'), `WebGPU · ${info.adapter}`);
    assert.equal(await page.textContent('#backend-reason'), info.backendReason);
    assert.match(await page.textContent('#self-test'), /^Self-test passed: over \d+ tokens the GPU's logits agree with the CPU/);
    assert.equal(await page.isVisible('#self-test'), true);
    const { backend, gpu } = await page.evaluate(() => window.nucleus.diagnostics());
    assert.equal(backend, 'webgpu');
    assert.deepEqual([gpu.adapter, gpu.software, gpu.failure], [info.adapter, true, null]);
    assert.deepEqual(gpu.selfTest, info.selfTest);
    assert.ok(gpu.limits.maxStorageBufferBindingSize >= 2 ** 27 && gpu.pipelines > 0 && gpu.compileMs > 0, JSON.stringify(gpu));
    // The weights stay quantized: beside the file there are the cache and the working memory only.
    assert.ok(gpu.bufferBytes > 0.9 * info.bytes && gpu.bufferBytes < 1.25 * info.bytes, `${gpu.bufferBytes} bytes of buffers`);
    assert.equal((await gpuBuffers(page)).bytes, gpu.bufferBytes, 'every buffer is accounted for');
  });

  await t.test('a token costs one submit, one pass, one map', async () => {
    const { gpu: { dispatchesPerToken } } = await page.evaluate(() => window.nucleus.diagnostics());
    for (const options of SAMPLING) {
      // One token of prompt, so that nothing is spent on prefill.
      assertFewCalls(await callsPerToken(page, { ids: [6403], ...options }, 2, 5), info.layers, dispatchesPerToken);
    }
  });

  await t.test('greedy tokens equal llama.cpp\'s wherever the margin is clear', async () => {
    const { ids, greedy, greedy_margin: margins } = llamaCpp.forward[1];
    const n = 10;
    const { steps } = await run(page, { ids, temperature: 0, maxNewTokens: n, forceIds: greedy.slice(0, n), candidates: 1 });
    assert.equal(steps.length, n);
    const clear = steps.filter((_, i) => margins[i] > 0.5);
    assert.ok(clear.length >= 8, `${clear.length} clear margins`);
    for (const [i, step] of steps.entries()) {
      if (margins[i] > 0.5) assert.equal(step.best, greedy[i], `step ${i}`);
    }
  });

  await t.test('logits are at least as near to float32 as the CPU engine\'s; the same probabilities on both', async () => {
    const wanted = exact.forward.map(({ ids, top_ids: known }) => ({ ids, known }));
    const logits = () => page.evaluate(async wanted => {
      const values = [];
      for (const { ids, known } of wanted) {
        const all = await window.nucleus.logits(ids);
        values.push({ n: all.length, known: known.map(id => all[id]) });
      }
      return values;
    }, wanted);
    const sampled = { ids: [6403], ...SAMPLING[0], maxNewTokens: 8 };
    const onGpu = { logits: await logits(), run: await run(page, sampled) };
    const submits = (await gpuCalls(page)).submit;
    assert.equal((await load(page, 'cpu')).backend, 'cpu');
    const onCpu = { logits: await logits() };
    await assertAgrees(page, sampled, onGpu.run, 0.1);
    assert.equal((await gpuCalls(page)).submit, submits, 'the CPU engine leaves the GPU alone');
    for (const [i, { ids, top_logits: expected }] of exact.forward.entries()) {
      const rms = ({ n, known }) => {
        assert.equal(n, 49152);
        return Math.sqrt(known.reduce((sum, x, j) => sum + (x - expected[j]) ** 2, 0) / known.length);
      };
      const [gpu, cpu] = [rms(onGpu.logits[i]), rms(onCpu.logits[i])];
      assert.ok(gpu <= cpu && gpu < 0.001, `${ids.length} tokens: ${gpu}, CPU ${cpu}`);
    }
    assert.ok(new Set(onGpu.run.result.ids).size > 4, 'no trivial text');
  });
});

pageTest('a tiny model on WebGPU: calls a token; cache on and off; the same probabilities on both engines', {
  inject: [counter],
}, async (page, t) => {
  const info = await loadFixture(page, TINY_Q4_0, { backend: 'webgpu' });
  assert.equal(info.backend, 'webgpu');
  const { gpu: { dispatchesPerToken } } = await page.evaluate(() => window.nucleus.diagnostics());
  const free = { ids: [3, 1, 4, 1, 5], temperature: 10, topP: 1, seed: 9, maxNewTokens: 24 };
  const on = await run(page, free);

  await t.test('a token costs one submit, one pass, one map', async () => {
    for (const options of SAMPLING) {
      assertFewCalls(await callsPerToken(page, { ids: [3, 1, 4], ...options }, 2, 10), info.layers, dispatchesPerToken);
    }
  });

  await t.test('without the cache the tokens are the same', async () => {
    const off = await run(page, { ...free, kvCache: false });
    assert.deepEqual(off.result.ids, on.result.ids);
    assert.deepEqual(on.steps.map(step => step.positionsComputed), [5, ...Array(23).fill(1)]);
    assert.deepEqual(off.steps.map(step => step.positionsComputed), Array.from({ length: 24 }, (_, i) => 5 + i));
    assert.ok(new Set(on.result.ids).size > 12, 'no trivial text');
    assert.deepEqual(await run(page, free).then(again => again.steps), on.steps, 'and again with it');
  });

  await t.test('the CPU engine gives the same probabilities', async () => {
    assert.equal((await loadFixture(page, TINY_Q4_0, { backend: 'cpu' })).backend, 'cpu');
    await assertAgrees(page, free, on, 0.002);
  });
});

pageTest('Stop ends a prefill and a decode on the GPU', { inject: [counter] }, async page => {
  await loadFixture(page, TINY, { backend: 'webgpu' });
  const fresh = { ids: [2, 7, 1], temperature: 1, seed: 4, maxNewTokens: 6 };
  const before = await run(page, fresh);
  // Four batches of 128; Stop comes while the first one is computed.
  const worker = engineWorker(page);
  const firstBatch = worker.evaluate(() => new Promise(resolve => {
    const { submit } = self.GPUQueue.prototype;
    self.GPUQueue.prototype.submit = function (commands) {
      self.GPUQueue.prototype.submit = submit;
      resolve();
      return submit.call(this, commands);
    };
  }));
  const stopped = run(page, { ids: Array.from({ length: 500 }, (_, i) => i % 256), maxNewTokens: 4 });
  await firstBatch;
  await page.evaluate(() => window.nucleus.stop());
  const { steps, result } = await stopped;
  assert.deepEqual([result.stopReason, steps.length], ['cancelled', 0]);

  const decode = await page.evaluate(() => window.nucleus.generate(
    { ids: [2], maxNewTokens: 400, ignoreEos: true, pace: 'free' }, step => { if (step.index === 4) window.nucleus.stop(); }));
  assert.equal(decode.stopReason, 'cancelled');
  assert.ok(decode.newTokens >= 5 && decode.newTokens < 400, `${decode.newTokens} tokens`);
  assert.deepEqual(await run(page, fresh).then(again => again.steps), before.steps, 'the next run is as if nothing had been');
});

pageTest('a model\'s GPU memory goes with it', { inject: [counter] }, async page => {
  const bytes = async () => (await gpuBuffers(page)).bytes;
  await loadFixture(page, TINY, { backend: 'webgpu' });
  const first = await bytes();
  assert.ok(first > 0);
  await loadFixture(page, TINY, { backend: 'webgpu' });
  assert.equal(await bytes(), first, 'only the second model is there');
  assert.equal((await gpuBuffers(page)).peakBytes, first, 'and the first went before the second came');
  await page.evaluate(() => window.nucleus.unload());
  assert.equal(await bytes(), 0);
});

pageTest('auto leaves a software adapter alone and takes a hardware one; cpu asks for none', {
  inject: [counter],
}, async page => {
  const software = await loadFixture(page, TINY, { backend: 'auto' });
  assert.deepEqual([software.backend, software.adapter, software.selfTest], ['cpu', null, null]);
  assert.match(software.backendReason, /software/);
  assert.equal(await page.textContent('#backend-reason'), software.backendReason);
  assert.match(await page.textContent('#backend-name'), /^CPU/);
  assert.equal((await page.evaluate(() => window.nucleus.diagnostics())).gpu.software, true);
  const asked = (await gpuCalls(page)).adapter;
  assert.ok(asked > 0);
  const cpu = await loadFixture(page, TINY, { backend: 'cpu' });
  assert.deepEqual([cpu.backend, cpu.backendReason], ['cpu', 'The CPU engine was asked for.']);
  assert.equal((await page.evaluate(() => window.nucleus.diagnostics())).gpu, null);
  assert.equal((await gpuCalls(page)).adapter, asked);
  await engineWorker(page).evaluate(hardwareAdapter);
  const hardware = await loadFixture(page, TINY);
  assert.deepEqual([hardware.backend, hardware.selfTest.passed], ['webgpu', true]);
});
