//! The chat's own part of the page: the mode switch, the turns, the system prompt, what is typed, and the prompt that came of it.
//!
//! Invariant: keeps the turns and shows them; starts nothing.

use super::dom::{TextCell, append, by_id, create, document, on, set};
use crate::protocol::{ChatMessage, Prompt, RenderedChat};
use std::cell::{Ref, RefCell};
use web_sys::{Event, HtmlButtonElement, HtmlElement, HtmlInputElement, HtmlTextAreaElement, KeyboardEvent};

/// Tokens of a reply where the reader has not chosen: a text of the other mode is shorter.
const LENGTHS: [&str; 2] = ["64", "256"];

pub struct ChatView {
    mode_complete: HtmlInputElement,
    mode_chat: HtmlInputElement,
    /// What each mode shows.
    panels: [HtmlElement; 2],
    generate: HtmlButtonElement,
    max_tokens: HtmlInputElement,
    list: HtmlElement,
    system: HtmlTextAreaElement,
    input: HtmlTextAreaElement,
    pub new: HtmlButtonElement,
    pub note: TextCell,
    rendered: HtmlElement,
    /// Without the system prompt, which may change between them, and without the reply whose tokens are on screen.
    turns: RefCell<Vec<ChatMessage>>,
}

impl ChatView {
    pub fn new() -> Self {
        let this = Self {
            mode_complete: by_id("mode-complete"),
            mode_chat: by_id("mode-chat"),
            panels: [by_id("complete"), by_id("chat")],
            generate: by_id("generate"),
            max_tokens: by_id("max-tokens"),
            list: by_id("conversation"),
            system: by_id("system-prompt"),
            input: by_id("chat-input"),
            new: by_id("new-chat"),
            note: TextCell::of_id("chat-note"),
            rendered: by_id("rendered-prompt"),
            turns: RefCell::default(),
        };
        this.show_mode();
        this
    }

    pub fn is_on(&self) -> bool {
        self.mode_chat.checked()
    }

    /// Calls `listener` when the reader has changed the mode.
    pub fn on_mode(&self, listener: impl Fn() + Clone + 'static) {
        for radio in [&self.mode_complete, &self.mode_chat] {
            let listener = listener.clone();
            on(radio, "change", move |_: Event| listener());
        }
    }

    /// Calls `send` for Enter; with Shift it is a line break.
    pub fn on_enter(&self, send: impl Fn() + 'static) {
        on(&self.input, "keydown", move |event: KeyboardEvent| {
            let is_plain = !(event.shift_key() || event.ctrl_key() || event.meta_key() || event.is_composing());
            if event.key() == "Enter" && is_plain {
                event.prevent_default();
                send();
            }
        });
    }

    pub fn leave(&self) {
        self.mode_complete.set_checked(true);
        self.show_mode();
    }

    pub fn show_mode(&self) {
        let is_chat = self.is_on();
        for (panel, is_shown) in self.panels.iter().zip([!is_chat, is_chat]) {
            panel.set_hidden(!is_shown);
        }
        let (text, keys) = if is_chat { ("Send ", "⏎") } else { ("Generate ", "Ctrl ⏎") };
        self.generate.set_text_content(Some(text));
        let kbd: HtmlElement = create("kbd", "");
        kbd.set_text_content(Some(keys));
        append(&self.generate, &kbd);
        let [from, to] = if is_chat { LENGTHS } else { [LENGTHS[1], LENGTHS[0]] };
        if self.max_tokens.value() == from {
            self.max_tokens.set_value(to);
        }
    }

    /// What is typed; none when it is blank.
    pub fn typed(&self) -> Option<String> {
        Some(self.input.value()).filter(|text| !text.trim().is_empty())
    }

    pub fn turns(&self) -> Ref<'_, Vec<ChatMessage>> {
        self.turns.borrow()
    }

    /// The conversation with what is said next.
    pub fn messages(&self, said: &str) -> Vec<ChatMessage> {
        let system =
            Some(self.system.value()).filter(|text| !text.trim().is_empty()).map(|text| message("system", text));
        system
            .into_iter()
            .chain(self.turns.borrow().iter().cloned())
            .chain([message("user", said.to_owned())])
            .collect()
    }

    /// Whether a run of this prompt writes the reply to the last turn.
    pub fn is_answered_by(&self, prompt: &Prompt) -> bool {
        let turns = self.turns.borrow();
        let is_user = |message: &ChatMessage| message.role == "user";
        match prompt {
            Prompt::Chat(messages) => {
                let said = messages.strip_prefix(&messages[..usize::from(messages[0].role == "system")]);
                turns.last().is_some_and(is_user) && said == Some(&turns[..])
            }
            Prompt::Text { .. } | Prompt::Ids(_) => false,
        }
    }

    /// The reader has said what was typed.
    pub fn say(&self, said: String) {
        self.input.set_value("");
        self.turns.borrow_mut().push(message("user", said));
        self.show(Some("writing, token by token, below…"));
    }

    /// What was said last comes back to be changed: nothing answered it.
    pub fn take_back(&self) {
        let said = self.turns.borrow_mut().pop();
        if let Some(said) = said.filter(|_| self.typed().is_none()) {
            self.input.set_value(&said.content);
        }
        self.show(None);
    }

    /// The reply on screen becomes a turn.
    pub fn keep(&self, reply: String) {
        self.turns.borrow_mut().push(message("assistant", reply));
        self.show(None);
    }

    pub fn forget(&self) {
        self.turns.borrow_mut().clear();
        self.rendered.set_text_content(None);
        self.note.set("");
        self.show(None);
        self.input.focus().expect("a text field can have the focus");
    }

    /// The turns, and the reply to the last one as far as it is there.
    pub fn show(&self, reply: Option<&str>) {
        self.list.set_text_content(None);
        let turns = self.turns.borrow();
        for turn in turns.iter() {
            self.show_turn(&turn.role, &turn.content);
        }
        if let Some(reply) = reply {
            self.show_turn("assistant", reply);
        }
        self.list.set_hidden(turns.is_empty());
        self.list.set_scroll_top(self.list.scroll_height());
    }

    fn show_turn(&self, role: &str, text: &str) {
        let (turn, name, said): (HtmlElement, HtmlElement, HtmlElement) =
            (create("li", "turn"), create("b", ""), create("span", ""));
        set(&turn, "data-role", role);
        name.set_text_content(Some(role));
        said.set_text_content(Some(text));
        append(&turn, &name);
        append(&turn, &said);
        append(&self.list, &turn);
    }

    /// The prompt as it was read, its control tokens marked.
    pub fn show_rendered(&self, rendered: &RenderedChat) {
        self.rendered.set_text_content(None);
        for run in rendered.tokens.chunk_by(|a, b| !a.is_control && !b.is_control) {
            let bytes: Vec<u8> = run.iter().flat_map(|token| &token.bytes).copied().collect();
            let text = String::from_utf8_lossy(&bytes);
            if run[0].is_control {
                let mark: HtmlElement = create("mark", "control");
                mark.set_text_content(Some(&text));
                append(&self.rendered, &mark);
            } else {
                append(&self.rendered, &document().create_text_node(&text));
            }
        }
    }
}

fn message(role: &str, content: String) -> ChatMessage {
    ChatMessage { role: role.to_owned(), content }
}
