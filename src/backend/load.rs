//! Loading a model tensor by tensor, as the file comes: the GPU gets a repacked copy, then the CPU engine repacks the file's own
//! bytes in place. The GPU must prove itself on a short prompt against the CPU engine before it runs anything.
//!
//! Invariant: whatever the GPU refuses, at whichever tensor, is a reason to do without it and never the end of a load.

use super::cpu::{CpuBackend, CpuLoader, Pool};
use super::gpu::{Gpu, GpuBackend, GpuLoader, SAYS};
use super::self_test::self_test;
use super::{ChosenBackend, Stage};
use crate::error::Result;
use crate::model::{Plan, TensorId};
use crate::protocol::{BackendChoice, GpuDiagnostics, SelfTest};
use std::rc::Rc;

/// A model on its way to the engines that may run it.
pub struct Loader {
    cpu: CpuLoader,
    /// Or why there is none.
    gpu: Result<GpuLoader, String>,
    diagnostics: Option<GpuDiagnostics>,
    sets: Vec<TensorSet>,
    vocab_size: usize,
    context_length: usize,
}

/// Tensors that are handed over together.
struct TensorSet {
    ids: Vec<TensorId>,
    /// Number among the GPU's sets.
    on_gpu: Option<usize>,
}

impl Loader {
    /// Opens the GPU, if one is to be tried. `refusal`: why none is, whatever was chosen.
    pub async fn new(choice: BackendChoice, refusal: Option<String>, plan: Plan, context_length: usize) -> Self {
        let mut diagnostics = None;
        let gpu = match refusal {
            Some(reason) => Err(reason),
            None => open(choice, &mut diagnostics).await,
        };
        let gpu = gpu.and_then(|gpu| GpuLoader::new(gpu, plan.clone(), context_length).map_err(cannot_hold));
        let sets = sets(&plan, gpu.as_ref().ok());
        let vocab_size = plan.config.vocab_size;
        Self { cpu: CpuLoader::new(plan, context_length), gpu, diagnostics, sets, vocab_size, context_length }
    }

    /// How many sets of tensors there are, each to be handed over at once.
    pub fn n_sets(&self) -> usize {
        self.sets.len()
    }

    /// The tensors of a set. Sets are in the order in which the file has them complete.
    pub fn set(&self, set: usize) -> &[TensorId] {
        &self.sets[set].ids
    }

    /// Takes over the tensors of set number `set`: what the file has of each.
    ///
    /// Errors: those of the CPU engine, such as `bad-value`.
    pub async fn add(&mut self, set: usize, data: Vec<Vec<u8>>) -> Result<()> {
        let TensorSet { ids, on_gpu } = &self.sets[set];
        if let (Ok(gpu), Some(set)) = (&mut self.gpu, *on_gpu) {
            let data: Vec<&[u8]> = data.iter().map(Vec::as_slice).collect();
            if let Err(error) = gpu.upload(set, &data).await {
                self.gpu = Err(cannot_hold(error));
            }
        }
        ids.iter().zip(data).try_for_each(|(&id, bytes)| self.cpu.add(id, bytes))
    }

    /// The model, once every set has been added, on the engine that is to run it. `progress(stage, done, total)`.
    pub async fn finish(self, pool: Pool, mut progress: impl FnMut(Stage, u64, u64)) -> ChosenBackend {
        let Self { cpu, gpu, mut diagnostics, sets: _, vocab_size, context_length } = self;
        let candidate = match gpu {
            Ok(gpu) => gpu.finish(|id| cpu.vector(id), &mut progress).await.map_err(cannot_hold),
            Err(reason) => Err(reason),
        };
        // For the reason its first sentence is enough; a browser may go on for long.
        let (candidate, refusal) = match candidate {
            Ok(candidate) => (Ok(candidate), None),
            Err(reason) => match reason.split_once(SAYS) {
                Some((reason, refusal)) => (Err(reason.to_owned()), Some(refusal.to_owned())),
                None => (Err(reason), None),
            },
        };
        let mut cpu = cpu.finish(pool);
        let (gpu, reason) = match candidate {
            Ok(candidate) => prove(candidate, &mut cpu, vocab_size, context_length, &mut diagnostics, progress).await,
            Err(reason) => (None, reason),
        };
        if let Some(diagnostics) = &mut diagnostics {
            diagnostics.failure = gpu.is_none().then(|| reason.clone());
        }
        ChosenBackend { cpu, gpu, reason, refusal, diagnostics }
    }
}

