//! What a server's answer means for a download: the file anew, its missing rest, or neither.
//!
//! Invariant: pure; headers come in as text, a [`Verdict`] goes out.

use crate::kept::Version;

/// The headers that decide. Those that another site's server does not show are none.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Answer {
    pub status: u16,
    pub content_length: Option<String>,
    pub content_encoding: Option<String>,
    pub content_range: Option<String>,
    pub etag: Option<String>,
    pub last_modified: Option<String>,
}

/// What was asked for beyond the plain file: its bytes from `at` on, of this version only.
#[derive(Debug, Clone, Copy)]
pub struct Asked<'a> {
    pub at: u64,
    pub version: &'a Version,
    /// The server was told the version (`If-Range`), so that its 206 vouches for it.
    pub is_conditional: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    /// The file from its first byte, of `total` bytes if known; with a version, its rest can be asked for later.
    Whole { total: Option<u64>, version: Option<Version> },
    /// Exactly the bytes that were asked for.
    Rest { total: Option<u64> },
    /// The bytes at hand cannot be gone on with: ask for the whole file.
    Anew,
    /// The server is busy or broken just now.
    Later,
    /// It will not send the file.
    Refused,
}

impl Answer {
    pub fn judge(&self, asked: Option<Asked>) -> Verdict {
        match (self.status, asked) {
            // Also when a part was asked for: the server knows no ranges, or the file has changed.
            (200 | 203, _) => Verdict::Whole { total: self.total(), version: self.version() },
            (206, Some(asked)) => self.judge_part(asked),
            (412 | 416, Some(_)) => Verdict::Anew,
            (408 | 425 | 429 | 500 | 502 | 503 | 504, _) => Verdict::Later,
            _ => Verdict::Refused,
        }
    }

    fn judge_part(&self, asked: Asked) -> Verdict {
        let Some((start, total)) = self.content_range.as_deref().and_then(parse_content_range) else {
            return Verdict::Anew;
        };
        let is_same_version = match self.validator() {
            Some(validator) => validator == asked.version.validator,
            None => asked.is_conditional,
        };
        let is_same_size = total.is_none() || asked.version.total.is_none() || total == asked.version.total;
        if start == asked.at && is_same_version && is_same_size {
            Verdict::Rest { total: total.or(asked.version.total) }
        } else {
            Verdict::Anew
        }
    }

    /// The bytes that will arrive, if the header speaks of them: not of compressed ones.
    fn total(&self) -> Option<u64> {
        if self.is_encoded() { None } else { self.content_length.as_deref()?.trim().parse().ok() }
    }

    fn version(&self) -> Option<Version> {
        // Ranges of a compressed file count its compressed bytes.
        let validator = self.validator().filter(|_| !self.is_encoded())?;
        Some(Version { validator: validator.to_owned(), total: self.total() })
    }

    /// A weak ETag promises the same meaning, not the same bytes.
    fn validator(&self) -> Option<&str> {
        let strong = self.etag.as_deref().filter(|etag| etag.starts_with('"'));
        strong.or(self.last_modified.as_deref())
    }

    fn is_encoded(&self) -> bool {
        self.content_encoding.as_deref().is_some_and(|encoding| encoding != "identity")
    }
}

