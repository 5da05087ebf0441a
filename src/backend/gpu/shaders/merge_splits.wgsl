// import params
// Merges the parts of the cache that attention.wgsl went through separately; one workgroup a head.
@group(0) @binding(1) var<storage, read> splits: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read_write> attn: array<vec4<f32>>;

const HEAD_VECS = HEAD_DIM / 4u;

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) column: u32) {
    if (column >= HEAD_VECS) {
        return;
    }
    let head = group.x * MAX_SPLITS * (HEAD_VECS + 1u);
    var maximum = splits[head + HEAD_VECS].x;
    for (var split = 1u; split < params.n_splits; split++) {
        maximum = max(maximum, splits[head + split * (HEAD_VECS + 1u) + HEAD_VECS].x);
    }
    var sum = vec4(0.0);
    var weight = 0.0;
    for (var split = 0u; split < params.n_splits; split++) {
        let at = head + split * (HEAD_VECS + 1u);
        let rescale = exp(splits[at + HEAD_VECS].x - maximum);
        sum += rescale * splits[at + column];
        weight += rescale * splits[at + HEAD_VECS].y;
    }
    attn[(params.n - 1u) * Q_VECS + group.x * HEAD_VECS + column] = sum / weight;
}
