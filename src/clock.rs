//! Milliseconds since some fixed moment: `performance.now()` in the browser, `Instant` elsewhere. And the date.

#[cfg(target_arch = "wasm32")]
pub fn now_ms() -> f64 {
    use wasm_bindgen::prelude::*;
    #[wasm_bindgen]
    extern "C" {
        // Windows and workers both have it as a global.
        #[wasm_bindgen(js_namespace = performance)]
        fn now() -> f64;
    }
    now()
}

#[cfg(not(target_arch = "wasm32"))]
pub fn now_ms() -> f64 {
    use std::{sync::OnceLock, time::Instant};
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_secs_f64() * 1e3
}

/// Seconds since 1970; 0 where the clock stands before that.
#[cfg(target_arch = "wasm32")]
pub fn unix_seconds() -> u64 {
    (js_sys::Date::now() / 1e3) as u64
}

/// Seconds since 1970; 0 where the clock stands before that.
#[cfg(not(target_arch = "wasm32"))]
pub fn unix_seconds() -> u64 {
    let now = std::time::SystemTime::now();
    now.duration_since(std::time::UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
