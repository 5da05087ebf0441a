//! What the file says the model is: validated hyperparameters, the tensors by role, and the plan of a forward pass.
//!
//! Invariant: pure data. Names no backend, reads no tensor bytes.

mod config;
mod plan;
mod weights;

pub use config::{Architecture, ModelConfig, RopeScaling};
pub use plan::{Op, Plan, Slot, TensorId};
pub use weights::{LayerWeights, TensorRef, Weights};
