// What is injected into page and worker (`inject` of pageTest) to watch WebGPU, or to make it fail in one way. Each script is a
// function's own text, so it sees nothing of this file; `self` is the page's window or the worker's global scope.

import { engineWorker } from './browser.mjs';

/** The script that calls `f` with `values`. */
const script = (f, ...values) => `(${f})(${values.map(value => JSON.stringify(value)).join(', ')});`;

/**
 * Counts calls in `self.gpuCalls` and the buffers that nobody has released in `self.gpuBuffers`. What is counted, and that
 * it is taken from the prototypes of WebGPU's interfaces, follows the counter that the project is measured with.
 */
export const counter = script(() => {
  const calls = { adapter: 0, encoder: 0, pass: 0, dispatch: 0, submit: 0, write: 0, map: 0, mapBytes: 0, buffer: 0, bindGroup: 0,
    pipeline: 0 };
  const buffers = { bytes: 0, peakBytes: 0 };
  const bytesOf = new Map(); // by device
  const deviceOf = new WeakMap(); // by buffer
  const watch = (type, name, see) => {
    const original = self[type].prototype[name];
    self[type].prototype[name] = function (...values) {
      const result = original.apply(this, values);
      see(this, values, result);
      return result;
    };
  };
  const hold = (device, bytes) => {
    bytesOf.set(device, (bytesOf.get(device) ?? 0) + bytes);
    buffers.bytes += bytes;
    buffers.peakBytes = Math.max(buffers.peakBytes, buffers.bytes);
  };
  watch('GPU', 'requestAdapter', () => { calls.adapter += 1; });
  watch('GPUDevice', 'createCommandEncoder', () => { calls.encoder += 1; });
  watch('GPUCommandEncoder', 'beginComputePass', () => { calls.pass += 1; });
  watch('GPUComputePassEncoder', 'dispatchWorkgroups', () => { calls.dispatch += 1; });
  watch('GPUComputePassEncoder', 'dispatchWorkgroupsIndirect', () => { calls.dispatch += 1; });
  watch('GPUQueue', 'submit', () => { calls.submit += 1; });
  watch('GPUQueue', 'writeBuffer', () => { calls.write += 1; });
  watch('GPUBuffer', 'mapAsync', (buffer, [, , size]) => { calls.map += 1; calls.mapBytes += size ?? buffer.size; });
  watch('GPUDevice', 'createBindGroup', () => { calls.bindGroup += 1; });
  watch('GPUDevice', 'createComputePipeline', () => { calls.pipeline += 1; });
  watch('GPUDevice', 'createComputePipelineAsync', () => { calls.pipeline += 1; });
  watch('GPUDevice', 'createBuffer', (device, _, buffer) => {
    calls.buffer += 1;
    deviceOf.set(buffer, device);
    hold(device, buffer.size);
  });
  watch('GPUBuffer', 'destroy', buffer => {
    // Once each; a device that is gone has taken its buffers along.
    const device = deviceOf.get(buffer);
    if (deviceOf.delete(buffer) && bytesOf.has(device)) hold(device, -buffer.size);
  });
  watch('GPUDevice', 'destroy', device => {
    buffers.bytes -= bytesOf.get(device) ?? 0;
    bytesOf.delete(device);
  });
  Object.assign(self, { gpuCalls: calls, gpuBuffers: buffers });
});

/** `self[name]` of the counter, summed over the page and its workers. */
async function sum(page, name) {
  const total = {};
  for (const realm of [page, engineWorker(page)].filter(Boolean)) {
    for (const [key, value] of Object.entries(await realm.evaluate(name => self[name], name))) {
      total[key] = (total[key] ?? 0) + value;
    }
  }
  return total;
}
export const gpuCalls = page => sum(page, 'gpuCalls');
export const gpuBuffers = page => sum(page, 'gpuBuffers');

/** A browser without WebGPU. */
export const noWebGpu = script(() => { delete Object.getPrototypeOf(self.navigator).gpu; });

/** A browser with WebGPU, but no GPU that it would use. */
export const noAdapter = script(() => { self.GPU.prototype.requestAdapter = async () => null; });

/** An adapter that gives no device. */
export const noDevice = script(() => {
  self.GPUAdapter.prototype.requestDevice = async () => { throw new DOMException('The driver gave up.', 'OperationError'); };
});

/** The software adapter passes for a graphics card. */
export const hardwareAdapter = script(() => {
  Object.defineProperty(self.GPUAdapterInfo.prototype, 'isFallbackAdapter', { get: () => false });
});

