//! The messages of a conversation.
//!
//! Invariant: see `options`.

use super::{Fields, Value, bad, text, wrong};
use crate::error::Result;
use crate::protocol::ChatMessage;

/// A list of `{ role, content }`, at least one.
pub fn read(value: Value) -> Result<Vec<ChatMessage>> {
    let Value::List(items) = value else { return Err(wrong("messages", &value, "a list of { role, content }")) };
    if items.is_empty() {
        return Err(bad("messages", "it is empty"));
    }
    items.into_iter().enumerate().map(|(i, item)| message(&format!("messages[{i}]"), item)).collect()
}

fn message(name: &str, value: Value) -> Result<ChatMessage> {
    let Value::Object(entries) = value else { return Err(wrong(name, &value, "an object { role, content }")) };
    let mut fields = Fields { method: "a message", entries };
    let role = format!("{name}.role");
    let role = text(&role, fields.take("role").unwrap_or(Value::Other("missing")))?;
    if !ChatMessage::ROLES.contains(&role.as_str()) {
        let expected = ChatMessage::ROLES.map(|role| format!("'{role}'")).join(" or ");
        return Err(wrong(&format!("{name}.role"), &Value::Text(role), &expected));
    }
    let content = text(&format!("{name}.content"), fields.take("content").unwrap_or(Value::Other("missing")))?;
    fields.finish()?;
    Ok(ChatMessage { role, content })
}
