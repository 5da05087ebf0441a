// The page without a network, after one visit; and a new build in place of an old one, whole or not at all.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { test } from 'node:test';
import { loadFixture, newContext } from './browser.mjs';
import { DIST, Host, buildIn } from './host.mjs';

/** `body(open, host)`: `open()` opens the page in the test's context. A page that throws fails the test. */
function offlineTest(name, options, body) {
  test(name, { timeout: 120_000 }, async () => {
    const host = await Host.start(options);
    const context = await newContext();
    const problems = [];
    try {
      await body(async () => {
        const page = await context.newPage();
        page.on('pageerror', error => problems.push(error.stack));
        await page.goto(host.url, { timeout: 60_000 });
        // A first visit may load twice.
        await page.waitForFunction(() => crossOriginIsolated && window.nucleus?.version, null, { timeout: 30_000 });
        return page;
      }, host);
    } finally {
      await context.close();
      await host.stop();
    }
    assert.deepEqual(problems, []);
  });
}

/** Waits until these builds are kept whole, and no other. */
async function kept(page, ...builds) {
  const whole = () => page.evaluate(async () => {
    const names = await caches.keys();
    const pages = await Promise.all(names.map(cacheName => caches.match(location.href, { cacheName })));
    return names.filter((_, i) => pages[i]).map(name => name.match(/build-\w+/)[0]);
  });
  const deadline = Date.now() + 20_000;
  while (String(await whole()) !== String(builds)) {
    assert.ok(Date.now() < deadline, `kept are ${await whole()}, expected ${builds}`);
    await page.waitForTimeout(100);
  }
}

async function write(page) {
  const { threads } = await loadFixture(page, 'tiny/llama-q4_1.gguf', { backend: 'cpu', threads: 2 });
  const { ids } = await page.evaluate(() => window.nucleus.generate({ ids: [1, 2, 3], maxNewTokens: 20, temperature: 0, ignoreEos: true }));
  assert.equal(ids.length, 20);
  return { threads, ids };
}

const folderOf = page => page.evaluate(() => document.querySelector('#loader').src.match(/build-\w+/)[0]);

/** A build of another name and title, whose engine is the same, in a folder of its own. */
function anotherBuild() {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'nucleus-build-'));
  const [old, name] = [buildIn(DIST), 'build-00000000000000ff'];
  fs.cpSync(DIST, folder, { recursive: true });
  fs.renameSync(path.join(folder, old), path.join(folder, name));
  const index = fs.readFileSync(path.join(folder, 'index.html'), 'utf8');
  fs.writeFileSync(path.join(folder, 'index.html'), index.replaceAll(old, name).replace('<title>', '<title>Another '));
  return { folder, name };
}

for (const isolates of [true, false]) {
  const title = `without a network the page opens and writes, from a host that sends ${isolates ? 'the' : 'no'} headers`;
  offlineTest(title, { isolates }, async (open, host) => {
    const page = await open();
    const online = await write(page);
    await kept(page, buildIn(DIST));
    await page.close();
    await host.stop();
    const offline = await open();
    assert.deepEqual(await write(offline), online);
    assert.equal(online.threads, 2);
    assert.match(await offline.textContent('#backend'), /relaxed SIMD/);
    const refusal = await offline.evaluate(() => window.nucleus.load('models/none.gguf').catch(error => error.kind));
    assert.equal(refusal, 'network');
  });
}

offlineTest('a new build is there at once, takes the place of the old one, and leaves an open page its own', {}, async (open, host) => {
  const other = anotherBuild();
  try {
    const first = await open();
    await kept(first, buildIn(DIST));
    host.folder = other.folder;
    const second = await open();
    assert.deepEqual([await folderOf(second), await second.title()].map(text => text.slice(0, 8)), ['build-00', 'Another ']);
    // The first page starts its engine's threads only now, and the host has nothing left of its build.
    await kept(second, buildIn(DIST), other.name);
    assert.equal(await folderOf(first), buildIn(DIST));
    const { ids } = await write(first);
    await first.close();
    await second.reload();
    await kept(second, other.name);
    await second.close();
    await host.stop();
    const third = await open();
    assert.equal(await folderOf(third), other.name);
    assert.deepEqual((await write(third)).ids, ids);
  } finally {
    fs.rmSync(other.folder, { recursive: true });
  }
});

offlineTest('a build with a damaged file is not kept; without a network the one before opens, whole', {}, async (open, host) => {
  const other = anotherBuild();
  try {
    const first = await open();
    await kept(first, buildIn(DIST));
    await first.close();
    host.folder = other.folder;
    host.answers[`${other.name}/engine.js`] = '/* another engine */';
    const second = await open();
    assert.equal(await folderOf(second), other.name);
    await second.waitForTimeout(1500);
    await kept(second, buildIn(DIST));
    await second.close();
    await host.stop();
    const third = await open();
    assert.equal(await folderOf(third), buildIn(DIST));
    await write(third);
  } finally {
    fs.rmSync(other.folder, { recursive: true });
  }
});
