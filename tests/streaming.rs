//! Files that come in pieces: the header as soon as it is there, every tensor whole whatever the pieces, split models joined.
//!
//! The fixtures in `fixtures/split` are what `support/split.rs` makes of a tiny model; `WRITE_SPLIT=1 cargo test --test streaming`
//! writes them.

#[path = "support/everywhere.rs"]
#[macro_use]
mod everywhere_macro;
#[path = "support/gguf_cases.rs"]
#[allow(dead_code, reason = "each test target uses its own part")]
mod gguf_cases;
#[path = "support/gguf_writer.rs"]
mod gguf_writer;
#[path = "../examples/requantize/convert/metadata.rs"]
#[allow(dead_code, reason = "each target uses its own part")]
mod metadata;
#[path = "support/model.rs"]
mod model;
#[path = "support/split.rs"]
mod split;

use gguf_cases::{REFUSED, SOUND};
use gguf_writer::GgufFile;
use nucleus::Result;
use nucleus::assembly::{Head, Rooms};
use nucleus::backend::cpu::Pool;
use nucleus::backend::{Backend, Loader, Logits, Wanted};
use nucleus::gguf::Gguf;
use nucleus::model::{ModelConfig, Plan, Weights};
use nucleus::protocol::BackendChoice;

const REAL: &[u8] = include_bytes!("fixtures/tiny/llama-q4_1.gguf");
/// A packed format with joined matrices and odd sizes; one that candle computes; one with rope divisors and an output head.
const MODELS: [(&str, &[u8]); 3] = [
    ("q4_1", REAL),
    ("q2_k", include_bytes!("fixtures/tiny/llama-q2_k.gguf")),
    ("untied", include_bytes!("fixtures/tiny/llama-untied-freqs.gguf")),
];
const SPLIT: [&[u8]; 3] = [
    include_bytes!("fixtures/split/tiny-00001-of-00003.gguf"),
    include_bytes!("fixtures/split/tiny-00002-of-00003.gguf"),
    include_bytes!("fixtures/split/tiny-00003-of-00003.gguf"),
];

everywhere![
    every_refusal_of_a_whole_file_is_that_of_its_prefix,
    a_sound_header_is_read_once_it_is_there_and_not_before,
    the_header_is_not_tried_at_every_piece,
    models_that_come_in_pieces_are_those_that_come_at_once,
    a_file_that_ends_early_is_truncated,
    parts_are_joined_to_the_whole,
    parts_that_do_not_belong_together_are_refused,
];

/// Feeds `file` in pieces. Where the header is complete or refused: how many bytes had come.
fn feed(file: &[u8], piece: usize, total: Option<u64>) -> (Result<Gguf>, usize) {
    let mut head = Head::new(total);
    for (i, bytes) in file.chunks(piece).enumerate() {
        let n = i * piece + bytes.len();
        match head.take(bytes) {
            Ok(None) => {}
            Ok(Some(header)) => return (Ok(header), n),
            Err(error) => return (Err(error), n),
        }
    }
    (head.end(), file.len())
}

fn plan(gguf: &Gguf) -> Result<Plan> {
    let config = ModelConfig::from_gguf(gguf)?;
    let weights = Weights::from_gguf(gguf, &config)?;
    Ok(Plan::new(config, weights))
}

async fn every_refusal_of_a_whole_file_is_that_of_its_prefix() {
    for case in REFUSED {
        let mut file = GgufFile::tiny_llama();
        (case.edit)(&mut file);
        let file = file.bytes();
        // Some cases are files of hundreds of megabytes.
        let pieces = if file.len() < 1 << 20 { [1, 7, file.len().max(1)] } else { [1 << 20; 3] };
        for piece in pieces {
            let (header, _) = feed(&file, piece, Some(file.len() as u64));
            let refused = header.and_then(|header| plan(&header)).expect_err(case.what);
            assert_eq!(refused.kind(), case.kind, "{}, {piece} bytes at a time: {refused}", case.what);
        }
        // Without a total all but what only the end can tell is the same; the bytes must not make it accept what is wrong.
        let (header, _) = feed(&file, pieces[1], None);
        let missing = |header: &Gguf| header.data_end() > file.len();
        if let Ok(header) = header.and_then(|header| plan(&header).map(|_| header)) {
            assert!(missing(&header), "{} is accepted without a total", case.what);
        }
    }
}

