// The public API of the page: `window.nucleus`. It runs the model in a worker; the page shows every run it starts.
//
// Every method returns a promise. A rejection is a `NucleusError`. Nothing is ignored: an unknown option or a value of the
// wrong type or range is refused by name with kind `bad-option`.

export interface NucleusError extends Error {
  /** Stable, kebab-case, for programs: `bad-option`, `busy`, `no-model`, `not-gguf`, `device-lost`, ... */
  kind: string
}

export interface Nucleus {
  readonly version: string
  /**
   * Resolves once the page can take calls. If the page's own code fails, the calls that are open reject with `page-failed` and the
   * page begins anew, without a model: then this is another promise.
   */
  readonly ready: Promise<void>
  /**
   * What is loaded, or null: before the first load, while another model loads, after `unload` or a crash. It changes when the
   * GPU is lost: then the model runs on the CPU, and `backendReason` says why.
   */
  readonly model: ModelInfo | null

  /**
   * Loads a GGUF file from a URL (relative ones are relative to the page) or from a local file. A run in progress is stopped;
   * a load in progress makes this one `busy`. The model before is dropped when this one starts to load.
   *
   * A model that is split into `NAME-00001-of-00003.gguf` and so on is loaded by the URL of any part (the others lie beside it), or
   * by the list of all its Files. The refusal of a file by its header, and of a model that does not fit into memory, comes as
   * soon as the header is there.
   */
  load(source: string | File | Blob | File[], options?: LoadOptions): Promise<ModelInfo>
  /** Token by token. `special`: control tokens in the text are parsed; default false, they are text. */
  tokenize(text: string, options?: { special?: boolean }): Promise<Token[]>
  /** The text of these ids; ids past the tokenizer's end are empty text. */
  detokenize(ids: number[]): Promise<string>
  /**
   * The prompt that the file's own chat template makes of a conversation, the assistant's turn having begun. In it, what messages
   * say looks as it was said; `generate({ messages })` keeps it from becoming control tokens, which `prompt` with `special` would
   * not. A file without a template rejects with `no-chat-template`; a template that is too large, does too much, is wrong or
   * refuses these messages, with `template-refused`.
   */
  renderChat(messages: ChatMessage[]): Promise<string>
  /** One forward pass from an empty cache: the logits of the last position, one per token of the vocabulary. */
  logits(ids: number[]): Promise<Float32Array>
  /**
   * One run. `onStep` is called for every token, in order, before the promise resolves. One run at a time: another one is
   * refused with `busy`. A stopped run resolves, with `stopReason: 'cancelled'`. When the GPU is lost a run rejects with kind
   * `device-lost`; what it wrote stays on the page, and the next run works, on the CPU.
   */
  generate(options: GenerateOptions, onStep?: (step: Step) => void): Promise<Result>
  /**
   * Ends what is in progress, if anything, and resolves when it is over. A run then resolves, with `stopReason: 'cancelled'`;
   * a load rejects, with kind `cancelled`.
   */
  stop(): Promise<void>
  /**
   * Stops what is in progress and drops the model. Its memory is free for the next model; wasm memory never shrinks, so
   * `diagnostics().memoryBytes` stays.
   */
  unload(): Promise<void>
  diagnostics(): Promise<Diagnostics>
  /** The files kept in this browser. */
  readonly cache: Cache
}

export interface Cache {
  /** The newest first. */
  list(): Promise<CacheEntry[]>
  /** True when there was one and it is gone; false also for a file that is being written just now. */
  delete(url: string): Promise<boolean>
  /** Deletes all; says how many went. */
  clear(): Promise<number>
}

export interface CacheEntry {
  url: string
  /** Bytes that are there. */
  bytes: number
  /** They are the whole file; otherwise the next load goes on from them if the server allows it. */
  complete: boolean
  /** Of these bytes. */
  sha256: string
  /** Milliseconds since 1970. */
  savedAt: number
}

export interface ChatMessage {
  role: 'system' | 'user' | 'assistant' | 'tool'
  content: string
}

