//! What Generate and One token begin, in either mode: a text that goes on from the prompt, or the reply to what was said.
//!
//! The reply whose tokens are on screen is the last turn, whichever of its branches that is; it joins the turns when the next run
//! begins.
//!
//! Invariant: a reply is a run like any other, through [`App::run`].

use super::{App, WRITING};
use crate::error::{Error, Result};
use crate::page::options::Pace;
use crate::page::run::{RunState, Runs, Start};
use crate::page::words::{count, milliseconds};
use crate::protocol::{ChatMessage, Command, Event, GenerateOptions, Prompt, RunResult};
use std::rc::Rc;
use wasm_bindgen_futures::spawn_local;

impl App {
    pub(super) fn listen_to_chat(self: &Rc<Self>) {
        let app = Rc::clone(self);
        self.chat.on_mode(move || {
            app.chat.show_mode();
            app.refresh();
        });
        let app = Rc::clone(self);
        self.chat.on_enter(move || {
            if !app.form.generate.disabled() {
                app.generate_shown();
            }
        });
        let app = Rc::clone(self);
        crate::page::dom::on(&self.chat.new, "click", move |_: web_sys::Event| {
            let forgetting = Rc::clone(&app);
            app.start_once(async move {
                forgetting.end_run().await?;
                forgetting.chat.forget();
                Ok(())
            });
        });
    }

    /// Why the mode cannot be used with the model that is loaded.
    pub(super) fn chat_refusal(&self) -> Option<&'static str> {
        let lacks_template = self.model.borrow().as_ref().is_some_and(|model| !model.has_chat_template);
        (self.chat.is_on() && lacks_template).then_some("This model has no chat template: choose Complete")
    }

    pub(super) fn refresh_chat(&self) {
        match self.chat_refusal() {
            Some(refusal) => self.chat.note.set(&format!("{refusal}, or load a model that was trained to chat.")),
            None if self.chat.turns().is_empty() => self.chat.note.set(""),
            None => {}
        }
        if self.runs.state() == RunState::Idle
            && let Some(reply) = self.open_reply()
        {
            self.chat.show(Some(&reply));
        }
    }

    pub(super) fn generate_shown(self: &Rc<Self>) {
        if self.goes_on(|runs| runs.resume()) {
            self.stage.say("Going on.");
            return;
        }
        self.start_shown(Start::Paced(Pace::Frame), WRITING);
    }

    pub(super) fn step_shown(self: &Rc<Self>) {
        if self.goes_on(|runs| runs.step()) {
            return;
        }
        self.start_shown(
            Start::OneToken,
            if self.chat.is_on() {
                "One token at a time: One token takes the next, Send goes on by itself, Stop ends the run."
            } else {
                "One token at a time: One token takes the next, Generate goes on by itself, Stop ends the run."
            },
        );
    }

    /// Applies `go_on` to a paused run, if the controls still ask for that run.
    fn goes_on(&self, go_on: impl Fn(&Rc<Runs>)) -> bool {
        let is_chat = self.chat.is_on();
        let is_same = self.runs.state() == RunState::Paused
            && !(is_chat && self.chat.typed().is_some())
            && self.runs.info().is_some_and(|run| {
                matches!(run.options.prompt, Prompt::Chat(_)) == is_chat && self.form.still_asks_for(&run.options)
            });
        if is_same {
            go_on(&self.runs);
        }
        is_same
    }

    /// Starts a run from the controls; a paused run that they no longer ask for is ended first, and meanwhile a second click
    /// starts nothing.
    pub(super) fn start_shown(self: &Rc<Self>, start: Start, message: &'static str) {
        let app = Rc::clone(self);
        self.start_once(async move {
            if app.chat.is_on() {
                return app.send(start, message).await;
            }
            let options = app.form.options()?;
            app.stop().await?;
            app.run(options, start, message, None).map(|_| ())
        });
    }

    /// Says what was typed; the reply comes as a run.
    async fn send(self: &Rc<Self>, start: Start, message: &'static str) -> Result<()> {
        let nothing = || Error::EmptyPrompt("Nothing was typed; expected something to send.".into());
        let said = self.chat.typed().ok_or_else(nothing)?;
        let asked = self.form.options()?;
        self.stop().await?;
        self.keep_reply();
        let messages = self.chat.messages(&said);
        let prompt = Prompt::Chat(messages.clone());
        let options = GenerateOptions { prompt, reuse_cache: true, ..asked };
        let outcome = self.run(options, start, message, None)?;
        self.chat.say(said);
        self.chat.note.set("");
        self.show_rendered(messages);
        let app = Rc::clone(self);
        spawn_local(async move {
            match outcome.await {
                Ok(Ok(result)) => app.chat.note.set(&cache_note(&result)),
                // The status line has said why.
                _ => app.undo_send(),
            }
        });
        Ok(())
    }

    /// The run failed: what was said is to be said again, unless some of the reply is there.
    fn undo_send(&self) {
        if self.open_reply().is_none_or(|reply| reply.is_empty()) {
            self.chat.take_back();
        }
    }

    fn show_rendered(self: &Rc<Self>, messages: Vec<ChatMessage>) {
        let app = Rc::clone(self);
        spawn_local(async move {
            // A conversation that cannot be rendered is refused by its run, in its own words.
            if let Ok(Event::Rendered(rendered)) = app.client.request(Command::RenderChat { messages }).await {
                app.chat.show_rendered(&rendered);
            }
        });
    }

    /// The text on screen, if it is the reply to the last turn.
    fn open_reply(&self) -> Option<String> {
        let (info, steps) = self.stage.on_screen()?;
        self.chat.is_answered_by(&info.options.prompt).then(|| steps.iter().map(|step| step.text.as_str()).collect())
    }

    /// Another text is to come on screen: the reply there, if it is one, joins the turns.
    pub(super) fn keep_reply(&self) {
        if let Some(reply) = self.open_reply() {
            self.chat.keep(reply);
        }
    }
}

/// What the cache saved a reply.
fn cache_note(result: &RunResult) -> String {
    format!(
        "{} of prompt, {} of them cached from the turns before; the first token came after {}.",
        count(result.prompt_tokens.into(), "token"),
        result.reused_tokens,
        milliseconds(result.ttft_ms)
    )
}
