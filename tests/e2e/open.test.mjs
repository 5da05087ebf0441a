// The page opens: both wasm binaries start, under the headers that `cargo xtask serve` sends.
import assert from 'node:assert/strict';
import { pageTest } from './browser.mjs';

pageTest('the page opens and is ready for calls', {}, async page => {
  assert.match(await page.evaluate(() => window.nucleus.version), /^\d+\.\d+\.\d+/);
});

pageTest('the page may share memory with its workers', {}, async page => {
  assert.equal(await page.evaluate(() => crossOriginIsolated), true);
});
