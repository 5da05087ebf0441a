//! Chat templates: a conversation -> the text of a prompt, by the Jinja program in `tokenizer.chat_template`.
//!
//! The environment is that of transformers' `apply_chat_template`. A template is a foreign program: its size, its nesting, and
//! its work (fuel, which counts instructions and bytes) are limited. minijinja itself limits neither the length of an expression
//! nor the depth of a value, and goes through both by recursion; the browser's stack is small. So the tokens of a tag are counted
//! here, and the fuel is no more than a conversation needs, since every level of a value costs some.
//!
//! Invariant: the only module that names minijinja; what a template writes is text, and whoever encodes it decides which of it is
//! control tokens.

use crate::error::{Error, Result, quoted};
use crate::gguf::Metadata;
use crate::protocol::ChatMessage;
use crate::tokenizer::date::strftime;
use minijinja::syntax::SyntaxConfig;
use minijinja::{Environment, ErrorKind, Value, context};

/// Bytes of a template. The longest in use have some 20,000.
const MAX_TEMPLATE_BYTES: usize = 128 * 1024;

/// Tokens of a tag, and `elif` branches of a template. Those in use have fewer than 100 and 30.
const MAX_TOKENS: usize = 400;
const MAX_ELIFS: usize = 150;

/// Calls within calls.
const MAX_RECURSION: usize = 60;

/// A unit is an instruction, or 64 bytes made. The templates of the tests take 30 to 130, and 10 to 60 for each message.
fn fuel(messages: &[ChatMessage]) -> u64 {
    let n_bytes: usize = messages.iter().map(|message| message.content.len()).sum();
    1000 + 150 * messages.len() as u64 + n_bytes as u64 / 8
}

