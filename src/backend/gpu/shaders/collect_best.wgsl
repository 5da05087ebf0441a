// import top
// Third pass: lists every logit of the first bins, of as many as fit into the list.
var<workgroup> counts: array<u32, 256>;
var<workgroup> n_bins: u32;

const BINS_EACH = BINS / 256u;

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
    var count = 0u;
    for (var i = 0u; i < BINS_EACH; i++) {
        count += atomicLoad(&histogram[local * BINS_EACH + i]);
    }
    counts[local] = count;
    workgroupBarrier();
    if (local == 0u) {
        var taken = 0u;
        var block = 0u;
        while (block < 256u && taken + counts[block] <= MAX_BEST) {
            taken += counts[block];
            block++;
        }
        var bin = block * BINS_EACH;
        while (bin < BINS) {
            taken += atomicLoad(&histogram[bin]);
            if (taken > MAX_BEST) {
                break;
            }
            bin++;
        }
        n_bins = bin;
    }
    workgroupBarrier();
    let limit = n_bins;
    let end = min((group.x + 1u) * CHUNK, VOCAB);
    for (var i = group.x * CHUNK + local; i < end; i += 256u) {
        if (bin_of(logits[i]) < limit) {
            top.best[atomicAdd(&top.n_best, 1u)] = vec2(i, bitcast<u32>(logits[i]));
        }
    }
}
