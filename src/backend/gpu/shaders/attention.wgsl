// import params
// QUERIES neighbouring tokens of one head over (a part of) the cache, causal, each with its last WINDOW positions, softmax and sum
// in one sweep (Milakov and Gimelshein 2018; Dao et al. 2022). Workgroup x is the head, y the group of tokens, z the part of the cache.
//
// Positions go through in tiles of 64. First each invocation scores one position with every query. Then the invocations
// divide the values: HEAD_VECS columns of four, times PARTS parts of the positions; each keeps the running maximum and
// sum of its part, and the parts are merged at the end.
@group(0) @binding(1) var<storage, read> q: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> keys: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read> values: array<vec4<f32>>;
@group(0) @binding(4) var<storage, read_write> attn: array<vec4<f32>>;
// [head][split][HEAD_VECS + 1]: sums of values, then (maximum, sum of weights, 0, 0).
@group(0) @binding(5) var<storage, read_write> splits: array<vec4<f32>>;

const HEAD_VECS = HEAD_DIM / 4u;
const PARTS = 64u / HEAD_VECS;
const LOWEST = -3.0e38;

var<workgroup> q_tile: array<vec4<f32>, QUERIES * HEAD_VECS>;
var<workgroup> scores: array<array<f32, 64>, QUERIES>;
// [part][column]
var<workgroup> part_sums: array<vec4<f32>, 64>;
// [part]: maximum, sum of weights
var<workgroup> part_weights: array<vec2<f32>, PARTS>;

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
    let head = group.x;
    // A single query is the pass's last token.
    let first_token = select(group.y * QUERIES, params.n - 1u, QUERIES == 1u);
    let n_tokens = min(QUERIES, params.n - first_token);
    for (var i = local; i < QUERIES * HEAD_VECS; i += 64u) {
        let token = min(first_token + i / HEAD_VECS, params.n - 1u);
        q_tile[i] = q[token * Q_VECS + head * HEAD_VECS + i % HEAD_VECS] * SCALE;
    }
    workgroupBarrier();

    let length = params.first + first_token + n_tokens;
    // Only a single query is computed in parts.
    let n_splits = select(params.n_splits, 1u, QUERIES > 1u);
    // What the first query sees; the others begin a little later.
    let begin = max(params.first + first_token + 1u, WINDOW) - WINDOW;
    let span = (length - begin + n_splits * 64u - 1u) / (n_splits * 64u) * 64u;
    let start = begin + group.z * span;
    let end = min(start + span, length);
    let kv_column = head / GROUP * HEAD_VECS;
    let column = local % HEAD_VECS;
    let part = local / HEAD_VECS;

    var sums: array<vec4<f32>, QUERIES>;
    var maxima: array<f32, QUERIES>;
    var weights: array<f32, QUERIES>;
    for (var j = 0u; j < QUERIES; j++) {
        maxima[j] = LOWEST;
    }
    for (var tile = start; tile < end; tile += 64u) {
        let position = tile + local;
        var score: array<f32, QUERIES>;
        // Not left to the declaration: SwiftShader keeps what the last turn of the loop left there.
        for (var j = 0u; j < QUERIES; j++) {
            score[j] = 0.0;
        }
        if (position < end) {
            for (var d = 0u; d < HEAD_VECS; d++) {
                let key = keys[position * KV_VECS + kv_column + d];
                for (var j = 0u; j < QUERIES; j++) {
                    score[j] += dot(key, q_tile[j * HEAD_VECS + d]);
                }
            }
        }
        for (var j = 0u; j < QUERIES; j++) {
            let query = params.first + first_token + j;
            let visible = position < end && position <= query && position + WINDOW > query;
            scores[j][local] = select(LOWEST, score[j], visible);
        }
        workgroupBarrier();
        if (part < PARTS) {
            for (var j = 0u; j < QUERIES; j++) {
                var maximum = maxima[j];
                for (var i = part; i < 64u; i += PARTS) {
                    maximum = max(maximum, scores[j][i]);
                }
                let rescale = exp(maxima[j] - maximum);
                sums[j] *= rescale;
                weights[j] *= rescale;
                maxima[j] = maximum;
            }
            for (var i = part; i < min(64u, end - tile); i += PARTS) {
                let value = values[(tile + i) * KV_VECS + kv_column + column];
                for (var j = 0u; j < QUERIES; j++) {
                    // A hidden position weighs nothing, also where a part has seen only such.
                    let weight = select(exp(scores[j][i] - maxima[j]), 0.0, scores[j][i] == LOWEST);
                    sums[j] += weight * value;
                    weights[j] += weight;
                }
            }
        }
        workgroupBarrier();
    }

    for (var j = 0u; j < n_tokens; j++) {
        if (part < PARTS) {
            part_sums[local] = sums[j];
            if (column == 0u) {
                part_weights[part] = vec2(maxima[j], weights[j]);
            }
        }
        workgroupBarrier();
        if (part == 0u) {
            var maximum = LOWEST;
            for (var i = 0u; i < PARTS; i++) {
                maximum = max(maximum, part_weights[i].x);
            }
            var sum = vec4(0.0);
            var weight = 0.0;
            for (var i = 0u; i < PARTS; i++) {
                let rescale = exp(part_weights[i].x - maximum);
                sum += rescale * part_sums[i * HEAD_VECS + column];
                weight += rescale * part_weights[i].y;
            }
            if (n_splits == 1u) {
                attn[(first_token + j) * Q_VECS + head * HEAD_VECS + column] = sum / weight;
            } else {
                let at = (head * MAX_SPLITS + group.z) * (HEAD_VECS + 1u);
                splits[at + column] = sum;
                if (column == 0u) {
                    splits[at + HEAD_VECS] = vec4(maximum, weight, 0.0, 0.0);
                }
            }
        }
        workgroupBarrier();
    }
}
