// import params
// What is read back of a step: sums over the vocabulary, chunk by chunk, and its best tokens. Three passes over the
// logits: logit_sums, logit_histogram, collect_best, of CHUNKS workgroups each. Before them the counts, the maximum and the
// histogram are set to zero.
struct Top {
    n_best: atomic<u32>,
    // Of all logits, as order_key gives it.
    maximum: atomic<u32>,
    // Of each chunk, with x = logit - maximum of the chunk: that maximum, sum of e^x, of x e^x, and of e^(x / temperature). A
    // sum of -1 says that a logit is not finite.
    sums: array<vec4<f32>, CHUNKS>,
    // Token and the bits of its logit, in no order.
    best: array<vec2<u32>, MAX_BEST>,
}
@group(0) @binding(1) var<storage, read> logits: array<f32>;
@group(0) @binding(2) var<storage, read_write> top: Top;
// How many logits lie how far below the maximum.
@group(0) @binding(3) var<storage, read_write> histogram: array<atomic<u32>, BINS>;

const CHUNK = (VOCAB + CHUNKS - 1u) / CHUNKS;

// Floats in order as unsigned integers, all of them above 0.
fn order_key(value: f32) -> u32 {
    let bits = bitcast<u32>(value);
    return select(bits | 0x80000000u, ~bits, bits >> 31u == 1u);
}

fn from_order_key(key: u32) -> f32 {
    return bitcast<f32>(select(~key, key & 0x7fffffffu, key >> 31u == 1u));
}

// Never rises as the logit falls, and equal logits share a bin; the last bin takes all that is far below.
fn bin_of(logit: f32) -> u32 {
    let maximum = from_order_key(atomicLoad(&top.maximum));
    return u32(clamp((maximum - logit) * 64.0, 0.0, f32(BINS - 1u)));
}
