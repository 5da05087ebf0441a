// import params
// import workgroup_sum
// From products to Q, K and V: biases added; heads of Q and K normalised (NORMED) and rotated (Su et al. 2021); K and V put into the
// cache. Workgroup x is the head, those of Q before those of K and V; y is the token.
//
// Pairs are values i and i + ROPE_PAIRS of a head with HALF_SPLIT, otherwise neighbours.
@group(0) @binding(1) var<storage, read> qkv: array<f32>;
// Biases of all heads, then the weights of Q's and of K's norm.
@group(0) @binding(2) var<storage, read> heads: array<f32>;
@group(0) @binding(3) var<storage, read_write> q: array<f32>;
@group(0) @binding(4) var<storage, read_write> keys: array<f32>;
@group(0) @binding(5) var<storage, read_write> values: array<f32>;

const FIRST_NORM = (N_HEADS + 2u * N_KV_HEADS) * HEAD_DIM;

var<workgroup> head: array<f32, HEAD_DIM>;

// Value i of the head, which turns with its partner.
fn rotated(token: u32, i: u32) -> f32 {
    if (i >= 2u * ROPE_PAIRS) {
        return head[i];
    }
    var pair = i / 2u;
    var first = i / 2u * 2u;
    var second = first + 1u;
    if (HALF_SPLIT) {
        pair = select(i, i - ROPE_PAIRS, i >= ROPE_PAIRS);
        first = pair;
        second = pair + ROPE_PAIRS;
    }
    let turn = params.turns[token * TURNS + FIRST_TURN + pair];
    return select(
        head[first] * turn.y + head[second] * turn.x,
        head[first] * turn.x - head[second] * turn.y,
        i == first,
    );
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
    let token = group.y;
    let is_q = group.x < N_HEADS;
    let is_v = group.x >= N_HEADS + N_KV_HEADS;
    let column = group.x * HEAD_DIM;
    var square = 0.0;
    for (var i = local; i < HEAD_DIM; i += 64u) {
        let value = qkv[token * QKV_STRIDE + column + i] + heads[column + i];
        head[i] = value;
        square += value * value;
    }
    if (NORMED && !is_v) {
        let scale = inverseSqrt(workgroup_sum(square, local) / f32(HEAD_DIM) + NORM_EPS);
        let weights = FIRST_NORM + select(HEAD_DIM, 0u, is_q);
        for (var i = local; i < HEAD_DIM; i += 64u) {
            head[i] *= scale * heads[weights + i];
        }
    }
    workgroupBarrier();
    let position = (params.first + token) * KV_WIDTH;
    for (var i = local; i < HEAD_DIM; i += 64u) {
        if (is_q) {
            q[token * Q_STRIDE + column + i] = rotated(token, i);
        } else if (is_v) {
            values[position + column - (N_HEADS + N_KV_HEADS) * HEAD_DIM + i] = head[i];
        } else {
            keys[position + column - N_HEADS * HEAD_DIM + i] = rotated(token, i);
        }
    }
}
