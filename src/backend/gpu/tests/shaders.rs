//! The text of every shader that can be shipped, as naga understands it.
//!
//! Invariant: no optional feature of a device is allowed for.

use crate::backend::gpu::layout::FORMATS;
use crate::backend::gpu::shader::{Epilogue, Heads, Kernel, Matrix, Norm, QUERIES, Turns};
use crate::backend::gpu::wgsl::FILES;
use crate::backend::gpu::{Gpu, GpuBackend};
use crate::gguf::Gguf;
use crate::model::{Activation, ModelConfig, Pairing, Plan, Weights};
use naga::valid::{Capabilities, ValidationFlags, Validator};
use naga::{AddressSpace, Module, StorageAccess};
use std::collections::HashSet;
use std::fs;
use std::path::Path;
use std::rc::Rc;

/// What WebGPU grants every page.
const MAX_INVOCATIONS: u32 = 256;
const MAX_WORKGROUP_BYTES: u32 = 16_384;

/// Every combination of file, format and epilogue.
fn permutations() -> Vec<Kernel> {
    let heads = Heads { n_heads: 6, n_kv_heads: 2, head_dim: 64 };
    let norm = Norm::new(576, 1e-5);
    let turns = Turns { pairs: 32, per_token: 64, first: 32 };
    let epilogues = [
        Epilogue::Store { stride: 0, first: 0 },
        Epilogue::Add { stride: 576 },
        Epilogue::Glu { stride: 1536, activation: Activation::Silu },
        Epilogue::Gated { stride: 1536, activation: Activation::Gelu },
        Epilogue::Qkv { q_rows: 384, k_rows: 128, heads, turns },
    ];
    let vocab_size = 49_152;
    let mut kernels = vec![
        Kernel::RmsNorm(norm),
        Kernel::AddNorm { norm, last: false },
        Kernel::AddNorm { norm, last: true },
        Kernel::MergeSplits(heads),
        Kernel::LogitSums { vocab_size },
        Kernel::LogitHistogram { vocab_size },
        Kernel::CollectBest { vocab_size },
    ];
    for head_dim in (4..=256).step_by(4) {
        let heads = Heads { head_dim, ..heads };
        for window in [None, Some(512)] {
            kernels.extend([1, QUERIES].map(|queries| Kernel::Attention {
                heads,
                queries,
                scale: 0.125.into(),
                window,
            }));
        }
        for pairing in [Pairing::Interleaved, Pairing::HalfSplit] {
            for (turns, norm_eps) in [(turns, None), (Turns { pairs: 0, ..turns }, Some(1e-6.into()))] {
                kernels.push(Kernel::FinishQkv { heads, turns, pairing, norm_eps });
            }
        }
    }
    for (format, _) in FORMATS {
        for units in [8, 24, 128] {
            let matrix = Matrix { format, units, n_rows: 641, first_row: 2 };
            kernels.push(Kernel::Embed { matrix, scale: 25.3.into() });
            for epilogue in epilogues {
                kernels.push(Kernel::MatVec { matrix, norm: None, epilogue });
                kernels.push(Kernel::MatVec { matrix, norm: Some(norm), epilogue });
                kernels.push(Kernel::MatMul { matrix, epilogue });
            }
        }
    }
    kernels
}

/// The kernels of the tiny models of every format.
fn recorded() -> Vec<Kernel> {
    let gpu = Rc::new(pollster::block_on(Gpu::open()).unwrap());
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/tiny");
    let mut kernels = HashSet::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let is_model = path.extension().is_some_and(|extension| extension == "gguf");
        // Two formats have no shader.
        if !is_model || ["llama-q2_k", "llama-q3_k"].iter().any(|name| path.file_stem().unwrap() == *name) {
            continue;
        }
        let file = fs::read(&path).unwrap();
        let gguf = Gguf::parse(&file).unwrap();
        let config = ModelConfig::from_gguf(&gguf).unwrap();
        let weights = Weights::from_gguf(&gguf, &config).unwrap();
        let backend = GpuBackend::load(gpu.clone(), Plan::new(config, weights), &file, 64, |_, _, _| {});
        let backend = pollster::block_on(backend).unwrap();
        kernels.extend(backend.recording.all().map(|dispatch| dispatch.kernel.clone()));
    }
    kernels.into_iter().collect()
}

/// Parses and validates a shader, and holds it against what its key says of it.
fn check(kernel: &Kernel) {
    let text = kernel.wgsl();
    let module = naga::front::wgsl::parse_str(&text).unwrap_or_else(|error| panic!("{kernel:?}: {error}\n{text}"));
    // `unpack2x16float` belongs to WGSL itself; naga asks for it because of older APIs than WebGPU.
    Validator::new(ValidationFlags::all(), Capabilities::SHADER_FLOAT16_IN_FLOAT32)
        .validate(&module)
        .unwrap_or_else(|error| panic!("{kernel:?}: {error:?}"));
    assert_eq!(bindings(&module), kernel.bindings(), "{kernel:?}");
    let [entry_point] = module.entry_points.as_slice() else { panic!("{kernel:?} needs one entry point") };
    let invocations: u32 = entry_point.workgroup_size.iter().product();
    assert!(invocations <= MAX_INVOCATIONS, "{kernel:?} has workgroups of {invocations}");
    let workgroup_bytes: u32 = module
        .global_variables
        .iter()
        .filter(|(_, variable)| variable.space == AddressSpace::WorkGroup)
        .map(|(_, variable)| module.types[variable.ty].inner.size(module.to_ctx()))
        .sum();
    assert!(workgroup_bytes <= MAX_WORKGROUP_BYTES, "{kernel:?} takes {workgroup_bytes} bytes of a workgroup");
}

/// The storage buffers that a shader declares: number, and whether it may write.
fn bindings(module: &Module) -> Vec<(u32, bool)> {
    let mut bindings: Vec<(u32, bool)> = module
        .global_variables
        .iter()
        .filter_map(|(_, variable)| {
            let binding = variable.binding.as_ref()?;
            assert_eq!(binding.group, 0);
            let AddressSpace::Storage { access } = variable.space else { panic!("{variable:?} is no storage buffer") };
            Some((binding.binding, access.contains(StorageAccess::STORE)))
        })
        .collect();
    bindings.sort_unstable();
    bindings
}

#[test]
fn every_permutation_is_valid() {
    permutations().iter().for_each(check);
}

#[test]
fn what_models_record_is_valid() {
    let kernels = recorded();
    for (format, _) in FORMATS {
        let multiplies = |kernel: &Kernel| matches!(kernel, Kernel::MatVec { matrix, .. } if matrix.format == format);
        assert!(kernels.iter().any(multiplies), "no model has {}", format.name());
    }
    kernels.iter().for_each(check);
}

/// A file that lies in the folder is listed, and some permutation uses it.
#[test]
fn every_file_is_shipped() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/backend/gpu/shaders");
    let mut files = HashSet::new();
    collect(&folder, &folder, &mut files);
    assert_eq!(files, FILES.iter().map(|(name, _)| (*name).to_owned()).collect());
    let texts: Vec<String> = permutations().iter().map(Kernel::wgsl).collect();
    for (name, text) in FILES {
        assert!(texts.iter().any(|shader| shader.contains(text)), "{name}.wgsl is in no shader");
    }
}

/// Names below `root`, without the ending.
fn collect(root: &Path, folder: &Path, files: &mut HashSet<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(root, &path, files);
        } else {
            let name = path.strip_prefix(root).unwrap().to_str().unwrap().replace('\\', "/");
            files.insert(name.strip_suffix(".wgsl").expect("shaders only").to_owned());
        }
    }
}
