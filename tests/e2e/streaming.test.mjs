// Loading as the file comes: refusals by the header end the transfer, Stop is heard while weights are prepared, split models,
// what does not fit into memory, and how much memory a load takes.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import http from 'node:http';
import { MODEL, loadFixture, pageTest } from './browser.mjs';

const fixture = name => new URL(`../fixtures/${name}`, import.meta.url).pathname;
const PARTS = [1, 2, 3].map(no => `split/tiny-0000${no}-of-00003.gguf`);
/** The model that `PARTS` are parts of. */
const WHOLE = 'tiny/llama-q2_k.gguf';
const RUN = { ids: [2, 7, 1], temperature: 1, seed: 4, maxNewTokens: 6, ignoreEos: true };
const ids = page => page.evaluate(async options => (await window.nucleus.generate(options)).ids, RUN);
const refusal = (page, source, options = {}) => page.evaluate(async ([source, options]) =>
  window.nucleus.load(source, options).then(() => ({ kind: 'loaded' }), ({ kind, message }) => ({ kind, message })), [source, options]);

/** Answers with `head`, then with zeros, as long as the page wants any; `sent` is how many bytes it took. */
async function endless(head, total) {
  const state = { sent: 0 };
  const server = http.createServer((request, response) => {
    response.writeHead(200, { 'access-control-allow-origin': '*', 'content-length': total, 'cross-origin-resource-policy': 'cross-origin' });
    response.on('error', () => {});
    const zeros = Buffer.alloc(1 << 16);
    const send = piece => {
      state.sent += piece.length;
      if (state.sent >= total || response.destroyed) return response.end();
      response.write(piece, () => setImmediate(send, zeros));
    };
    send(head);
  });
  await new Promise(resolve => server.listen(0, resolve));
  return { state, url: `http://localhost:${server.address().port}/model.gguf`, close: () => { server.closeAllConnections(); server.close(); } };
}

/** A file whose one tensor has `n` values, and nothing of use in its header. */
function header(architecture, n) {
  const u32 = x => { const b = Buffer.alloc(4); b.writeUInt32LE(x); return b; };
  const u64 = x => { const b = Buffer.alloc(8); b.writeBigUInt64LE(BigInt(x)); return b; };
  const text = s => Buffer.concat([u64(s.length), Buffer.from(s)]);
  return Buffer.concat([Buffer.from('GGUF'), u32(3), u64(1), u64(1), text('general.architecture'), u32(8), text(architecture),
    text('token_embd.weight'), u32(1), u64(n), u32(0), u64(0), Buffer.alloc(64)]);
}

pageTest('a header that is refused ends the transfer', {}, async page => {
  const server = await endless(header('mamba', 250_000_000), 1_000_001_000);
  try {
    const { kind, message } = await refusal(page, server.url);
    assert.equal(kind, 'unsupported-architecture');
    assert.match(message, /mamba/);
    const sent = server.state.sent;
    assert.ok(sent < 100e6, `${sent} of 1,000,001,000 bytes were sent`);
  } finally {
    server.close();
  }
  assert.equal((await loadFixture(page, WHOLE, { backend: 'cpu' })).vocabSize, 288);
});

pageTest('a model that does not fit is refused by its header, with the figures; a GPU copy that does not fit is not made', {
  // What the browser says of a small phone.
  inject: ['Object.defineProperty(Object.getPrototypeOf(navigator), "deviceMemory", { get: () => self.gib ?? 0.25 });'],
}, async page => {
  const { kind, message } = await refusal(page, MODEL, { backend: 'cpu' });
  assert.equal(kind, 'too-large');
  for (const part of [/needs 29\d MB/, /97 MB of weights/, /190 MB of cache for 4096 positions/, /135 MB are available: half of this device's 0\.25 GB/,
    /A context of 512 would fit/]) assert.match(message, part);
  // The page says so, and what to do.
  assert.match(await page.textContent('#status'), /does not fit.*smaller model or a shorter context/);
  const info = await page.evaluate(url => window.nucleus.load(url, { backend: 'webgpu', contextLength: 512 }), MODEL);
  assert.equal(info.backend, 'cpu');
  assert.match(info.backendReason, /^The CPU engine runs: the model takes \d+ MB, and \d+ MB with a copy for the GPU; 202 MB are available/);
  assert.equal((await ids(page)).length, RUN.maxNewTokens);
});

