// Every file that must be refused, in the engine as shipped: each by its kind and in words on the page, with no more memory than
// the file itself takes, and after each one the same page loads a good file and runs it.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import { pageTest } from './browser.mjs';

// `cargo run --example bad_files` writes them, from the lists of the Rust tests; `cargo xtask test e2e` runs it.
const FOLDER = new URL('../../target/bad_files/', import.meta.url);
const GOOD = new URL('../fixtures/tiny/llama-q4_1.gguf', import.meta.url);

/** As many bytes may wasm memory grow by, over hundreds of loads. */
const SLACK = 4 << 20;

pageTest('every bad file is refused by its kind, and a good one loads after each', {}, async (page, t) => {
  const files = JSON.parse(fs.readFileSync(new URL('index.json', FOLDER), 'utf8'));
  assert.ok(files.length > 250, `${files.length} files`);
  // The largest come last: wasm never gives memory back, and what they take would hide what the others do.
  const size = ({ parts }) => parts.reduce((sum, part) => sum + (part.zeros ?? part.bytes[1] - part.bytes[0]), 0);
  files.sort((a, b) => size(a) - size(b));
  for (const [name, url] of [['files.bin', new URL('files.bin', FOLDER)], ['good.gguf', GOOD]]) {
    await page.route(`**/${name}`, route => route.fulfill({ path: url.pathname, contentType: 'application/octet-stream' }));
  }
  const { outcomes, start } = await page.evaluate(async files => {
    const nucleus = window.nucleus;
    const get = async name => (await fetch(name)).blob();
    const [bytes, good] = [await get('files.bin'), await get('good.gguf')];
    const memory = async () => (await nucleus.diagnostics()).memoryBytes;
    const runGood = async () => {
      await nucleus.load(new File([good], 'good.gguf'), { backend: 'cpu', threads: 1 });
      return (await nucleus.generate({ ids: [2, 7, 1], temperature: 1, seed: 4, maxNewTokens: 2, ignoreEos: true })).ids.join();
    };
    const expected = await runGood();
    const start = await memory();
    const outcomes = [];
    for (const { what, kind, parts } of files) {
      const pieces = parts.map(part => 'zeros' in part ? new Uint8Array(part.zeros) : bytes.slice(...part.bytes));
      const file = new File(pieces, `${what}.gguf`);
      const refused = await nucleus.load(file, { backend: 'cpu', threads: 1 })
        .then(() => ({ kind: 'accepted', message: '' }), error => error);
      const status = document.querySelector('#status');
      const outcome = {
        kind: refused.kind, message: refused.message, shownKind: status.dataset.error, shown: status.textContent,
        model: nucleus.model, size: file.size, memory: await memory(),
      };
      const ids = await runGood().catch(error => `${error.kind}: ${error.message}`);
      outcomes.push({ ...outcome, worksAgain: ids === expected || ids });
    }
    return { outcomes, start };
  }, files);

  for (const [i, outcome] of outcomes.entries()) {
    const { row, what, kind } = files[i];
    const named = `row ${row}, ${what}: ${JSON.stringify(outcome)}`;
    if (kind === 'accepted') {
      assert.deepEqual([outcome.kind, outcome.worksAgain], [kind, true], named);
      continue;
    }
    assert.deepEqual([outcome.kind, outcome.shownKind, outcome.model, outcome.worksAgain], [kind, kind, null, true], named);
    assert.ok(outcome.message.length < 450 && /expected/.test(outcome.message), named);
    // The page cuts what is longer than anyone would read.
    assert.ok(outcome.shown.includes(outcome.message.slice(0, 60)), named);
    // A large header: its bytes, twice while they grow, and what is decoded of it.
    const grown = outcome.memory - start;
    assert.ok(grown <= SLACK + (outcome.size < SLACK ? 0 : 3 * outcome.size), `${named}: memory has grown by ${grown} bytes`);
  }
  const grown = Math.max(...outcomes.filter(outcome => outcome.size < SLACK).map(outcome => outcome.memory - start));
  t.diagnostic(`${files.filter(({ kind }) => kind !== 'accepted').length} bad files, each refused by its kind; a good one ran after each`);
  t.diagnostic(`memory grew by ${grown} bytes, but for files over ${SLACK}: ${outcomes.at(-1).memory - start}`);

  // The page's own controls, after all that.
  await page.setInputFiles('#model-file', GOOD.pathname);
  await page.waitForFunction(() => window.nucleus.model && !document.querySelector('#generate').disabled);
  await page.fill('#max-tokens', '3');
  await page.click('#generate');
  await page.waitForFunction(() => document.querySelectorAll('#output [data-index]').length === 3);
});
