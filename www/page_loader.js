// Starts the page's wasm. Trunk writes the like of it for the engine, but for a main program only as an inline script,
// which the Content-Security-Policy forbids.
//
// `window.nucleus` is there from the start, so that `await nucleus.ready` works whenever it is called; the wasm fills the
// rest of it in before `ready` resolves.
import { isolate, keep } from './service.js';

/** The page as it was served, for the wasm that takes over from one that has panicked. */
const served = document.body.cloneNode(true);
let nPanics = 0;

async function start() {
  try {
    // Another address is another instance of the module, and so of the wasm.
    const { default: init } = await import(nPanics ? `./page.js?after=${nPanics}` : './page.js');
    await init();
  } catch (error) {
    // Without its wasm the page can do nothing, and only this script can say so.
    const status = document.getElementById('status');
    status.dataset.error = 'page-failed';
    status.textContent = `Nucleus could not start. It reported: ${error?.message ?? error}. `
      + 'It needs a browser with WebAssembly and SIMD: reload the page, or try a current browser.';
    throw error;
  }
}

/** The wasm has panicked: another one takes over, on fresh markup with the reader's settings. It says what the panic said. */
function startAgain(said) {
  nPanics += 1;
  window.nucleus.failureBefore = said;
  // The panic is still on its way out.
  window.nucleus.ready = new Promise(resolve => setTimeout(resolve)).then(() => {
    const fresh = served.cloneNode(true);
    for (const old of document.querySelectorAll('input[id]:not([type="file"]), select[id], textarea[id]:not([readonly])')) {
      const field = fresh.querySelector(`#${CSS.escape(old.id)}`);
      if (field) [field.value, field.checked] = [old.value, old.checked];
    }
    document.body.replaceWith(fresh);
    return start();
  });
}

window.nucleus = { startAgain };
window.nucleus.ready = isolate().then(start);
window.nucleus.ready.then(keep, () => {});