export interface LoadOptions {
  /**
   * Default 'auto': WebGPU where a hardware adapter holds the model and its self-test passes, otherwise the CPU. The choice on
   * the page is for loads from the page.
   */
  backend?: 'auto' | 'webgpu' | 'cpu'
  /** CPU threads, 1 to 16; default: one fewer than there are cores, at most 8. One where the page is not isolated. */
  threads?: number
  /** Positions that the KV cache can hold. Default: the model's own, at most 4096. */
  contextLength?: number
  /**
   * Read a URL's file from the copy kept in this browser, without any request, and keep one for the next visit; default true.
   * The key is the URL: a file that changes under its address is fetched anew after `nucleus.cache.delete`, or where `sha256`
   * asks for another one. A local file is never kept.
   */
  cache?: boolean
  /** 64 hexadecimal digits; a file with another hash is refused with `hash-mismatch`. */
  sha256?: string
  onProgress?: (progress: LoadProgress) => void
}

export interface LoadProgress {
  /** `cache`: the kept copy is read; `retry`: the connection was lost, and another try follows. */
  phase: 'download' | 'cache' | 'retry' | 'parse' | 'upload' | 'compile' | 'self-test'
  /** Bytes of the file in `download`, `cache`, `retry` and `upload`, GPU programs in `compile`, else parts of the work. Never above `total`. */
  received: number
  /** null when the server does not say. */
  total: number | null
}

export interface ModelInfo {
  /** As the file says, or the file's own name; cut after 200 characters. */
  name: string
  architecture: string
  /** The commonest tensor format by bytes, such as `Q4_1`. */
  quantization: string
  parameters: number
  /** Size of the file. */
  bytes: number
  vocabSize: number
  /** Positions that the KV cache can hold. */
  contextLength: number
  layers: number
  embedding: number
  heads: number
  kvHeads: number
  backend: 'webgpu' | 'cpu'
  /** Why this backend, as a sentence. */
  backendReason: string
  /** What the browser said, in full, when it gave no GPU; null when it was not asked or gave one. */
  backendRefusal: string | null
  /** The engine's build, such as `simd128`. */
  build: string
  threads: number
  /** The GPU adapter; null on the CPU. */
  adapter: string | null
  /** How the GPU did against the CPU engine at loading; null when it was not tried. */
  selfTest: SelfTest | null
  /** Bytes of wasm memory after loading. */
  memoryBytes: number
  /**
   * Bytes that the model takes, as its header let expect: weights as the CPU engine keeps them, the KV cache of the whole
   * context (made when a run needs it), working memory, tokenizer; and in GPU memory, 0 where the GPU cannot hold the model.
   */
  memoryNeeds: { weights: number; cache: number; work: number; tokenizer: number; gpu: number }
  /** The file was kept from an earlier load: nothing was asked of the network. */
  fromCache: boolean
  /** Milliseconds from the engine's taking up the request to the ready model. */
  loadMs: number
  hasChatTemplate: boolean
  /** What there is to say of the cache, as sentences: a damaged copy, no room; null when all is as it should be. */
  cacheNotice: string | null
  /** Of the file, lower-case hex. */
  sha256: string
}

/** A short prompt through both engines; the CPU engine is the reference. */
export interface SelfTest {
  /** Normalised mean square error of the GPU's logits: sum of (gpu - cpu)^2 over sum of cpu^2. */
  error: number
  /** The largest `error` that passes. */
  tolerance: number
  /**
   * Both engines find the same token likeliest, or the margin is too small to say; and the list of the likeliest tokens and the
   * sums that the GPU makes are those of its logits.
   */
  sameTop: boolean
  passed: boolean
  /** Tokens of the prompt. */
  nTokens: number
  /** Milliseconds, both engines together. */
  ms: number
}

export interface Token {
  id: number
  /** The bytes as text; bytes that are no whole character become U+FFFD. */
  text: string
  /** The token's own bytes; a control token's are its name. */
  bytes: Uint8Array
}

