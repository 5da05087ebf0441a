//! A forward pass as plain as it can be: whole matrices as numbers, all tokens together, every position looked at again. It
//! shares the reading of files with the engine, and of the formats that it does not know itself; nothing else.

use nucleus::gguf::Gguf;
use nucleus::quant::{GgmlType, dequantize_row};
use std::f64::consts::PI;
use std::thread;

pub struct Reference<'a> {
    file: &'a [u8],
    gguf: Gguf,
    family: String,
}

/// The rows of a matrix, or a vector for each position.
pub type Rows = Vec<Vec<f64>>;

impl<'a> Reference<'a> {
    pub fn new(file: &'a [u8]) -> Self {
        let gguf = Gguf::parse(file).unwrap();
        let family = gguf.metadata.string("general.architecture").unwrap().unwrap().to_owned();
        Self { file, gguf, family }
    }

    /// Logits after each of `ids`.
    pub fn logits(&self, ids: &[u32]) -> Rows {
        let is_gemma = self.family == "gemma3";
        let table = self.matrix("token_embd.weight").unwrap();
        let n_embd = table[0].len();
        let scale = if is_gemma { (n_embd as f64).sqrt() } else { 1.0 };
        let mut xs: Rows = ids.iter().map(|&id| table[id as usize].iter().map(|x| x * scale).collect()).collect();
        for layer in 0..self.number("block_count").unwrap() as usize {
            self.attention(layer, &mut xs);
            self.feed_forward(layer, &mut xs);
        }
        times(&self.matrix("output.weight").unwrap_or(table), &self.norms("output_norm.weight", &xs))
    }

    fn attention(&self, layer: usize, xs: &mut Rows) {
        let name = |role: &str| format!("blk.{layer}.{role}");
        let n_heads = self.number("attention.head_count").unwrap();
        let head_dim = self.number("attention.key_length").unwrap_or(xs[0].len() as f64 / n_heads) as usize;
        let is_local = self.family == "gemma3" && layer % 6 != 5;
        let is_rotated = self.family != "smollm3" || layer % 4 != 3;
        let normed = self.norms(&name("attn_norm.weight"), xs);
        let heads = |role: &str| -> Vec<Rows> {
            let weight = self.matrix(&name(&format!("{role}.weight"))).unwrap();
            let bias = self.vector(&name(&format!("{role}.bias")));
            let heads = |(position, mut y): (usize, Vec<f64>)| {
                if let Some(bias) = &bias {
                    y.iter_mut().zip(bias).for_each(|(y, bias)| *y += bias);
                }
                let mut heads: Rows = y.chunks(head_dim).map(<[f64]>::to_vec).collect();
                for head in &mut heads {
                    if self.gguf.tensor(&name(&format!("{role}_norm.weight"))).is_some() {
                        *head = self.norm(&name(&format!("{role}_norm.weight")), head);
                    }
                    if role != "attn_v" && is_rotated {
                        self.rotate(head, position, is_local);
                    }
                }
                heads
            };
            times(&weight, &normed).into_iter().enumerate().map(heads).collect()
        };
        let (q, k, v) = (heads("attn_q"), heads("attn_k"), heads("attn_v"));
        let window = if is_local { self.number("attention.sliding_window").unwrap() as usize } else { usize::MAX };
        let gathered: Rows = (0..xs.len())
            .map(|position| {
                let seen = (position + 1).saturating_sub(window)..position + 1;
                let share = q[position].len() / k[position].len();
                let of_head =
                    |(head, q): (usize, &Vec<f64>)| gather(q, &k[seen.clone()], &v[seen.clone()], head / share);
                q[position].iter().enumerate().flat_map(of_head).collect()
            })
            .collect();
        self.add(&name("attn_output.weight"), &name("post_attention_norm.weight"), &gathered, xs);
    }

