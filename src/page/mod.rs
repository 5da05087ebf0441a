//! The page: everything on the main thread. It starts the engine worker, shows what it sends, and is `window.nucleus`.
//!
//! Reading order: [`words`], [`about`], [`sentence`], [`ladder`], [`branches`], [`race`], [`agreement`], [`report`], [`time_share`],
//! [`curves`], [`what_if`], [`download`], [`sources`], [`kept_words`] and [`pacing`] turn records into what is shown, [`share`], [`run_file`] and [`compare`] carry
//! them elsewhere and back, [`lesson`] and [`recorded`] are the guided path, and [`options`] turns what was asked for into
//! protocol structs; all of these are pure and tested natively. The rest is
//! browser glue: `client` talks to the worker, `run` paces one run, `app` ties controls and views together, `api` is the JavaScript
//! face.
//!
//! Invariant: nothing here sees a tensor or a model byte, and text from models, files and links reaches the document through
//! text nodes only.

pub mod about;
pub mod agreement;
pub mod branches;
pub mod compare;
pub mod curves;
pub mod download;
pub mod kept_words;
pub mod ladder;
pub mod lesson;
pub mod marks;
pub mod options;
pub mod pacing;
pub mod race;
pub mod recorded;
pub mod report;
pub mod run_file;
pub mod sentence;
pub mod share;
pub mod sources;
pub mod time_share;
pub mod what_if;
pub mod words;

#[cfg(target_arch = "wasm32")]
mod api;
#[cfg(target_arch = "wasm32")]
mod app;
#[cfg(target_arch = "wasm32")]
mod branch_view;
#[cfg(target_arch = "wasm32")]
mod candidate_keys;
#[cfg(target_arch = "wasm32")]
mod candidates;
#[cfg(target_arch = "wasm32")]
mod chat_view;
#[cfg(target_arch = "wasm32")]
mod client;
#[cfg(target_arch = "wasm32")]
mod clipboard;
#[cfg(target_arch = "wasm32")]
mod convert;
#[cfg(target_arch = "wasm32")]
mod cumulative;
#[cfg(target_arch = "wasm32")]
mod curves_view;
#[cfg(target_arch = "wasm32")]
mod dom;
#[cfg(target_arch = "wasm32")]
mod engine_line;
#[cfg(target_arch = "wasm32")]
mod flow;
#[cfg(target_arch = "wasm32")]
mod form;
#[cfg(target_arch = "wasm32")]
mod gauge;
#[cfg(target_arch = "wasm32")]
mod inspector;
#[cfg(target_arch = "wasm32")]
mod kept_view;
#[cfg(target_arch = "wasm32")]
mod output;
#[cfg(target_arch = "wasm32")]
mod picker;
#[cfg(target_arch = "wasm32")]
mod run;
#[cfg(target_arch = "wasm32")]
mod save_file;
#[cfg(target_arch = "wasm32")]
mod scrub;
#[cfg(target_arch = "wasm32")]
mod slices;
#[cfg(target_arch = "wasm32")]
mod speed;
#[cfg(target_arch = "wasm32")]
mod speed_up_plot;
#[cfg(target_arch = "wasm32")]
mod stage;
#[cfg(target_arch = "wasm32")]
mod status;
#[cfg(target_arch = "wasm32")]
mod tempo;
#[cfg(target_arch = "wasm32")]
mod time_strip;
#[cfg(target_arch = "wasm32")]
mod uncaught;
#[cfg(target_arch = "wasm32")]
mod what_if_panel;

#[cfg(target_arch = "wasm32")]
pub use app::start;
