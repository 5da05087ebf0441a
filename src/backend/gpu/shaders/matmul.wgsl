// import params
// import unit
// Many tokens: a tile of 64 rows of W times a tile of 64 tokens, unit by unit. The weights of a tile are unpacked once, into
// workgroup memory; each of the 8 x 8 invocations keeps the products of 8 rows (four pairs) with 8 tokens.
@group(0) @binding(3) var<storage, read> x: array<vec4<f32>>;

// [vector of the unit][row or token]. Even rows come before odd ones: neighbouring invocations then read side by side.
var<workgroup> w_tile: array<array<vec4<f32>, 64>, 8>;
var<workgroup> x_tile: array<array<vec4<f32>, 64>, 8>;

// Eight rows of one token.
struct Rows {
    a: vec4<f32>,
    b: vec4<f32>,
}

fn add(y: Rows, w: Values, x: vec4<f32>) -> Rows {
    return Rows(
        y.a + vec4(dot(w.v0, x), dot(w.v1, x), dot(w.v2, x), dot(w.v3, x)),
        y.b + vec4(dot(w.v4, x), dot(w.v5, x), dot(w.v6, x), dot(w.v7, x)),
    );
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
    let first_row = group.x * 64u;
    let first_token = group.y * 64u;
    let n_tokens = params.n - first_token;
    // Row pairs r, r + 8, r + 16, r + 24 and tokens t, t + 8, ... of the tile.
    let r = local % 8u;
    let t = local / 8u;
    let zero = Rows(vec4(0.0), vec4(0.0));
    var y0 = zero;
    var y1 = zero;
    var y2 = zero;
    var y3 = zero;
    var y4 = zero;
    var y5 = zero;
    var y6 = zero;
    var y7 = zero;
    for (var unit = 0u; unit < UNITS; unit++) {
        let w = unit_values(load_unit(min(first_row + local, N_ROWS - 1u), unit));
        let column = local % 2u * 32u + local / 2u;
        w_tile[0][column] = w.v0;
        w_tile[1][column] = w.v1;
        w_tile[2][column] = w.v2;
        w_tile[3][column] = w.v3;
        w_tile[4][column] = w.v4;
        w_tile[5][column] = w.v5;
        w_tile[6][column] = w.v6;
        w_tile[7][column] = w.v7;
        if (local < n_tokens) {
            let at = ((first_token + local) * UNITS + unit) * 8u;
            for (var k = 0u; k < 8u; k++) {
                x_tile[k][local] = x[at + k];
            }
        }
        workgroupBarrier();
        for (var k = 0u; k < 8u; k++) {
            let rows = Values(
                w_tile[k][r], w_tile[k][r + 32u], w_tile[k][r + 8u], w_tile[k][r + 40u],
                w_tile[k][r + 16u], w_tile[k][r + 48u], w_tile[k][r + 24u], w_tile[k][r + 56u],
            );
            y0 = add(y0, rows, x_tile[k][t]);
            // The last tile of a prompt is rarely full.
            if (n_tokens > 8u) {
                y1 = add(y1, rows, x_tile[k][t + 8u]);
            }
            if (n_tokens > 16u) {
                y2 = add(y2, rows, x_tile[k][t + 16u]);
                y3 = add(y3, rows, x_tile[k][t + 24u]);
            }
            if (n_tokens > 32u) {
                y4 = add(y4, rows, x_tile[k][t + 32u]);
                y5 = add(y5, rows, x_tile[k][t + 40u]);
                y6 = add(y6, rows, x_tile[k][t + 48u]);
                y7 = add(y7, rows, x_tile[k][t + 56u]);
            }
        }
        workgroupBarrier();
    }
    let row = first_row + r * 2u;
    let token = first_token + t;
    finish_rows(token, row, y0);
    finish_rows(token + 8u, row, y1);
    finish_rows(token + 16u, row, y2);
    finish_rows(token + 24u, row, y3);
    finish_rows(token + 32u, row, y4);
    finish_rows(token + 40u, row, y5);
    finish_rows(token + 48u, row, y6);
    finish_rows(token + 56u, row, y7);
}

fn finish_rows(token: u32, row: u32, y: Rows) {
    finish_pair(token, row, y.a.xy);
    finish_pair(token, row + 16u, y.a.zw);
    finish_pair(token, row + 32u, y.b.xy);
    finish_pair(token, row + 48u, y.b.zw);
}

fn finish_pair(token: u32, row: u32, y: vec2<f32>) {
    if (token < params.n && row < N_ROWS) {
        finish(token, row / 2u, y);
    }
}
