//! One step in words: what the chart shows, as a sentence.
//!
//! Invariant: pure; from a `StepRecord` and the run's settings to phrases.

use super::ladder::{Filter, filter_name, filters};
use super::words::{count, grouped, percent, setting, spelt};
use crate::protocol::{SamplingOptions, StepRecord};

/// A piece of the sentence, by how it is set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Phrase {
    Plain(String),
    Strong(String),
    Token(String),
}

/// Says what was kept of `vocab_size` tokens and where the draw fell. `is_forced`: the token was given, not drawn.
pub fn describe(step: &StepRecord, sampling: &SamplingOptions, vocab_size: u32, is_forced: bool) -> Vec<Phrase> {
    let plain = |text: String| Phrase::Plain(text);
    let token = Phrase::Token(spelt(&step.bytes));
    let number = grouped(u64::from(step.rank) + 1);
    let vocabulary = grouped(vocab_size.into());
    if is_forced {
        return vec![
            plain("This token was given, not drawn: ".into()),
            token,
            plain(format!(" is number {number} of {vocabulary}.")),
        ];
    }
    if sampling.temperature == 0.0 {
        let chosen = step.candidates.iter().find(|candidate| candidate.id == step.id);
        let share = chosen.map_or(String::new(), |chosen| format!(", at {}", percent(chosen.p_raw)));
        return vec![
            plain(format!("Temperature 0 draws nothing: of {vocabulary} tokens it takes the likeliest, ")),
            token,
            plain(format!("{share}.")),
        ];
    }
    let mut phrases = kept(step, sampling, vocab_size);
    phrases.push(plain(if step.nucleus_size == 1 { " It is ".into() } else { " The draw fell on ".into() }));
    phrases.push(token);
    phrases.push(plain(if step.nucleus_size == 1 { ".".into() } else { format!(", number {number}.") }));
    phrases
}

/// The first half: how many tokens the filters kept, and by what rule.
fn kept(step: &StepRecord, sampling: &SamplingOptions, vocab_size: u32) -> Vec<Phrase> {
    let (n_kept, vocabulary) = (step.nucleus_size, grouped(vocab_size.into()));
    let size = Phrase::Strong(grouped(n_kept.into()));
    let mass = percent(step.nucleus_mass);
    let filters = filters(sampling);
    let plain = |text: String| Phrase::Plain(text);
    let each = if n_kept == 1 { "holds" } else { "hold" };
    match filters[..] {
        [] if n_kept < vocab_size => vec![
            plain(format!("Of {vocabulary} tokens, ")),
            size,
            plain(" are in the draw: all that are not forbidden.".into()),
        ],
        [] => vec![plain(format!("Nothing is cut: all {vocabulary} tokens are in the draw."))],
        [Filter::TopP] if sampling.top_p > 0.0 => {
            let share = f64::from(sampling.top_p) * 100.0;
            let share = format!("{share:.1}").trim_end_matches(".0").to_owned();
            vec![
                plain(format!("Of {vocabulary} tokens, ")),
                size,
                plain(format!(" {each} the first {share}\u{a0}% of the probability.")),
            ]
        }
        [Filter::MinP] => vec![
            plain(format!("Of {vocabulary} tokens, ")),
            size,
            plain(format!(
                " {} at least {} of the likeliest one's probability; together {mass}.",
                if n_kept == 1 { "has" } else { "have" },
                percent(sampling.min_p)
            )),
        ],
        _ => {
            let names: Vec<String> = filters.iter().map(|&filter| filter_name(filter, sampling)).collect();
            let verb = if names.len() == 1 { "keeps" } else { "keep" };
            vec![
                plain(format!("Of {vocabulary} tokens, {} {verb} ", names.join(" and "))),
                size,
                plain(format!(", which {each} {mass} of the probability.")),
            ]
        }
    }
}

/// The list's header for the bars: what probability they show.
pub fn bar_heading(sampling: &SamplingOptions) -> String {
    // At temperature 0 nothing is divided: the bars show the model's own distribution.
    let at = if sampling.temperature == 0.0 {
        "probability".to_owned()
    } else {
        format!("probability at T {}", setting(sampling.temperature))
    };
    if sampling.repetition_penalty == 1.0 { at } else { format!("{at}, after penalty") }
}

