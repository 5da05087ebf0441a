//! What the threads of a pool share: the work in progress, who takes part in it, and how the others wait.
//!
//! A decode step hands out some 300 pieces of work of about 15 µs. So helpers spin a while before they sleep, and one that comes
//! too late (it slept, or its core was taken away) is not waited for: the others have done its part.
//!
//! Invariant: knows parts by number only; when `run` returns, no thread holds its task any more.

use std::cell::UnsafeCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};

/// `state`: how many helpers take part in the work, ...
const HELPERS: u32 = 0xff;
/// ... whether more may join, ...
const OPEN: u32 = 0x100;
/// ... whether all are to go, and above that the number of the piece of work.
const DISMISSED: u32 = 0x200;
const ROUND: u32 = 0x400;

/// Looks before a thread goes to sleep. In a browser some 300 µs, longer than any stretch of a token that one thread computes: a
/// helper that slept comes 50 µs late, and often on the core of the thread that woke it. (Wasm has no instruction to pause with,
/// so that a look takes less there.)
const LOOKS: u32 = if cfg!(target_arch = "wasm32") { 200_000 } else { 1_000 };

#[derive(Default)]
pub struct Team {
    state: Line<AtomicU32>,
    /// The first part that no thread has taken.
    next: Line<AtomicUsize>,
    work: UnsafeCell<Option<Work>>,
    has_failed: AtomicBool,
    /// Where helpers wait for work.
    idle: Gate,
    /// Where the caller waits for helpers.
    finished: Gate,
}

#[derive(Clone, Copy)]
struct Work {
    n_parts: usize,
    /// Lives until `run` returns.
    task: &'static (dyn Fn(usize, usize) + Sync),
}

// SAFETY: `work` is written while no helper takes part, and read by those that do; the rest is Sync.
unsafe impl Sync for Team {}
// SAFETY: a task that is left in `work` is never called again.
unsafe impl Send for Team {}

impl Team {
    /// Calls `task(part, thread)` once for each of `n_parts`, on this thread, number 0, and whichever helpers come in time.
    ///
    /// Panics when the task does.
    ///
    /// SAFETY: by one thread at a time, and not from within a task.
    pub(super) unsafe fn run(&self, n_parts: usize, task: &(dyn Fn(usize, usize) + Sync)) {
        // SAFETY: only the lifetime changes; `Closing` waits for every helper that has the task, also when this thread panics.
        let task = unsafe { std::mem::transmute::<&(dyn Fn(usize, usize) + Sync), &'static _>(task) };
        let work = Work { n_parts, task };
        // SAFETY: no helper takes part: the last round ended so, and none can join before OPEN is set.
        unsafe { *self.work.get() = Some(work) };
        self.next.0.store(0, Ordering::Relaxed);
        let round = round_of(self.state.0.load(Ordering::Relaxed)).wrapping_add(ROUND);
        self.state.0.store(round | OPEN, Ordering::SeqCst);
        let closing = Closing(self);
        self.idle.ring();
        self.take_parts(work, 0);
        drop(closing);
        assert!(!self.has_failed.load(Ordering::SeqCst), "a compute thread has failed");
    }

    /// Works as helper number `thread` until the team is dismissed.
    pub fn help(&self, thread: usize) {
        let mut done = 0;
        loop {
            let mut state = 0;
            self.idle.wait_until(|| {
                state = self.state.0.load(Ordering::SeqCst);
                state & DISMISSED != 0 || state & OPEN != 0 && round_of(state) != done
            });
            if state & DISMISSED != 0 {
                return;
            }
            if self.state.0.compare_exchange(state, state + 1, Ordering::SeqCst, Ordering::Relaxed).is_err() {
                continue;
            }
            done = round_of(state);
            // SAFETY: this helper takes part, so the work stays as it is until it leaves.
            let work = unsafe { *self.work.get() }.expect("open work has a task");
            if catch_unwind(AssertUnwindSafe(|| self.take_parts(work, thread))).is_err() {
                self.has_failed.store(true, Ordering::SeqCst);
            }
            self.leave();
        }
    }

    /// A helper's last word where panics abort: the caller is not to wait for it, but to fail.
    pub fn fail(&self) {
        self.has_failed.store(true, Ordering::SeqCst);
        self.leave();
    }

    /// Lets the helpers go.
    pub(super) fn dismiss(&self) {
        self.state.0.fetch_or(DISMISSED, Ordering::SeqCst);
        self.idle.ring();
    }

    fn take_parts(&self, work: Work, thread: usize) {
        loop {
            let part = self.next.0.fetch_add(1, Ordering::Relaxed);
            if part >= work.n_parts {
                return;
            }
            (work.task)(part, thread);
        }
    }

    fn leave(&self) {
        self.state.0.fetch_sub(1, Ordering::SeqCst);
        self.finished.ring();
    }
}

/// It may come round again after four million pieces of work; a helper that slept through all of them misses one more.
fn round_of(state: u32) -> u32 {
    state & !(ROUND - 1)
}

/// Ends a piece of work: nobody joins any more, and who has is waited for.
struct Closing<'a>(&'a Team);

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        let Team { state, finished, .. } = self.0;
        state.0.fetch_and(!OPEN, Ordering::SeqCst);
        finished.wait_until(|| state.0.load(Ordering::SeqCst) & HELPERS == 0);
    }
}

/// Alone in its cache lines, so that who writes it does not slow down who reads the next.
#[derive(Default)]
#[repr(align(128))]
struct Line<T>(T);

/// Where threads wait for something, at first spinning, then asleep.
#[derive(Default)]
struct Gate {
    n_asleep: AtomicU32,
    lock: Mutex<()>,
    bell: Condvar,
}

impl Gate {
    /// `is_so` must be sequentially consistent, as must be what makes it so, before `ring`: then one of the two sides sees the other.
    fn wait_until(&self, mut is_so: impl FnMut() -> bool) {
        for _ in 0..LOOKS {
            if is_so() {
                return;
            }
            std::hint::spin_loop();
        }
        let mut guard = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        self.n_asleep.fetch_add(1, Ordering::SeqCst);
        while !is_so() {
            guard = self.bell.wait(guard).unwrap_or_else(PoisonError::into_inner);
        }
        self.n_asleep.fetch_sub(1, Ordering::SeqCst);
    }

    fn ring(&self) {
        if self.n_asleep.load(Ordering::SeqCst) > 0 {
            // Taken once, so that who has just looked in vain is asleep by now.
            drop(self.lock.lock());
            self.bell.notify_all();
        }
    }
}
