//! Entry of the page's wasm. No logic: panics and logs go to the console, then the page starts.

#[cfg(target_arch = "wasm32")]
fn main() {
    console_error_panic_hook::set_once();
    console_log::init_with_level(log::Level::Warn).expect("no other logger is set");
    nucleus::page::start();
}

/// The page runs in a browser only; the binary exists natively so that `cargo build` covers every target.
#[cfg(not(target_arch = "wasm32"))]
fn main() {
    eprintln!("page is a WebAssembly program: build it with `cargo xtask dist`");
}
