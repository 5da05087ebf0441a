// Figures of several runs -> a markdown table. No browser in here, so that it can be tested.

/** The middle one of `values`; of an even number, the mean of the two in the middle. */
export function median(values) {
  const sorted = [...values].sort((a, b) => a - b);
  const half = sorted.length >> 1;
  return sorted.length % 2 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
}

/** The median of each number that the runs have, of those that have it; `null` for one that none has. */
export const medians = runs => Object.fromEntries(FIGURES.map(figure => {
  const values = runs.map(run => run[figure]).filter(Number.isFinite);
  return [figure, values.length ? median(values) : null];
}));

/** tokens/s of prefill, decode and decode as shown; bytes of wasm memory after loading, and of what loading adds to the process. */
const FIGURES = ['prefill', 'decode', 'shown', 'wasmBytes', 'loadPeakBytes'];

const COLUMNS = ['engine', 'prefill tokens/s', 'decode tokens/s', 'as shown', 'wasm memory', 'peak of the load'];

/** The case that the ratios are taken to. */
const REFERENCE = 'wllama-1t';

/**
 * One row for each case of `results`, a Map from its name to the runs that came to an end. Speeds are followed by their ratio to
 * the reference where it ran; what is shown, by its ratio to free running; memory is in multiples of the file, `fileBytes`.
 */
export function table(results, fileBytes) {
  const rows = [...results].map(([name, runs]) => ({ name, ...medians(runs) }));
  const reference = rows.find(row => row.name === REFERENCE);
  const speed = (row, figure) => number(row[figure]) + ratio(row[figure], reference?.[figure], '×');
  const lines = rows.map(row => [
    row.name,
    speed(row, 'prefill'),
    speed(row, 'decode'),
    number(row.shown) + ratio(row.shown, row.decode, ' of free'),
    ...['wasmBytes', 'loadPeakBytes'].map(figure => multiple(row[figure], fileBytes)),
  ]);
  return [COLUMNS, COLUMNS.map(() => '---'), ...lines].map(cells => `| ${cells.join(' | ')} |`).join('\n');
}

/** As many digits as a measurement is good for. */
const number = value => value === null ? '–' : value < 100 ? value.toFixed(1) : value.toFixed(0);

const ratio = (value, to, unit) => value === null || !to ? '' : ` (${(value / to).toFixed(2)}${unit})`;

const multiple = (bytes, fileBytes) => bytes === null ? '–' : `${(bytes / 1e6).toFixed(0)} MB (${(bytes / fileBytes).toFixed(2)}×)`;
