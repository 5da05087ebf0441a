//! The tree of texts that began with one run: where each left the one before it, and what it wrote.
//!
//! A branch keeps its own steps only; the steps before it left are its parent's. So the common part is one part, in memory as
//! on screen.
//!
//! Invariant: pure; it keeps records and knows no DOM and no engine.

use super::words::{count, spelt};
use crate::protocol::StepRecord;
use std::rc::Rc;

/// Branches that are kept at once, the first run included. Each has its steps in memory.
pub const N_MOST: usize = 24;
/// Characters of a branch's text that its line shows.
const N_SHOWN: usize = 160;

/// One text of the tree.
#[derive(Debug, Clone, PartialEq)]
pub struct Branch {
    /// None for the first run.
    pub parent: Option<usize>,
    /// How many steps it has in common with its parent: it left before step `at`.
    pub at: usize,
    /// How many times something left something on the way here.
    pub depth: usize,
    /// From step `at` on.
    own: Vec<Rc<StepRecord>>,
    pub is_writing: bool,
}

/// Branches in the order in which they were made; the first is the run itself.
#[derive(Debug, Default)]
pub struct Branches {
    all: Vec<Branch>,
    shown: usize,
}

impl Branches {
    /// Another run: its tree is a trunk alone.
    pub fn begin(&mut self) {
        self.all = vec![Branch { parent: None, at: 0, depth: 0, own: Vec::new(), is_writing: true }];
        self.shown = 0;
    }

    pub fn clear(&mut self) {
        *self = Self::default();
    }

    pub fn all(&self) -> &[Branch] {
        &self.all
    }

    /// Which one is on screen.
    pub fn shown(&self) -> usize {
        self.shown
    }

    pub fn is_full(&self) -> bool {
        self.all.len() >= N_MOST
    }

    /// Keeps what the text on screen has come to; `steps` are all of its steps, from the first.
    pub fn keep(&mut self, steps: &[Rc<StepRecord>]) {
        if let Some(branch) = self.all.get_mut(self.shown) {
            branch.own = steps.get(branch.at..).unwrap_or_default().to_vec();
        }
    }

    pub fn set_writing(&mut self, is_writing: bool) {
        if let Some(branch) = self.all.get_mut(self.shown) {
            branch.is_writing = is_writing;
        }
    }

    /// A branch that leaves the text on screen before step `at`, and is on screen from now on. It leaves the branch that step
    /// `at` is a step of: one that leaves where its parent left is its sister.
    pub fn leave(&mut self, at: usize) {
        let mut from = self.shown;
        while let Some(Branch { at: left_at, parent: Some(parent), .. }) = self.all.get(from)
            && at <= *left_at
        {
            from = *parent;
        }
        let depth = self.all.get(from).map_or(0, |branch| branch.depth + 1);
        self.all.push(Branch { parent: Some(from), at, depth, own: Vec::new(), is_writing: true });
        self.shown = self.all.len() - 1;
    }

    pub fn show(&mut self, branch: usize) {
        self.shown = branch.min(self.all.len().saturating_sub(1));
    }

    /// All steps of a branch, from the first one of the run.
    pub fn steps(&self, branch: usize) -> Vec<Rc<StepRecord>> {
        let Some(Branch { parent, at, own, .. }) = self.all.get(branch) else { return Vec::new() };
        let mut steps = parent.map_or(Vec::new(), |parent| self.steps(parent));
        steps.truncate(*at);
        steps.extend_from_slice(own);
        steps
    }

    /// The branch that begins at step `at` of the text on screen with the token `id`, if there is one.
    pub fn find(&self, at: usize, id: u32) -> Option<usize> {
        let shown = self.ids(self.shown, at);
        (0..self.all.len()).find(|&branch| {
            let ids = self.ids(branch, at + 1);
            ids.len() == at + 1 && ids[..at] == shown[..] && ids[at] == id
        })
    }

    fn ids(&self, branch: usize, n: usize) -> Vec<u32> {
        self.steps(branch).iter().take(n).map(|step| step.id).collect()
    }

    /// The order of the tree: every branch after the one that it left, those that left first before the others.
    pub fn order(&self) -> Vec<usize> {
        let mut order = Vec::with_capacity(self.all.len());
        let mut next = if self.all.is_empty() { Vec::new() } else { vec![0] };
        while let Some(branch) = next.pop() {
            order.push(branch);
            let mut children: Vec<usize> =
                (0..self.all.len()).filter(|&i| self.all[i].parent == Some(branch)).collect();
            // Popped from the end.
            children.sort_by_key(|&i| std::cmp::Reverse((self.all[i].at, i)));
            next.extend(children);
        }
        order
    }

    /// Steps at which branches left the one on screen or its forebears, in the part of them that it shows; those it took itself
    /// as well.
    pub fn forks(&self) -> Vec<usize> {
        let mut forks = Vec::new();
        let (mut on_path, mut end) = (Some(self.shown), usize::MAX);
        while let Some((index, branch)) = on_path.and_then(|index| Some((index, self.all.get(index)?))) {
            let left = self.all.iter().filter(|other| other.parent == Some(index) && other.at <= end);
            forks.extend(left.map(|other| other.at));
            (on_path, end) = (branch.parent, end.min(branch.at));
        }
        forks.sort_unstable();
        forks.dedup();
        forks
    }
}

/// What a branch's line says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// `all` or `after 12 tokens`.
    pub place: String,
    /// The token that it took; empty for the first run.
    pub token: String,
    /// The text after that.
    pub text: String,
    /// How long its own part is, and its mean surprisal.
    pub figures: String,
}

impl Branch {
    /// Positions of the KV cache that it took over, and positions computed for its first token; none for the first run.
    pub fn reuse(&self) -> Option<(u32, u32)> {
        let first = self.own.first().filter(|_| self.parent.is_some())?;
        Some((first.position.saturating_sub(first.positions_computed), first.positions_computed))
    }