/** Exactly one of `prompt`, `ids` and `messages`. */
export interface GenerateOptions {
  prompt?: string
  ids?: number[]
  /**
   * A conversation, through the file's chat template (see `renderChat`); the run writes the assistant's next turn. Nothing that a
   * message says becomes a control token.
   */
  messages?: ChatMessage[]
  /** Parse control tokens in `prompt`. Default false: they are text. */
  special?: boolean
  /** Default 64; at least 1. */
  maxNewTokens?: number
  /** Default 0.7; 0 is greedy, in both orders: the likeliest token after the processors, the lowest id of equals. */
  temperature?: number
  /** Keeps a token iff the probability strictly above it is below this. Default 0.9; 1 is off, 0 keeps one. */
  topP?: number
  /** Keeps the k likeliest, ties with the k-th included. Default 0: off. */
  topK?: number
  /** Keeps p >= minP * the likeliest's p. Default 0: off. */
  minP?: number
  /** Once per distinct token of prompt and text: negative logits are multiplied, others divided. Default 1: off. */
  repetitionPenalty?: number
  /** Keeps the tokens whose surprisal is nearest to the entropy, until they have this mass. Above 0; default 1: off. */
  typicalP?: number
  /** Keeps p >= this, at least one token. Below 1; default 0: off. */
  epsilonCutoff?: number
  /** Keeps p >= this, or >= sqrt(this) * e^-entropy where that is less; at least one token. Below 1; default 0: off. */
  etaCutoff?: number
  /** Forbids a token that would end a run of so many tokens which is in prompt and text already. Default 0: off. */
  noRepeatNgramSize?: number
  /** Forbids every end of text until the text has so many tokens, with `ignoreEos` too. Default 0: off. */
  minNewTokens?: number
  /** Added to the logits of these tokens; finite. An id past the vocabulary is `bad-token`. */
  logitBias?: Record<number, number>
  /** Tokens that are forbidden. A step in which all of them are is refused with `bad-option`. */
  suppress?: number[]
  /**
   * First, always: penalty, n-grams, least length, bias, suppression. Then 'hf' (default): temperature, top-k, top-p, min-p,
   * typical-p, epsilon, eta. 'llama.cpp': top-k, typical-p, top-p, min-p, epsilon, eta, temperature last.
   */
  samplerOrder?: 'hf' | 'llama.cpp'
  /** A whole number from 0 to 2^53 - 1. Default: a new one each time; the result says which. */
  seed?: number
  /** Texts that end the run; the text is cut where one begins. None may be empty. */
  stop?: string[]
  /** Go on after an end-of-text token. Default false. */
  ignoreEos?: boolean
  /** Ends the run after this long, with `stopReason: 'time'`. */
  maxTimeMs?: number
  /** Default true. False: every step computes all positions again. The page's switch changes it while the run goes on. */
  kvCache?: boolean
  /** How many candidates a step reports, the likeliest first. Default 64; 0 for none. */
  candidates?: number
  /** 'frame' (default): no further ahead than the page can show. 'free': as fast as the engine can, for measuring. */
  pace?: 'frame' | 'free'
  /** Tokens to take, one per step, before drawing begins. */
  forceIds?: number[]
  /**
   * Text that is there already, as the ids of an earlier run: the run goes on after it and makes no steps for it. `index`, the
   * draws (step i takes the i-th number of the seed's stream), stop rules, `minNewTokens` and `maxNewTokens` count it, so
   * that the steps are those that the earlier run would have made. `forceIds` come after it.
   */
  resumeIds?: number[]
  /**
   * Keep what the KV cache holds from the run before, as far as it is of this run's ids; `reusedTokens` says how much that was.
   * Default true with `messages`, so that a conversation computes its new turn only; else false: the run starts from an empty
   * cache, and its times are all its own. Without effect when `kvCache` is off.
   */
  reuseCache?: boolean
}

