// A compute thread of the engine: an instance of its own of the engine's wasm, on the engine's memory.
//
// The engine posts its wasm once this listens, and the thread's work once the instance stands (src/engine/threads.rs).

const next = () => new Promise((resolve) => addEventListener('message', ({ data }) => resolve(data), { once: true }));

async function live() {
  const posted = next();
  postMessage('listening');
  const [script, module, memory, stackSize] = await posted;
  const engine = await import(script);
  const wasm = engine.initSync({ module, memory, thread_stack_size: stackSize });
  const started = next();
  postMessage('ready');
  const [address, thread] = await started;
  try {
    engine.run_thread(address, thread);
  } catch (error) {
    engine.fail_thread(address);
    throw error;
  }
  wasm.__wbindgen_thread_destroy();
  close();
}

live().catch((error) => setTimeout(() => { throw error; }));