    pub fn line(&self) -> Line {
        let is_trunk = self.parent.is_none();
        let taken = usize::from(!is_trunk);
        let place = if is_trunk { "first run".into() } else { format!("after {}", count(self.at as u64, "token")) };
        let token = if is_trunk { None } else { self.own.first() };
        let mut bytes = Vec::new();
        for step in self.own.iter().skip(taken) {
            if bytes.len() > 4 * N_SHOWN {
                break;
            }
            bytes.extend_from_slice(&step.bytes);
        }
        let text = String::from_utf8_lossy(&bytes);
        let words = text.chars().map(|c| if c.is_control() { ' ' } else { c });
        let n = self.own.len();
        let surprisal = self.own.iter().map(|step| f64::from(step.surprisal_bits)).sum::<f64>();
        let figures = match n {
            _ if self.is_writing => "writing…".to_owned(),
            0 => "nothing written".to_owned(),
            n => format!("{} · {:.1}\u{a0}bits", count(n as u64, "token"), surprisal / n as f64),
        };
        Line {
            place,
            token: token.map_or(String::new(), |step| spelt(&step.bytes)),
            text: if self.is_writing { String::new() } else { words.take(N_SHOWN).collect() },
            figures,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::ladder::tests::step;

    /// Steps of these tokens, from step `from` on.
    fn steps(ids: &[u32]) -> Vec<Rc<StepRecord>> {
        ids.iter().map(|&id| Rc::new(step(4, 4, id))).collect()
    }

    fn ids(branches: &Branches, branch: usize) -> Vec<u32> {
        branches.steps(branch).iter().map(|step| step.id).collect()
    }

    /// A run of 0 1 2 3; at 2 a branch 0 1 7 8; from that at 3 one of 0 1 7 9; at 1 of that one, so of the run, 0 6.
    fn tree() -> Branches {
        let mut branches = Branches::default();
        branches.begin();
        branches.keep(&steps(&[0, 1, 2, 3]));
        for (at, text) in [(2, &[0, 1, 7, 8][..]), (3, &[0, 1, 7, 9]), (1, &[0, 6])] {
            branches.set_writing(false);
            branches.leave(at);
            branches.keep(&steps(text));
        }
        branches.set_writing(false);
        branches
    }

    #[test]
    fn every_branch_keeps_its_whole_text() {
        let tree = tree();
        assert_eq!(ids(&tree, 0), [0, 1, 2, 3]);
        assert_eq!(ids(&tree, 1), [0, 1, 7, 8]);
        assert_eq!(ids(&tree, 2), [0, 1, 7, 9]);
        assert_eq!(ids(&tree, 3), [0, 6]);
        assert_eq!(tree.shown(), 3);
        assert_eq!(tree.all()[2].own.len(), 1, "the common part is kept once");
    }

    #[test]
    fn a_branch_hangs_on_the_part_that_it_left() {
        let tree = tree();
        let hangs: Vec<_> = tree.all().iter().map(|branch| (branch.parent, branch.at, branch.depth)).collect();
        assert_eq!(hangs, [(None, 0, 0), (Some(0), 2, 1), (Some(1), 3, 2), (Some(0), 1, 1)]);
        assert_eq!(tree.order(), [0, 3, 1, 2]);
        let mut tree = tree;
        tree.show(1);
        tree.leave(2);
        assert_eq!(tree.all()[4].parent, Some(0), "another choice at the same place is a sister");
        assert_eq!(ids(&tree, 4), [0, 1]);
    }

    #[test]
    fn a_text_that_is_there_is_found_again() {
        let mut tree = tree();
        tree.show(0);
        assert_eq!(
            (tree.find(2, 7), tree.find(1, 6), tree.find(2, 5), tree.find(9, 1)),
            (Some(1), Some(3), None, None)
        );
        assert_eq!(tree.find(2, 2), Some(0));
        tree.show(1);
        assert_eq!((tree.find(2, 2), tree.find(3, 9)), (Some(0), Some(2)));
        tree.show(3);
        assert_eq!(tree.find(2, 7), None, "only where the text before is the same");
    }

    #[test]
    fn forks_are_those_of_the_text_on_screen() {
        let mut tree = tree();
        for (shown, forks) in [(0, &[1, 2][..]), (1, &[1, 2, 3]), (2, &[1, 2, 3]), (3, &[1])] {
            tree.show(shown);
            assert_eq!(tree.forks(), forks, "{shown}");
        }
    }

    #[test]
    fn lines_say_where_it_left_and_what_came() {
        let tree = tree();
        let line = tree.all()[1].line();
        assert_eq!((line.place.as_str(), line.token.as_str(), line.text.as_str()), ("after 2 tokens", "t7", "t8"));
        assert_eq!(line.figures.replace('\u{a0}', " "), "2 tokens · 10.0 bits");
        let line = tree.all()[0].line();
        assert_eq!((line.place.as_str(), line.token.as_str(), line.text.as_str()), ("first run", "", "t0t1t2t3"));
        let mut long = Branches::default();
        long.begin();
        long.keep(&steps(&[1_000_000_000; 400]));
        assert_eq!(long.all()[0].line().figures, "writing…");
        long.set_writing(false);
        assert_eq!(long.all()[0].line().text.chars().count(), N_SHOWN);
    }

    #[test]
    fn an_empty_tree_has_nothing() {
        let mut none = Branches::default();
        none.keep(&steps(&[1]));
        none.set_writing(true);
        none.show(3);
        assert_eq!((none.steps(0).len(), none.order().len(), none.forks().len(), none.find(0, 1)), (0, 0, 0, None));
    }
}
