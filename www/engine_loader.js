// Starts the engine in its worker: the fast build (relaxed SIMD, shared memory) where the browser can run it, otherwise the
// baseline. `?build=fast` or `?build=baseline` in this script's address asks for one of them.
//
// A page that is not isolated may still make shared memory; it only cannot hand it to other threads.
const asked = new URL(import.meta.url).searchParams.get('build');

/** A module with one function: i32x4.relaxed_dot_i8x16_i7x16_add_s of zeros. */
const RELAXED_SIMD = new Uint8Array([
  0, 97, 115, 109, 1, 0, 0, 0, 1, 5, 1, 96, 0, 1, 123, 3, 2, 1, 0, 10, 19, 1, 17, 0,
  65, 0, 253, 15, 65, 0, 253, 15, 65, 0, 253, 15, 253, 147, 2, 11,
]);

function sharesMemory() {
  try {
    return !(new WebAssembly.Memory({ initial: 1, maximum: 1, shared: true }).buffer instanceof ArrayBuffer);
  } catch {
    return false;
  }
}

// A panic of the fast build ends as a rejected promise; the page hears only of errors.
self.addEventListener('unhandledrejection', event => {
  event.preventDefault();
  reportError(event.reason);
});

async function start(build) {
  const { default: init } = await import(build);
  await init();
}

if (asked === 'fast' || (asked !== 'baseline' && WebAssembly.validate(RELAXED_SIMD) && sharesMemory())) {
  try {
    await start('./engine_fast.js');
  } catch (error) {
    // A browser may refuse the memory that the build could grow to. The baseline asks for none in advance.
    if (asked === 'fast') throw error;
    await start('./engine.js');
  }
} else {
  await start('./engine.js');
}
