// What one pass is about; written once before it. BATCH comes from the key.
struct Params {
    // Tokens in this pass.
    n: u32,
    // Position of the first of them; the cache holds this many.
    first: u32,
    // Into how many parts decode attention splits the cache.
    n_splits: u32,
    // 1 / temperature, for the sums over the vocabulary.
    inverse_temperature: f32,
    ids: array<u32, BATCH>,
    // [token][rotation][pair]: cosine and sine of the rotations.
    turns: array<vec2<f32>>,
}
@group(0) @binding(0) var<storage, read> params: Params;
