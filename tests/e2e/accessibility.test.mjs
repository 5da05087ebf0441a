// The page against axe-core's rules, WCAG 2.2 A and AA and its best practices: each state a reader meets, in both themes, on a phone too.
import assert from 'node:assert/strict';
import { loadFixture, pageTest, violations } from './browser.mjs';

/** Opens every disclosure, so that what it hides is looked at too. */
const openAll = page => page.evaluate(() => document.querySelectorAll('details').forEach(details => { details.open = true; }));

for (const [name, options] of [
  ['light, 1280 pixels', { colorScheme: 'light', viewport: { width: 1280, height: 800 } }],
  ['dark, 390 pixels', { colorScheme: 'dark', viewport: { width: 390, height: 844 } }],
]) {
  pageTest(`axe-core finds nothing to object to: ${name}`, options, async page => {
    assert.deepEqual(await violations(page), [], 'before a model is loaded');
    await loadFixture(page, 'tiny/llama-q4_1.gguf', { backend: 'cpu' });
    await page.evaluate(() => window.nucleus.generate({ ids: [1, 2, 3], maxNewTokens: 12, ignoreEos: true, seed: 5 }));
    await openAll(page);
    assert.deepEqual(await violations(page), [], 'after a run, all disclosures open');
  });
}
