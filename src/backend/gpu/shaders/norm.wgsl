// The normalisation inside a matrix-vector product. Past WIDTH x and the weight are zero.
@group(0) @binding(4) var<storage, read> norm_weight: array<vec4<f32>>;

fn square_of(v: Values) -> f32 {
    return dot(v.v0, v.v0) + dot(v.v1, v.v1) + dot(v.v2, v.v2) + dot(v.v3, v.v3)
        + dot(v.v4, v.v4) + dot(v.v5, v.v5) + dot(v.v6, v.v6) + dot(v.v7, v.v7);
}

fn weighed(v: Values, unit: u32) -> Values {
    let at = unit * 8u;
    return Values(
        v.v0 * norm_weight[at], v.v1 * norm_weight[at + 1u], v.v2 * norm_weight[at + 2u], v.v3 * norm_weight[at + 3u],
        v.v4 * norm_weight[at + 4u], v.v5 * norm_weight[at + 5u], v.v6 * norm_weight[at + 6u], v.v7 * norm_weight[at + 7u],
    );
}

fn norm_scale(square: f32) -> f32 {
    return inverseSqrt(square / f32(WIDTH) + NORM_EPS);
}
