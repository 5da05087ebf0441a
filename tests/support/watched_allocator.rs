//! The system's allocator, which also notes the largest request of each thread: a bad file must get nothing that it does
//! not back.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// The result of `work`, and the most bytes that it allocated at once.
pub fn largest_allocation<T>(work: impl FnOnce() -> T) -> (T, usize) {
    LARGEST_ALLOCATION.set(0);
    let result = work();
    (result, LARGEST_ALLOCATION.get())
}

/// What a file of `n_bytes` backs at worst: it is all empty strings, stored as a length each. A page is free, for what does
/// not depend on the file.
pub fn backed_by(n_bytes: usize) -> usize {
    (n_bytes / size_of::<u64>() * size_of::<String>()).max(4096)
}

thread_local! {
    static LARGEST_ALLOCATION: Cell<usize> = const { Cell::new(0) };
}

struct Watched;

#[global_allocator]
static ALLOCATOR: Watched = Watched;

fn note(size: usize) {
    LARGEST_ALLOCATION.set(LARGEST_ALLOCATION.get().max(size));
}

// SAFETY: every call goes to `System` unchanged; the note allocates nothing, for its cell is const and has no
// destructor.
unsafe impl GlobalAlloc for Watched {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note(layout.size());
        // SAFETY: the caller's own promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        note(layout.size());
        // SAFETY: the caller's own promise.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: the caller's own promise.
        unsafe { System.dealloc(ptr, layout) }
    }

    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        note(new_size);
        // SAFETY: the caller's own promise.
        unsafe { System.realloc(ptr, layout, new_size) }
    }
}