async fn a_sound_header_is_read_once_it_is_there_and_not_before() {
    for (what, edit) in SOUND {
        let mut file = GgufFile::tiny_llama();
        edit(&mut file);
        let file = file.bytes();
        let whole = Gguf::parse(&file).unwrap();
        for total in [Some(file.len() as u64), None] {
            let (header, _) = feed(&file, 11, total);
            assert_eq!(header.unwrap(), whole, "{what}");
        }
    }
    let whole = Gguf::parse(REAL).unwrap();
    let end = REAL.len() - 294_912;
    for len in (0..end + 100).filter(|len| len % 61 == 0 || len.abs_diff(end) < 40) {
        let parsed = Gguf::parse_prefix(&REAL[..len], Some(REAL.len() as u64)).unwrap();
        // Between the directory and the data lies padding, which nobody needs.
        assert!(parsed.is_none() || len > end - 32, "{len} of {end} bytes");
        assert!(parsed.is_some() || len < end, "{len} of {end} bytes");
        assert!(parsed.is_none_or(|parsed| parsed == whole));
    }
    // The whole file is 100 bytes longer than it should be, or one byte too short for its last tensor.
    assert!(Gguf::parse_prefix(&REAL[..end], Some(REAL.len() as u64 + 100)).unwrap().is_some());
    let short = Gguf::parse_prefix(&REAL[..end], Some(REAL.len() as u64 - 1)).unwrap_err();
    assert_eq!(short.kind(), "truncated");
}

/// Pieces of one byte: were the header tried at each, 300,000 tries would take minutes.
async fn the_header_is_not_tried_at_every_piece() {
    let mut file = GgufFile::tiny_llama();
    file.set_string("general.description", &"x".repeat(300_000));
    let file = file.bytes();
    let (header, n) = feed(&file, 1, Some(file.len() as u64 + 1_000_000));
    let start = header.unwrap().tensors.iter().map(|tensor| tensor.bytes.start).min().unwrap();
    assert!(n <= 2 * start, "the header of {start} bytes was read after {n}");
}

async fn models_that_come_in_pieces_are_those_that_come_at_once() {
    let ids: Vec<u32> = (0..40).map(|i| i * 7 % 256).collect();
    for (name, file) in MODELS {
        let expected = logits(&mut model::backend(file.to_vec(), 64).unwrap(), &ids).await;
        let gguf = Gguf::parse(file).unwrap();
        for piece in [1, 1000, 65_536, file.len()] {
            let mut backend = stream(&gguf, [file].into_iter().zip([0]), piece).await.unwrap();
            assert_eq!(logits(&mut backend, &ids).await, expected, "{name}, {piece} bytes at a time");
        }
    }
}

async fn a_file_that_ends_early_is_truncated() {
    let gguf = Gguf::parse(REAL).unwrap();
    for len in [gguf.data_end() - 1, gguf.data_end() / 2, 6000] {
        let error = stream(&gguf, [&REAL[..len]].into_iter().zip([0]), 4096).await.err().expect("it is cut");
        assert_eq!(error.kind(), "truncated");
        assert!(error.to_string().contains(&len.to_string()), "{error}");
    }
}

async fn parts_are_joined_to_the_whole() {
    let (_, file) = MODELS[1];
    let parts = split::split(file, 3);
    #[cfg(not(target_arch = "wasm32"))]
    if std::env::var_os("WRITE_SPLIT").is_some() {
        for (no, part) in parts.iter().enumerate() {
            let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/split/");
            std::fs::write(folder.to_owned() + &split::name("tiny", no, 3), part).unwrap();
        }
    }
    let fixtures = SPLIT.map(<[u8]>::to_vec);
    assert!(parts == fixtures, "the fixtures are not what the tool makes: WRITE_SPLIT=1 writes them");
    let whole = Gguf::parse(file).unwrap();
    let (joined, starts) = join([0, 1, 2]).unwrap();
    assert_eq!(joined.tensors.len(), whole.tensors.len());
    for tensor in &joined.tensors {
        let part = starts.iter().rposition(|&start| start <= tensor.bytes.start).unwrap();
        let range = tensor.bytes.start - starts[part]..tensor.bytes.end - starts[part];
        assert!(parts[part][range] == file[whole.tensor(&tensor.name).unwrap().bytes.clone()], "{}", tensor.name);
    }
    let ids: Vec<u32> = (0..40).map(|i| i * 7 % 256).collect();
    let expected = logits(&mut model::backend(file.to_vec(), 64).unwrap(), &ids).await;
    let files = parts.iter().map(Vec::as_slice).zip(starts);
    let mut backend = stream(&joined, files, 1000).await.unwrap();
    assert_eq!(logits(&mut backend, &ids).await, expected);
}

