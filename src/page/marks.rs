//! Which tokens of the text a branch has from the one that it left, and at which of them branches left.
//!
//! Another branch changes the marks of thousands of tokens at once: they wait in line and are taken a few at a time.
//!
//! Invariant: pure; it knows places in the text and no DOM.

use std::collections::VecDeque;
use std::ops::Range;

#[derive(Debug, Default)]
pub struct Marks {
    n_common: usize,
    /// In order.
    forks: Vec<usize>,
    /// Places whose marks have changed and were not taken yet.
    waiting: VecDeque<Range<usize>>,
}

impl Marks {
    /// The first `n_common` tokens are common, and branches left at `forks`, which are in order.
    pub fn set(&mut self, n_common: usize, forks: &[usize]) {
        let changed = n_common.min(self.n_common)..n_common.max(self.n_common);
        let is_in = |forks: &[usize], place: &usize| forks.binary_search(place).is_ok();
        let gone = self.forks.iter().filter(|place| !is_in(forks, place));
        let come = forks.iter().filter(|place| !is_in(&self.forks, place));
        // What is one token is done at once; a long stretch may follow.
        let single: Vec<_> = gone.chain(come).map(|&place| place..place + 1).collect();
        self.waiting.extend(single);
        self.waiting.push_back(changed);
        self.n_common = n_common;
        self.forks = forks.to_vec();
    }

    /// Another text: no marks.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    pub fn is_common(&self, place: usize) -> bool {
        place < self.n_common
    }

    pub fn is_fork(&self, place: usize) -> bool {
        self.forks.binary_search(&place).is_ok()
    }

    /// The next place whose marks have changed.
    pub fn take(&mut self) -> Option<usize> {
        while self.waiting.front().is_some_and(Range::is_empty) {
            self.waiting.pop_front();
        }
        self.waiting.front_mut()?.next()
    }

    pub fn is_done(&self) -> bool {
        self.waiting.iter().all(Range::is_empty)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(marks: &mut Marks) -> Vec<usize> {
        std::iter::from_fn(|| marks.take()).collect()
    }

    #[test]
    fn only_what_has_changed_is_marked_again() {
        let mut marks = Marks::default();
        marks.set(0, &[]);
        assert!(marks.is_done() && taken(&mut marks).is_empty());
        marks.set(3, &[1, 7]);
        assert_eq!(taken(&mut marks), [1, 7, 0, 1, 2]);
        assert!(marks.is_common(2) && !marks.is_common(3) && marks.is_fork(7) && !marks.is_fork(2));
        marks.set(5, &[1, 4]);
        assert_eq!(taken(&mut marks), [7, 4, 3, 4]);
        marks.set(2, &[1, 4]);
        assert_eq!(taken(&mut marks), [2, 3, 4]);
        assert!(!marks.is_common(2) && marks.is_common(1));
    }

    #[test]
    fn a_long_change_is_taken_in_parts() {
        let mut marks = Marks::default();
        marks.set(4000, &[]);
        let first: Vec<usize> = (0..256).filter_map(|_| marks.take()).collect();
        assert_eq!((first[0], first[255], marks.is_done()), (0, 255, false));
        // Marks that changed meanwhile are those of the last call, wherever the line stands.
        marks.set(0, &[]);
        assert_eq!(taken(&mut marks).len(), 4000 - 256 + 4000);
        assert!(!marks.is_common(3000));
        marks.set(10, &[1]);
        marks.clear();
        assert!(marks.is_done() && !marks.is_common(1) && !marks.is_fork(1));
    }
}