    fn feed_forward(&self, layer: usize, xs: &mut Rows) {
        let name = |role: &str| format!("blk.{layer}.{role}.weight");
        let (gate, up) = (self.matrix(&name("ffn_gate")).unwrap(), self.matrix(&name("ffn_up")).unwrap());
        let activation = |x: f64| match self.family.as_str() {
            "gemma3" => 0.5 * x * (1.0 + ((2.0 / PI).sqrt() * (x + 0.044715 * x * x * x)).tanh()),
            _ => x / (1.0 + (-x).exp()),
        };
        let normed = self.norms(&name("ffn_norm"), xs);
        let gated = |(gate, up): (Vec<f64>, Vec<f64>)| {
            gate.into_iter().zip(up).map(|(gate, up)| activation(gate) * up).collect()
        };
        let gated: Rows = times(&gate, &normed).into_iter().zip(times(&up, &normed)).map(gated).collect();
        self.add(&name("ffn_down"), &name("post_ffw_norm"), &gated, xs);
    }

    /// xs += W ys, normalised where the file has a norm for that.
    fn add(&self, weight: &str, norm: &str, ys: &Rows, xs: &mut Rows) {
        let weight = self.matrix(weight).unwrap();
        for (x, mut delta) in xs.iter_mut().zip(times(&weight, ys)) {
            if self.gguf.tensor(norm).is_some() {
                delta = self.norm(norm, &delta);
            }
            x.iter_mut().zip(delta).for_each(|(x, delta)| *x += delta);
        }
    }

    fn norms(&self, weight: &str, xs: &Rows) -> Rows {
        xs.iter().map(|x| self.norm(weight, x)).collect()
    }

    fn norm(&self, weight: &str, x: &[f64]) -> Vec<f64> {
        let eps = self.number("attention.layer_norm_rms_epsilon").unwrap();
        let rms = (x.iter().map(|x| x * x).sum::<f64>() / x.len() as f64 + eps).sqrt();
        self.vector(weight).unwrap().iter().zip(x).map(|(weight, x)| x / rms * weight).collect()
    }

    fn rotate(&self, head: &mut [f64], position: usize, is_local: bool) {
        let n = self.number("rope.dimension_count").unwrap() as usize;
        let base = if is_local { 10_000.0 } else { self.number("rope.freq_base").unwrap() };
        let factor = self.number("rope.scaling.factor").unwrap_or(1.0);
        let scaling =
            self.gguf.metadata.string(&format!("{}.rope.scaling.type", self.family)).unwrap().unwrap_or("none");
        let divisors = self.vector("rope_freqs.weight");
        for i in 0..n / 2 {
            let (mut frequency, mut size) = (base.powf(-2.0 * i as f64 / n as f64), 1.0);
            frequency /= divisors.as_ref().map_or(1.0, |divisors| divisors[i]);
            match scaling {
                _ if is_local => {}
                "linear" => frequency /= factor,
                "yarn" => {
                    // transformers, `_compute_yarn_parameters`.
                    let context = self.number("rope.scaling.original_context_length").unwrap();
                    let correction = |turns: f64| n as f64 * (context / (turns * 2.0 * PI)).ln() / (2.0 * base.ln());
                    let (low, high) = (correction(32.0).floor().max(0.0), correction(1.0).ceil().min(n as f64 - 1.0));
                    let ramp = ((i as f64 - low) / (high - low)).clamp(0.0, 1.0);
                    frequency = frequency / factor * ramp + frequency * (1.0 - ramp);
                    size = 0.1 * factor.ln() + 1.0;
                }
                _ => {}
            }
            let (sin, cos) = (position as f64 * frequency).sin_cos();
            let is_interleaved = ["llama", "smollm3"].contains(&self.family.as_str());
            let (first, second) = if is_interleaved { (2 * i, 2 * i + 1) } else { (i, i + n / 2) };
            let (a, b) = (head[first], head[second]);
            (head[first], head[second]) = ((a * cos - b * sin) * size, (a * sin + b * cos) * size);
        }
    }

