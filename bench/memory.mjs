// How much memory a page's process takes at its highest, from Linux's /proc; elsewhere nothing is known.
import fs from 'node:fs';

/** The kernel keeps the highest itself, but forgets it when it takes pages back on its own account. */
const SAMPLE_MS = 20;

/**
 * Does `work`, and resolves to its result and to how many bytes more than before the process of a page in `browser`, a Chromium,
 * had at its highest, or null.
 */
export async function highestMemory(browser, work) {
  if (process.platform !== 'linux') return [await work(), null];
  const session = await browser.newBrowserCDPSession();
  const { processInfo } = await session.send('SystemInfo.getProcessInfo');
  // Renderers that come later are no page's: Chromium keeps one ready.
  const renderers = processInfo.filter(({ type }) => type === 'renderer').map(({ id }) => id);
  for (const pid of renderers) fs.writeFileSync(`/proc/${pid}/clear_refs`, '5'); // the highest from here on
  const before = new Map(renderers.map(pid => [pid, statusBytes(pid, 'VmRSS')]));
  let highest = 0;
  const sample = () => {
    for (const [pid, bytes] of before) highest = Math.max(highest, statusBytes(pid, 'VmHWM') - bytes);
  };
  const timer = setInterval(sample, SAMPLE_MS);
  try {
    const result = await work();
    sample();
    return [result, highest];
  } finally {
    clearInterval(timer);
  }
}

/** A field of a process's status; 0 once it has gone. */
function statusBytes(pid, field) {
  const file = `/proc/${pid}/status`;
  const status = fs.existsSync(file) ? fs.readFileSync(file, 'utf8') : '';
  const kilobytes = status.match(new RegExp(`^${field}:\\s+(\\d+) kB$`, 'm'))?.[1] ?? 0;
  return kilobytes * 1024;
}
