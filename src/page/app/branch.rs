//! Branches: a candidate that was not chosen is taken, and the text goes on from it.
//!
//! Invariant: a branch is a run like any other, through [`App::run_as`]; what it shares is kept, never written again.

use super::App;
use crate::error::{Error, Result};
use crate::page::branch_view;
use crate::page::branches::N_MOST;
use crate::page::candidate_keys;
use crate::page::form::prompt_text;
use crate::page::options::Pace;
use crate::page::run::Start;
use crate::page::stage::RunInfo;
use crate::protocol::{GenerateOptions, StepRecord};
use std::rc::Rc;
use wasm_bindgen_futures::spawn_local;

impl App {
    pub(super) fn listen_to_branches(self: &Rc<Self>) {
        let app = Rc::clone(self);
        candidate_keys::on_take(move |id| app.branch_shown(id));
        let app = Rc::clone(self);
        branch_view::on_select(move |branch| app.select_branch(branch));
    }

    /// Takes the token `id` at the step that the panel shows, instead of the one that was chosen there.
    fn branch_shown(self: &Rc<Self>, id: u32) {
        let Some(at) = self.stage.current() else { return };
        let app = Rc::clone(self);
        self.start_once(async move { app.branch(at, id).await });
    }

    fn select_branch(self: &Rc<Self>, branch: usize) {
        let app = Rc::clone(self);
        self.start_once(async move {
            app.end_run().await?;
            app.show_branch(branch).await;
            Ok(())
        });
    }

    /// Does what a click asks for, unless what an earlier one asked for is still beginning.
    pub(super) fn start_once(self: &Rc<Self>, work: impl Future<Output = Result<()>> + 'static) {
        if self.is_starting.replace(true) {
            return;
        }
        let app = Rc::clone(self);
        spawn_local(async move {
            let done = work.await;
            app.is_starting.set(false);
            if let Err(error) = done {
                app.stage.fail(&error);
            }
        });
    }

    async fn branch(self: &Rc<Self>, at: usize, id: u32) -> Result<()> {
        self.end_run().await?;
        let Some((info, steps)) = self.stage.on_screen() else { return Ok(()) };
        if steps.get(at).is_none_or(|step| step.id == id) {
            return Ok(());
        }
        let known = self.stage.branches().find(at, id);
        if let Some(branch) = known {
            self.show_branch(branch).await;
            self.stage.say("That branch is there already: here it is.");
            return Ok(());
        }
        if self.stage.branches().is_full() {
            return Err(Error::BranchesFull(format!("{N_MOST} are there, as many as this page keeps.")));
        }
        let sha256 = self.model.borrow().as_ref().map(|model| model.sha256.clone());
        match sha256 {
            None => return Err(Error::NoModel("Load a model before branching.".into())),
            Some(sha256) if sha256 != info.sha256 => {
                return Err(Error::OtherModel("These candidates are not those of the loaded one.".into()));
            }
            Some(_) => {}
        }
        let kv_cache = self.form.kv_cache().checked();
        let options = GenerateOptions { kv_cache, ..branch_options(&info.options, &steps[..at], Some(id)) };
        let prompt = prompt_text(&options.prompt).to_owned();
        let shown = RunInfo { options: options.clone(), sha256: info.sha256.clone(), ..*info };
        self.stage.show_beginning(at, shown, &prompt).await;
        let message = "Writing from the token that you took. Stop with Escape.";
        self.run_as(options, Start::Paced(Pace::Frame), message, None, Some(at)).map(|_| ())
    }

    async fn show_branch(self: &Rc<Self>, branch: usize) {
        let Some((info, _)) = self.stage.on_screen() else { return };
        let (steps, at, is_trunk) = {
            let branches = self.stage.branches();
            let Some(branch_there) = branches.all().get(branch) else { return };
            (branches.steps(branch), branch_there.at, branch_there.parent.is_none())
        };
        let taken = steps.get(at).map(|step| step.id).filter(|_| !is_trunk);
        let options = branch_options(&info.options, &steps[..at.min(steps.len())], taken);
        let prompt = prompt_text(&options.prompt).to_owned();
        let info = RunInfo { options, sha256: info.sha256.clone(), is_recorded: false, ..*info };
        self.show_prompt_of_ids(info.options.prompt.clone());
        self.stage.show_branch(branch, info, &prompt).await;
    }

    /// Ends the run in progress; the exercise is not to be walked away from.
    pub(super) async fn end_run(self: &Rc<Self>) -> Result<()> {
        if self.is_exercise.get() {
            return Err(Error::Busy("The exercise is running: stop it first.".into()));
        }
        self.stop().await
    }
}

/// The run of `options`, going on after `before` with the token `taken`. The seed stays: step i takes the i-th number of its
/// stream on every branch.
fn branch_options(options: &GenerateOptions, before: &[Rc<StepRecord>], taken: Option<u32>) -> GenerateOptions {
    GenerateOptions {
        resume_ids: before.iter().map(|step| step.id).collect(),
        force_ids: taken.into_iter().collect(),
        reuse_cache: true,
        ..options.clone()
    }
}
