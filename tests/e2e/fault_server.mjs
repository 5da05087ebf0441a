// A server that misbehaves on purpose: one route per fault, all for the same file. It counts what it is asked.
import fs from 'node:fs';
import http from 'node:http';
import zlib from 'node:zlib';

const ETAG = '"first"';
const HTML = '<!DOCTYPE html><html><body><h1>Not what you asked for</h1></body></html>';

/**
 * Serves `file` under each route, from another origin than the page. `requests` lists what came: route, method, Range and
 * If-Range; `slowlySent` counts the bytes of the slow route, some 300 kB/s of them.
 */
export async function startFaultServer(file) {
  const bytes = fs.readFileSync(file);
  const cut = Math.floor(bytes.length * 0.6);
  const requests = [];
  let server;
  const headers = {
    'Access-Control-Allow-Origin': '*', 'Access-Control-Allow-Headers': '*',
    'Access-Control-Expose-Headers': 'ETag, Content-Range, Content-Encoding', 'Cross-Origin-Resource-Policy': 'cross-origin',
  };
  const send = (response, status, more, body) => response.writeHead(status, { ...headers, ...more }).end(body);
  const whole = (response, more = {}) => send(response, 200, { 'Content-Length': bytes.length, ETag: ETAG, ...more }, bytes);
  /** The file's first bytes, and then the end of the connection. */
  const broken = (response, more = {}) => {
    response.writeHead(200, { ...headers, 'Content-Length': bytes.length, ETag: ETAG, ...more });
    response.write(bytes.subarray(0, cut), () => setTimeout(() => response.destroy(), 20));
  };
  const part = (response, from, more = {}) => send(response, 206,
    { ETag: ETAG, 'Content-Range': `bytes ${from}-${bytes.length - 1}/${bytes.length}`, ...more }, bytes.subarray(from));
  const from = request => Number(/bytes=(\d+)-/.exec(request.headers.range ?? '')?.[1] ?? NaN);
  /** Slowly, so that there is time to stop it. */
  let slowlySent = 0;
  const slow = async (response, body) => {
    for (let i = 0; i < body.length && !response.destroyed; i += 16384) {
      response.write(body.subarray(i, i + 16384));
      slowlySent += 16384;
      await new Promise(resolve => setTimeout(resolve, 55));
    }
    response.end();
  };

  const count = route => requests.filter(request => request.route === route && request.method === 'GET').length;
  const routes = {
    'good': (request, response) => (from(request) >= 0 ? part(response, from(request)) : whole(response)),
    'not-found': (_, response) => send(response, 404, { 'Content-Type': 'text/html' }, HTML),
    'html': (_, response) => send(response, 200, { 'Content-Type': 'text/html', ETag: ETAG }, HTML),
    'cut': (request, response) => (from(request) >= 0 ? part(response, from(request)) : broken(response)),
    'cut-always': (_, response) => { response.writeHead(200, { ...headers, 'Content-Length': bytes.length }); response.write(bytes.subarray(0, cut), () => setTimeout(() => response.destroy(), 20)); },
    'range-ignored': (request, response) => (from(request) >= 0 ? whole(response) : broken(response)),
    'shifted': (request, response) => {
      if (from(request) >= 0) part(response, from(request) - 1);
      else if (count('shifted') > 1) whole(response);
      else broken(response);
    },
    'not-satisfiable': (request, response) => {
      if (from(request) >= 0) send(response, 416, { 'Content-Range': `bytes */${bytes.length}` });
      else if (count('not-satisfiable') > 1) whole(response);
      else broken(response);
    },
    'changed': (request, response) => {
      if (from(request) >= 0) part(response, from(request), { ETag: '"second"' });
      else if (count('changed') > 1) whole(response, { ETag: '"second"' });
      else broken(response);
    },
    'gzip': (_, response) => {
      const body = zlib.gzipSync(bytes);
      send(response, 200, { 'Content-Encoding': 'gzip', 'Content-Length': body.length }, body);
    },
    // Its server hides Content-Encoding from other sites: the compressed length looks like the file's.
    'gzip-hidden': (_, response) => {
      const body = zlib.gzipSync(bytes);
      send(response, 200, { 'Access-Control-Expose-Headers': '', 'Content-Encoding': 'gzip', 'Content-Length': body.length }, body);
    },
    'no-length': (_, response) => { response.writeHead(200, headers); response.write(bytes.subarray(0, cut)); response.end(bytes.subarray(cut)); },
    'too-long': (_, response) => {
      // By hand: Node refuses to write more than it announced.
      response.socket.end(Buffer.concat([Buffer.from(`HTTP/1.1 200 OK\r\nAccess-Control-Allow-Origin: *\r\nContent-Length: ${bytes.length}\r\nConnection: close\r\n\r\n`), bytes, bytes.subarray(0, 1000)]));
    },
    'redirect': (_, response) => send(response, 302, { Location: '/redirect-2' }),
    'redirect-2': (_, response) => send(response, 307, { Location: '/good' }),
    'busy': (_, response) => (count('busy') > 1 ? whole(response) : send(response, 503, { 'Content-Type': 'text/html' }, HTML)),
    'silent': (request, response) => {
      if (from(request) >= 0) return part(response, from(request));
      response.writeHead(200, { ...headers, 'Content-Length': bytes.length, ETag: ETAG });
      response.write(bytes.subarray(0, cut));
    },
    'slow': (request, response) => {
      const start = from(request) >= 0 ? from(request) : 0;
      const range = start ? { 'Content-Range': `bytes ${start}-${bytes.length - 1}/${bytes.length}` } : {};
      response.writeHead(start ? 206 : 200, { ...headers, 'Content-Length': bytes.length - start, ETag: ETAG, ...range });
      return slow(response, bytes.subarray(start));
    },
    'no-cors': (_, response) => response.writeHead(200, { 'Content-Length': bytes.length }).end(bytes),
  };

  server = http.createServer((request, response) => {
    const route = request.url.split(/[/?]/)[1];
    requests.push({ route, method: request.method, range: request.headers.range, ifRange: request.headers['if-range'] });
    if (request.method === 'OPTIONS') return send(response, 204, {});
    return (routes[route] ?? routes['not-found'])(request, response);
  });
  await new Promise(resolve => server.listen(0, 'localhost', resolve));
  const address = `http://localhost:${server.address().port}/`;
  return {
    bytes: bytes.length, cut, requests, count,
    get slowlySent() { return slowlySent; },
    url: route => address + route,
    last: route => requests.findLast(request => request.route === route && request.method === 'GET'),
    close: () => { server.closeAllConnections(); return new Promise(resolve => server.close(resolve)); },
  };
}

/** Loads, and tells how that went. Every progress report is checked: none is past its total. */
export const attempt = (page, url, options = {}) => page.evaluate(async ([url, options]) => {
  const phases = [];
  let worst = 0;
  const onProgress = ({ phase, received, total }) => {
    if (phases.at(-1) !== phase) phases.push(phase);
    if (total) worst = Math.max(worst, received / total);
  };
  const outcome = await window.nucleus.load(url, { backend: 'cpu', onProgress, ...options }).then(
    info => ({ loaded: true, bytes: info.bytes, fromCache: info.fromCache, notice: info.cacheNotice, sha256: info.sha256 }),
    error => ({ kind: error.kind, message: error.message }));
  return { ...outcome, phases, worst, kept: (await window.nucleus.cache.list()).map(entry => [entry.url, entry.complete, entry.bytes]) };
}, [url, options]);
