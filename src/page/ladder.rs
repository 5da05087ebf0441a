//! Which candidates a step's list shows, and where the lines between them fall.
//!
//! The list has a fixed number of places, so that nothing moves while tokens stream. Kept tokens come first, then the line
//! where the filters cut, then the first that were cut; the chosen token is always among them.
//!
//! Invariant: pure; it arranges a `StepRecord` and knows no DOM.

use super::words::{count, percent, setting};
use crate::protocol::{Candidate, SamplerOrder, SamplingOptions, StepRecord};

/// How many places the list has.
pub const N_PLACES: usize = 15;
/// Cut candidates shown below the line, when kept ones would fill the list.
const N_TAIL: usize = 3;

/// Candidates of a step that the views look at: as many as a run reports by default. A caller may ask for the whole vocabulary
/// at every step, gigabytes in all.
const N_LOOKED_AT: usize = 64;

/// One place of the list.
#[derive(Debug, Clone, PartialEq)]
pub enum Place {
    /// Index into the step's candidates.
    Candidate(usize),
    /// The chosen token, which is not among the reported candidates.
    Chosen,
    /// Kept or cut tokens that are not shown here.
    Gap(String),
    /// Where the filters cut.
    Cut(String),
    Empty,
}

/// The filter that removed the first token below the line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Filter {
    Greedy,
    TopK,
    TopP,
    MinP,
    TypicalP,
    Epsilon,
    Eta,
}

/// Drops the candidates that no view looks at, and their memory.
pub fn trim(step: &mut StepRecord) {
    step.candidates.truncate(N_LOOKED_AT);
    step.candidates.shrink_to_fit();
}

/// Whether the token of the step was among the kept ones: a forced one may have been cut.
pub fn is_kept(step: &StepRecord) -> bool {
    step.p > 0.0
}

/// The filters that are on, in the order in which they cut.
pub fn filters(sampling: &SamplingOptions) -> Vec<Filter> {
    let typical = (sampling.typical_p < 1.0, Filter::TypicalP);
    let is_llama_cpp = sampling.order == SamplerOrder::LlamaCpp;
    [
        (sampling.top_k > 0, Filter::TopK),
        (typical.0 && is_llama_cpp, typical.1),
        (sampling.top_p < 1.0, Filter::TopP),
        (sampling.min_p > 0.0, Filter::MinP),
        (typical.0 && !is_llama_cpp, typical.1),
        (sampling.epsilon_cutoff > 0.0, Filter::Epsilon),
        (sampling.eta_cutoff > 0.0, Filter::Eta),
    ]
    .into_iter()
    .filter_map(|(is_on, filter)| is_on.then_some(filter))
    .collect()
}

/// Fills the places for one step. `vocab_size` is what the filters chose from.
pub fn arrange(step: &StepRecord, sampling: &SamplingOptions, vocab_size: u32) -> Vec<Place> {
    let n_listed = step.candidates.len();
    // Down to the last kept one. Typical-p may cut above it, too: those stay in their places, as cut ones.
    let n_kept_listed = step.candidates.iter().rposition(|candidate| candidate.kept).map_or(0, |last| last + 1);
    let n_above = step.candidates[..n_kept_listed].iter().take_while(|candidate| !candidate.kept).count();
    let n_kept = usize::try_from(step.nucleus_size).unwrap_or(usize::MAX).saturating_add(n_above).max(n_kept_listed);
    let n_cut = vocab_size.saturating_sub(step.nucleus_size);
    let chosen = step.candidates.iter().position(|candidate| candidate.id == step.id);
    let line = (n_cut > 0 && n_listed > 0).then(|| cut_line(step, sampling, n_cut));

    // With all tokens kept there is no line; with few kept, cut ones fill the list to its end.
    let n_tail = if line.is_some() { (n_listed - n_kept_listed).min(N_TAIL) } else { 0 };
    let n_room = N_PLACES - usize::from(line.is_some()) - n_tail;
    let mut places: Vec<Place> = Vec::with_capacity(N_PLACES + 2);
    if n_kept <= n_room.min(n_kept_listed) {
        places.extend((0..n_kept_listed).map(Place::Candidate));
    } else {
        // Two places for the gap and for a chosen token that lies in it.
        let n_head = n_room.saturating_sub(2).min(n_kept_listed);
        let chosen_below = chosen.filter(|&at| at >= n_head && at < n_kept_listed);
        let is_unlisted = chosen.is_none() && is_kept(step);
        let n_shown = n_head + usize::from(chosen_below.is_some() || is_unlisted);
        places.extend((0..n_head).map(Place::Candidate));
        if n_kept > n_shown && n_listed > 0 {
            places.push(Place::Gap(format!("{} more kept", count((n_kept - n_shown) as u64, "token"))));
        }
        match chosen_below {
            Some(at) => places.push(Place::Candidate(at)),
            None if is_unlisted => places.push(Place::Chosen),
            None => {}
        }
    }
    places.extend(line.map(Place::Cut));
    let n_left = N_PLACES.saturating_sub(places.len());
    places.extend((n_kept_listed..n_listed).take(if n_cut > 0 { n_left } else { 0 }).map(Place::Candidate));
    show_chosen(&mut places, chosen, step.rank);
    places.resize(N_PLACES, Place::Empty);
    places
}

