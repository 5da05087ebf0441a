//! The engine's entry: runs in a dedicated worker.

fn main() {
    #[cfg(target_arch = "wasm32")]
    {
        console_error_panic_hook::set_once();
        nucleus::engine::start();
    }
}
