//! What every refusal of a file has in common.

use nucleus::Error;

/// Passes the result on, once its error, if it is one, reads as one sentence or a few: what was found, what was expected, short,
/// and with nothing that a terminal or a page would act on.
pub fn in_words<T>(result: Result<T, Error>) -> Result<T, Error> {
    if let Err(error) = &result {
        let sentence = error.to_string();
        assert!(sentence.len() <= 450, "{} bytes: {sentence}", sentence.len());
        assert!(!sentence.contains(char::is_control), "control characters: {sentence:?}");
        assert!(sentence.contains("expected"), "what was expected? {sentence}");
        assert!(sentence.ends_with('.') && !sentence.ends_with(".."), "no end: {sentence}");
    }
    result
}
