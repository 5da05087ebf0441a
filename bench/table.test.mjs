import assert from 'node:assert/strict';
import { test } from 'node:test';
import { median, medians, table } from './table.mjs';

test('the median is the middle one, and sorts a copy', () => {
  const values = [10, 9, 100];
  assert.equal(median(values), 10);
  assert.deepEqual(values, [10, 9, 100]);
  assert.equal(median([4, 1, 2, 30]), 3);
  assert.equal(median([7]), 7);
});

test('each figure has a median of its own, over the runs that know it', () => {
  const { prefill, decode, shown, wasmBytes } =
    medians([{ prefill: 1, decode: 9 }, { prefill: 3, decode: 1, shown: 5 }, { prefill: 2, decode: 2, shown: null }]);
  assert.deepEqual({ prefill, decode, shown, wasmBytes }, { prefill: 2, decode: 2, shown: 5, wasmBytes: null });
});

test('speeds stand beside their ratio to wllama, memory beside that to the file', () => {
  const results = new Map([
    ['nucleus-1t', [{ prefill: 250, decode: 80, shown: 76, wasmBytes: 130e6, loadPeakBytes: 135e6 }]],
    ['wllama-1t', [{ prefill: 20, decode: 16, loadPeakBytes: 200e6 }]],
  ]);
  const lines = table(results, 100e6).split('\n');
  assert.equal(lines.length, 4);
  assert.equal(lines[2], '| nucleus-1t | 250 (12.50×) | 80.0 (5.00×) | 76.0 (0.95 of free) | 130 MB (1.30×) | 135 MB (1.35×) |');
  assert.equal(lines[3], '| wllama-1t | 20.0 (1.00×) | 16.0 (1.00×) | – | – | 200 MB (2.00×) |');
});

test('without wllama there are no ratios, and a case that never came to an end has no figures', () => {
  const lines = table(new Map([['nucleus-1t', [{ prefill: 250, decode: 80 }]], ['nucleus-2t', []]]), 1e6).split('\n');
  assert.equal(lines[2], '| nucleus-1t | 250 | 80.0 | – | – | – |');
  assert.equal(lines[3], '| nucleus-2t | – | – | – | – | – |');
});