async fn parts_that_do_not_belong_together_are_refused() {
    let refused = |error: Result<_>, kind: &str, parts: &[&str]| {
        let error: nucleus::Error = error.map(|_| ()).unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        parts.iter().for_each(|part| assert!(error.to_string().contains(part), "{part}: {error}"));
    };
    refused(join([0, 2, 1]), "bad-split", &["tiny-00002-of-00003.gguf", "part 3 of 3", "expected part 2 of 3"]);
    refused(join([0, 1]), "bad-split", &["tiny-00001-of-00003.gguf", "part 1 of 3", "expected part 1 of 2"]);
    let named = |file: &[u8], no| (split::name("tiny", no, 3), Gguf::parse(file).unwrap());
    let of = |files: [&[u8]; 3]| Gguf::join((0..3).map(|no| named(files[no], no)).collect());
    refused(of([SPLIT[0], MODELS[1].1, SPLIT[2]]), "bad-split", &["whole file", "expected part 2 of 3"]);
    // Parts of another model, numbered alike: with other tensors, or with the same ones.
    let mut other = GgufFile::tiny_llama();
    other.remove_tensor("output.weight");
    let others = split::split(&other.bytes(), 3);
    refused(of([SPLIT[0], SPLIT[1], &others[2]]), "bad-split", &["Two parts hold the tensor", "blk.0.ffn"]);
    refused(of([&others[0], &others[1], SPLIT[2]]), "bad-split", &["tensors; expected", "as the first part says"]);
    let twice = split::split(MODELS[1].1, 2);
    let halves = Gguf::join(vec![named(&twice[0], 0), (split::name("tiny", 1, 2), Gguf::parse(&twice[0]).unwrap())]);
    refused(halves, "bad-split", &["part 1 of 2", "expected part 2 of 2"]);
}

fn join<const N: usize>(order: [usize; N]) -> Result<(Gguf, Vec<usize>)> {
    let named = |(no, part): (usize, usize)| (split::name("tiny", no, 3), Gguf::parse(SPLIT[part]).unwrap());
    Gguf::join(order.into_iter().enumerate().map(named).collect())
}

/// A model from files in pieces, each beginning at its place in the whole.
async fn stream<'a>(
    gguf: &Gguf,
    files: impl Iterator<Item = (&'a [u8], usize)>,
    piece: usize,
) -> Result<nucleus::backend::ChosenBackend> {
    let plan = plan(gguf)?;
    let mut rooms = Rooms::new(&plan)?;
    let mut loader = Loader::new(BackendChoice::Cpu, None, plan, 64).await;
    let (mut set, mut end) = (0, 0);
    for (file, start) in files {
        for (i, bytes) in file.chunks(piece).enumerate() {
            rooms.take((start + i * piece) as u64, bytes)?;
            while set < loader.n_sets()
                && let Some(data) = rooms.hand_over(loader.set(set))
            {
                loader.add(set, data).await?;
                set += 1;
            }
        }
        end = start + file.len();
    }
    rooms.end(end as u64)?;
    assert_eq!(set, loader.n_sets(), "all was handed over");
    Ok(loader.finish(Pool::alone(), |_, _, _| {}).await)
}

async fn logits(backend: &mut impl Backend, ids: &[u32]) -> Vec<f32> {
    let mut logits = Logits::default();
    backend.forward(ids, Some((Wanted::All, &mut logits))).await.unwrap();
    logits.all
}
