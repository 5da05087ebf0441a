//! Two runs of the same settings, step by step: are the ids the same, and how far are the probabilities apart?
//!
//! Invariant: pure; records in, words out.

use super::words::{count, power_of_ten, spelt};
use crate::protocol::{Candidate, StepRecord};
use std::borrow::Borrow;

/// A recorded run and one that was made to repeat it.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    n_recorded: usize,
    n_found: usize,
    /// Steps with the same token, up to the first that has another.
    n_same: usize,
    /// Tokens there, recorded and found; none when either run just ends.
    differs: Option<(String, String)>,
    /// The largest difference of the model's own probabilities, and its step. Where the texts differ, nothing after that counts:
    /// other texts have other probabilities.
    largest: Option<(f32, usize)>,
    n_compared: usize,
}

impl Comparison {
    /// Candidates are compared where both runs list them.
    pub fn of(recorded: &[impl Borrow<StepRecord>], found: &[impl Borrow<StepRecord>]) -> Comparison {
        let pairs = || recorded.iter().map(Borrow::borrow).zip(found.iter().map(Borrow::borrow));
        let n_same = pairs().take_while(|(recorded, found)| recorded.id == found.id).count();
        let mut largest = None;
        let mut n_compared = 0;
        for (index, (recorded, found)) in pairs().take(n_same + 1).enumerate() {
            for (place, candidate) in recorded.candidates.iter().enumerate() {
                let is_same = |other: &&Candidate| other.id == candidate.id;
                // Most often both list it at the same place.
                let at_place = found.candidates.get(place).filter(is_same);
                let Some(other) = at_place.or_else(|| found.candidates.iter().find(is_same)) else { continue };
                n_compared += 1;
                let difference = (candidate.p_raw - other.p_raw).abs();
                if largest.is_none_or(|(most, _)| difference > most) {
                    largest = Some((difference, index));
                }
            }
        }
        let differs = pairs().nth(n_same).map(|(recorded, found)| (spelt(&recorded.bytes), spelt(&found.bytes)));
        Comparison { n_recorded: recorded.len(), n_found: found.len(), n_same, differs, largest, n_compared }
    }

    pub fn is_identical(&self) -> bool {
        self.n_same == self.n_recorded && self.n_same == self.n_found
    }

    /// `n_given`: how many of the first tokens were given to both runs, so that they cannot differ.
    pub fn words(&self, n_given: usize) -> String {
        let given = match n_given.min(self.n_same) {
            0 => String::new(),
            n => format!(" (the first {n} were given)"),
        };
        let ids = match &self.differs {
            _ if self.is_identical() => format!("All {} are identical{given}.", count(self.n_same as u64, "token")),
            Some((recorded, found)) => format!(
                "The first {} are identical{given}; then number {} is “{found}”, recorded was “{recorded}”.",
                count(self.n_same as u64, "token"),
                self.n_same + 1
            ),
            None => format!(
                "The first {} are identical{given}; then one run ends: {} recorded, {} now.",
                count(self.n_same as u64, "token"),
                self.n_recorded,
                self.n_found
            ),
        };
        let probabilities = match self.largest {
            None => "No candidate is listed in both.".to_owned(),
            Some((0.0, _)) => {
                format!("The probabilities of {} are equal to the bit.", count(self.n_compared as u64, "candidate"))
            }
            Some((difference, index)) => format!(
                "Of {}, no probability differs by more than {} (token {}).",
                count(self.n_compared as u64, "candidate"),
                power_of_ten(difference.into()),
                index + 1
            ),
        };
        format!("{ids} {probabilities}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::ladder::tests::step;

    fn steps(ids: &[u32]) -> Vec<StepRecord> {
        ids.iter().map(|&id| step(4, 4, id)).collect()
    }

    #[test]
    fn the_same_run_is_the_same() {
        let compared = Comparison::of(&steps(&[1, 2, 3]), &steps(&[1, 2, 3]));
        assert!(compared.is_identical());
        assert_eq!(
            compared.words(0),
            "All 3 tokens are identical. The probabilities of 12 candidates are equal to the bit."
        );
        assert!(compared.words(9).starts_with("All 3 tokens are identical (the first 3 were given)."));
    }

    #[test]
    fn the_first_difference_ends_the_comparison() {
        let recorded = steps(&[1, 2, 3, 4]);
        let mut found = steps(&[1, 2, 9, 4]);
        found[1].candidates[3].p_raw += 0.25;
        found[2].candidates[0].p_raw += 0.5;
        found[3].candidates[0].p_raw += 0.75;
        let compared = Comparison::of(&recorded, &found);
        assert!(!compared.is_identical());
        assert_eq!(compared.largest, Some((0.5, 2)), "the step that differs counts, those after it do not");
        assert_eq!(compared.n_compared, 12);
        let words = compared.words(0);
        assert!(
            words.starts_with("The first 2 tokens are identical; then number 3 is “t9”, recorded was “t3”."),
            "{words}"
        );
        assert!(words.contains("by more than 5·10⁻¹ (token 3)"), "{words}");
    }

    #[test]
    fn a_run_that_ends_early_is_not_the_same() {
        let compared = Comparison::of(&steps(&[1, 2, 3]), &steps(&[1, 2]));
        assert!(!compared.is_identical());
        assert!(compared.words(0).contains("then one run ends: 3 recorded, 2 now"), "{}", compared.words(0));
        assert!(!Comparison::of(&steps(&[]), &steps(&[1])).is_identical());
    }

    #[test]
    fn candidates_that_one_run_does_not_list_are_left_out() {
        let (recorded, mut found) = (steps(&[1]), steps(&[1]));
        found[0].candidates.clear();
        let compared = Comparison::of(&recorded, &found);
        assert_eq!((compared.n_compared, compared.largest), (0, None));
        assert!(compared.words(0).ends_with("No candidate is listed in both."));
    }
}