/** Devices with the limits that every adapter has. */
export const defaultLimits = script(() => {
  const original = self.GPUAdapter.prototype.requestDevice;
  self.GPUAdapter.prototype.requestDevice = function (descriptor) {
    return original.call(this, { ...descriptor, requiredLimits: {} });
  };
});

/** Devices that bind no more than `bytes`. */
export const bindingLimit = bytes => script(bytes => {
  Object.defineProperty(self.GPUSupportedLimits.prototype, 'maxStorageBufferBindingSize', { get: () => bytes });
}, bytes);

/**
 * The buffers whose label starts with `self.fullFor` get no memory: invalid buffers, and an out-of-memory error in the
 * innermost scope for it. A browser cannot be made to run out of memory on demand, so its answer is put into its mouth.
 */
export const fullMemory = (fullFor = null) => script(fullFor => {
  self.fullFor = fullFor;
  const scopes = [];
  const { createBuffer, pushErrorScope, popErrorScope } = self.GPUDevice.prototype;
  self.GPUDevice.prototype.pushErrorScope = function (filter) {
    scopes.push({ filter, isFull: false });
    return pushErrorScope.call(this, filter);
  };
  self.GPUDevice.prototype.popErrorScope = function () {
    const { isFull } = scopes.pop();
    const answer = popErrorScope.call(this);
    return isFull ? answer.then(() => new self.GPUOutOfMemoryError('Not enough memory left.')) : answer;
  };
  self.GPUDevice.prototype.createBuffer = function (descriptor) {
    if (self.fullFor === null || !descriptor.label?.startsWith(self.fullFor)) return createBuffer.call(this, descriptor);
    const scope = scopes.findLast(scope => scope.filter === 'out-of-memory');
    if (!scope) throw new Error(`"${descriptor.label}" is made outside an error scope`);
    scope.isFull = true;
    pushErrorScope.call(this, 'validation');
    const buffer = createBuffer.call(this, { ...descriptor, size: 2 ** 52 });
    popErrorScope.call(this);
    return buffer;
  };
}, fullFor);

/** WebGPU never throws when a buffer is made, unless it is mapped at once; this browser does. */
export const throwingBuffers = script(() => {
  self.GPUDevice.prototype.createBuffer = () => { throw new RangeError('No buffer today.'); };
});

/** An error of the kind that drivers cause, in the first scope that waits for one. */
export const internalError = script(() => {
  const scopes = [];
  const { pushErrorScope, popErrorScope } = self.GPUDevice.prototype;
  self.GPUDevice.prototype.pushErrorScope = function (filter) {
    scopes.push(filter);
    return pushErrorScope.call(this, filter);
  };
  self.GPUDevice.prototype.popErrorScope = function () {
    const answer = popErrorScope.call(this);
    return scopes.pop() === 'internal' ? answer.then(() => new self.GPUInternalError('The driver broke.')) : answer;
  };
});

/** Replaces `from` by `to` in the shaders labelled `label`; how often, is in `self.nReplaced`. */
export const changedShader = (label, from, to) => script((label, from, to) => {
  self.nReplaced = 0;
  const original = self.GPUDevice.prototype.createShaderModule;
  self.GPUDevice.prototype.createShaderModule = function (descriptor) {
    if (descriptor.label !== label) return original.call(this, descriptor);
    self.nReplaced += descriptor.code.split(from).length - 1;
    return original.call(this, { ...descriptor, code: descriptor.code.replaceAll(from, to) });
  };
}, label, from, to);

/**
 * Lets a device fail when it is asked to: `self.failAfter(n, how)`, in the worker, lets it do `n` more passes, and in the next
 * one it fails.
 *
 * - `lost`: destroyed while its results are waited for.
 * - `error`: an error outside any scope.
 *
 * Without `n`, at once.
 */
export const failingDevice = script(() => {
  let device;
  let armed = null;
  const fail = {
    lost: () => device.destroy(),
    // Nothing may be both mapped for reading and a vertex buffer.
    error: () => device.createBuffer({ size: 4, usage: self.GPUBufferUsage.MAP_READ | self.GPUBufferUsage.VERTEX }),
  };
  const { requestDevice } = self.GPUAdapter.prototype;
  self.GPUAdapter.prototype.requestDevice = async function (descriptor) {
    device = await requestDevice.call(this, descriptor);
    return device;
  };
  const { mapAsync } = self.GPUBuffer.prototype;
  self.GPUBuffer.prototype.mapAsync = function (...values) {
    const mapped = mapAsync.apply(this, values);
    if (armed && armed.n-- === 0) {
      fail[armed.how]();
      armed = null;
    }
    return mapped;
  };
  self.failAfter = (n, how) => { armed = { n, how }; };
  self.failNow = how => fail[how]();
});
