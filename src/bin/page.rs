//! Entry of the page's wasm. No logic: panics go to the console, then the page starts.

#[cfg(target_arch = "wasm32")]
fn main() {
    console_error_panic_hook::set_once();
    nucleus::page::start();
}

/// The page runs in a browser only; the binary exists natively so that `cargo build` covers every target.
#[cfg(not(target_arch = "wasm32"))]
fn main() {
    eprintln!("page is a WebAssembly program: build it with `cargo xtask dist`");
}