pageTest('a split model loads by the URL of any part, and from files in any order', {}, async page => {
  await page.route('**/split/*.gguf*', route => route.fulfill({ path: fixture(`split/${new URL(route.request().url()).pathname.split('/').pop()}`) }));
  await loadFixture(page, WHOLE, { backend: 'cpu' });
  const expected = await ids(page);
  for (const part of [PARTS[0], `${PARTS[2]}?x=1`]) {
    const totals = await page.evaluate(async part => {
      const progress = [];
      const info = await window.nucleus.load(part, { backend: 'cpu', onProgress: p => progress.push(p) });
      return { bytes: info.bytes, vocab: info.vocabSize, last: progress.filter(p => p.phase === 'download').pop(), over: progress.some(p => p.received > p.total) };
    }, part);
    assert.deepEqual([totals.vocab, totals.over], [288, false]);
    assert.equal(totals.last.received, totals.last.total);
    assert.deepEqual(await ids(page), expected);
  }
  await page.setInputFiles('#model-file', [PARTS[2], PARTS[0], PARTS[1]].map(fixture));
  await page.waitForFunction(() => window.nucleus.model !== null);
  assert.deepEqual(await ids(page), expected);
});

pageTest('parts that are missing or mixed up are named', { provoked: [/404/] }, async page => {
  const choose = async files => {
    await page.evaluate(() => { document.querySelector('#status').textContent = ''; });
    await page.setInputFiles('#model-file', files);
    await page.waitForFunction(() => /refused|cannot|not/.test(document.querySelector('#status').textContent) && document.querySelector('#loading').hidden);
    return page.textContent('#status');
  };
  const file = (name, from) => ({ name, mimeType: 'application/octet-stream', buffer: fs.readFileSync(fixture(from)) });
  const part = no => `tiny-0000${no}-of-00003.gguf`;
  assert.match(await choose([fixture(PARTS[0])]), /Of the 3 parts of this model 2 are missing: `tiny-00002-of-00003\.gguf`, `tiny-00003/);
  assert.match(await choose([fixture(PARTS[0]), fixture(WHOLE)]), /`llama-q2_k\.gguf` is not a part of the same model/);
  assert.match(await choose([fixture(WHOLE), fixture('tiny/llama.gguf')]), /Found 2 files/);
  assert.match(await choose([file(part(1), PARTS[0]), file(part(2), PARTS[2]), file(part(3), PARTS[1])]),
    /`tiny-00002-of-00003\.gguf` says that it is part 3 of 3; expected part 2 of 3/);
  assert.match(await choose([file('renamed.gguf', PARTS[1])]), /This is part 2 of 3 of a split model/);
  await page.route('**/split/*.gguf', route => route.request().url().includes('00002') ? route.fulfill({ status: 404 })
    : route.fulfill({ path: fixture(`split/${route.request().url().split('/').pop()}`) }));
  const { kind, message } = await refusal(page, PARTS[0]);
  assert.equal(kind, 'http-status');
  assert.match(message, /tiny-00002-of-00003\.gguf answered 404/);
});

pageTest('stop ends a load of a local file while it is prepared, and a wrong hash refuses it at the end', {}, async page => {
  const found = await page.evaluate(async url => {
    const file = new File([await (await fetch(url)).blob()], 'model.gguf');
    const kinds = [];
    for (const phase of ['download', 'parse']) {
      let stop;
      const load = window.nucleus.load(file, { backend: 'cpu', onProgress: p => { if (p.phase === phase) stop ??= window.nucleus.stop(); } });
      kinds.push(await load.then(() => 'loaded', error => error.kind));
      await stop;
    }
    kinds.push(await window.nucleus.load(file, { backend: 'cpu', sha256: '0'.repeat(64) }).then(() => 'loaded', error => error.kind));
    return [...kinds, (await window.nucleus.load(file, { backend: 'cpu' })).vocabSize];
  }, MODEL);
  assert.deepEqual(found, ['cancelled', 'cancelled', 'hash-mismatch', 49_152]);
});

pageTest('a load takes the memory that its header lets expect, at most 1.35 times the file', {}, async page => {
  const { before, info, after } = await page.evaluate(async url => {
    const memory = async () => (await window.nucleus.diagnostics()).memoryBytes;
    const before = await memory();
    // Twice: the second takes the place of the first.
    await window.nucleus.load(url, { backend: 'cpu', threads: 1 });
    const info = await window.nucleus.load(url, { backend: 'cpu', threads: 1 });
    await window.nucleus.generate({ prompt: 'x', maxNewTokens: 4000, maxTimeMs: 100, ignoreEos: true });
    return { before, info, after: await memory() };
  }, MODEL);
  const { weights, cache, work, tokenizer } = info.memoryNeeds;
  const [loaded, full, expected] = [info.memoryBytes / info.bytes, after - before, weights + cache + work + tokenizer];
  console.log(`${loaded.toFixed(3)} times the file after loading; with the cache ${full} bytes, expected ${expected}`);
  assert.ok(loaded < 1.35, `${loaded} times the file`);
  assert.ok(full < 1.35 * info.bytes + cache, `${full} bytes with a full cache`);
  assert.ok(Math.abs(full / expected - 1) < 0.08, `${full} bytes, expected ${expected}`);
});
