//! SentencePiece vocabularies, small ones: what the rules of encoding do, one at a time, and a plain reading of them.

use crate::file::{BYTE, CONTROL, File, NORMAL, USER_DEFINED, Value};
use nucleus::tokenizer::{TokenBytes, Tokenizer, Utf8Stream};
#[cfg(target_arch = "wasm32")]
use wasm_bindgen_test::wasm_bindgen_test as test;

/// `<unk>`, `<s>`, `</s>` and the 256 bytes come first; these follow, with their scores.
const FIRST: u32 = 259;

fn file(pieces: &[(&str, i32, f32)]) -> File {
    let bytes: Vec<String> = (0..256).map(|byte| format!("<0x{byte:02X}>")).collect();
    let mut all: Vec<(&str, i32, f32)> = vec![("<unk>", 2, 0.0), ("<s>", CONTROL, 0.0), ("</s>", CONTROL, 0.0)];
    all.extend(bytes.iter().map(|name| (name.as_str(), BYTE, 0.0)));
    all.extend(pieces);
    let mut file = File::new("default", &[], &[]);
    file.remove("merges");
    file.set("model", Value::String("llama".into()));
    file.set("tokens", Value::Strings(all.iter().map(|(piece, ..)| (*piece).to_owned()).collect()));
    file.set("token_type", Value::I32s(all.iter().map(|(_, kind, _)| *kind).collect()));
    file.set("scores", Value::F32s(all.iter().map(|(.., score)| *score).collect()));
    file
}

fn tokenizer(pieces: &[(&str, i32, f32)], add_space_prefix: bool) -> Tokenizer {
    let mut file = file(pieces);
    file.set("add_space_prefix", Value::Bool(add_space_prefix));
    file.tokenizer(FIRST as usize + pieces.len()).unwrap()
}

#[test]
fn the_best_score_merges_first_and_the_leftmost_of_equals() {
    let pieces =
        [("a", NORMAL, -9.0), ("b", NORMAL, -9.0), ("ab", NORMAL, -2.0), ("ba", NORMAL, -1.0), ("aa", NORMAL, -3.0)];
    let tokenizer = tokenizer(&pieces, false);
    let ids = |text: &str| -> Vec<u32> { tokenizer.encode(text, false).unwrap().iter().map(|id| id - FIRST).collect() };
    assert_eq!(ids("aba"), [0, 3], "a·ba, not ab·a");
    assert_eq!(ids("aaa"), [4, 0], "aa·a");
    assert_eq!(ids("ab"), [2]);
}

#[test]
fn spaces_are_pieces_and_a_text_may_begin_with_one_of_its_own() {
    let pieces = [
        ("▁", NORMAL, -1.0),
        ("a", NORMAL, -1.0),
        ("▁a", NORMAL, -0.5),
        ("▁▁", NORMAL, -0.2),
        ("[x]", USER_DEFINED, 0.0),
    ];
    let with = tokenizer(&pieces, true);
    let without = tokenizer(&pieces, false);
    let ids = |tokenizer: &Tokenizer, text: &str| -> Vec<u32> {
        tokenizer
            .encode(text, true)
            .unwrap()
            .iter()
            .map(|id| if *id >= FIRST { id - FIRST } else { 1000 + id })
            .collect()
    };
    assert_eq!(ids(&with, "a a"), [2, 2]);
    assert_eq!(ids(&without, "a a"), [1, 2]);
    assert_eq!(ids(&with, " a"), [3, 1], "two spaces, which are a piece");
    // After a token that is no text, text begins again.
    assert_eq!(ids(&with, "a</s>a[x]a"), [2, 1002, 2, 4, 2]);
    assert_eq!(ids(&with, ""), [] as [u32; 0]);
    for (tokenizer, text) in [(&with, "a a"), (&without, "a a"), (&with, " a"), (&without, " a")] {
        assert_eq!(tokenizer.decode(&tokenizer.encode(text, false).unwrap()), text);
    }
    assert_eq!(with.token_bytes(FIRST + 2), b" a", "a chip keeps its space");
}

#[test]
fn what_is_no_piece_becomes_bytes_and_streams_as_text() {
    let tokenizer = tokenizer(&[("a", NORMAL, -1.0)], false);
    let ids = tokenizer.encode("a🙂\r", false).unwrap();
    assert_eq!(ids, [FIRST, 3 + 0xf0, 3 + 0x9f, 3 + 0x99, 3 + 0x82, 3 + 0x0d]);
    let mut stream = Utf8Stream::default();
    let pieces: Vec<String> = ids.iter().map(|id| stream.push(tokenizer.text_bytes(*id))).collect();
    assert_eq!(pieces, ["a", "", "", "", "🙂", "\r"]);
}

