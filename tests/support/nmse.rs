//! How far logits are from exact ones.

/// Normalised mean square error: the squared distance as a share of the exact values' own squares.
pub fn nmse<T: Copy + Into<f64>>(ours: &[T], exact: &[f64]) -> f64 {
    assert_eq!(ours.len(), exact.len());
    let error: f64 = ours.iter().zip(exact).map(|(&ours, exact)| (ours.into() - exact).powi(2)).sum();
    error / exact.iter().map(|exact| exact * exact).sum::<f64>()
}