impl ChosenBackend {
    /// Loads a whole file whose tensors `plan` names, for up to `context_length` positions.
    ///
    /// Errors: the CPU engine's only; whatever the GPU refuses is a reason to do without it.
    pub async fn load(
        choice: BackendChoice,
        plan: Plan,
        file: &[u8],
        context_length: usize,
        pool: Pool,
        progress: impl FnMut(Stage, u64, u64),
    ) -> Result<Self> {
        let ranges: Vec<_> = plan.tensors.iter().map(|tensor| tensor.bytes.clone()).collect();
        let mut loader = Loader::new(choice, None, plan, context_length).await;
        for set in 0..loader.n_sets() {
            let data = loader.set(set).iter().map(|&id| file[ranges[id].clone()].to_vec()).collect();
            loader.add(set, data).await?;
        }
        Ok(loader.finish(pool, progress).await)
    }
}

fn cannot_hold(error: crate::Error) -> String {
    format!("The CPU engine runs, because the GPU cannot hold this model: {error}")
}

/// The GPU's sets, and every other tensor by itself.
fn sets(plan: &Plan, gpu: Option<&GpuLoader>) -> Vec<TensorSet> {
    let on_gpu = gpu.into_iter().flat_map(GpuLoader::sets).enumerate();
    let mut sets: Vec<_> = on_gpu.map(|(set, ids)| TensorSet { ids: ids.to_vec(), on_gpu: Some(set) }).collect();
    let mut is_in_one = vec![false; plan.tensors.len()];
    sets.iter().flat_map(|set| &set.ids).for_each(|&id| is_in_one[id] = true);
    let others = (0..plan.tensors.len()).filter(|&id| !is_in_one[id]);
    sets.extend(others.map(|id| TensorSet { ids: vec![id], on_gpu: None }));
    sets.sort_by_key(|set| set.ids.iter().map(|&id| plan.tensors[id].bytes.end).max());
    sets
}

/// A GPU worth trying, or why there is none.
async fn open(choice: BackendChoice, diagnostics: &mut Option<GpuDiagnostics>) -> Result<Rc<Gpu>, String> {
    if choice == BackendChoice::Cpu {
        return Err("The CPU engine was asked for.".into());
    }
    let gpu = Gpu::open().await.map_err(|error| format!("The CPU engine runs. {error}"))?;
    *diagnostics = Some(gpu.diagnostics());
    if choice == BackendChoice::Auto && gpu.is_software {
        let adapter = &gpu.adapter;
        return Err(format!("The only WebGPU adapter here ({adapter}) is software; the CPU engine is faster."));
    }
    Ok(Rc::new(gpu))
}

/// Lets a GPU show that it computes what the CPU engine does. Returns it if so, and the reason for what runs.
async fn prove(
    mut candidate: GpuBackend,
    cpu: &mut CpuBackend,
    vocab_size: usize,
    context_length: usize,
    diagnostics: &mut Option<GpuDiagnostics>,
    mut progress: impl FnMut(Stage, u64, u64),
) -> (Option<GpuBackend>, String) {
    let progress = |done, total| progress(Stage::SelfTest, done, total);
    let tested = self_test(&mut candidate, cpu, vocab_size, context_length, progress).await;
    if let Some(diagnostics) = diagnostics {
        candidate.complete(diagnostics);
        diagnostics.self_test = tested.as_ref().ok().copied();
    }
    match tested {
        Ok(test) if test.passed => {
            let reason = format!("WebGPU runs on {}; it agrees with the CPU engine.", candidate.gpu().adapter);
            (Some(candidate), reason)
        }
        Ok(test) => {
            let SelfTest { error, tolerance, .. } = test;
            let found = if error <= tolerance {
                "it finds other tokens the likeliest, or other sums over all".into()
            } else {
                format!("its logits differ by {error:.1e} of their size, at most {tolerance:.1e} is expected")
            };
            (None, format!("The CPU engine runs, because the GPU computes something else: {found}."))
        }
        Err(error) => (None, format!("The CPU engine runs, because the GPU failed its self-test: {error}")),
    }
}
