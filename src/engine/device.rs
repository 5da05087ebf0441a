//! How much memory this device can lend to a model.
//!
//! The rule: half of the device's memory for the engine, three quarters of it for the engine and the GPU's copy together; the rest is
//! for the browser and everything else. Browsers say at most 8 GB, whatever there is, so 8 means that the engine may have all
//! that wasm can address. Where the browser does not say (Safari, Firefox) a phone counts as 3 GB: its tabs are ended beyond
//! some 1.5 GB; anything else counts as 8.
//!
//! Invariant: a rule about devices; knows no model.

use crate::backend::Budget;
use js_sys::Reflect;
use wasm_bindgen::JsValue;

const GIB: f64 = 1_073_741_824.0;
/// What wasm addresses, less what the engine itself needs.
const WASM: f64 = 4.0 * GIB - 32e6;
/// Gibibytes, where the browser does not say.
const PHONE: f64 = 3.0;
const OTHERS: f64 = 8.0;

pub fn budget() -> Budget {
    let navigator = Reflect::get(&js_sys::global(), &"navigator".into()).unwrap_or(JsValue::UNDEFINED);
    let property = |name: &str| Reflect::get(&navigator, &name.into()).ok();
    let stated = property("deviceMemory").and_then(|memory| memory.as_f64()).filter(|gib| *gib > 0.0);
    let agent = property("userAgent").and_then(|agent| agent.as_string()).unwrap_or_default();
    let is_phone = ["Mobi", "Android", "iPhone", "iPad"].iter().any(|mark| agent.contains(mark));
    let gib = stated.unwrap_or(if is_phone { PHONE } else { OTHERS });
    let why = match stated {
        _ if gib / 2.0 * GIB >= WASM => "wasm addresses no more".to_owned(),
        Some(gib) => format!("half of this device's {gib} GB"),
        None => format!("half of {gib} GB, since the browser does not say what this phone has"),
    };
    Budget { engine: (gib / 2.0 * GIB).min(WASM) as u64, both: (gib * 0.75 * GIB) as u64, why }
}
