// Evaluated in the page that is measured: for each engine, `load` and then `run`, the same work for all of them.
window.drivers = (() => {
  // 145 tokens of SmolLM2's vocabulary, both: the second is for the browser to compile what it will measure. Their first
  // tokens differ, so that no engine finds a part of one in its cache from the other.
  const text = start => (`${start} history of the printing press begins in the fifteenth century, when movable type made it `
    + 'possible to copy books far faster than any scribe could. ').repeat(5).trim();
  const PROMPT = text('The');
  const WARM_UP = text('A');
  const PROMPT_TOKENS = 145;
  const WARM_UP_TOKENS = 16;
  const CONTEXT = 2048;

  const expectPrompt = found => {
    if (found !== PROMPT_TOKENS) throw new Error(`${found} tokens were computed for a prompt of ${PROMPT_TOKENS}`);
  };

  async function nucleus({ build, threads }) {
    await window.nucleus.ready;
    return {
      async load(url) {
        const info = await window.nucleus.load(url, { backend: 'cpu', threads, contextLength: CONTEXT, cache: false });
        if (info.build !== build || info.threads !== threads) {
          throw new Error(`this is ${info.build} on ${info.threads} threads, not ${build} on ${threads}`);
        }
        return { wasmBytes: info.memoryBytes };
      },
      async run(tokens) {
        const greedy = { temperature: 0, ignoreEos: true, candidates: 0, pace: 'free' };
        await window.nucleus.generate({ ...greedy, prompt: WARM_UP, maxNewTokens: WARM_UP_TOKENS });
        const free = await window.nucleus.generate({ ...greedy, prompt: PROMPT, maxNewTokens: tokens });
        expectPrompt(free.promptTokens);
        // As a reader of the page sees it: sampled, 64 candidates a step, no faster than the page can show.
        const asShown = { prompt: PROMPT, maxNewTokens: tokens, ignoreEos: true, seed: 1, candidates: 64, pace: 'frame' };
        const shown = await window.nucleus.generate(asShown, () => {});
        return {
          prefill: free.prefillTokensPerS,
          decode: free.decodeTokensPerS,
          shown: shown.decodeTokensPerS,
          text: free.text,
        };
      },
    };
  }

  function wllama({ threads }) {
    let engine;
    return {
      async load(url) {
        const package_ = '/bench/node_modules/@wllama/wllama/esm';
        const { Wllama } = await import(`${package_}/index.js`);
        engine = new Wllama({ default: `${package_}/wasm/wllama.wasm` }, { suppressNativeLog: true });
        const file = await (await fetch(url)).blob();
        await engine.loadModel([file], { n_threads: threads, n_ctx: CONTEXT, n_gpu_layers: 0, n_batch: 512 });
        if (engine.getNumThreads() !== threads) throw new Error(`wllama runs on ${engine.getNumThreads()} threads`);
        return {};
      },
      async run(tokens) {
        const greedy = { temperature: 0, ignore_eos: true };
        await engine.createCompletion({ ...greedy, prompt: WARM_UP, max_tokens: WARM_UP_TOKENS });
        let timings;
        let text = '';
        for await (const chunk of
          await engine.createCompletion({ ...greedy, prompt: PROMPT, max_tokens: tokens, stream: true })) {
          text += chunk.choices?.[0]?.text ?? '';
          timings = chunk.timings ?? timings;
        }
        expectPrompt(timings.prompt_n);
        return { prefill: timings.prompt_per_second, decode: timings.predicted_per_second, text };
      },
    };
  }

  function candle() {
    let peer;
    return {
      async load(url) {
        const { default: start, Peer } = await import('/candle-peer/candle_peer.js');
        await start();
        peer = new Peer(new Uint8Array(await (await fetch(url)).arrayBuffer()));
        return {};
      },
      async run(tokens) {
        // Which tokens they are does not change what they cost.
        const ids = offset => Uint32Array.from({ length: PROMPT_TOKENS }, (_, i) => offset + i * 37);
        const generate = (prompt, n) => {
          const start = performance.now();
          let id = peer.forward(prompt, 0);
          const first = performance.now();
          for (let i = 0; i < n - 1; i++) id = peer.forward(Uint32Array.of(id), PROMPT_TOKENS + i);
          const end = performance.now();
          return { prefill: PROMPT_TOKENS * 1000 / (first - start), decode: (n - 1) * 1000 / (end - first) };
        };
        generate(ids(301), WARM_UP_TOKENS);
        return generate(ids(300), tokens);
      },
    };
  }

  return { nucleus, wllama, candle };
})();
