// A host of files as the page meets it outside `cargo xtask serve`: below a path, as on GitHub Pages, with or without the headers
// that isolate, and able to change what it serves, to answer late, and to go away.
import fs from 'node:fs';
import http from 'node:http';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

export const DIST = fileURLToPath(new URL('../../dist/', import.meta.url));

const PATH = '/nucleus/';
const TYPES = { '.css': 'text/css', '.html': 'text/html', '.js': 'text/javascript', '.json': 'application/json',
  '.svg': 'image/svg+xml', '.wasm': 'application/wasm' };
const ISOLATION = { 'Cross-Origin-Opener-Policy': 'same-origin', 'Cross-Origin-Embedder-Policy': 'require-corp' };

export class Host {
  /** What is served; may be another folder from one request to the next. */
  folder = DIST;
  /** Milliseconds that an answer takes, by the file's name. */
  delays = {};
  /** Answers other than the file, by its name: null is a 404. */
  answers = {};
  #server;

  static async start({ isolates = false } = {}) {
    const host = new Host();
    host.#server = http.createServer((request, response) => host.#answer(request, response, isolates ? ISOLATION : {}));
    await new Promise(resolve => host.#server.listen(0, '127.0.0.1', resolve));
    host.url = `http://localhost:${host.#server.address().port}${PATH}`;
    return host;
  }

  /** Nothing answers any more. */
  async stop() {
    const closed = new Promise(resolve => this.#server.close(resolve));
    this.#server.closeAllConnections();
    await closed;
  }

  async #answer(request, response, headers) {
    const { pathname } = new URL(request.url, this.url);
    const name = pathname.slice(PATH.length) || 'index.html';
    const file = path.join(this.folder, name);
    if (this.delays[name]) await new Promise(resolve => setTimeout(resolve, this.delays[name]));
    const isThere = pathname.startsWith(PATH) && fs.existsSync(file) && fs.statSync(file).isFile();
    const body = this.answers[name] === undefined ? isThere ? fs.readFileSync(file) : null : this.answers[name];
    response.writeHead(body === null ? 404 : 200, {
      'Content-Type': body === null ? 'text/html' : TYPES[path.extname(name)] ?? 'application/octet-stream',
      // Ten minutes, as GitHub Pages has it.
      'Cache-Control': 'max-age=600',
      ...headers,
    });
    response.end(body ?? '<!doctype html><title>404</title>');
  }
}

/** The folder in `dist` that holds its build: build-HASH. */
export const buildIn = dist => fs.readdirSync(dist).find(name => name.startsWith('build-'));