export interface Step {
  /** 0 for the first new token. */
  index: number
  /** The token's place in the sequence: prompt tokens + index. */
  position: number
  /** Positions in the KV cache when the draw was made. */
  kvLength: number
  /** Positions that went through the model for this step: 1 with the cache, all of them without, the prompt's at first. */
  positionsComputed: number
  id: number
  /** The text that this step released: whole characters, nothing that could still become a stop string. */
  text: string
  /** The token's own bytes. */
  bytes: Uint8Array
  /** Place among all tokens, 0 the likeliest after the processors. */
  rank: number
  /** The probability that it was drawn with. */
  p: number
  /** -log2 of the model's own probability for it (`pRaw`). */
  surprisalBits: number
  /** The uniform draw in [0, 1); null when greedy or forced. */
  u: number | null
  /** In descending probability; ids break ties. */
  candidates: Candidate[]
  /** How many tokens were kept, of the whole vocabulary. */
  nucleusSize: number
  /** Their probability before renormalisation, after temperature. */
  nucleusMass: number
  /** Entropy of the model's own distribution (temperature 1). */
  entropyBits: number
  /** The tokens beyond the candidates, of which the first 64 count; null for `candidates: 0`. */
  tail: Tail | null
  /** Where the time of the step went, milliseconds. */
  ms: { total: number; forward: number; sample: number; readback: number }
}

/** Bins of 1/16 of a logit, from the top down: the mean logit of each, as the model gave it, and how many tokens it holds. */
export interface Tail {
  logits: Float32Array
  counts: Uint32Array
  /** Tokens of which nothing is known but that they are below all others: a GPU reads back the top alone. */
  unknown: number
}

export interface Candidate {
  id: number
  /** The bytes as text; bytes that are no whole character become U+FFFD. */
  text: string
  /** As the model gave it. */
  logit: number
  /** Softmax of the model's logits: temperature 1, nothing filtered. */
  pRaw: number
  /** Softmax of the processed logits at the temperature, nothing filtered; 0 when forbidden. In both orders. */
  pTemperature: number
  /** As drawn from; 0 when cut. */
  pFinal: number
  /**
   * Running sum, this one included, of the probability that top-p looks at: after temperature and top-k, or, in llama.cpp's
   * order, after top-k and typical-p at temperature 1.
   */
  cumulative: number
  kept: boolean
}

export interface Result {
  text: string
  /** The new tokens. Like `text` without those of `resumeIds`. */
  ids: number[]
  stopReason: 'eos' | 'stop' | 'length' | 'context' | 'cancelled' | 'time'
  promptTokens: number
  newTokens: number
  /** Positions that the KV cache held already when the run began; 0 without `reuseCache`. */
  reusedTokens: number
  /** The seed that was used. */
  seed: number
  /** From the start of the run to its first token. */
  ttftMs: number
  prefillMs: number
  prefillTokensPerS: number
  /** From the first token to the last. */
  decodeMs: number
  /** (newTokens - 1) / decode time; 0 for fewer than two tokens. */
  decodeTokensPerS: number
}

export interface Diagnostics {
  version: string
  build: string
  backend: string
  /** Bytes of wasm memory now. */
  memoryBytes: number
  model: ModelInfo | null
  /** The GPU as it was found, in use or not; null when none was tried. */
  gpu: GpuDiagnostics | null
  /** The last failed request. */
  lastError: { kind: string; message: string } | null
}

export interface GpuDiagnostics {
  /** The adapter's name. */
  adapter: string
  /** It computes on the CPU. */
  software: boolean
  /** Features of the device, as WebGPU names them. */
  features: string[]
  /** Limits of the device, as WebGPU names them. */
  limits: Record<string, number>
  /** Bytes in the engine's buffers: weights, cache and scratch. */
  bufferBytes: number
  pipelines: number
  /** Milliseconds from the first pipeline asked for to the last one ready. */
  compileMs: number
  dispatchesPerToken: number
  selfTest: SelfTest | null
  /** Why the GPU does not run the model, or no longer; null when it does. */
  failure: string | null
}

declare global {
  interface Window {
    nucleus: Nucleus
  }
}
