// Starts the page's wasm. Trunk writes the like of it for the engine, but for a main program only as an inline script,
// which the Content-Security-Policy forbids.
import init from './page.js';

await init();
