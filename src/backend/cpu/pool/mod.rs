//! Threads that share the CPU engine's work.
//!
//! Work is a matrix of results, cut into strips of columns. The threads take strips from a counter until none is left, so that a
//! slow core takes fewer. A strip is computed by one thread, in the same order whichever it is: the results are the same bits for
//! any number of threads.
//!
//! Invariant: memory that threads share is handed out here and nowhere else; nothing is allocated for a piece of work.

mod team;

pub use team::Team;

use std::marker::PhantomData;
use std::ops::Range;
use std::sync::Arc;

/// Threads that a pool has at most.
pub const MAX_THREADS: usize = crate::protocol::MAX_THREADS as usize;

/// Multiply-adds that a strip is worth at least, some 8 µs of them: handing it to another thread costs one.
const STRIP_COST: u64 = 1 << 16;

/// Strips for each thread at most: what the last one may have to wait for is a part of one.
const STRIPS_PER_THREAD: usize = 4;

/// Threads: the caller, and helpers that wait for work.
pub struct Pool {
    team: Arc<Team>,
    n_threads: usize,
    shortfall: Option<String>,
    #[cfg(not(target_arch = "wasm32"))]
    helpers: Vec<std::thread::JoinHandle<()>>,
}

/// Columns that stay together in a strip, and about how many multiply-adds they cost.
pub struct Grain {
    pub columns: usize,
    pub cost: usize,
}

/// A matrix of results, rows of `row_len` values.
pub struct Out<'a, T> {
    pub values: &'a mut [T],
    pub row_len: usize,
}

impl Pool {
    /// The caller and the helpers that work for `team`, numbered from 1. `shortfall`: why these are fewer than were asked for.
    pub fn new(team: Arc<Team>, n_helpers: usize, shortfall: Option<String>) -> Self {
        Self {
            team,
            n_threads: 1 + n_helpers,
            shortfall,
            #[cfg(not(target_arch = "wasm32"))]
            helpers: Vec::new(),
        }
    }

    /// The caller, who does all the work.
    pub fn alone() -> Self {
        Self::new(Arc::default(), 0, None)
    }

    /// `n_threads` in all, at most [`MAX_THREADS`]; fewer where the system gives no more.
    #[cfg(not(target_arch = "wasm32"))]
    pub fn start(n_threads: usize) -> Self {
        let mut pool = Self::alone();
        for thread in 1..n_threads.min(MAX_THREADS) {
            let team = pool.team.clone();
            let builder = std::thread::Builder::new().name(format!("compute {thread}"));
            match builder.spawn(move || team.help(thread)) {
                Ok(helper) => pool.helpers.push(helper),
                Err(error) => {
                    pool.shortfall = Some(format!("Thread {thread} did not start: {error}."));
                    break;
                }
            }
        }
        pool.n_threads += pool.helpers.len();
        pool
    }

    pub fn n_threads(&self) -> usize {
        self.n_threads
    }

    /// Why there are fewer threads than were asked for, as a sentence.
    pub fn shortfall(&self) -> Option<&str> {
        self.shortfall.as_deref()
    }

    /// Fills `out`, rows of `row_len` values, strip by strip: `task(columns, strip, scratch)`, with one of `scratch` for each thread.
    ///
    /// Panics when the task does, on whichever thread.
    pub fn split<T: Send, S: Send>(
        &mut self,
        out: &mut [T],
        row_len: usize,
        grain: Grain,
        scratch: &mut [S],
        task: impl Fn(Range<usize>, Strip<T>, &mut S) + Sync,
    ) {
        let out = Out { values: out, row_len };
        self.split_all([out], grain, scratch, |_, columns, strip, scratch| task(columns, strip, scratch));
    }