/// Per candidate, the probability that the bars show and its running sum: after temperature, or the model's own when
/// greedy, since temperature 0 puts all of it on one token.
pub fn shown_probabilities(step: &StepRecord, sampling: &SamplingOptions) -> Vec<(f32, f32)> {
    let mut sum = 0.0;
    let shown = |candidate: &Candidate| {
        if sampling.temperature == 0.0 {
            sum += candidate.p_raw;
            (candidate.p_raw, sum)
        } else {
            (candidate.p_temperature, candidate.cumulative)
        }
    };
    step.candidates.iter().map(shown).collect()
}

/// Which filter drew the line below the last kept candidate; none when nothing was cut or nothing is listed.
pub fn first_filter(step: &StepRecord, sampling: &SamplingOptions) -> Option<Filter> {
    let n_kept = step.candidates.iter().rposition(|candidate| candidate.kept).map_or(0, |last| last + 1);
    if sampling.temperature == 0.0 {
        return Some(Filter::Greedy);
    }
    let last: &Candidate = step.candidates[..n_kept].last()?;
    match filters(sampling)[..] {
        // What is cut is forbidden.
        [] => return None,
        [only] => return Some(only),
        // Which of several it was is not told: those after min-p, which are rarely on, go first.
        [.., last @ (Filter::TypicalP | Filter::Epsilon | Filter::Eta)] => return Some(last),
        _ => {}
    }
    if sampling.top_k > 0 && step.nucleus_size >= sampling.top_k {
        return Some(Filter::TopK);
    }
    let likeliest = step.candidates.first()?.p_temperature;
    // Beyond the list only the counts are known: then the filter that is on must be it.
    match step.candidates.get(n_kept) {
        _ if sampling.min_p == 0.0 => Some(Filter::TopP),
        _ if sampling.top_p >= 1.0 => Some(Filter::MinP),
        Some(_) if last.cumulative >= sampling.top_p => Some(Filter::TopP),
        Some(cut) if cut.p_temperature < sampling.min_p * likeliest => Some(Filter::MinP),
        _ => Some(Filter::TopP),
    }
}

/// The name and value of a filter, as the settings show it.
pub fn filter_name(filter: Filter, sampling: &SamplingOptions) -> String {
    match filter {
        Filter::Greedy => "temperature 0".to_owned(),
        Filter::TopK => format!("top-k {}", sampling.top_k),
        Filter::TopP => format!("top-p {}", setting(sampling.top_p)),
        Filter::MinP => format!("min-p {}", setting(sampling.min_p)),
        Filter::TypicalP => format!("typical-p {}", setting(sampling.typical_p)),
        Filter::Epsilon => format!("epsilon {}", sampling.epsilon_cutoff),
        Filter::Eta => format!("eta {}", sampling.eta_cutoff),
    }
}

fn cut_line(step: &StepRecord, sampling: &SamplingOptions, n_cut: u32) -> String {
    let name = first_filter(step, sampling).map_or_else(
        || "forbidden tokens are cut".to_owned(),
        |filter| format!("{} cuts", filter_name(filter, sampling)),
    );
    let greedy = step.candidates.first().filter(|_| sampling.temperature == 0.0);
    let left = (1.0 - greedy.map_or(step.nucleus_mass, |best| best.p_raw)).clamp(0.0, 1.0);
    let verb = if n_cut == 1 { "has" } else { "share" };
    format!("{name} here: {} {verb} {}", count(n_cut.into(), "token"), percent(left))
}

