// import params
// Rows are those of Q, then K, then V (any of them may be absent). Q and K are rotated (Su et al. 2021) on neighbouring
// pairs; K and V go straight into the cache.
@group(0) @binding(5) var<storage, read_write> q: array<vec2<f32>>;
@group(0) @binding(6) var<storage, read_write> keys: array<vec2<f32>>;
@group(0) @binding(7) var<storage, read_write> values: array<vec2<f32>>;

fn rotated(token: u32, row: u32, y: vec2<f32>) -> vec2<f32> {
    let pair = row % HEAD_DIM / 2u;
    if (pair >= ROPE_PAIRS) {
        return y;
    }
    let turn = params.turns[token * TURNS + FIRST_TURN + pair];
    return vec2(y.x * turn.x - y.y * turn.y, y.x * turn.y + y.y * turn.x);
}

fn finish(token: u32, pair: u32, y: vec2<f32>) {
    let row = FIRST_ROW + pair * 2u;
    let position = params.first + token;
    if (row < Q_ROWS) {
        q[(token * Q_STRIDE + row) / 2u] = rotated(token, row, y);
    } else if (row < Q_ROWS + K_ROWS) {
        keys[(position * KV_WIDTH + row - Q_ROWS) / 2u] = rotated(token, row - Q_ROWS, y);
    } else {
        values[(position * KV_WIDTH + row - Q_ROWS - K_ROWS) / 2u] = y;
    }
}
