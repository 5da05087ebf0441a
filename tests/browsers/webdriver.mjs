// As much of WebDriver (https://www.w3.org/TR/webdriver2/) as opening a page and asking it takes; Playwright drives no browser that
// Debian ships but Chromium.
import { spawn } from 'node:child_process';
import net from 'node:net';

/** A port that nobody listens on. */
async function freePort() {
  const server = net.createServer();
  await new Promise(resolve => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address();
  await new Promise(resolve => server.close(resolve));
  return port;
}

export class Session {
  #driver;
  #url;

  /** Starts `driver`, a command, on a free port, and a browser with these capabilities. */
  static async start([driver, ...args], capabilities) {
    const session = new Session();
    const port = await freePort();
    // In a group of its own, which ends with it: xvfb-run has children.
    session.#driver = spawn(driver, [...args, `--port=${port}`], { stdio: 'ignore', detached: true });
    const failed = new Promise((_, reject) => session.#driver.once('error', reject));
    session.#url = `http://127.0.0.1:${port}/session`;
    try {
      await Promise.race([failed, listening(port)]);
      const body = { capabilities: { alwaysMatch: capabilities } };
      const { sessionId, capabilities: found } = await session.#send('POST', '', body);
      session.#url += `/${sessionId}`;
      session.name = `${found.browserName} ${found.browserVersion}`;
      await session.#send('POST', '/timeouts', { script: 120_000, pageLoad: 60_000 });
      return session;
    } catch (error) {
      session.#kill();
      throw error;
    }
  }

  async open(url) {
    await this.#send('POST', '/url', { url });
  }

  /** What the async `script`, a function, makes of these arguments in the page. */
  async evaluate(script, ...args) {
    // The page answers by callback: not every driver waits for a promise.
    const body = `const done = arguments[arguments.length - 1];
      (${script})(...[...arguments].slice(0, -1)).then(value => done({ value }), error => done({ error: String(error) }));`;
    const { value, error } = await this.#send('POST', '/execute/async', { script: body, args });
    if (error) throw new Error(`in the page: ${error}`);
    return value;
  }

  async end() {
    await this.#send('DELETE', '').catch(() => undefined);
    this.#kill();
  }

  #kill() {
    // One that never started has no number.
    if (this.#driver.pid && this.#driver.exitCode === null) process.kill(-this.#driver.pid);
  }

  async #send(method, path, body) {
    const content = body && { headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(body) };
    const answer = await fetch(this.#url + path, { method, ...content });
    const { value } = await answer.json();
    if (!answer.ok) throw new Error(`${method} ${path}: ${value.error}: ${value.message}`);
    return value;
  }
}

/** Resolves once something listens on `port`. */
async function listening(port) {
  for (let tries = 0; ; tries += 1) {
    try {
      return await new Promise((resolve, reject) => {
        const socket = net.connect(port, '127.0.0.1', () => resolve(socket.destroy()));
        socket.once('error', reject);
      });
    } catch (error) {
      if (tries === 100) throw error;
      await new Promise(resolve => setTimeout(resolve, 100));
    }
  }
}
