//! What a model takes in memory against what its header let expect: counted by the allocator, on a model of each kind of format.
//! Natively; `tests/e2e/streaming.test.mjs` does the same with the browser's wasm memory.

#[path = "support/model.rs"]
mod model;

use nucleus::assembly::Rooms;
use nucleus::backend::cpu::Pool;
use nucleus::backend::{Backend, Budget, Estimate, Loader};
use nucleus::gguf::Gguf;
use nucleus::model::{ModelConfig, Plan, Weights};
use nucleus::protocol::BackendChoice;
use nucleus::tokenizer::Tokenizer;
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

static LIVE: AtomicUsize = AtomicUsize::new(0);
static HIGHEST: AtomicUsize = AtomicUsize::new(0);

/// The system's allocator, which counts the bytes that are in use. Programs of one test only: others would be counted, too.
struct Counting;

// SAFETY: every call goes to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let live = LIVE.fetch_add(layout.size(), Relaxed) + layout.size();
        HIGHEST.fetch_max(live, Relaxed);
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Relaxed);
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Bytes that `make` left in use, and at the highest.
fn counted<T>(make: impl FnOnce() -> T) -> (T, usize, usize) {
    let before = LIVE.load(Relaxed);
    HIGHEST.store(before, Relaxed);
    let made = make();
    (made, LIVE.load(Relaxed) - before, HIGHEST.load(Relaxed) - before)
}

#[test]
fn loading_takes_what_the_header_lets_expect() {
    for name in ["llama-q4_1", "llama-q6_k", "llama-f16", "llama-q2_k", "llama"] {
        let path = format!("{}/tests/fixtures/tiny/{name}.gguf", env!("CARGO_MANIFEST_DIR"));
        // A tiny model's working memory is more than its weights.
        check(name, &std::fs::read(path).unwrap(), 64, 0.2);
    }
    let ratio = check("the default model", &model::default_file(), 1024, 0.05);
    assert!(ratio < 1.02, "the default model takes {ratio:.3} times its file");
}

/// Loads in pieces, as the browser does, and makes room for the whole context. Returns the highest use while loading as a multiple
/// of the file, without cache and working memory.
fn check(name: &str, file: &[u8], context_length: usize, tolerance: f64) -> f64 {
    let gguf = Gguf::parse(file).unwrap();
    let config = ModelConfig::from_gguf(&gguf).unwrap();
    let vocab_size = config.vocab_size;
    let weights = Weights::from_gguf(&gguf, &config).unwrap();
    let plan = Plan::new(config, weights);
    let estimate = Estimate::new(&plan, &gguf.metadata, context_length, 1);
    let (tokenizer, in_tokenizer, _) = counted(|| Tokenizer::from_metadata(&gguf.metadata, vocab_size).unwrap());
    let expected = estimate.needs.tokenizer;
    let error = (in_tokenizer as f64 / expected as f64 - 1.0).abs();
    assert!(error < 0.3, "{name}: the tokenizer takes {in_tokenizer}, expected {expected}");
    drop(tokenizer);

    let (mut backend, loaded, highest) = counted(|| {
        let mut rooms = Rooms::new(&plan).unwrap();
        let loader = pollster::block_on(Loader::new(BackendChoice::Cpu, None, plan.clone(), context_length));
        let (mut loader, mut set) = (loader, 0);
        for (i, bytes) in file.chunks(65_536).enumerate() {
            rooms.take((i * 65_536) as u64, bytes).unwrap();
            while set < loader.n_sets()
                && let Some(data) = rooms.hand_over(loader.set(set))
            {
                pollster::block_on(loader.add(set, data)).unwrap();
                set += 1;
            }
        }
        pollster::block_on(loader.finish(Pool::alone(), |_, _, _| {}))
    });
    let ((), in_cache, _) = counted(|| pollster::block_on(backend.reserve_kv(context_length)).unwrap());
    let expected = (estimate.engine_bytes() - estimate.needs.tokenizer) as f64;
    let took = highest.max(loaded + in_cache) as f64;
    println!("{name}: {took} bytes, expected {expected}; {highest} while loading a file of {}", file.len());
    let error = (took / expected - 1.0).abs();
    assert!(error < tolerance, "{name}: took {took}, expected {expected}, off by {error:.3}");
    assert_eq!(estimate.check(&Budget { engine: u64::MAX, both: u64::MAX, why: String::new() }).unwrap(), None);
    highest as f64 / file.len() as f64
}