#[test]
fn text_never_becomes_a_control_token_by_merging() {
    let pieces = [("x", NORMAL, -1.0), ("y", NORMAL, -1.0), ("xy", CONTROL, 0.0)];
    let tokenizer = tokenizer(&pieces, false);
    assert_eq!(tokenizer.encode("xy", false).unwrap(), [FIRST, FIRST + 1]);
    assert_eq!(tokenizer.encode("xy", true).unwrap(), [FIRST + 2]);
    assert!(!tokenizer.encode("<s></s><unk>", false).unwrap().iter().any(|id| *id < 3));
}

#[test]
fn roles_are_the_usual_ones_where_the_file_is_silent() {
    let tokenizer = tokenizer(&[("a", NORMAL, -1.0)], true);
    assert_eq!((tokenizer.add_bos(), tokenizer.eos()), (Some(1), &[2][..]));
    let mut silent = file(&[]);
    silent.set("add_bos_token", Value::Bool(false));
    silent.set("eos_token_id", Value::U32(1));
    let tokenizer = silent.tokenizer(FIRST as usize).unwrap();
    assert_eq!((tokenizer.add_bos(), tokenizer.eos()), (None, &[1, 2][..]), "</s> is an end by its name");
}

#[test]
fn scores_are_needed_and_a_byte_without_a_token_is_the_unknown_one() {
    let mut no_scores = file(&[]);
    no_scores.remove("scores");
    let Err(error) = no_scores.tokenizer(FIRST as usize) else { panic!("accepted") };
    assert!(error.kind() == "bad-tokenizer" && error.to_string().contains("scores` is missing"), "{error}");

    let mut no_byte_0 = file(&[]);
    no_byte_0.set("add_space_prefix", Value::Bool(false));
    no_byte_0.change_strings("tokens", |tokens| tokens[3] = "<0xFF >".into());
    let kind = |id| match id {
        0 => 2,
        1 | 2 => CONTROL,
        3 => NORMAL,
        _ => BYTE,
    };
    no_byte_0.set("token_type", Value::I32s((0..FIRST).map(kind).collect()));
    assert_eq!(no_byte_0.tokenizer(FIRST as usize).unwrap().encode("\0\u{1}", false).unwrap(), [0, 4]);
}

/// As the rules read, in any time: the pair of neighbours with the best score merges, until there is none.
#[test]
fn encoding_equals_a_plain_reading_of_the_rules() {
    let mut random = 1_u32;
    let mut next = |below: u32| {
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (random >> 16) % below
    };
    for _ in 0..60 {
        let mut words: Vec<String> = vec!["a".into(), "b".into(), "é".into()];
        for _ in 0..12 {
            let (left, right) = (next(words.len() as u32) as usize, next(words.len() as u32) as usize);
            let word = format!("{}{}", words[left], words[right]);
            if !words.contains(&word) {
                words.push(word);
            }
        }
        let scores: Vec<f32> = words.iter().map(|_| -(next(6) as f32)).collect();
        let pieces: Vec<(&str, i32, f32)> =
            words.iter().zip(&scores).map(|(word, score)| (word.as_str(), NORMAL, *score)).collect();
        let tokenizer = tokenizer(&pieces, false);
        let text: String = (0..40).map(|_| ['a', 'b', 'é'][next(3) as usize]).collect();

        let mut parts: Vec<String> = text.chars().map(String::from).collect();
        let score = |pair: &[String]| words.iter().position(|word| *word == pair.concat()).map(|at| scores[at]);
        loop {
            let mut best: Option<(usize, f32)> = None;
            for (at, pair) in parts.windows(2).enumerate() {
                if let Some(score) = score(pair)
                    && best.is_none_or(|(_, other)| score > other)
                {
                    best = Some((at, score));
                }
            }
            let Some((at, _)) = best else { break };
            let right = parts.remove(at + 1);
            parts[at] += &right;
        }
        let expected: Vec<u32> =
            parts.iter().map(|part| FIRST + words.iter().position(|word| word == part).unwrap() as u32).collect();
        assert_eq!(tokenizer.encode(&text, false).unwrap(), expected, "{text} with {pieces:?}");
    }
}
