// node bench/run.mjs [--cases A,B] [--runs N] [--tokens N] MODEL.gguf...   (see README.md)
import { once } from 'node:events';
import fs from 'node:fs';
import http from 'node:http';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { chromium } from 'playwright-core';
import { highestMemory } from './memory.mjs';
import { table } from './table.mjs';

const HERE = path.dirname(fileURLToPath(import.meta.url));
const ROOT = path.dirname(HERE);

/** The engine's fast build, as the page names it. */
const FAST = 'simd128, relaxed SIMD, threads';

/** Which page a case opens, which driver it uses, and what that is to find there. */
const CASES = {
  'nucleus-1t': { page: '/', driver: 'nucleus', build: FAST, threads: 1 },
  'nucleus-2t': { page: '/', driver: 'nucleus', build: FAST, threads: 2 },
  'nucleus-baseline': { page: '/?build=baseline', driver: 'nucleus', build: 'simd128', threads: 1 },
  'wllama-1t': { page: '/bench/peers.html', driver: 'wllama', threads: 1 },
  'wllama-2t': { page: '/bench/peers.html', driver: 'wllama', threads: 2 },
  'candle-1t': { page: '/bench/peers.html', driver: 'candle', threads: 1 },
};

/** Own cases: they need nothing but dist/. */
const OWN = Object.keys(CASES).filter(name => CASES[name].driver === 'nucleus');

/** What the server answers from where; the first that fits. */
const FOLDERS = [
  ['/bench/', HERE],
  ['/candle-peer/', path.join(ROOT, 'target/candle-peer/pkg')],
  ['/', path.join(ROOT, 'dist')],
];

const TYPES = { '.js': 'text/javascript', '.wasm': 'application/wasm', '.html': 'text/html', '.css': 'text/css' };

/** A run that takes longer has hung. */
const TIMEOUT_MS = 300_000;

const { values: options, positionals: models } = parseArgs({
  allowPositionals: true,
  options: {
    cases: { type: 'string', default: OWN.join(',') },
    runs: { type: 'string', default: '3' },
    tokens: { type: 'string', default: '100' },
  },
});
const cases = options.cases.split(',');
const unknown = cases.filter(name => !CASES[name]);
if (unknown.length) throw new Error(`no such case: ${unknown.join(', ')}; there are ${Object.keys(CASES).join(', ')}`);

const tables = [];
let failed = 0;
for (const model of models) {
  const server = serve(model).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const origin = `http://localhost:${server.address().port}`;
  const results = new Map(cases.map(name => [name, []]));
  // A B A B: what else the machine does hits all alike.
  for (let run = 0; run < Number(options.runs); run++) {
    for (const name of cases) {
      try {
        const figures = await measure(origin, CASES[name], Number(options.tokens));
        results.get(name).push(figures);
        console.error(path.basename(model), name, JSON.stringify(figures));
      } catch (error) {
        failed++;
        console.error(path.basename(model), name, 'FAILED:', error.message);
      }
    }
  }
  server.close();
  const { size } = fs.statSync(model);
  tables.push(`### ${path.basename(model)}, ${(size / 1e6).toFixed(1)} MB\n\n${table(results, size)}`);
}
console.log(`\n${tables.join('\n\n')}`);
process.exitCode = failed ? 1 : 0;

/** One load and one run, in a browser of their own. */
async function measure(origin, { page: address, driver, ...expected }, tokens) {
  const browser = await chromium.launch({
    executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
    args: ['--no-sandbox', '--disable-quic', '--no-first-run', '--disable-background-networking',
      '--disable-component-update', '--disable-sync'],
  });
  const timer = setTimeout(() => browser.close(), TIMEOUT_MS);
  try {
    const page = await (await browser.newContext()).newPage();
    await page.goto(origin + address);
    await page.evaluate(fs.readFileSync(path.join(HERE, 'drivers.js'), 'utf8'));
    const engine = await page.evaluateHandle(([driver, expected]) => window.drivers[driver](expected), [driver, expected]);
    const load = () => engine.evaluate((engine, url) => engine.load(url), '/model.gguf');
    const [loaded, loadPeakBytes] = await highestMemory(browser, load);
    const figures = await engine.evaluate((engine, tokens) => engine.run(tokens), tokens);
    return { ...loaded, loadPeakBytes, ...figures };
  } finally {
    clearTimeout(timer);
    await browser.close();
  }
}

/** All engines from one origin, isolated, so that threads can run. */
function serve(model) {
  return http.createServer((request, response) => {
    const { pathname } = new URL(request.url, 'http://localhost'); // leaves no `..` in it, and what is encoded stays so
    const [prefix, folder] = FOLDERS.find(([prefix]) => pathname.startsWith(prefix));
    const rest = pathname === '/' ? 'index.html' : pathname.slice(prefix.length);
    const file = pathname === '/model.gguf' ? model : path.join(folder, rest);
    response.setHeader('Cross-Origin-Opener-Policy', 'same-origin');
    response.setHeader('Cross-Origin-Embedder-Policy', 'require-corp');
    const stat = fs.statSync(file, { throwIfNoEntry: false });
    if (!stat?.isFile()) {
      response.writeHead(404).end();
      return;
    }
    const type = TYPES[path.extname(file)] ?? 'application/octet-stream';
    response.writeHead(200, { 'Content-Type': type, 'Content-Length': stat.size });
    fs.createReadStream(file).pipe(response);
  });
}
