// import top
// First pass: the sums of each chunk, and the maximum of all.
var<workgroup> maximum_key: atomic<u32>;
var<workgroup> partial_sums: array<vec4<f32>, 256>;

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
    let start = group.x * CHUNK;
    let end = min(start + CHUNK, VOCAB);
    var not_finite = 0.0;
    var highest = 0u;
    for (var i = start + local; i < end; i += 256u) {
        highest = max(highest, order_key(logits[i]));
        // By its bits: a shader compiler may take for granted that no float is infinite or NaN.
        not_finite = select(not_finite, 1.0, (bitcast<u32>(logits[i]) & 0x7f800000u) == 0x7f800000u);
    }
    atomicMax(&maximum_key, highest);
    workgroupBarrier();
    let maximum = from_order_key(atomicLoad(&maximum_key));

    var sums = vec4(not_finite, 0.0, 0.0, 0.0);
    for (var i = start + local; i < end; i += 256u) {
        let x = logits[i] - maximum;
        let weight = exp(x);
        sums += vec4(0.0, weight, x * weight, exp(x * params.inverse_temperature));
    }
    // In two steps of sixteen.
    partial_sums[local] = sums;
    workgroupBarrier();
    if (local < 16u) {
        for (var i = 1u; i < 16u; i++) {
            sums += partial_sums[local + i * 16u];
        }
        partial_sums[local] = sums;
    }
    workgroupBarrier();
    if (local == 0u) {
        for (var i = 1u; i < 16u; i++) {
            sums += partial_sums[i];
        }
        // A vocabulary may have fewer tokens than there are chunks.
        let is_empty = start >= end;
        top.sums[group.x] = select(
            vec4(maximum, select(sums.y, -1.0, sums.x > 0.0), sums.zw), vec4(-3.0e38, 0.0, 0.0, 0.0), is_empty,
        );
        if (!is_empty) {
            atomicMax(&top.maximum, order_key(maximum));
        }
    }
}
