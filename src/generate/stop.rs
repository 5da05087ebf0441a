//! Finds stop strings in text that arrives in pieces.
//!
//! Invariant: the text that it lets through does not depend on where the pieces were cut.

/// The first stop string to be complete ends the text, which is cut where that one begins; of several that are complete at the
/// same character, the longest counts.
pub(super) struct StopStrings {
    /// None of them empty.
    strings: Vec<String>,
    /// The longest suffix of the text so far that could still become a stop string.
    held: String,
    is_stopped: bool,
}

impl StopStrings {
    pub fn new(strings: &[String]) -> StopStrings {
        StopStrings { strings: strings.to_vec(), held: String::new(), is_stopped: false }
    }

    /// Adds text and returns what can be released. Nothing is, once stopped.
    pub fn push(&mut self, piece: &str) -> String {
        if self.is_stopped {
            return String::new();
        }
        self.held += piece;
        if let Some(start) = self.first_match() {
            self.is_stopped = true;
            self.held.truncate(start);
            return std::mem::take(&mut self.held);
        }
        let held = self.held.split_off(self.held.len() - self.longest_beginning());
        std::mem::replace(&mut self.held, held)
    }

    /// The text has ended: what is held back can no longer become a stop string.
    pub fn finish(&mut self) -> String {
        std::mem::take(&mut self.held)
    }

    pub fn is_stopped(&self) -> bool {
        self.is_stopped
    }

    /// Where the stop string begins that is complete first.
    fn first_match(&self) -> Option<usize> {
        let matches = self.strings.iter().filter_map(|s| Some((self.held.find(s)?, s.len())));
        matches.min_by_key(|&(start, len)| (start + len, start)).map(|(start, _)| start)
    }

    /// Bytes of the longest suffix of the held text that is the beginning of a stop string.
    fn longest_beginning(&self) -> usize {
        let is_beginning = |suffix: &str| self.strings.iter().any(|s| s.starts_with(suffix));
        self.held.char_indices().map(|(i, _)| &self.held[i..]).find(|suffix| is_beginning(suffix)).map_or(0, str::len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(stop: &[&str], pieces: &[&str]) -> (Vec<String>, String, bool) {
        let stop: Vec<String> = stop.iter().map(|s| s.to_string()).collect();
        let mut stream = StopStrings::new(&stop);
        let released = pieces.iter().map(|piece| stream.push(piece)).collect();
        (released, stream.finish(), stream.is_stopped())
    }

    #[test]
    fn holds_back_only_what_could_become_a_stop_string() {
        let (released, rest, stopped) = run(&["END"], &["the E", "N", "E", "N", "d"]);
        assert_eq!(released, ["the ", "", "EN", "", "ENd"]);
        assert_eq!((rest.as_str(), stopped), ("", false));
        assert_eq!(run(&["END"], &["EN"]), (vec!["".into()], "EN".into(), false));
    }

    #[test]
    fn cuts_at_the_match() {
        assert_eq!(run(&["END"], &["go E", "ND", "more"]), (vec!["go ".into(), "".into(), "".into()], "".into(), true));
        assert_eq!(run(&["a"], &["a"]), (vec!["".into()], "".into(), true));
    }

    #[test]
    fn the_first_to_be_complete_wins() {
        // "ab" and "aab" are complete at the same character: the longer one.
        assert_eq!(run(&["ab", "aab"], &["xaab"]).0, ["x"]);
        // "b" is complete before "abcd" is, even when they arrive together.
        assert_eq!(run(&["abcd", "b"], &["abcd"]).0, ["a"]);
        assert_eq!(run(&["STOP", "END"], &["1 END 2 STOP"]).0, ["1 "]);
    }

    /// Every text of a small alphabet, cut in every way, against a search that sees one character at a time.
    #[test]
    fn cuts_between_pieces_do_not_matter() {
        let stop = ["aba", "bb", "aé", "éab"];
        let alphabet = ['a', 'b', 'é'];
        for n in 0..3usize.pow(6) {
            let text: Vec<char> = (0..6).map(|i| alphabet[n / 3usize.pow(i) % 3]).collect();
            let mut expected = String::new();
            let mut is_expected_to_stop = false;
            for c in &text {
                expected.push(*c);
                if let Some(s) = stop.iter().filter(|s| expected.ends_with(**s)).max_by_key(|s| s.len()) {
                    expected.truncate(expected.len() - s.len());
                    is_expected_to_stop = true;
                    break;
                }
            }
            for cuts in 0..32u32 {
                let mut pieces = vec![String::new()];
                for (i, c) in text.iter().enumerate() {
                    if i > 0 && cuts >> (i - 1) & 1 == 1 {
                        pieces.push(String::new());
                    }
                    pieces.last_mut().unwrap().push(*c);
                }
                let pieces: Vec<&str> = pieces.iter().map(String::as_str).collect();
                let (released, rest, stopped) = run(&stop, &pieces);
                assert_eq!((released.concat() + &rest, stopped), (expected.clone(), is_expected_to_stop), "{pieces:?}");
            }
        }
    }
}
