//! What the file says the model is: validated hyperparameters, the tensors by role, and the plan of a forward pass.
//!
//! Invariant: pure data. Names no backend, reads no tensor bytes.

mod architecture;
mod config;
mod plan;
mod rope_scaling;
mod weights;

pub use architecture::{Activation, Architecture, Pairing};
pub use config::{ModelConfig, Window};
pub use plan::{Op, Plan, Rotation, RotationId, Slot, TensorId};
pub use rope_scaling::{RopeScaling, Yarn};
pub use weights::{LayerWeights, TensorRef, Weights};
