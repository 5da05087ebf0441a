// The page's side of its service worker, www/service_worker.js. All of it is for the better only: where a browser or host has
// no service workers, the page runs as it is, on one thread if nothing isolates it.

/** In the tab's storage: this tab was reloaded once to be isolated. Cleared when that worked, so that it may happen again. */
const MARK = 'nucleus-reloaded';

/** Milliseconds that the page waits for its first service worker before it starts without. */
const PATIENCE = 3000;

/** The page as the service worker knows it, and the folder of this build. */
const HOME = new URL('.', document.baseURI).href;
const FOLDER = new URL('.', import.meta.url).href;

/** What a reader does first. */
const BEGINNINGS = ['pointerdown', 'keydown', 'input', 'drop'];

const register = () => navigator.serviceWorker.register(`${HOME}service_worker.js`, { updateViaCache: 'none' });

/**
 * Resolves when the page may start. Where the host sends no headers that isolate it, a first visit waits for the service worker,
 * which sends them, and loads the page anew. That happens once, and not after the reader has begun to do something.
 */
export async function isolate() {
  // A frame is isolated only by the page around it.
  if (!navigator.serviceWorker || self !== top) return;
  try {
    if (crossOriginIsolated) return sessionStorage.removeItem(MARK);
    if (navigator.serviceWorker.controller || sessionStorage.getItem(MARK)) return;
    let hasBegun = false;
    const begin = () => { hasBegun = true; };
    for (const event of BEGINNINGS) addEventListener(event, begin, { capture: true, once: true });
    if (!await inTime(register().then(active)) || hasBegun) return;
    sessionStorage.setItem(MARK, '1');
  } catch {
    // Registration is refused in some private windows, as storage is.
    return;
  }
  location.reload();
  await new Promise(() => {});
}

/** Has the build in which this page lies kept for visits without a network. */
export async function keep() {
  if (!navigator.serviceWorker) return;
  try {
    (await register().then(active)).postMessage({ keep: FOLDER });
  } catch {
    // As above: then nothing is kept.
  }
}

/** The registration's worker, once it takes requests. */
function active(registration) {
  if (registration.active) return registration.active;
  const worker = registration.waiting ?? registration.installing;
  return new Promise((resolve, reject) => worker.addEventListener('statechange', () => {
    if (worker.state === 'activated') resolve(worker);
    if (worker.state === 'redundant') reject(new Error('the service worker could not be installed'));
  }));
}

/** Undefined where `promise` takes too long. */
const inTime = promise => Promise.race([promise, new Promise(resolve => setTimeout(resolve, PATIENCE))]);
