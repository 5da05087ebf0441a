//! The exercise as a result: medians of several runs with and without the cache, the speed-up at each length, and both as JSON
//! and CSV.
//!
//! The speed-up at n tokens is the time of the first n decode steps without the cache over their time with it. The first token
//! is left out: it computes the whole prompt either way.
//!
//! Invariant: pure; times come in, figures and texts go out.

use std::fmt::Write;

/// Speed-ups whose length the exercise asks for.
pub const TARGETS: [f64; 2] = [5.0, 10.0];

/// What was measured, and where.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Report {
    /// Names and values that say what the figures belong to: machine, backend, model, settings.
    pub about: Vec<(&'static str, Fact)>,
    pub n_prompt: u32,
    /// Milliseconds of each decode step, run by run: with the cache, and without.
    pub runs: [Vec<Vec<f64>>; 2],
    pub same_text: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Fact {
    Text(String),
    Number(f64),
    Flag(bool),
}

impl Report {
    /// The median time of each decode step over the runs of a mode, of as many steps as all of them have.
    pub fn medians(&self, slot: usize) -> Vec<f64> {
        let runs = &self.runs[slot];
        let n_steps = runs.iter().map(Vec::len).min().unwrap_or(0);
        (0..n_steps).map(|i| median(runs.iter().map(|run| run[i]).collect())).collect()
    }

    /// Decode tokens per second of a mode: of each run, the median.
    pub fn tokens_per_s(&self, slot: usize) -> f64 {
        median(self.runs[slot].iter().map(|run| run.len() as f64 * 1e3 / run.iter().sum::<f64>()).collect())
    }

    pub fn speed_ups(&self) -> Vec<f64> {
        speed_ups(&self.medians(0), &self.medians(1))
    }

    pub fn to_json(&self) -> String {
        let mut json = String::from("{\n");
        for (name, fact) in &self.about {
            let value = match fact {
                Fact::Text(text) => quoted(text),
                Fact::Number(number) => number_or_null(*number),
                Fact::Flag(flag) => flag.to_string(),
            };
            line(&mut json, name, &value);
        }
        line(&mut json, "promptTokens", &self.n_prompt.to_string());
        line(&mut json, "runs", &self.runs[0].len().to_string());
        line(&mut json, "sameText", &self.same_text.to_string());
        line(&mut json, "tokensPerSecondWithCache", &number_or_null(self.tokens_per_s(0)));
        line(&mut json, "tokensPerSecondWithoutCache", &number_or_null(self.tokens_per_s(1)));
        let speed_ups = self.speed_ups();
        line(&mut json, "speedUp", &speed_ups.last().map_or("null".into(), |ratio| number_or_null(*ratio)));
        for target in TARGETS {
            let at = reaches(&speed_ups, target).map_or("null".into(), |n| n.to_string());
            line(&mut json, &format!("lengthAtSpeedUp{target}"), &at);
        }
        line(&mut json, "msPerTokenWithCache", &list(&self.medians(0)));
        line(&mut json, "msPerTokenWithoutCache", &list(&self.medians(1)));
        line(&mut json, "speedUpAtLength", &list(&speed_ups));
        for (name, runs) in [("allRunsWithCache", &self.runs[0]), ("allRunsWithoutCache", &self.runs[1])] {
            let runs: Vec<String> = runs.iter().map(|run| list(run)).collect();
            line(&mut json, name, &format!("[{}]", runs.join(", ")));
        }
        let end = json.trim_end_matches(",\n").len();
        json.truncate(end);
        json + "\n}\n"
    }

    /// One line per decode step; what the figures belong to stands before them, in lines that begin with `#`.
    pub fn to_csv(&self) -> String {
        let mut csv = String::new();
        for (name, fact) in &self.about {
            let value = match fact {
                Fact::Text(text) => text.replace(char::is_control, " "),
                Fact::Number(number) => number.to_string(),
                Fact::Flag(flag) => flag.to_string(),
            };
            push(&mut csv, format_args!("# {name}: {value}\n"));
        }
        csv += "decode_steps,position,ms_with_cache,ms_without_cache,speed_up\n";
        let rows = self.medians(0).into_iter().zip(self.medians(1)).zip(self.speed_ups());
        for (n, ((with_cache, without), ratio)) in (1..).zip(rows) {
            let position = self.n_prompt + n;
            push(&mut csv, format_args!("{n},{position},{with_cache:.3},{without:.3},{ratio:.3}\n"));
        }
        csv
    }
}

/// The speed-up over the first n decode steps, for each n.
pub fn speed_ups(with_cache: &[f64], without: &[f64]) -> Vec<f64> {
    let (mut ms_with, mut ms_without) = (0.0, 0.0);
    let steps = with_cache.iter().zip(without);
    steps
        .map(|(with_cache, without)| {
            ms_with += with_cache;
            ms_without += without;
            ms_without / ms_with
        })
        .collect()
}

/// The length from which on the speed-up never falls below `target` again; none when it ends below.
pub fn reaches(speed_ups: &[f64], target: f64) -> Option<usize> {
    let n_before = speed_ups.iter().rposition(|ratio| *ratio < target).map_or(0, |last_below| last_below + 1);
    (n_before < speed_ups.len()).then_some(n_before + 1)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => values[n / 2],
        n => f64::midpoint(values[n / 2 - 1], values[n / 2]),
    }
}

