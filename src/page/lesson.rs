//! The guided path: its cards, each with what it says, the controls that it moves, and the run that it starts.
//!
//! Invariant: data only; what moves controls and starts runs is `app`.

/// One card.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Card {
    /// Names the recorded run that stands in while there is no model.
    pub name: &'static str,
    pub title: &'static str,
    pub text: &'static str,
    /// What its button says.
    pub action: &'static str,
    /// Controls by their id in index.html, and the values that they get.
    pub settings: &'static [(&'static str, &'static str)],
    pub run: LessonRun,
    /// The element to look at, by its id.
    pub look_at: &'static str,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LessonRun {
    OneToken,
    Text,
    /// Without the cache, then with it.
    Race,
}

/// The prompt of all cards: many tokens could follow it.
pub const PROMPT: &str = "My favorite animal is the";

/// The model alone: no temperature, nothing cut.
const PLAIN: &[(&str, &str)] = &[("temperature", "1"), ("top-p", "1"), ("top-k", "0"), ("seed", "11")];

pub const CARDS: [Card; 7] = [
    Card {
        name: "loop",
        title: "The loop",
        text: "A language model does one thing: it reads the text so far and says how likely each token is to come next. \
               One token is drawn and added, and it reads again.",
        action: "Take one token",
        settings: PLAIN,
        run: LessonRun::OneToken,
        look_at: "output",
    },
    Card {
        name: "logits",
        title: "Logits become probabilities",
        text: "The model gives every token of its vocabulary a score, its logit. Softmax turns the scores into \
               probabilities: e to the score, divided by the sum over all tokens. The bars are the likeliest of them.",
        action: "Take one token with nothing cut",
        settings: PLAIN,
        run: LessonRun::OneToken,
        look_at: "candidates",
    },
    Card {
        name: "temperature",
        title: "Temperature",
        text: "Scores are divided by the temperature before softmax. Below 1 the likely tokens gain, above 1 the unlikely \
               ones do; at 0 the likeliest token is always taken, and nothing is left to chance.",
        action: "Set temperature to 0 and take one token",
        settings: &[("temperature", "0"), ("top-p", "1"), ("top-k", "0"), ("seed", "11")],
        run: LessonRun::OneToken,
        look_at: "candidates",
    },
    Card {
        name: "nucleus",
        title: "The nucleus",
        text: "Top-p keeps the likeliest tokens that together reach this much probability, the nucleus, and cuts the long \
               tail of tokens that hardly fit. It is small where the model is sure and large where it is not.",
        action: "Set top-p to 0.5 and take one token",
        settings: &[("temperature", "1"), ("top-p", "0.5"), ("top-k", "0"), ("seed", "11")],
        run: LessonRun::OneToken,
        look_at: "cumulative",
    },
    Card {
        name: "draw",
        title: "The draw",
        text: "What was kept is stretched to fill the line from 0 to 1, and a random number u falls on one token. The seed \
               decides all these numbers: press the button twice, and the text is the same.",
        action: "Set the seed to 7 and write 16 tokens",
        settings: &[("temperature", "0.7"), ("top-p", "0.9"), ("top-k", "0"), ("seed", "7"), ("max-tokens", "16")],
        run: LessonRun::Text,
        look_at: "cumulative",
    },
    Card {
        name: "cache",
        title: "The KV cache",
        text: "To read a token, the model looks back at keys and values of all tokens before it. Kept, they cost memory, and \
               each token takes one position of work; thrown away, all positions are computed again for every token.",
        action: "Write 32 tokens without the cache, then with it",
        settings: &[("temperature", "0.7"), ("top-p", "0.9"), ("top-k", "0"), ("seed", "7"), ("max-tokens", "32")],
        run: LessonRun::Race,
        look_at: "plot",
    },
    Card {
        name: "serial",
        title: "What stays serial",
        text: "The next token needs this one, so one text is written token by token, cache or not. Speculative decoding \
               softens this: a small model guesses ahead, and one pass checks several guesses. Batching writes many texts at \
               once, which makes none of them faster. This page does neither.",
        action: "Write 24 tokens and watch them come one by one",
        settings: &[("temperature", "0.7"), ("top-p", "0.9"), ("top-k", "0"), ("seed", "7"), ("max-tokens", "24")],
        run: LessonRun::Text,
        look_at: "output",
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    const INDEX: &str = include_str!("../../index.html");

    #[test]
    fn cards_name_elements_of_the_page() {
        for card in CARDS {
            let ids = card.settings.iter().map(|(id, _)| *id).chain([card.look_at]);
            for id in ids {
                assert!(INDEX.contains(&format!("id=\"{id}\"")), "{}: #{id}", card.name);
            }
        }
    }

    #[test]
    fn a_text_has_a_length_and_a_card_is_short() {
        for card in CARDS {
            let has_length = card.settings.iter().any(|(id, _)| *id == "max-tokens");
            assert_eq!(has_length, card.run != LessonRun::OneToken, "{}", card.name);
            assert!(card.text.len() < 330 && card.action.len() < 60, "{}: {}", card.name, card.text.len());
        }
    }
}
