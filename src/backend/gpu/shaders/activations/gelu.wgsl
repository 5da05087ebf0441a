// By its tanh approximation (Hendrycks and Gimpel 2016); (1 + tanh u) / 2 is 1 / (1 + exp(-2u)).
fn activation(x: f32) -> f32 {
    return x / (1.0 + exp(-1.5957691216 * (x + 0.044715 * x * x * x)));
}