/// The text of each token with a role, for templates that write it: `bos_token` and its like.
pub type RoleNames = [(&'static str, String)];

/// The template of a file; as a refusal where it is none that [`render`] would take, so that a huge one is not kept.
pub(super) fn template(metadata: &Metadata) -> Option<Result<String>> {
    let template = metadata.string("tokenizer.chat_template").transpose()?;
    Some(template.map_err(|error| Error::TemplateRefused(error.to_string())).and_then(|template| {
        check_size(template)?;
        Ok(template.to_owned())
    }))
}

fn check_size(template: &str) -> Result<()> {
    let n = template.len();
    if n > MAX_TEMPLATE_BYTES {
        let expected = format!("expected at most {MAX_TEMPLATE_BYTES}");
        return Err(Error::TemplateRefused(format!("The chat template has {n} bytes; {expected}.")));
    }
    Ok(())
}

/// What `template` makes of the messages, the assistant's turn having begun. `now` is in seconds since 1970.
///
/// Errors: `template-refused` for a template that is too large, nested too deeply, wrong, or not done within its fuel, and for
/// messages that it refuses itself.
pub fn render(template: &str, messages: &[ChatMessage], names: &RoleNames, now: u64) -> Result<String> {
    check_size(template)?;
    let source = without_generation_tags(template);
    check_shape(&source)?;
    let mut environment = environment(fuel(messages), now);
    for (name, text) in names {
        environment.add_global(*name, text.as_str());
    }
    let messages: Vec<Value> =
        messages.iter().map(|m| context! { role => m.role.as_str(), content => m.content.as_str() }).collect();
    let variables = context! {
        messages => messages,
        add_generation_prompt => true,
        tools => (),
        documents => (),
    };
    environment.render_str(&source, variables).map_err(|error| refused(&error))
}

fn environment<'s>(fuel: u64, now: u64) -> Environment<'s> {
    let mut environment = Environment::new();
    let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
    environment.set_syntax(syntax.expect("the delimiters are Jinja's own"));
    environment.set_fuel(Some(fuel));
    environment.set_recursion_limit(MAX_RECURSION);
    environment.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
    environment.add_function("raise_exception", |what: &str| -> Result<Value, minijinja::Error> {
        Err(minijinja::Error::new(ErrorKind::InvalidOperation, what.to_owned()))
    });
    environment.add_function("strftime_now", move |format: &str| strftime(format, now));
    environment
}

/// transformers marks the assistant's own text with `{% generation %}`; it says nothing to a prompt.
fn without_generation_tags(template: &str) -> String {
    let mut source = String::with_capacity(template.len());
    let mut rest = template;
    while let Some(at) = rest.find("{%") {
        let (before, tag) = rest.split_at(at + 2);
        source.push_str(before);
        let inside = tag.trim_start_matches(['-', '+']);
        let word = inside.trim_start();
        source.push_str(&tag[..tag.len() - word.len()]);
        let end = word.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(word.len());
        source.push_str(match &word[..end] {
            "generation" => "if true",
            "endgeneration" => "endif",
            other => other,
        });
        rest = &word[end..];
    }
    source.push_str(rest);
    source
}

/// Refuses what minijinja would recurse through without end: long expressions and long chains of `elif`.
fn check_shape(source: &str) -> Result<()> {
    let mut n_elifs = 0;
    let mut rest = source;
    while let Some(at) = rest.find('{') {
        let inside = rest.get(at + 2..).unwrap_or_default();
        rest = match rest.as_bytes().get(at + 1) {
            Some(b'#') => inside.split_once("#}").map_or("", |(_, after)| after),
            Some(b'%' | b'{') => {
                let (n_tokens, after) = skip_tag(inside);
                if n_tokens > MAX_TOKENS {
                    let found = format!("a tag of {n_tokens} words and signs; expected at most {MAX_TOKENS}");
                    return Err(Error::TemplateRefused(format!("The chat template has {found}.")));
                }
                n_elifs += usize::from(inside.trim_start_matches(['-', '+']).trim_start().starts_with("elif"));
                after
            }
            _ => &rest[at + 1..],
        };
    }
    if n_elifs > MAX_ELIFS {
        let found = format!("{n_elifs} `elif` branches; expected at most {MAX_ELIFS}");
        return Err(Error::TemplateRefused(format!("The chat template has {found}.")));
    }
    Ok(())
}

/// How many words and signs a tag has, and what comes after it. A string is one; brackets that are open keep a tag open.
fn skip_tag(inside: &str) -> (usize, &str) {
    let bytes = inside.as_bytes();
    let (mut n_tokens, mut n_open, mut at) = (0, 0, 0);
    while let Some(&byte) = bytes.get(at) {
        let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_' || *byte >= 128;
        let len = match byte {
            b'%' | b'}' if n_open == 0 && bytes.get(at + 1) == Some(&b'}') => return (n_tokens, &inside[at + 2..]),
            b'\'' | b'"' => string_len(&bytes[at..]),
            byte if is_word(&byte) => bytes[at..].iter().take_while(|byte| is_word(byte)).count(),
            _ => 1,
        };
        n_open += i32::from(b"([{".contains(&byte)) - i32::from(b")]}".contains(&byte));
        n_tokens += usize::from(!byte.is_ascii_whitespace());
        at += len;
    }
    (n_tokens, "")
}

/// Bytes of the string that begins here, with its quotes.
fn string_len(bytes: &[u8]) -> usize {
    let mut at = 1;
    while let Some(&byte) = bytes.get(at).filter(|byte| **byte != bytes[0]) {
        at += if byte == b'\\' { 2 } else { 1 };
    }
    (at + 1).min(bytes.len())
}

fn refused(error: &minijinja::Error) -> Error {
    let what = match error.kind() {
        ErrorKind::OutOfFuel => "is not done after its share of work".to_owned(),
        kind => {
            format!("failed: {kind}{}", error.detail().map_or(String::new(), |detail| format!(", {}", quoted(detail))))
        }
    };
    let line = error.line().map_or(String::new(), |line| format!(" in line {line}"));
    Error::TemplateRefused(format!("The chat template {what}{line}."))
}
