//! Any bytes as the header of a file.

#![no_main]

use libfuzzer_sys::fuzz_target;

/// As many bytes as the seeds' tensors take: the reader never looks at them, but wants them there.
const DATA: [u8; 1 << 19] = [0; 1 << 19];

fuzz_target!(|header: &[u8]| {
    // Alone, what the reader says when the file ends; with data, what lies beyond.
    nucleus_fuzz::gguf(header);
    nucleus_fuzz::model(&[header, &DATA].concat());
});