    fn number(&self, suffix: &str) -> Option<f64> {
        let key = format!("{}.{suffix}", self.family);
        self.gguf
            .metadata
            .float(&key)
            .ok()
            .flatten()
            .or_else(|| self.gguf.metadata.unsigned(&key).ok().flatten().map(|value| value as f64))
    }

    fn vector(&self, name: &str) -> Option<Vec<f64>> {
        self.matrix(name).map(|rows| rows.concat())
    }

    fn matrix(&self, name: &str) -> Option<Rows> {
        let tensor = self.gguf.tensor(name)?;
        let bytes = &self.file[tensor.bytes.clone()];
        let half = |block: &[u8]| f64::from(half::f16::from_le_bytes([block[0], block[1]]).to_f32());
        let values: Vec<f64> = match tensor.ty {
            GgmlType::F32 => bytes.as_chunks().0.iter().map(|word| f64::from(f32::from_le_bytes(*word))).collect(),
            GgmlType::Q8_0 => bytes
                .chunks(34)
                .flat_map(|block| block[2..].iter().map(move |q| f64::from(*q as i8) * half(block)))
                .collect(),
            GgmlType::Q4_0 => bytes
                .chunks(18)
                .flat_map(|block| {
                    let value = move |nibble: u8| (f64::from(nibble) - 8.0) * half(block);
                    let low = block[2..].iter().map(move |byte| value(byte & 15));
                    low.chain(block[2..].iter().map(move |byte| value(byte >> 4)))
                })
                .collect(),
            other => {
                let mut values = vec![0.0; tensor.n_elements()];
                dequantize_row(other, bytes, &mut values).unwrap();
                values.into_iter().map(f64::from).collect()
            }
        };
        Some(values.chunks(tensor.row_len()).map(<[f64]>::to_vec).collect())
    }
}

/// W x for each x, which threads share out among them; in the browser there is one.
fn times(weight: &Rows, xs: &[Vec<f64>]) -> Rows {
    let product = |xs: &[Vec<f64>]| {
        let mut ys = vec![Vec::with_capacity(weight.len()); xs.len()];
        for row in weight {
            ys.iter_mut().zip(xs).for_each(|(y, x)| y.push(dot(row, x)));
        }
        ys
    };
    let n_threads = thread::available_parallelism().map_or(1, usize::from);
    if n_threads == 1 {
        return product(xs);
    }
    thread::scope(|scope| {
        let parts = xs.chunks(xs.len().div_ceil(n_threads)).map(|xs| scope.spawn(|| product(xs)));
        parts.collect::<Vec<_>>().into_iter().flat_map(|part| part.join().unwrap()).collect()
    })
}

/// In eight sums, which a processor can go on with side by side.
fn dot(a: &[f64], b: &[f64]) -> f64 {
    let ((a, a_rest), (b, b_rest)) = (a.as_chunks::<8>(), b.as_chunks::<8>());
    let mut sums = [0.0; 8];
    for (a, b) in a.iter().zip(b) {
        for (sum, (a, b)) in sums.iter_mut().zip(a.iter().zip(b)) {
            *sum += a * b;
        }
    }
    sums.iter().sum::<f64>() + a_rest.iter().zip(b_rest).map(|(a, b)| a * b).sum::<f64>()
}

/// softmax(q k / √n) v over some positions, of head `group` of each.
fn gather(q: &[f64], keys: &[Rows], values: &[Rows], group: usize) -> Vec<f64> {
    let score = |key: &Rows| q.iter().zip(&key[group]).map(|(q, k)| q * k).sum::<f64>() / (q.len() as f64).sqrt();
    let scores: Vec<f64> = keys.iter().map(score).collect();
    let max = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let weights: Vec<f64> = scores.iter().map(|score| (score - max).exp()).collect();
    let total: f64 = weights.iter().sum();
    let column = |i: usize| values.iter().zip(&weights).map(|(v, w)| v[group][i] * w).sum::<f64>() / total;
    (0..q.len()).map(column).collect()
}
