//! The KV cache: keys and values of every position, f32, each head's positions contiguous.
//!
//! Invariant: `len <= capacity`; grows only in `reserve`, never while a token is computed.

use crate::error::{Error, Result};
use std::ops::Range;

/// Positions are reserved in multiples of this.
pub const GRANULE: usize = 256;

pub struct KvCache {
    n_layers: usize,
    n_kv_heads: usize,
    head_dim: usize,
    /// Positions there is room for.
    capacity: usize,
    /// Positions held.
    pub len: usize,
    /// `[layer][kv head][capacity][head_dim]`
    keys: Vec<f32>,
    values: Vec<f32>,
}

impl KvCache {
    pub fn new(n_layers: usize, n_kv_heads: usize, head_dim: usize) -> Self {
        Self { n_layers, n_kv_heads, head_dim, capacity: 0, len: 0, keys: Vec::new(), values: Vec::new() }
    }

    /// Bytes that one position takes.
    pub fn bytes_per_position(&self) -> usize {
        2 * self.n_layers * self.n_kv_heads * self.head_dim * size_of::<f32>()
    }

    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Makes room for `n_positions` in all; keeps what is held. Errors: `too-large` when the memory is not to be had.
    pub fn reserve(&mut self, n_positions: usize) -> Result<()> {
        if n_positions <= self.capacity {
            return Ok(());
        }
        if self.len == 0 {
            // Nothing to keep: give the old room back before asking for more.
            self.capacity = 0;
            (self.keys, self.values) = (Vec::new(), Vec::new());
        }
        let capacity = n_positions.next_multiple_of(GRANULE);
        let heads = self.n_layers * self.n_kv_heads;
        // Both before either is taken, so that a refusal leaves the cache as it was.
        let (mut keys, mut values) = (zeroed(heads, capacity, self.head_dim)?, zeroed(heads, capacity, self.head_dim)?);
        let held = self.len * self.head_dim;
        for head in (0..heads).filter(|_| held > 0) {
            let (from, to) = (head * self.capacity * self.head_dim, head * capacity * self.head_dim);
            keys[to..][..held].copy_from_slice(&self.keys[from..][..held]);
            values[to..][..held].copy_from_slice(&self.values[from..][..held]);
        }
        (self.keys, self.values, self.capacity) = (keys, values, capacity);
        Ok(())
    }

    fn head(&self, layer: usize, head: usize) -> Range<usize> {
        let start = (layer * self.n_kv_heads + head) * self.capacity * self.head_dim;
        start..start + self.capacity * self.head_dim
    }

    /// Keys of one head, `[position][head_dim]`, as far as there is room.
    pub fn keys(&self, layer: usize, head: usize) -> &[f32] {
        &self.keys[self.head(layer, head)]
    }

    /// Values of one head, likewise.
    pub fn values(&self, layer: usize, head: usize) -> &[f32] {
        &self.values[self.head(layer, head)]
    }

    /// Writes one position of a layer: `keys` and `values` are `[kv head][head_dim]`.
    pub fn write(&mut self, layer: usize, position: usize, keys: &[f32], values: &[f32]) {
        for head in 0..self.n_kv_heads {
            let to = self.head(layer, head).start + position * self.head_dim;
            let from = head * self.head_dim;
            self.keys[to..][..self.head_dim].copy_from_slice(&keys[from..][..self.head_dim]);
            self.values[to..][..self.head_dim].copy_from_slice(&values[from..][..self.head_dim]);
        }
    }
}

fn zeroed(heads: usize, capacity: usize, head_dim: usize) -> Result<Vec<f32>> {
    let too_large = || Error::TooLarge(format!("There is no memory for a KV cache of {capacity} positions."));
    let len = heads.checked_mul(capacity).and_then(|n| n.checked_mul(head_dim)).ok_or_else(too_large)?;
    let mut cache = Vec::new();
    cache.try_reserve_exact(len).map_err(|_| too_large())?;
    cache.resize(len, 0.0);
    Ok(cache)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_reserve_leaves_a_cache_that_works() {
        for held in [0, 1] {
            let mut cache = KvCache::new(2, 3, 4);
            cache.reserve(1).unwrap();
            cache.write(1, 0, &[1.0; 12], &[2.0; 12]);
            cache.len = held;
            assert_eq!(cache.reserve(usize::MAX / 1024).unwrap_err().kind(), "too-large");
            cache.reserve(8).unwrap();
            assert_eq!(cache.keys(1, 2)[0], held as f32, "what was held is still there");
            cache.write(1, 7, &[3.0; 12], &[4.0; 12]);
            assert_eq!((cache.keys(1, 2)[28], cache.values(1, 2)[31]), (3.0, 4.0));
        }
    }

    #[test]
    fn reserve_keeps_what_is_held() {
        let mut cache = KvCache::new(2, 3, 4);
        cache.reserve(5).unwrap();
        let row = |layer: usize, position: usize| -> Vec<f32> {
            (0..12).map(|i| (layer * 1000 + position * 20 + i) as f32).collect()
        };
        for position in 0..5 {
            for layer in 0..2 {
                cache.write(layer, position, &row(layer, position), &row(layer + 2, position));
            }
        }
        cache.len = 5;
        cache.reserve(300).unwrap();
        assert_eq!(cache.capacity(), 512);
        for layer in 0..2 {
            for head in 0..3 {
                for position in 0..5 {
                    let at = position * 4..position * 4 + 4;
                    assert_eq!(cache.keys(layer, head)[at.clone()], row(layer, position)[head * 4..head * 4 + 4]);
                    assert_eq!(cache.values(layer, head)[at], row(layer + 2, position)[head * 4..head * 4 + 4]);
                }
            }
        }
    }
}
