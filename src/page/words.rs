//! Numbers, tokens and errors in words: everything the page says, as plain text.
//!
//! Invariant: pure functions from values to strings; no DOM.

use crate::error::Error;

/// A piece of a token as it is shown. Marks stand for what cannot be seen and are drawn fainter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Glyphs {
    pub text: String,
    pub is_mark: bool,
}

/// Spells a token's own bytes so that nothing in it is invisible: `·` for each leading space, `↵` for a line feed, `⇥` for a
/// tab, `⟨E2⟩` for a byte that is no whole character, `⟨U+200B⟩` for characters without a shape, `∅` for no bytes at all.
pub fn spell(bytes: &[u8]) -> Vec<Glyphs> {
    let mut spelt: Vec<Glyphs> = Vec::new();
    let mut push = |text: &str, is_mark: bool| match spelt.last_mut() {
        Some(last) if last.is_mark == is_mark => last.text.push_str(text),
        _ => spelt.push(Glyphs { text: text.to_owned(), is_mark }),
    };
    if bytes.is_empty() {
        push("∅", true);
    }
    let mut is_leading = true;
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                ' ' if is_leading => push("·", true),
                '\n' => push("↵", true),
                '\r' => push("␍", true),
                '\t' => push("⇥", true),
                c if is_shapeless(c) => push(&format!("⟨U+{:04X}⟩", c as u32), true),
                c => push(c.encode_utf8(&mut [0; 4]), false),
            }
            is_leading &= c == ' ';
        }
        for byte in chunk.invalid() {
            push(&format!("⟨{byte:02X}⟩"), true);
            is_leading = false;
        }
    }
    spelt
}

/// [`spell`] as one string.
pub fn spelt(bytes: &[u8]) -> String {
    spell(bytes).into_iter().map(|glyphs| glyphs.text).collect()
}

/// Controls, zero-width characters and direction overrides: they would leave an empty chip or turn the line around.
fn is_shapeless(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{a0}' | '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}')
}

/// `49152` -> `49,152`.
pub fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A count with its noun: `1 token`, `1,200 tokens`.
pub fn count(n: u64, noun: &str) -> String {
    format!("{} {noun}{}", grouped(n), if n == 1 { "" } else { "s" })
}

/// A probability as a percentage with two or three figures; never rounds to 0 or 100 what is not.
pub fn percent(p: f32) -> String {
    let p = f64::from(p);
    let figures = match p {
        p if p <= 0.0 => "0".to_owned(),
        p if p < 0.0001 => "<0.01".to_owned(),
        p if p < 0.00995 => format!("{:.2}", p * 100.0),
        p if p < 0.0995 => format!("{:.1}", p * 100.0),
        p if p < 0.995 => format!("{:.0}", p * 100.0),
        p if p < 0.9995 => format!("{:.1}", p * 100.0),
        p if p < 1.0 => ">99.9".to_owned(),
        _ => "100".to_owned(),
    };
    format!("{figures}\u{a0}%")
}

/// A setting such as top-p, without trailing noise: `0.9` -> `0.90`, `0.955` -> `0.955`.
pub fn setting(value: f32) -> String {
    let hundredths = f64::from(value) * 100.0;
    if (hundredths - hundredths.round()).abs() < 1e-4 { format!("{value:.2}") } else { format!("{value:.3}") }
}

pub fn bits(bits: f32) -> String {
    format!("{bits:.2}\u{a0}bits")
}

/// Milliseconds with about three figures.
pub fn milliseconds(ms: f64) -> String {
    match ms {
        ms if !ms.is_finite() => "–".to_owned(),
        ms if ms < 9.995 => format!("{ms:.2}\u{a0}ms"),
        ms if ms < 99.95 => format!("{ms:.1}\u{a0}ms"),
        ms if ms < 9999.5 => format!("{ms:.0}\u{a0}ms"),
        ms => format!("{:.1}\u{a0}s", ms / 1e3),
    }
}

