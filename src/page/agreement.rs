//! Whether a run with the cache and one without wrote the same: the same tokens, from the same logits.
//!
//! A step carries its likeliest tokens with their logits, not the whole vocabulary; the logits compared are those of the tokens
//! that both runs list at the same step. After the first token that differs the texts differ, and nothing more is compared.
//!
//! Invariant: pure; steps come in, counts and a difference go out.

use super::race::{slot, used_cache};
use crate::protocol::{Prompt, StepRecord};

/// The last run with the cache and the last one without, token by token.
#[derive(Debug, Default)]
pub struct Agreement {
    texts: [Option<Text>; 2],
    /// The slot of the run in progress.
    current: usize,
    found: Agreed,
}

#[derive(Debug)]
struct Text {
    prompt: Prompt,
    steps: Vec<Step>,
}

#[derive(Debug)]
struct Step {
    id: u32,
    logits: Vec<(u32, f32)>,
}

/// How far two runs agree.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Agreed {
    /// Steps compared: those that both have, up to and including the first that differs.
    pub n_compared: usize,
    /// Of these, steps with the same token.
    pub n_same: usize,
    /// Logits compared.
    pub n_logits: usize,
    /// The largest difference among them.
    pub largest: f32,
}

impl Agreement {
    /// A run begins; it replaces the last one of its mode.
    pub fn begin(&mut self, kv_cache: bool, prompt: &Prompt) {
        self.current = slot(kv_cache);
        self.texts[self.current] = Some(Text { prompt: prompt.clone(), steps: Vec::new() });
        self.found = Agreed::default();
    }

    /// Forgets both runs.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    pub fn push(&mut self, step: &StepRecord) {
        // A run that was switched midway is a run of neither mode.
        if used_cache(step).is_some_and(|kv_cache| slot(kv_cache) != self.current) {
            self.texts[self.current] = None;
        }
        if let Some(text) = &mut self.texts[self.current] {
            let logits = step.candidates.iter().map(|candidate| (candidate.id, candidate.logit)).collect();
            text.steps.push(Step { id: step.id, logits });
        }
        self.compare();
    }

    /// None while there are no two runs on the same prompt with a step in common.
    pub fn found(&self) -> Option<Agreed> {
        let [Some(_), Some(_)] = &self.texts else { return None };
        (self.found.n_compared > 0).then_some(self.found)
    }

    /// Goes on where the last comparison ended.
    fn compare(&mut self) {
        let [Some(one), Some(other)] = &self.texts else { return };
        if one.prompt != other.prompt {
            return;
        }
        let found = &mut self.found;
        while found.n_same == found.n_compared
            && let (Some(step), Some(twin)) = (one.steps.get(found.n_compared), other.steps.get(found.n_compared))
        {
            for (id, logit) in &step.logits {
                if let Some((_, of_twin)) = twin.logits.iter().find(|(of_twin, _)| of_twin == id) {
                    found.n_logits += 1;
                    found.largest = found.largest.max((logit - of_twin).abs());
                }
            }
            found.n_compared += 1;
            found.n_same += usize::from(step.id == twin.id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::ladder::tests::step;
    use super::*;

    fn prompt(text: &str) -> Prompt {
        Prompt::Text { text: text.into(), special: false }
    }

    /// Step `index` after a prompt of 5 tokens, with the logits of tokens 0, 1 and 2.
    fn decode_step(index: u32, kv_cache: bool, id: u32, logits: [f32; 3]) -> StepRecord {
        let mut step = step(3, 3, 0);
        (step.index, step.position, step.id) = (index, 5 + index, id);
        step.positions_computed = if kv_cache && index > 0 { 1 } else { step.position };
        for (candidate, logit) in step.candidates.iter_mut().zip(logits) {
            candidate.logit = logit;
        }
        step
    }

    fn run(agreement: &mut Agreement, kv_cache: bool, steps: &[(u32, [f32; 3])]) {
        agreement.begin(kv_cache, &prompt("a"));
        for (index, &(id, logits)) in (0..).zip(steps) {
            agreement.push(&decode_step(index, kv_cache, id, logits));
        }
    }

    #[test]
    fn the_same_text_from_the_same_logits() {
        let steps = [(1, [0.5, 1.5, 2.5]), (2, [3.0, 2.0, 1.0])];
        let mut agreement = Agreement::default();
        run(&mut agreement, false, &steps);
        assert_eq!(agreement.found(), None, "one run alone agrees with nothing");
        run(&mut agreement, true, &steps);
        let all = Agreed { n_compared: 2, n_same: 2, n_logits: 6, largest: 0.0 };
        assert_eq!(agreement.found(), Some(all));
    }

    #[test]
    fn logits_are_compared_up_to_the_first_other_token_and_no_further() {
        let mut agreement = Agreement::default();
        run(&mut agreement, true, &[(1, [1.0; 3]), (2, [1.0; 3]), (2, [1.0; 3])]);
        run(&mut agreement, false, &[(1, [1.0; 3]), (0, [1.0, 1.25, 1.0]), (2, [9.0; 3])]);
        let found = agreement.found().expect("both ran");
        assert_eq!(found, Agreed { n_compared: 2, n_same: 1, n_logits: 6, largest: 0.25 });
    }

    #[test]
    fn only_tokens_that_both_list_are_compared() {
        let mut agreement = Agreement::default();
        run(&mut agreement, true, &[(1, [1.0; 3])]);
        agreement.begin(false, &prompt("a"));
        let mut step = decode_step(0, false, 1, [2.0, 7.0, 7.0]);
        step.candidates.truncate(2);
        step.candidates[1].id = 40;
        agreement.push(&step);
        let found = agreement.found().expect("both ran");
        assert_eq!((found.n_logits, found.largest), (1, 1.0));
    }

    #[test]
    fn other_prompts_and_switched_runs_are_not_compared() {
        let mut agreement = Agreement::default();
        run(&mut agreement, true, &[(1, [1.0; 3])]);
        agreement.begin(false, &prompt("b"));
        agreement.push(&decode_step(0, false, 1, [1.0; 3]));
        assert_eq!(agreement.found(), None, "another prompt");

        agreement.begin(false, &prompt("a"));
        agreement.push(&decode_step(0, false, 1, [1.0; 3]));
        assert!(agreement.found().is_some());
        agreement.push(&decode_step(1, true, 1, [1.0; 3]));
        assert_eq!(agreement.found(), None, "switched midway");
    }
}
