//! Repacking at load: four rows at a time, so that a kernel reads one stream and has the four rows' scales in one vector.
//!
//! ```text
//! GGUF    row 0: s0 q0 | s0 q0 | ...      row 1: s1 q1 | s1 q1 | ...
//! packed  rows 0 to 3: s0 s1 s2 s3 q0 q1 q2 q3 | s0 s1 s2 s3 q0 q1 q2 q3 | ...
//! ```
//!
//! In place and of the same size; the last `n_rows % 4` rows stay as they were.
//!
//! Invariant: moves whole fields of blocks; never looks inside one.

/// Rows that are interleaved.
pub const ROWS: usize = 4;

/// Repacks a matrix of `row_bytes`-byte rows whose blocks consist of `fields` (bytes each).
pub fn pack(bytes: &mut [u8], row_bytes: usize, fields: &[usize]) {
    let mut rows = vec![0; row_bytes * ROWS];
    for group in bytes.chunks_exact_mut(row_bytes * ROWS) {
        rows.copy_from_slice(group);
        for_each_field(row_bytes, fields, |row, in_row, in_group, len| {
            group[in_group..][..len].copy_from_slice(&rows[row * row_bytes + in_row..][..len]);
        });
    }
}

/// One row of a packed matrix, as it stood in the file.
pub fn unpack_row(bytes: &[u8], row: usize, fields: &[usize], out: &mut [u8]) {
    let row_bytes = out.len();
    let group_bytes = row_bytes * ROWS;
    match bytes.chunks_exact(group_bytes).nth(row / ROWS) {
        Some(group) => for_each_field(row_bytes, fields, |r, in_row, in_group, len| {
            if r == row % ROWS {
                out[in_row..][..len].copy_from_slice(&group[in_group..][..len]);
            }
        }),
        None => out.copy_from_slice(&bytes[row * row_bytes..][..row_bytes]),
    }
}

/// Calls `f(row, offset in the row, offset in the group, bytes)` for each field of each block of each of the four rows.
fn for_each_field(row_bytes: usize, fields: &[usize], mut f: impl FnMut(usize, usize, usize, usize)) {
    let block_bytes: usize = fields.iter().sum();
    let mut in_group = 0;
    for block in (0..row_bytes).step_by(block_bytes) {
        let mut in_row = block;
        for &len in fields {
            for row in 0..ROWS {
                f(row, in_row, in_group, len);
                in_group += len;
            }
            in_row += len;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unpack_row_undoes_pack() {
        let fields = [2, 2, 16];
        for (n_rows, n_blocks) in [(1, 1), (3, 2), (4, 1), (7, 3), (8, 5)] {
            let row_bytes = n_blocks * 20;
            let original: Vec<u8> = (0..n_rows * row_bytes).map(|i| (i * 31 % 251) as u8).collect();
            let mut packed = original.clone();
            pack(&mut packed, row_bytes, &fields);
            assert_eq!(packed == original, n_rows < ROWS, "{n_rows} rows");
            for row in 0..n_rows {
                let mut out = vec![0; row_bytes];
                unpack_row(&packed, row, &fields, &mut out);
                assert_eq!(out, original[row * row_bytes..][..row_bytes], "row {row} of {n_rows}");
            }
        }
    }
}
