// The page's service worker. It does what a plain host of files cannot:
//
// - It isolates the page: its answers carry the headers without which a browser shares no memory among threads. They ask for
//   `require-corp`, not `credentialless`, which Safari lacks; what the page takes from other sites (a model, by `fetch`) comes
//   with their leave (CORS) either way.
// - It keeps the page for when there is no network. Models pass it by.
//
// Builds never mix. `cargo xtask dist` puts each build into a folder that is named by what it holds, and index.html names that
// folder; the other files find each other in it. So index.html comes from the network while there is one, and a file of a
// build is the same wherever it comes from. A kept build is a cache with its folder's address for a name. Every file in it has
// been checked against the build's list of hashes; index.html goes in last, and so says that nothing is missing.

const ISOLATION = {
  'Cross-Origin-Opener-Policy': 'same-origin',
  'Cross-Origin-Embedder-Policy': 'require-corp',
  'Cross-Origin-Resource-Policy': 'same-origin',
};

/** Milliseconds that the network has to answer while a kept page stands ready. */
const PATIENCE = 4000;

/** Where index.html lies; ends with a slash. */
const HOME = registration.scope;

/** The address of the build's folder that holds `url`; undefined for what belongs to no build of this page. */
function folderOf(url) {
  const name = url.startsWith(HOME) && url.slice(HOME.length).match(/^build-[0-9a-f]+\//);
  return name ? HOME + name[0] : undefined;
}

// Another version of this file may take over at any time: what belongs together is settled by the folders.
addEventListener('install', () => skipWaiting());

addEventListener('fetch', event => {
  const { request } = event;
  const url = request.url.split(/[?#]/)[0];
  if (request.method !== 'GET' || !url.startsWith(HOME)) return;
  if (request.mode === 'navigate') {
    if (url === HOME || url === `${HOME}index.html`) event.respondWith(page(request));
  } else if (folderOf(url) || request.destination === 'worker') {
    // A worker of an isolated page starts only with these headers, in a folder or not.
    event.respondWith(file(request, folderOf(url)));
  }
});

/** index.html, from the network if that answers in time and well, or else the kept one. */
async function page(request) {
  const kept = await keptPage();
  // A redirection is handed on: what it leads to is for the browser to judge.
  const fresh = fetch(request.url, { cache: 'no-cache', redirect: 'manual' });
  if (!kept) return isolated(await fresh);
  const late = new Promise(resolve => setTimeout(resolve, PATIENCE));
  const answer = await Promise.race([fresh, late]).catch(() => undefined);
  return isolated(answer?.ok || answer?.type === 'opaqueredirect' ? answer : kept);
}

/** The page of the build that was kept last. */
async function keptPage() {
  for (const name of (await caches.keys()).reverse()) {
    const kept = folderOf(name) && await caches.match(HOME, { cacheName: name, ignoreVary: true });
    if (kept) return kept;
  }
}

async function file(request, folder) {
  const kept = folder && await caches.match(request, { cacheName: folder, ignoreSearch: true, ignoreVary: true });
  return isolated(kept ?? await fetch(request));
}

function isolated(answer) {
  // An opaque answer cannot be read, so not be changed.
  if (answer.type.startsWith('opaque')) return answer;
  const { body, status, statusText } = answer;
  const headers = new Headers(answer.headers);
  for (const [name, value] of Object.entries(ISOLATION)) headers.set(name, value);
  return new Response(body, { status, statusText, headers });
}

// The page asks for this once it stands: what it has just loaded then comes from the browser's own cache for the most part.
addEventListener('message', event => event.waitUntil(keep(event.data.keep)));

/** Keeps the build in `folder` in place of others, or nothing of it. */
async function keep(folder) {
  if (folderOf(folder) !== folder) return;
  const cache = await caches.open(folder);
  if (!await cache.match(HOME)) {
    try {
      await fill(cache, folder);
    } catch {
      // The host has moved on to another build, the network is gone, or storage is full: what was kept before stays.
      await caches.delete(folder);
      return;
    }
  }
  // A page of another build in another tab may still need its files.
  const open = await clients.matchAll({ type: 'window', includeUncontrolled: true });
  if (open.filter(({ url }) => url.startsWith(HOME)).length > 1) return;
  for (const name of await caches.keys()) {
    if (folderOf(name) && name !== folder) await caches.delete(name);
  }
}

async function fill(cache, folder) {
  const get = async (url, options) => {
    const answer = await fetch(url, options);
    if (!answer.ok) throw new Error(`${url} answered ${answer.status}`);
    return answer;
  };
  const hashes = await (await get(`${folder}hashes.json`)).json();
  await Promise.all(Object.entries(hashes).map(async ([name, integrity]) =>
    cache.put(folder + name, await get(folder + name, { integrity }))));
  const index = await get(HOME, { cache: 'no-cache' });
  const text = await index.clone().text();
  if (!text.includes(folder.slice(HOME.length))) throw new Error('index.html is of another build');
  await cache.put(HOME, index);
}
