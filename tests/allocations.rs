//! Decoding allocates nothing: counted by the allocator, on a model whose formats have kernels of our own.

#[path = "support/model.rs"]
mod model;

use nucleus::backend::Backend;
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

static ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);

struct Counting;

// SAFETY: every call goes to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
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
    let file = include_bytes!("fixtures/tiny/llama-q4_1.gguf").to_vec();
    let mut backend = model::backend(file, 64).unwrap();
    let mut logits = Vec::with_capacity(288);
    backend.reserve_kv(64).unwrap();

    let allocated = pollster::block_on(async {
        let before = ALLOCATIONS.load(Ordering::Relaxed);
        backend.forward(&[1, 2, 3, 4, 5], Some(&mut logits)).await.unwrap();
        for id in 6..40 {
            backend.forward(&[id], Some(&mut logits)).await.unwrap();
        }
        ALLOCATIONS.load(Ordering::Relaxed) - before
    });
    assert_eq!(allocated, 0);
    assert!(ALLOCATIONS.load(Ordering::Relaxed) > 0, "the counter counts");
}
