//! A test that waits, natively and in the browser.

/// Makes a test of an async function.
#[macro_export]
macro_rules! everywhere {
    ($($name:ident),* $(,)?) => {
        mod everywhere {
            $(
                #[cfg(target_arch = "wasm32")]
                #[wasm_bindgen_test::wasm_bindgen_test]
                async fn $name() {
                    super::$name().await;
                }

                #[cfg(not(target_arch = "wasm32"))]
                #[test]
                fn $name() {
                    pollster::block_on(super::$name());
                }
            )*
        }
    };
}
