use super::*;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// So dear that a strip is one grain, or a few.
fn dear(columns: usize) -> Grain {
    Grain { columns, cost: STRIP_COST as usize }
}

#[test]
fn each_value_is_written_once_whatever_the_shape() {
    for n_threads in [1, 2, 3, 8] {
        let mut pool = Pool::start(n_threads);
        assert_eq!(pool.n_threads(), n_threads);
        for (n_rows, row_len, columns) in [(1, 1, 8), (1, 7, 1), (3, 100, 8), (33, 192, 8), (2, 64, 64), (1, 4999, 3)] {
            let mut out = vec![0u32; n_rows * row_len];
            let mut strips = vec![0usize; MAX_THREADS];
            pool.split(&mut out, row_len, dear(columns), &mut strips, |range, mut strip, strips| {
                assert_eq!(range.start % columns, 0);
                assert!(range.end % columns == 0 || range.end == row_len);
                *strips += 1;
                for row in 0..n_rows {
                    for (value, column) in strip.row(row).iter_mut().zip(range.clone()) {
                        *value += (row * row_len + column) as u32 + 1;
                    }
                }
            });
            assert!(
                out.iter().enumerate().all(|(i, &value)| value == i as u32 + 1),
                "{n_threads}: {n_rows} x {row_len}"
            );
            assert!(strips.iter().sum::<usize>() <= STRIPS_PER_THREAD * n_threads);
        }
    }
}

#[test]
fn several_matrices_are_filled_as_one() {
    for n_threads in [1, 2, 3] {
        let mut pool = Pool::start(n_threads);
        for row_lens in [[1, 9, 64], [100, 8, 8], [576, 192, 192]] {
            let mut outs = row_lens.map(|row_len| vec![0u32; 3 * row_len]);
            let [a, b, c] = outs.each_mut().map(Vec::as_mut_slice);
            let [a, b, c] = [(a, 0), (b, 1), (c, 2)].map(|(values, i)| Out { values, row_len: row_lens[i] });
            pool.split_all([a, b, c], dear(8), &mut [(); MAX_THREADS], |i, range, mut strip, ()| {
                for row in 0..3 {
                    for (value, column) in strip.row(row).iter_mut().zip(range.clone()) {
                        *value += (1000 * i + row * row_lens[i] + column) as u32 + 1;
                    }
                }
            });
            for (i, out) in outs.iter().enumerate() {
                assert!(out.iter().enumerate().all(|(k, &value)| value == (1000 * i + k) as u32 + 1), "{row_lens:?}");
            }
        }
    }
}

#[test]
fn thousands_of_pieces_of_work_each_see_the_last_one() {
    let mut pool = Pool::start(3);
    let (mut from, mut to) = (vec![0u64; 24], vec![0u64; 24]);
    for _ in 0..20_000 {
        pool.split(&mut to, 24, dear(1), &mut [(); MAX_THREADS], |range, mut strip, ()| {
            for (value, column) in strip.row(0).iter_mut().zip(range) {
                *value = from[(column + 1) % 24] + 1;
            }
        });
        std::mem::swap(&mut from, &mut to);
    }
    assert_eq!(from, [20_000; 24]);
}

/// Two strips that wait for each other need two threads, awake.
fn needs_two_threads(pool: &mut Pool) {
    let arrived = AtomicUsize::new(0);
    pool.split(&mut [0u8; 2], 2, dear(1), &mut [(); MAX_THREADS], |_, _, ()| {
        arrived.fetch_add(1, Ordering::SeqCst);
        let start = Instant::now();
        while arrived.load(Ordering::SeqCst) < 2 {
            assert!(start.elapsed() < Duration::from_secs(20), "the other thread does not come");
            std::thread::yield_now();
        }
    });
}

#[test]
fn helpers_that_sleep_wake_up() {
    let mut pool = Pool::start(2);
    for _ in 0..3 {
        sleep(Duration::from_millis(20));
        needs_two_threads(&mut pool);
    }
}

#[test]
fn small_work_stays_with_the_caller() {
    let mut pool = Pool::start(4);
    let caller = std::thread::current().id();
    for (row_len, cost) in [(1000, 1), (8, STRIP_COST as usize * 100)] {
        let grain = Grain { columns: 8, cost };
        pool.split(&mut vec![0u8; row_len], row_len, grain, &mut [(); MAX_THREADS], |range, _, ()| {
            assert_eq!(range, 0..row_len);
            assert_eq!(std::thread::current().id(), caller);
        });
    }
}

#[test]
fn a_panic_on_any_thread_reaches_the_caller_and_ends_nothing_else() {
    for failing in 0..2 {
        let mut pool = Pool::start(2);
        let arrived = AtomicUsize::new(0);
        let failed = catch_unwind(AssertUnwindSafe(|| {
            let mut numbers: [usize; MAX_THREADS] = std::array::from_fn(|i| i);
            pool.split(&mut [0u8; 2], 2, dear(1), &mut numbers, |_, _, thread| {
                arrived.fetch_add(1, Ordering::SeqCst);
                while arrived.load(Ordering::SeqCst) < 2 {
                    std::thread::yield_now();
                }
                assert_ne!(*thread, failing, "as it should");
            });
        }));
        assert!(failed.is_err());
    }
}

#[test]
fn dropping_a_pool_ends_its_threads() {
    for naps in [0, 20] {
        let pool = Pool::start(4);
        let team = Arc::downgrade(&pool.team);
        sleep(Duration::from_millis(naps));
        drop(pool);
        assert!(team.upgrade().is_none(), "each helper holds the team as long as it lives");
    }
}