/// One candidate, for a screen reader: `·the, 29 %, running sum 0.29, kept, chosen`.
pub fn candidate_label(token: &str, p: f32, cumulative: Option<f32>, is_kept: bool, is_chosen: bool) -> String {
    let sum = cumulative.map_or(String::new(), |sum| format!(", running sum {sum:.3}"));
    let fate = if is_kept { "kept" } else { "cut" };
    format!("{token}, {}{sum}, {fate}{}", percent(p), if is_chosen { ", chosen" } else { "" })
}

/// `step 8 of 64`, for the reader's place in the run.
pub fn place(index: usize, n_steps: usize) -> String {
    format!("step {} of {}", index + 1, count(n_steps as u64, "token"))
}

#[cfg(test)]
mod tests {
    use super::super::ladder::tests::{step, top_p};
    use super::*;

    fn said(sampling: &SamplingOptions, nucleus_size: u32, is_forced: bool) -> String {
        describe(&step(64, nucleus_size, 0), sampling, 49_152, is_forced)
            .into_iter()
            .map(|phrase| match phrase {
                Phrase::Plain(text) | Phrase::Strong(text) | Phrase::Token(text) => text,
            })
            .collect::<String>()
            .replace('\u{a0}', " ")
    }

    #[test]
    fn top_p_alone() {
        assert_eq!(
            said(&top_p(), 8, false),
            "Of 49,152 tokens, 8 hold the first 90 % of the probability. The draw fell on t0, number 1."
        );
        assert_eq!(said(&top_p(), 1, false), "Of 49,152 tokens, 1 holds the first 90 % of the probability. It is t0.");
    }

    #[test]
    fn other_filters() {
        let none = SamplingOptions { top_p: 1.0, ..top_p() };
        assert!(said(&none, 49_152, false).starts_with("Nothing is cut: all 49,152 tokens are in the draw."));
        let top_k = SamplingOptions { top_k: 40, ..none.clone() };
        assert!(said(&top_k, 40, false).starts_with("Of 49,152 tokens, top-k 40 keeps 40, which hold 4.0 %"));
        let min_p = SamplingOptions { min_p: 0.05, ..none };
        assert!(said(&min_p, 8, false).starts_with("Of 49,152 tokens, 8 have at least 5.0 % of the likeliest"));
        let both = SamplingOptions { top_k: 40, ..top_p() };
        assert!(said(&both, 8, false).starts_with("Of 49,152 tokens, top-k 40 and top-p 0.90 keep 8, which hold"));
        let nothing = SamplingOptions { top_p: 0.0, ..top_p() };
        let typical = SamplingOptions { typical_p: 0.5, eta_cutoff: 0.001, ..SamplingOptions::OFF };
        assert!(
            said(&typical, 8, false).starts_with("Of 49,152 tokens, typical-p 0.50 and eta 0.001 keep 8, which hold")
        );
        assert!(
            said(&SamplingOptions::OFF, 49_151, false).contains("49,151 are in the draw: all that are not forbidden.")
        );
        assert!(said(&nothing, 1, false).starts_with("Of 49,152 tokens, top-p 0.00 keeps 1, which holds 0.10 %"));
    }

    #[test]
    fn greedy_and_forced() {
        let greedy = SamplingOptions { temperature: 0.0, ..top_p() };
        assert_eq!(
            said(&greedy, 1, false),
            "Temperature 0 draws nothing: of 49,152 tokens it takes the likeliest, t0, at 0.10 %."
        );
        assert_eq!(said(&top_p(), 8, true), "This token was given, not drawn: t0 is number 1 of 49,152.");
    }

    #[test]
    fn labels_name_what_colour_shows() {
        assert_eq!(
            candidate_label("·a", 0.29, Some(0.29), true, true),
            "·a, 29\u{a0}%, running sum 0.290, kept, chosen"
        );
        assert_eq!(candidate_label("·b", 0.01, None, false, false), "·b, 1.0\u{a0}%, cut");
    }
}
