var<workgroup> summands: array<f32, 64>;

// The sum over a workgroup of 64, for each of its invocations.
fn workgroup_sum(summand: f32, local: u32) -> f32 {
    summands[local] = summand;
    workgroupBarrier();
    var sum = 0.0;
    for (var i = 0u; i < 64u; i++) {
        sum += summands[i];
    }
    return sum;
}