/// Puts a chosen token that no place shows (forced, far below the line) at the end of the list.
fn show_chosen(places: &mut Vec<Place>, chosen: Option<usize>, rank: u32) {
    let wanted = chosen.map_or(Place::Chosen, Place::Candidate);
    if places.contains(&wanted) {
        return;
    }
    places.truncate(N_PLACES - 2);
    if !places.is_empty() {
        places.push(Place::Gap(format!("down to number {}", super::words::grouped(u64::from(rank) + 1))));
    }
    places.push(wanted);
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::protocol::StepMs;

    pub fn top_p() -> SamplingOptions {
        SamplingOptions { temperature: 0.7, top_p: 0.9, seed: 1, ..SamplingOptions::OFF }
    }

    /// A step whose `n_listed` candidates are equally likely, the first `n_kept` of them kept.
    pub fn step(n_listed: u32, nucleus_size: u32, rank: u32) -> StepRecord {
        let p = 1.0 / 1000.0;
        let candidates = (0..n_listed)
            .map(|i| Candidate {
                id: i,
                bytes: format!("t{i}").into_bytes(),
                logit: 0.0,
                p_raw: p,
                p_temperature: p,
                p_final: if i < nucleus_size { 1.0 / nucleus_size as f32 } else { 0.0 },
                cumulative: (i + 1) as f32 * p,
                kept: i < nucleus_size,
            })
            .collect();
        StepRecord {
            index: 0,
            position: 5,
            kv_length: 5,
            positions_computed: 1,
            id: rank,
            text: String::new(),
            bytes: format!("t{rank}").into_bytes(),
            rank,
            p,
            surprisal_bits: 10.0,
            u: Some(0.5),
            candidates,
            nucleus_size,
            nucleus_mass: nucleus_size as f32 * p,
            entropy_bits: 9.0,
            tail: None,
            ms: StepMs::default(),
        }
    }

    fn shown(places: &[Place]) -> Vec<usize> {
        places.iter().filter_map(|p| if let Place::Candidate(i) = p { Some(*i) } else { None }).collect()
    }

    #[test]
    fn few_kept_then_the_line_then_cut_ones_to_the_end() {
        let places = arrange(&step(64, 5, 2), &top_p(), 1000);
        assert_eq!(places.len(), N_PLACES);
        assert_eq!(shown(&places), (0..14).collect::<Vec<_>>());
        assert!(matches!(&places[5], Place::Cut(text) if text.starts_with("top-p 0.90 cuts here: 995 tokens share")));
    }

    #[test]
    fn many_kept_are_counted_and_the_chosen_one_is_shown() {
        let places = arrange(&step(64, 40, 30), &top_p(), 1000);
        assert_eq!(shown(&places), [0, 1, 2, 3, 4, 5, 6, 7, 8, 30, 40, 41, 42]);
        assert_eq!(places[9], Place::Gap("30 tokens more kept".into()));
        assert!(matches!(places[11], Place::Cut(_)));
    }

    #[test]
    fn a_nucleus_beyond_the_list_still_shows_the_chosen_one() {
        let places = arrange(&step(64, 500, 300), &top_p(), 1000);
        assert_eq!(places[N_PLACES - 1 - 2..].iter().filter(|p| **p == Place::Chosen).count(), 1);
        assert!(places.iter().any(|p| matches!(p, Place::Gap(text) if text.starts_with("487 "))), "{places:?}");
        assert!(matches!(places[N_PLACES - 1], Place::Cut(_)));
    }

    #[test]
    fn a_kept_step_holds_no_more_candidates_than_the_views_look_at() {
        let mut whole = step(1000, 500, 30);
        trim(&mut whole);
        assert_eq!((whole.candidates.len(), whole.candidates.capacity()), (N_LOOKED_AT, N_LOOKED_AT));
        assert_eq!(arrange(&whole, &top_p(), 1000), arrange(&step(64, 500, 30), &top_p(), 1000));
    }

    #[test]
    fn a_forced_token_far_below_the_line_ends_the_list() {
        let places = arrange(&step(64, 5, 50), &top_p(), 1000);
        assert_eq!(places[N_PLACES - 1], Place::Candidate(50));
        assert_eq!(places[N_PLACES - 2], Place::Gap("down to number 51".into()));
        let unlisted = arrange(&step(64, 5, 900), &top_p(), 1000);
        assert_eq!(unlisted[N_PLACES - 1], Place::Chosen);
    }

    #[test]
    fn nothing_cut_means_no_line() {
        let everything = SamplingOptions { top_p: 1.0, ..top_p() };
        let places = arrange(&step(64, 1000, 3), &everything, 1000);
        assert!(!places.iter().any(|p| matches!(p, Place::Cut(_))), "{places:?}");
        assert_eq!(shown(&places), (0..13).collect::<Vec<_>>());
    }

    #[test]
    fn every_nucleus_and_rank_fills_the_list_and_shows_the_chosen_token_once() {
        for n_listed in [0, 1, 3, 14, 15, 16, 64] {
            for nucleus_size in [1, 2, 11, 12, 13, 14, 15, 16, 63, 64, 65, 999, 1000] {
                for rank in [0, 1, 9, 10, 11, 12, 13, 14, 15, 63, 64, 999] {
                    let step = step(n_listed, nucleus_size, rank);
                    let places = arrange(&step, &top_p(), 1000);
                    let case = format!("listed {n_listed}, nucleus {nucleus_size}, rank {rank}: {places:?}");
                    assert_eq!(places.len(), N_PLACES, "{case}");
                    let n_chosen = places
                        .iter()
                        .filter(|p| **p == Place::Chosen || **p == Place::Candidate(rank as usize))
                        .count();
                    assert_eq!(n_chosen, 1, "{case}");
                    let lines = places.iter().filter(|p| matches!(p, Place::Cut(_))).count();
                    assert!(lines <= 1, "{case}");
                }
            }
        }
    }

    #[test]
    fn greedy_bars_show_the_model_itself() {
        let greedy = SamplingOptions { temperature: 0.0, ..top_p() };
        let mut step = step(3, 1, 0);
        (step.nucleus_mass, step.candidates[0].p_temperature, step.candidates[0].p_raw) = (1.0, 1.0, 0.6);
        let shown = shown_probabilities(&step, &greedy);
        assert_eq!(shown[0], (0.6, 0.6));
        assert!((shown[2].1 - 0.602).abs() < 1e-6);
        let places = arrange(&step, &greedy, 1000);
        assert_eq!(places[1], Place::Cut("temperature 0 cuts here: 999 tokens share 40\u{a0}%".into()));
        assert_eq!(shown_probabilities(&step, &top_p())[0].0, 1.0);
    }

    #[test]
    fn typical_p_may_cut_the_likeliest_too() {
        let typical = SamplingOptions { typical_p: 0.5, ..SamplingOptions::OFF };
        let mut step = step(64, 3, 3);
        step.candidates.iter_mut().for_each(|candidate| candidate.kept = (2..5).contains(&candidate.id));
        let places = arrange(&step, &typical, 1000);
        assert_eq!(shown(&places), (0..14).collect::<Vec<_>>(), "in their order, none counted as kept");
        assert!(matches!(&places[5], Place::Cut(text) if text.starts_with("typical-p 0.50 cuts here: 997 tokens")));
    }

    #[test]
    fn forbidden_tokens_are_cut_without_a_filter() {
        let suppressed = SamplingOptions { suppress: vec![1], ..SamplingOptions::OFF };
        let step = step(64, 63, 0);
        assert_eq!(first_filter(&step, &suppressed), None);
        assert_eq!(cut_line(&step, &suppressed, 1), "forbidden tokens are cut here: 1 token has 94\u{a0}%");
    }

    #[test]
    fn the_line_names_the_filter_that_cut() {
        let step = step(64, 5, 2);
        assert_eq!(first_filter(&step, &top_p()), Some(Filter::TopP));
        assert_eq!(first_filter(&step, &SamplingOptions { top_k: 5, ..top_p() }), Some(Filter::TopK));
        assert_eq!(first_filter(&step, &SamplingOptions { top_p: 1.0, min_p: 0.1, ..top_p() }), Some(Filter::MinP));
        assert_eq!(first_filter(&step, &SamplingOptions { temperature: 0.0, ..top_p() }), Some(Filter::Greedy));
        let mut both = step.clone();
        both.candidates[5].p_temperature = 1e-6;
        let min_p = SamplingOptions { min_p: 0.1, ..top_p() };
        assert_eq!(first_filter(&both, &min_p), Some(Filter::MinP), "the mass above the cut is below top-p");
    }
}
