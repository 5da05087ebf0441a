// Starts the page's wasm. Trunk writes the like of it for the engine, but for a main program only as an inline script,
// which the Content-Security-Policy forbids.
//
// `window.nucleus` is there from the start, so that `await nucleus.ready` works whenever it is called; the wasm fills the
// rest of it in before `ready` resolves.
import init from './page.js';
import { isolate, keep } from './service.js';

window.nucleus = { ready: isolate().then(() => init()).then(() => undefined) };
window.nucleus.ready.then(keep);
