//! candle's quantized llama in wasm, built as its user would build it: what Nucleus is measured against.
//!
//! Invariant: nothing here is tuned, and nothing is Nucleus's.

use std::io::Cursor;

use candle_core::quantized::gguf_file::Content;
use candle_core::{Device, Tensor};
use candle_transformers::models::quantized_llama::ModelWeights;
use wasm_bindgen::prelude::*;

#[wasm_bindgen]
pub struct Peer(ModelWeights);

#[wasm_bindgen]
impl Peer {
    /// Takes over a GGUF file.
    #[wasm_bindgen(constructor)]
    pub fn new(file: Vec<u8>) -> Result<Peer, JsError> {
        let mut file = Cursor::new(file);
        let content = Content::read(&mut file)?;
        Ok(Self(ModelWeights::from_gguf(content, &mut file, &Device::Cpu)?))
    }

    /// Puts `ids` at `position` and returns the likeliest next token.
    pub fn forward(&mut self, ids: Vec<u32>, position: usize) -> Result<u32, JsError> {
        let ids = Tensor::new(ids.as_slice(), &Device::Cpu)?.unsqueeze(0)?;
        let logits = self.0.forward(&ids, position)?.flatten_all()?;
        Ok(logits.argmax(0)?.to_scalar()?)
    }
}
