// What a model file, a file name, a link or a prompt holds is text on the page, though it looks like markup.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import { pageTest } from './browser.mjs';

/** Would set `window.hit`, and is an element that the page has nowhere; the number says where it came from. */
const html = place => `<img id="hit-${place}" src="x" onerror="window.hit='${place}'"><script>window.hit='${place}'</script>`;

/** The tiny model with `name` for a name, and `piece` in place of every token of its vocabulary that stands for text. */
function hostileModel(name, piece) {
  const file = fs.readFileSync(new URL('../fixtures/tiny/llama-q4_1.gguf', import.meta.url));
  let at = 24;
  const kept = [];
  const u32 = () => file.readUInt32LE((at += 4) - 4);
  const u64 = () => Number(file.readBigUInt64LE((at += 8) - 8));
  const text = () => { const length = u64(); return file.toString('utf8', at, at += length); };
  const written = text => {
    const bytes = Buffer.from(text);
    const length = Buffer.alloc(8);
    length.writeBigUInt64LE(BigInt(bytes.length));
    return Buffer.concat([length, bytes]);
  };
  const sizes = [1, 1, 2, 2, 4, 4, 4, 1, , , 8, 8, 8];
  const skip = type => {
    if (type === 8) text();
    else if (type === 9) { const [of, n] = [u32(), u64()]; for (let i = 0; i < n; i += 1) skip(of); }
    else at += sizes[type];
  };
  for (let n = Number(file.readBigUInt64LE(16)); n > 0; n -= 1) {
    const start = at;
    const key = text();
    const type = u32();
    const value = at;
    if (key === 'general.name') {
      text();
      kept.push(file.subarray(start, value), written(name));
    } else if (key === 'tokenizer.ggml.tokens') {
      u32();
      const count = u64();
      const head = at;
      const pieces = Array.from({ length: count }, text);
      kept.push(file.subarray(start, head), ...pieces.map((old, i) => written(piece(old, i))));
    } else {
      skip(type);
      kept.push(file.subarray(start, at));
    }
  }
  const infos = at;
  for (let n = Number(file.readBigUInt64LE(8)); n > 0; n -= 1) {
    text();
    const nDims = u32();
    at += 8 * nDims + 12;
  }
  const pad = length => Buffer.alloc(-length & 31);
  const head = Buffer.concat([file.subarray(0, 24), ...kept, file.subarray(infos, at)]);
  return Buffer.concat([head, pad(head.length), file.subarray(at + pad(at).length)]);
}

const query = `?${new URLSearchParams({ prompt: html('query'), model: html('model'), backend: 'cpu' })}#${new URLSearchParams({ stop: html('stop') })}`;

pageTest('names, pieces, prompts and links that hold HTML are shown as text, and nothing runs', { query, provoked: [/404|Failed to load/] }, async page => {
  assert.equal(await page.inputValue('#prompt'), html('query'));
  // The byte 255 is in no text, so that its piece is free; a space is Ġ in a byte-level vocabulary.
  const piece = (old, i) => i === 255 ? html('piece').replaceAll(' ', 'Ġ') : old;
  const model = hostileModel(html('name'), piece).toString('base64');
  const info = await page.evaluate(async ([base64, fileName]) => {
    const bytes = Uint8Array.from(atob(base64), char => char.charCodeAt(0));
    return window.nucleus.load(new File([bytes], fileName), { backend: 'cpu' });
  }, [model, `${html('file')}.gguf`]);
  assert.ok(info.name.startsWith(html('name').slice(0, 20)), info.name);
  assert.match(await page.textContent('#model'), /<img id="hit-/);
  const { text } = await page.evaluate(prompt =>
    window.nucleus.generate({ prompt, forceIds: [255, 255, 65], maxNewTokens: 3, ignoreEos: true }), html('prompt'));
  assert.ok(text.startsWith(html('piece')), text);
  await page.waitForFunction(() => document.querySelectorAll('#output [data-index]').length === 3);
  assert.ok((await page.textContent('#output')).includes(html('prompt')), await page.textContent('#output'));
  await page.click('[data-index="0"]');
  assert.ok((await page.textContent('#output')).includes(html('piece').slice(0, 20)));
  // Refusals repeat what they refuse.
  const refusal = await page.evaluate(url => window.nucleus.load(url).catch(error => error.kind), html('address'));
  assert.equal(refusal, 'http-status');
  assert.match(await page.textContent('#status'), /hit-address/);
  await page.evaluate(hash => { location.hash = hash; }, `#${new URLSearchParams({ topK: html('hash') })}`);
  await page.waitForTimeout(300);
  assert.deepEqual(await page.evaluate(() => [window.hit, document.querySelectorAll('[id^="hit-"], img, body script').length]), [undefined, 0]);
});