fn line(json: &mut String, name: &str, value: &str) {
    push(json, format_args!("  {}: {value},\n", quoted(name)));
}

fn push(text: &mut String, more: std::fmt::Arguments) {
    text.write_fmt(more).expect("a String takes any text");
}

fn list(values: &[f64]) -> String {
    let values: Vec<String> = values.iter().map(|value| number_or_null((value * 1e3).round() / 1e3)).collect();
    format!("[{}]", values.join(", "))
}

/// JSON has no word for what is no number.
fn number_or_null(number: f64) -> String {
    if number.is_finite() { number.to_string() } else { "null".into() }
}

fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            c if c.is_control() => push(&mut quoted, format_args!("\\u{:04x}", c as u32)),
            c => quoted.push(c),
        }
    }
    quoted + "\""
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> Report {
        Report {
            about: vec![
                ("model", Fact::Text("a \"name\"\\\n\u{1}é".into())),
                ("temperature", Fact::Number(0.7)),
                ("isolated", Fact::Flag(true)),
                ("bytes", Fact::Number(f64::NAN)),
            ],
            n_prompt: 4,
            runs: [
                vec![vec![2.0, 2.0, 2.0], vec![1.0, 9.0, 2.0, 7.0], vec![3.0, 2.0, 2.0]],
                vec![vec![4.0, 20.0, 36.0], vec![4.0, 21.0, 30.0], vec![4.0, 19.0, 40.0]],
            ],
            same_text: true,
        }
    }

    #[test]
    fn medians_are_of_each_step_and_stray_times_drop_out() {
        assert_eq!(report().medians(0), [2.0, 2.0, 2.0]);
        assert_eq!(report().medians(1), [4.0, 20.0, 36.0]);
        assert_eq!(report().tokens_per_s(0), 3e3 / 7.0);
        assert_eq!(median(vec![4.0, 1.0]), 2.5);
        assert_eq!(Report::default().speed_ups(), [0.0; 0]);
    }

    #[test]
    fn the_speed_up_is_of_all_tokens_so_far() {
        assert_eq!(report().speed_ups(), [2.0, 6.0, 10.0]);
    }

    #[test]
    fn a_target_is_reached_when_the_speed_up_stays_there() {
        assert_eq!(reaches(&[2.0, 6.0, 10.0], 5.0), Some(2));
        assert_eq!(reaches(&[2.0, 6.0, 10.0], 10.0), Some(3));
        assert_eq!(reaches(&[2.0, 6.0, 4.0, 7.0], 5.0), Some(4), "a peak by chance is not it");
        assert_eq!(reaches(&[7.0, 6.0, 4.0], 5.0), None);
        assert_eq!(reaches(&[7.0], 5.0), Some(1));
        assert_eq!(reaches(&[], 5.0), None);
    }

    #[test]
    fn the_json_reads_back() {
        let read: serde_json::Value = serde_json::from_str(&report().to_json()).expect("valid JSON");
        assert_eq!(read["model"], "a \"name\"\\\n\u{1}é");
        assert_eq!(read["temperature"], 0.7);
        assert_eq!(read["isolated"], true);
        assert!(read["bytes"].is_null());
        assert_eq!(read["runs"], 3);
        assert_eq!(read["speedUp"].as_f64(), Some(10.0));
        assert_eq!(read["lengthAtSpeedUp5"], 2);
        assert_eq!(read["lengthAtSpeedUp10"], 3);
        assert_eq!(read["speedUpAtLength"].as_array().map(Vec::len), Some(3));
        assert_eq!(read["allRunsWithCache"][1][3].as_f64(), Some(7.0));
        let empty: serde_json::Value = serde_json::from_str(&Report::default().to_json()).expect("valid JSON");
        assert!(empty["speedUp"].is_null() && empty["lengthAtSpeedUp10"].is_null());
    }

    #[test]
    fn the_csv_has_one_line_per_step_after_its_comments() {
        let csv = report().to_csv();
        let (comments, rows): (Vec<&str>, Vec<&str>) = csv.lines().partition(|line| line.starts_with('#'));
        assert_eq!(comments[0], "# model: a \"name\"\\  é");
        assert_eq!(rows[0], "decode_steps,position,ms_with_cache,ms_without_cache,speed_up");
        assert_eq!(rows[1..], ["1,5,2.000,4.000,2.000", "2,6,2.000,20.000,6.000", "3,7,2.000,36.000,10.000"]);
    }
}
