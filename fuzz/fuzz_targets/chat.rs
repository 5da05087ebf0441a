//! A chat template made of anything, and a conversation that holds anything, before and after the first NUL.

#![no_main]

use libfuzzer_sys::fuzz_target;
use nucleus::protocol::ChatMessage;
use nucleus::tokenizer::{TokenBytes, Tokenizer};
use nucleus_fuzz::file::{CONTROL, File, Value};
use std::sync::LazyLock;

/// Longer ones only take time.
const MAX_SAID: usize = 512;

/// A sound template, and control tokens that it writes.
static TOKENIZER: LazyLock<Tokenizer> = LazyLock::new(|| {
    let names = ["<|im_start|>", "<|im_end|>", "</s>", "[INST]"].map(|name| (name, CONTROL));
    let mut file = File::new("smollm", &names, &[]);
    let template = include_str!("../../tests/tokenizer/templates/chatml.jinja");
    file.set_template(Value::String(template.to_owned()));
    file.tokenizer(256 + names.len()).expect("the vocabulary is sound")
});

/// Whoever says it, and more than once, so that neighbours meet.
fn conversation(said: &str) -> Vec<ChatMessage> {
    let say = |role: &str| ChatMessage { role: role.to_owned(), content: said.to_owned() };
    ["system", "user", "assistant", "user"].map(say).to_vec()
}

fn n_control(said: &str) -> usize {
    let prompt = TOKENIZER.chat(&conversation(said)).expect("the template takes any text");
    prompt.ids.iter().filter(|id| TOKENIZER.is_control(**id)).count()
}

fuzz_target!(|data: &[u8]| {
    let text = String::from_utf8_lossy(data);
    let (template, said) = text.split_once('\0').unwrap_or((&text, "Hi"));
    let said = &said[..said.floor_char_boundary(MAX_SAID)];
    let messages = conversation(said);
    nucleus_fuzz::chat_prompt(template, &messages);
    assert_eq!(n_control(said), n_control("x"), "what is said became a control token");
});
