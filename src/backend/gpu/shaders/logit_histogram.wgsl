// import top
// Second pass: counts the logits by their distance to the maximum.
@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
    let end = min((group.x + 1u) * CHUNK, VOCAB);
    for (var i = group.x * CHUNK + local; i < end; i += 256u) {
        atomicAdd(&histogram[bin_of(logits[i])], 1u);
    }
}