/// Tokens per second; a dash where nothing was measured.
pub fn rate(tokens_per_s: f64) -> String {
    match tokens_per_s {
        r if !r.is_finite() || r <= 0.0 => "–".to_owned(),
        r if r < 9.95 => format!("{r:.1}"),
        r => format!("{r:.0}"),
    }
}

/// A very small or large number to one figure: `3.4e-10` -> `3·10⁻¹⁰`; `0` stays `0`.
pub fn power_of_ten(x: f64) -> String {
    if x == 0.0 || !x.is_finite() {
        return x.to_string();
    }
    let text = format!("{x:.0e}");
    let (figure, exponent) = text.split_once('e').expect("`e` notation has an exponent");
    let raised = exponent.chars().map(|c| match c.to_digit(10) {
        Some(digit) => ['⁰', '¹', '²', '³', '⁴', '⁵', '⁶', '⁷', '⁸', '⁹'][digit as usize],
        None => '⁻',
    });
    format!("{figure}·10{}", raised.collect::<String>())
}

/// Bytes in decimal units, as file managers and download pages count: `98.4 MB`.
pub fn bytes(n: u64) -> String {
    let n = n as f64;
    match n {
        n if n < 1e3 => format!("{n:.0}\u{a0}bytes"),
        n if n < 1e6 => format!("{:.0}\u{a0}kB", n / 1e3),
        n if n < 9.95e6 => format!("{:.1}\u{a0}MB", n / 1e6),
        n if n < 1e9 => format!("{:.0}\u{a0}MB", n / 1e6),
        n => format!("{:.2}\u{a0}GB", n / 1e9),
    }
}

/// Model sizes: `135 M`, `1.7 B`.
pub fn parameters(n: u64) -> String {
    let n = n as f64;
    match n {
        n if n < 1e6 => format!("{:.0}\u{a0}k", n / 1e3),
        n if n < 999.5e6 => format!("{:.0}\u{a0}M", n / 1e6),
        n => format!("{:.1}\u{a0}B", n / 1e9),
    }
}