    /// Fills several matrices of results, whose columns cost the same, as one piece of work: `task(i, columns, strip, scratch)` for
    /// strips of the i-th. What each of them alone is too small for is shared so, and the threads meet once.
    ///
    /// Panics when the task does, on whichever thread.
    pub fn split_all<T: Send, S: Send, const N: usize>(
        &mut self,
        outs: [Out<T>; N],
        grain: Grain,
        scratch: &mut [S],
        task: impl Fn(usize, Range<usize>, Strip<T>, &mut S) + Sync,
    ) {
        let width = self.strip_width(outs.iter().map(|out| out.row_len).sum(), &grain);
        let n_strips = outs.iter().map(|out| out.row_len.div_ceil(width)).sum();
        assert!(scratch.len() >= self.n_threads, "each thread has its own");
        let shapes = outs.each_ref().map(|out| (out.values.len() / out.row_len, out.row_len));
        let (outs, scratch) = (outs.map(|out| Shared(out.values.as_mut_ptr())), Shared(scratch.as_mut_ptr()));
        let part = |mut i: usize, thread: usize| {
            for (k, ((n_rows, row_len), out)) in shapes.iter().zip(&outs).enumerate() {
                let n_own = row_len.div_ceil(width);
                if i >= n_own {
                    i -= n_own;
                    continue;
                }
                let columns = i * width..(*row_len).min((i + 1) * width);
                // SAFETY: within `out`, since columns.end <= row_len. Each `i` is given out once, so no two strips meet.
                let start = unsafe { out.at(columns.start) };
                let width = columns.len();
                let strip = Strip { start, n_rows: *n_rows, stride: *row_len, width, out: PhantomData };
                // SAFETY: `thread` is below `n_threads`, and a thread computes one strip at a time.
                let scratch = unsafe { &mut *scratch.at(thread) };
                return task(k, columns, strip, scratch);
            }
        };
        if self.n_threads == 1 || n_strips == 1 {
            (0..n_strips).for_each(|i| part(i, 0));
        } else {
            // SAFETY: `&mut self`, which the task cannot have too: one piece of work at a time.
            unsafe { self.team.run(n_strips, &part) };
        }
    }

    /// Columns of a strip: whole grains, as many as make it worth its while.
    fn strip_width(&self, row_len: usize, grain: &Grain) -> usize {
        let n_grains = row_len.div_ceil(grain.columns);
        let worthwhile = (n_grains as u64 * grain.cost as u64 / STRIP_COST) as usize;
        let most = worthwhile.min(STRIPS_PER_THREAD * self.n_threads);
        let n_strips = match self.n_threads {
            1 => 1,
            // As many for each thread, as long as none is slow.
            n_threads if most > n_threads => most / n_threads * n_threads,
            _ => most.max(1),
        };
        n_grains.div_ceil(n_strips) * grain.columns
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.team.dismiss();
        #[cfg(not(target_arch = "wasm32"))]
        for helper in self.helpers.drain(..) {
            // A helper catches what its work throws; it has nothing left to say.
            helper.join().unwrap_or_default();
        }
    }
}

/// Neighbouring columns of a matrix of results, for one thread to write.
pub struct Strip<'a, T> {
    start: *mut T,
    n_rows: usize,
    stride: usize,
    width: usize,
    out: PhantomData<&'a mut [T]>,
}

impl<'a, T> Strip<'a, T> {
    /// All of `out`, rows of `row_len` values.
    #[cfg(test)]
    pub fn whole(out: &'a mut [T], row_len: usize) -> Self {
        let n_rows = out.len() / row_len;
        Self { start: out.as_mut_ptr(), n_rows, stride: row_len, width: row_len, out: PhantomData }
    }

    /// One row's part.
    #[inline(always)]
    pub fn row(&mut self, row: usize) -> &mut [T] {
        assert!(row < self.n_rows);
        // SAFETY: within the matrix, in columns that are this strip's alone; `&mut self` allows one row at a time.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(row * self.stride), self.width) }
    }
}

/// A pointer that threads share.
struct Shared<T>(*mut T);

impl<T> Shared<T> {
    /// SAFETY: `i` lies within what it points to.
    unsafe fn at(&self, i: usize) -> *mut T {
        unsafe { self.0.add(i) }
    }
}

// SAFETY: `split` gives each thread other values to write, as it could give them `&mut`; these may go where T may.
unsafe impl<T: Send> Sync for Shared<T> {}

#[cfg(all(test, not(target_arch = "wasm32")))]
mod tests;
