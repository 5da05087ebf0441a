// import params
// import unit
// x[token] = row ids[token] of the table, times SCALE; one invocation a unit. A table that is bound in parts runs once for each part.
@group(0) @binding(3) var<storage, read_write> x: array<vec4<f32>>;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    let token = id.x / UNITS;
    let unit = id.x % UNITS;
    // Wraps around below the part's first row, and is then past its end.
    let row = params.ids[min(token, BATCH - 1u)] - FIRST_ROW;
    if (token >= params.n || row >= N_ROWS) {
        return;
    }
    let values = unit_values(load_unit(row, unit));
    let at = (token * UNITS + unit) * 8u;
    x[at] = values.v0 * SCALE;
    x[at + 1u] = values.v1 * SCALE;
    x[at + 2u] = values.v2 * SCALE;
    x[at + 3u] = values.v3 * SCALE;
    x[at + 4u] = values.v4 * SCALE;
    x[at + 5u] = values.v5 * SCALE;
    x[at + 6u] = values.v6 * SCALE;
    x[at + 7u] = values.v7 * SCALE;
}
