// Starts the page's wasm. Trunk writes the like of it for the engine, but for a main program only as an inline script,
// which the Content-Security-Policy forbids.
//
// `window.nucleus` is there from the start, so that `await nucleus.ready` works whenever it is called; the wasm fills the
// rest of it in before `ready` resolves.
import init from './page.js';

const ready = init().then(() => undefined);
window.nucleus = { ready };

// Without its wasm the page can do nothing, and only this script can say so.
ready.catch(error => {
  const status = document.getElementById('status');
  status.dataset.error = 'page-failed';
  status.textContent = `Nucleus could not start. It reported: ${error?.message ?? error}. `
    + 'It needs a browser with WebAssembly and SIMD: reload the page, or try a current browser.';
});