/// `bytes 5-9/10` -> first byte and total; the total may be `*`.
fn parse_content_range(text: &str) -> Option<(u64, Option<u64>)> {
    let (range, total) = text.trim().strip_prefix("bytes ")?.split_once('/')?;
    let (start, end) = range.split_once('-')?;
    let (start, end): (u64, u64) = (start.trim().parse().ok()?, end.trim().parse().ok()?);
    let total = if total.trim() == "*" { None } else { Some(total.trim().parse().ok()?) };
    (start <= end && total.is_none_or(|total| end < total)).then_some((start, total))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version() -> Version {
        Version { validator: "\"a\"".into(), total: Some(100) }
    }

    fn whole(status: u16) -> Answer {
        Answer { status, content_length: Some("100".into()), etag: Some("\"a\"".into()), ..Answer::default() }
    }

    fn part(range: &str) -> Answer {
        Answer { status: 206, content_range: Some(range.into()), etag: Some("\"a\"".into()), ..Answer::default() }
    }

    fn judge_from_60(answer: &Answer, is_conditional: bool) -> Verdict {
        answer.judge(Some(Asked { at: 60, version: &version(), is_conditional }))
    }

    #[test]
    fn a_whole_file_begins_anew_whether_or_not_a_part_was_asked_for() {
        let expected = Verdict::Whole { total: Some(100), version: Some(version()) };
        assert_eq!(whole(200).judge(None), expected);
        assert_eq!(judge_from_60(&whole(200), true), expected);
        let unknown = Answer { content_length: None, etag: None, ..whole(200) };
        assert_eq!(unknown.judge(None), Verdict::Whole { total: None, version: None });
    }

    #[test]
    fn compressed_bytes_have_no_known_total_and_no_rest() {
        let answer = Answer { content_encoding: Some("gzip".into()), ..whole(200) };
        assert_eq!(answer.judge(None), Verdict::Whole { total: None, version: None });
        let answer = Answer { content_encoding: Some("identity".into()), ..whole(200) };
        assert_eq!(answer.judge(None), whole(200).judge(None));
    }

    #[test]
    fn only_the_rest_that_was_asked_for_is_taken() {
        assert_eq!(judge_from_60(&part("bytes 60-99/100"), false), Verdict::Rest { total: Some(100) });
        assert_eq!(judge_from_60(&part("bytes 60-69/*"), false), Verdict::Rest { total: Some(100) }, "in pieces");
        for shifted in
            ["bytes 59-99/100", "bytes 0-99/100", "bytes 60-99/101", "bytes 60-100/100", "60-99/100", "bytes */100"]
        {
            assert_eq!(judge_from_60(&part(shifted), true), Verdict::Anew, "{shifted}");
        }
        assert_eq!(judge_from_60(&Answer { status: 206, ..Answer::default() }, true), Verdict::Anew, "no range named");
        assert_eq!(part("bytes 60-99/100").judge(None), Verdict::Refused, "nobody asked for a part");
    }

    #[test]
    fn a_part_of_another_version_is_not_taken() {
        let changed = Answer { etag: Some("\"b\"".into()), ..part("bytes 60-99/100") };
        assert_eq!(judge_from_60(&changed, true), Verdict::Anew);
        let silent = Answer { etag: None, ..part("bytes 60-99/100") };
        assert_eq!(judge_from_60(&silent, true), Verdict::Rest { total: Some(100) }, "If-Range vouches for it");
        assert_eq!(judge_from_60(&silent, false), Verdict::Anew);
    }

    #[test]
    fn a_weak_etag_gives_way_to_the_date() {
        let date = "Wed, 02 Dec 2026 10:00:00 GMT";
        let weak = Answer { etag: Some("W/\"a\"".into()), ..whole(200) };
        assert_eq!(weak.judge(None), Verdict::Whole { total: Some(100), version: None });
        let dated = Answer { last_modified: Some(date.into()), ..weak };
        let Verdict::Whole { version: Some(version), .. } = dated.judge(None) else { panic!("it has a date") };
        assert_eq!(version.validator, date);
    }

    #[test]
    fn statuses_are_refused_waited_for_or_begun_anew() {
        for status in [204, 301, 400, 401, 403, 404, 410, 416, 451, 501] {
            assert_eq!(whole(status).judge(None), Verdict::Refused, "{status}");
        }
        for status in [408, 429, 500, 502, 503, 504] {
            assert_eq!(whole(status).judge(None), Verdict::Later, "{status}");
            assert_eq!(judge_from_60(&whole(status), true), Verdict::Later, "{status}");
        }
        assert_eq!(judge_from_60(&whole(416), true), Verdict::Anew);
        assert_eq!(judge_from_60(&whole(404), true), Verdict::Refused);
    }
}
