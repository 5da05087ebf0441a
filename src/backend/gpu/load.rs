//! Loading: what has to be uploaded together, then the programs that run it.
//!
//! Invariant: what the GPU will refuse for its format or shape is refused before anything is uploaded.

use super::arena::{self, Arena, KvBuffers};
use super::device::Gpu;
use super::fuse::{self, Fused};
use super::matrix::floats;
use super::pipelines::Pipelines;
use super::record::{self, Buffers};
use super::weights::{GpuWeights, Upload};
use super::{BATCH, GpuBackend, Rope};
use crate::backend::Stage;
use crate::error::{Error, Result};
use crate::model::{Plan, TensorId};
use std::rc::Rc;

/// A model on its way to the GPU.
pub struct GpuLoader {
    gpu: Rc<Gpu>,
    plan: Plan,
    groups: Vec<Fused>,
    uploads: Vec<Upload>,
    context_length: usize,
    weights: GpuWeights,
}

impl GpuLoader {
    /// For up to `context_length` positions.
    ///
    /// Errors: `backend` for a plan or a shape without a kernel, `unsupported-quantization` for a format without one.
    pub fn new(gpu: Rc<Gpu>, plan: Plan, context_length: usize) -> Result<Self> {
        check_shapes(&plan)?;
        let groups = fuse::fuse(&plan)?;
        let uploads = Upload::all(&plan, &groups);
        uploads.iter().try_for_each(|upload| upload.gpu_bytes(&plan).map(drop))?;
        Ok(Self { gpu, plan, groups, uploads, context_length, weights: GpuWeights::new() })
    }

    /// Tensors that must be uploaded together; each is in one of these sets at most.
    pub fn sets(&self) -> impl Iterator<Item = &[TensorId]> {
        self.uploads.iter().map(Upload::ids)
    }

    /// Uploads set number `set`; `data` is what the file has of each of its tensors.
    ///
    /// Errors: `too-large` for a row larger than a binding, or when the device has no memory left; `device-lost`; `backend`.
    pub async fn upload(&mut self, set: usize, data: &[&[u8]]) -> Result<()> {
        let scopes = self.gpu.scopes();
        let uploaded = self.weights.add(&self.gpu, &self.plan, &self.uploads[set], data);
        scopes.end().await?;
        self.gpu.check()?;
        uploaded
    }

    /// Compiles what runs the model, once all of it has been uploaded. `vector` gives a vector's values.
    ///
    /// Errors: `backend` for what the device refuses; `too-large`; `device-lost`.
    pub async fn finish(
        self,
        vector: impl Fn(TensorId) -> Vec<f32>,
        mut progress: impl FnMut(Stage, u64, u64),
    ) -> Result<GpuBackend> {
        let Self { gpu, plan, groups, uploads: _, context_length, weights } = self;
        let config = &plan.config;
        let scopes = gpu.scopes();
        let arena = Arena::new(&gpu, &plan);
        let kv = KvBuffers::new(&gpu, config, 1);
        scopes.end().await?;
        let kv = kv?;
        let mut pipelines = Pipelines::default();
        let buffers = Buffers { weights: &weights, arena: &arena, kv: &kv };
        let steps = record::record(&plan, &groups, buffers);
        let kernels = steps.all().map(|step| &step.kernel);
        pipelines.compile(&gpu, kernels, |done, total| progress(Stage::Compile, done, total)).await?;
        let scopes = gpu.scopes();
        let recording = steps.map(|step| pipelines.bind(&gpu, &arena.params, step));
        scopes.end().await?;
        gpu.finish().await?;
        let rope = Rope::new(&plan, vector, BATCH);
        let params = vec![0; arena::params_bytes(&plan)];
        Ok(GpuBackend {
            gpu,
            groups,
            context_length,
            weights,
            arena,
            kv,
            kv_len: 0,
            pipelines,
            recording,
            rope,
            params,
            plan,
        })
    }
}

impl GpuBackend {
    /// Bytes of GPU memory that a model takes, with a full KV cache. Errors: as for [`GpuLoader::new`].
    pub fn needed_bytes(plan: &Plan, context_length: usize) -> Result<u64> {
        let uploads = Upload::all(plan, &fuse::fuse(plan)?);
        let weights = uploads.iter().map(|upload| upload.gpu_bytes(plan)).sum::<Result<u64>>()?;
        let config = &plan.config;
        let position = 2 * config.n_layers as u64 * config.kv_width() as u64 * size_of::<f32>() as u64;
        let widths = 2 * config.n_embd + 2 * config.q_width() + config.n_ff;
        let work = (BATCH * widths + 2 * config.vocab_size) * size_of::<f32>();
        Ok(weights + position * context_length as u64 + work as u64)
    }

    /// Loads a whole file whose tensors `plan` names. Errors: those of [`GpuLoader`].
    pub async fn load(
        gpu: Rc<Gpu>,
        plan: Plan,
        file: &[u8],
        context_length: usize,
        progress: impl FnMut(Stage, u64, u64),
    ) -> Result<Self> {
        let bytes = |plan: &Plan, id: TensorId| &file[plan.tensors[id].bytes.clone()];
        let mut loader = GpuLoader::new(gpu, plan, context_length)?;
        for set in 0..loader.uploads.len() {
            let data: Vec<&[u8]> = loader.uploads[set].ids().iter().map(|&id| bytes(&loader.plan, id)).collect();
            loader.upload(set, &data).await?;
        }
        let plan = loader.plan.clone();
        loader.finish(|id| floats(bytes(&plan, id)), progress).await
    }
}

/// Refuses shapes that the kernels are not made for.
fn check_shapes(plan: &Plan) -> Result<()> {
    let config = &plan.config;
    if !config.head_dim.is_multiple_of(4) || config.head_dim > 256 {
        return Err(Error::Backend(format!(
            "Heads are {} wide; the GPU kernels take multiples of 4 up to 256.",
            config.head_dim
        )));
    }
    Ok(())
}
