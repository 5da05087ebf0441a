//! Sharing out work allocates nothing, on no thread. Alone in its binary: the counter counts every thread there is.
#![cfg(not(target_arch = "wasm32"))]

#[path = "support/model.rs"]
mod model;

use nucleus::backend::cpu::Pool;
use nucleus::backend::{Backend, Logits, Top, Wanted};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

static ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);

struct Counting;

// SAFETY: every call goes to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::SeqCst);
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn a_forward_pass_on_two_threads_allocates_nothing() {
    let mut backend = model::backend_on(Pool::start(2), model::default_file(), 64).unwrap();
    let mut logits = Logits { all: Vec::with_capacity(49_152), top: Top::default() };
    pollster::block_on(backend.reserve_kv(64)).unwrap();
    // The helper's first work may still see it start.
    pollster::block_on(backend.forward(&[7; 20], None)).unwrap();

    let allocated = pollster::block_on(async {
        let before = ALLOCATIONS.load(Ordering::SeqCst);
        backend.forward(&[1, 2, 3, 4, 5], Some((Wanted::All, &mut logits))).await.unwrap();
        for id in 6..20 {
            backend.forward(&[id], Some((Wanted::All, &mut logits))).await.unwrap();
        }
        ALLOCATIONS.load(Ordering::SeqCst) - before
    });
    assert_eq!(allocated, 0);
}
