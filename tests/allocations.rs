//! Decoding allocates nothing: counted by the allocator, on a model whose formats have kernels of our own; nor does sampling.

#[path = "support/model.rs"]
mod model;
#[path = "../examples/write_tiny/shape.rs"]
mod shape;
#[path = "support/top.rs"]
mod top;

use nucleus::backend::{Backend, Logits, Top, Wanted};
use nucleus::protocol::SamplingOptions;
use nucleus::sampling::Sampler;
use shape::{Format, Shape};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    /// Of this thread, since each test has its own.
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: every call goes to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn a_forward_pass_allocates_nothing_once_room_is_reserved() {
    allocates_nothing(include_bytes!("fixtures/tiny/llama-q4_1.gguf").to_vec());
    for (architecture, format) in [("qwen2", Format::Q8_0), ("qwen3", Format::Q4_0), ("gemma3", Format::Q8_0)] {
        allocates_nothing(Shape { format, ..Shape::of(architecture) }.write());
    }
    assert!(ALLOCATIONS.get() > 0, "the counter counts");
}

fn allocates_nothing(file: Vec<u8>) {
    let mut backend = model::backend(file, 64).unwrap();
    let mut logits = Logits { all: Vec::with_capacity(300), top: Top::default() };
    pollster::block_on(backend.reserve_kv(64)).unwrap();

    let allocated = pollster::block_on(async {
        let before = ALLOCATIONS.get();
        backend.forward(&[1, 2, 3, 4, 5], Some((Wanted::All, &mut logits))).await.unwrap();
        for id in 6..40 {
            backend.forward(&[id], Some((Wanted::All, &mut logits))).await.unwrap();
        }
        ALLOCATIONS.get() - before
    });
    assert_eq!(allocated, 0);
}

#[test]
fn sampling_allocates_its_candidates_with_their_tail_and_nothing_else() {
    let logits: Vec<f32> = (0..5000u32).map(|id| (id * 7919 % 5000) as f32 / 250.0).collect();
    let options = SamplingOptions { temperature: 0.7, top_p: 0.9, min_p: 0.01, seed: 1, ..SamplingOptions::OFF };
    let mut sampler = Sampler::new(&options, logits.len()).unwrap();
    let top = top::give(&logits, 1000, sampler.wanted(&[]));
    let all = Logits { all: logits, top: Top::default() };
    // 0 is the least likely: the top leaves it to all logits, and so it does more candidates than it has.
    for (logits, n_candidates, forced, expected) in [
        (&top, 0, None, (true, 0)),
        (&top, 64, None, (true, 2)),
        (&top, 64, Some(0), (false, 0)),
        (&top, 1001, None, (false, 0)),
        (&all, 0, None, (true, 0)),
        (&all, 1001, Some(0), (true, 2)),
        (&top, 64, None, (true, 2)),
    ] {
        let before = ALLOCATIONS.get();
        let sampled = sampler.sample(logits, &[], n_candidates, forced).unwrap();
        assert_eq!((sampled.is_some(), ALLOCATIONS.get() - before), expected, "{n_candidates} {forced:?}");
    }
}