/// A name or a sentence that may have come from a file, at a length that can be shown: a file's strings may be a hundred
/// megabytes long.
pub fn shortened(text: &str) -> String {
    const N_CHARS: usize = 200;
    match text.char_indices().nth(N_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// An error as the page says it: what happened, what was found (the error's own sentence), what to do.
pub fn explain(error: &Error) -> String {
    let (what, advice) = match error {
        Error::NotGguf(_) | Error::Truncated(_) | Error::UnsupportedVersion(_) | Error::WrongEndian(_) => {
            ("This is not a file that can be loaded.", "Choose a complete GGUF file, version 2 or 3.")
        }
        Error::BadSplit(_) => (
            "The files do not make one model.",
            "Choose all parts of one split model together, as they were published.",
        ),
        Error::UnsupportedArchitecture(_) => {
            ("This model is of a kind that is not supported yet.", "Choose a model of one of those families.")
        }
        Error::UnsupportedQuantization(_) => (
            "This model's weights are in a format that is not supported yet.",
            "Choose one in F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q2_K, Q3_K, Q4_K, Q5_K or Q6_K.",
        ),
        Error::TooLarge(_) => ("The model does not fit.", "Choose a smaller model or a shorter context."),
        Error::Network(_) => {
            ("The file could not be fetched.", "Check the connection and the address, or open a local file.")
        }
        Error::HttpStatus(_) => ("The server did not send the file.", "Check the address, or open a local file."),
        Error::HashMismatch(_) => ("The file is not the expected one.", "Fetch it again from its source."),
        Error::BadOption(_) => ("A setting cannot be used.", "Correct it and try again."),
        Error::UnsupportedOption(_) => ("That option is not there yet.", "Leave it out."),
        Error::NoModel(_) => ("No model is loaded.", "Load one first."),
        Error::Busy(_) => ("The engine is busy.", "Stop what is running, or wait for it."),
        Error::NoChatTemplate(_) => ("This model has no chat.", "Choose Complete, or load a model that has one."),
        Error::TemplateRefused(_) => {
            ("The model's chat template failed.", "Choose Complete, or start a new conversation.")
        }
        Error::EmptyPrompt(_) => ("There is no prompt.", "Type a few words."),
        Error::PromptTooLong(_) => ("The prompt is too long.", "Shorten it, or load the model with a longer context."),
        Error::BadToken(_) => ("A token id is not in the vocabulary.", "Use ids that the tokenizer gave."),
        Error::NonFiniteLogits(_) => {
            ("The model computed numbers that are none.", "The file may be damaged: load it again.")
        }
        Error::Cancelled(_) => ("Stopped.", ""),
        Error::Backend(_) => ("The computation failed.", "Try again; if it stays, reload the page."),
        Error::DeviceLost(_) => (
            "The GPU stopped working.",
            "The text so far is kept, and the model now runs on the CPU engine: press Generate.",
        ),
        Error::BadRunFile(_) => ("The run file was refused.", "Open one that this page has saved."),
        Error::EngineFailed(_) => ("The engine stopped.", "Load the model again: a fresh engine starts with it."),
        Error::NoText(_) => ("There is no text yet.", "Generate one, or open a run file."),
        Error::OtherModel(_) => ("Another model wrote this text.", "Load that one, or generate anew."),
        Error::BranchesFull(_) => ("There is no room for another branch.", "Press Generate: it begins anew."),
        Error::PageFailed(_) => {
            ("Something went wrong in this page.", "Try again; if it stays, copy the diagnostics and reload the page.")
        }
        _ => ("The file was refused.", "It may be damaged, or not made for this program: choose another."),
    };
    let found = shortened(&error.to_string());
    [what, found.as_str(), advice].iter().filter(|part| !part.is_empty()).copied().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_spelt_out() {
        assert_eq!(spelt(b" the"), "·the");
        assert_eq!(spelt(b"  a b"), "··a b");
        assert_eq!(spelt(b"\n\n"), "↵↵");
        assert_eq!(spelt(b"\tx\r\n"), "⇥x␍↵");
        assert_eq!(spelt(&[0xE2, 0x80]), "⟨E2⟩⟨80⟩");
        assert_eq!(spelt("é".as_bytes()), "é");
        assert_eq!(spelt(&[b'a', 0xFF, b'b']), "a⟨FF⟩b");
        assert_eq!(spelt("\u{202e}x".as_bytes()), "⟨U+202E⟩x");
        assert_eq!(spelt(b""), "∅");
        assert_eq!(spelt(b"<b>"), "<b>");
    }

    #[test]
    fn marks_are_told_from_text() {
        let glyphs = |text: &str, is_mark| Glyphs { text: text.to_owned(), is_mark };
        assert_eq!(spell(b" the\n"), [glyphs("·", true), glyphs("the", false), glyphs("↵", true)]);
    }

    #[test]
    fn numbers_are_grouped() {
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(999), "999");
        assert_eq!(grouped(49_152), "49,152");
        assert_eq!(grouped(1_000_000), "1,000,000");
        assert_eq!(count(1, "token"), "1 token");
        assert_eq!(count(1200, "token"), "1,200 tokens");
    }

    #[test]
    fn percentages_never_lie_at_the_ends() {
        let plain = |p| percent(p).replace('\u{a0}', " ");
        assert_eq!(plain(0.0), "0 %");
        assert_eq!(plain(1e-6), "<0.01 %");
        assert_eq!(plain(0.0067), "0.67 %");
        assert_eq!(plain(0.0436), "4.4 %");
        assert_eq!(plain(0.0996), "10 %");
        assert_eq!(plain(0.29), "29 %");
        assert_eq!(plain(0.997), "99.7 %");
        assert_eq!(plain(0.99999), ">99.9 %");
        assert_eq!(plain(1.0), "100 %");
    }

    #[test]
    fn figures_keep_their_precision() {
        assert_eq!(setting(0.9), "0.90");
        assert_eq!(setting(0.955), "0.955");
        assert_eq!(rate(147.6), "148");
        assert_eq!(rate(4.26), "4.3");
        assert_eq!(rate(0.0), "–");
        assert_eq!(rate(f64::NAN), "–");
        assert_eq!(bytes(98_400_000).replace('\u{a0}', " "), "98 MB");
        assert_eq!(milliseconds(5.94).replace('\u{a0}', " "), "5.94 ms");
        assert_eq!(milliseconds(10_400.0).replace('\u{a0}', " "), "10.4 s");
        assert_eq!(power_of_ten(3.4e-10), "3·10⁻¹⁰");
        assert_eq!(power_of_ten(9.7e-7), "1·10⁻⁶", "rounding carries into the exponent");
        assert_eq!(power_of_ten(2.0), "2·10⁰");
        assert_eq!(power_of_ten(0.0), "0");
        assert_eq!(parameters(134_515_008).replace('\u{a0}', " "), "135 M");
    }

    #[test]
    fn an_error_says_what_was_found_and_what_to_do() {
        let text = explain(&Error::HttpStatus("The server answered 404.".into()));
        assert!(text.contains("The server answered 404.") && text.ends_with("or open a local file."), "{text}");
        assert_eq!(explain(&Error::Cancelled("The run was stopped.".into())), "Stopped. The run was stopped.");
        let text = explain(&Error::DeviceLost("The browser says: the device was destroyed.".into()));
        for part in ["The GPU stopped working.", "the device was destroyed", "text so far is kept", "CPU", "Generate"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        let text = explain(&Error::UnsupportedQuantization("A tensor is in IQ4_XS.".into()));
        for format in "F32 F16 BF16 Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 Q2_K Q3_K Q4_K Q5_K Q6_K".split(' ') {
            assert!(text.contains(format), "{format}: {text}");
        }
    }

    #[test]
    fn every_kind_says_what_happened_and_what_to_do() {
        const FOUND: &str = "It has 7 legs.";
        // What may be wrong in a file that no advice of its own could mend.
        let of_the_file = [
            "count-too-large",
            "string-too-long",
            "bad-key",
            "duplicate-key",
            "bad-type",
            "bad-value",
            "array-too-long",
            "nested-too-deep",
            "bad-alignment",
            "bad-name",
            "duplicate-tensor",
            "bad-dims",
            "dim-too-large",
            "shape-overflow",
            "block-mismatch",
            "offset-misaligned",
            "offset-out-of-range",
            "overlapping-tensors",
            "missing-metadata",
            "missing-tensor",
            "bad-hyperparameter",
            "shape-mismatch",
            "bad-tokenizer",
        ];
        for error in Error::of_every_kind(FOUND) {
            let (kind, text) = (error.kind(), explain(&error));
            let (what, advice) = text.split_once(FOUND).unwrap_or_else(|| panic!("{kind} says what was found: {text}"));
            assert!(what.len() > 8 || kind == "cancelled", "{kind} says what happened: {text}");
            assert!(advice.len() > 8 && advice.ends_with('.') || kind == "cancelled", "{kind} says what to do: {text}");
            let is_general = what.starts_with("The file was refused.");
            assert_eq!(is_general, of_the_file.contains(&kind), "{kind} has advice that fits: {text}");
        }
    }

    #[test]
    fn long_texts_are_cut_between_characters() {
        assert_eq!(shortened(&"é".repeat(200)), "é".repeat(200));
        assert_eq!(shortened(&"é".repeat(1000)), format!("{}…", "é".repeat(200)));
        let text = explain(&Error::BadName("x".repeat(1 << 20)));
        assert!(text.len() < 400 && text.ends_with("choose another."), "{text}");
    }
}
