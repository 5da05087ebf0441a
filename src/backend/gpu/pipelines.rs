//! Pipelines by kernel, compiled once for a device and a model.
//!
//! Invariant: a pipeline is made in `compile` only.

use super::device::Gpu;
use super::record::{Dispatch, Groups, Step};
use super::shader::Kernel;
use crate::clock::now_ms;
use crate::error::Result;
use std::collections::HashMap;
use wgpu::{
    BindGroupDescriptor, BindGroupEntry, BindGroupLayout, BindGroupLayoutDescriptor, BindGroupLayoutEntry, BindingType,
    Buffer, BufferBindingType, ComputePipeline, ComputePipelineDescriptor, PipelineLayoutDescriptor,
    ShaderModuleDescriptor, ShaderSource, ShaderStages,
};

#[derive(Default)]
pub struct Pipelines {
    pipelines: HashMap<Kernel, (ComputePipeline, BindGroupLayout)>,
    pub compile_ms: f64,
}

impl Pipelines {
    /// Compiles what is missing of `kernels`. All are handed to the device before the first is waited for, so it may compile
    /// them side by side. `progress(done, total)` counts pipelines.
    ///
    /// Errors: `backend` when the device refuses a shader.
    pub async fn compile(
        &mut self,
        gpu: &Gpu,
        kernels: impl Iterator<Item = &Kernel>,
        mut progress: impl FnMut(u64, u64),
    ) -> Result<()> {
        let start = now_ms();
        let mut results = Vec::new();
        for kernel in kernels {
            if !self.pipelines.contains_key(kernel) {
                let scopes = gpu.scopes();
                self.pipelines.insert(kernel.clone(), pipeline(gpu, kernel));
                results.push(scopes.end());
            }
        }
        let total = results.len() as u64;
        for (done, result) in (1..).zip(results) {
            result.await?;
            progress(done, total);
        }
        gpu.check()?;
        self.compile_ms += now_ms() - start;
        Ok(())
    }

    pub fn len(&self) -> usize {
        self.pipelines.len()
    }

    /// The step, ready to be dispatched. Its kernel has been compiled.
    pub fn bind(&self, gpu: &Gpu, params: &Buffer, step: Step) -> Dispatch {
        let Step { kernel, buffers } = step;
        let (pipeline, layout) = self.pipelines.get(&kernel).expect("compile has seen every kernel");
        let bindings = kernel.bindings();
        debug_assert_eq!(bindings.len(), buffers.len() + 1, "{kernel:?}");
        let entries: Vec<_> = bindings
            .iter()
            .zip(std::iter::once(params).chain(buffers))
            .map(|(&(binding, _), buffer)| BindGroupEntry { binding, resource: buffer.as_entire_binding() })
            .collect();
        let descriptor = BindGroupDescriptor { label: Some(kernel.name()), layout, entries: &entries };
        let bind_group = gpu.device.create_bind_group(&descriptor);
        Dispatch { pipeline: pipeline.clone(), bind_group, groups: Groups::of(&kernel), kernel }
    }
}

fn pipeline(gpu: &Gpu, kernel: &Kernel) -> (ComputePipeline, BindGroupLayout) {
    let label = Some(kernel.name());
    let entry = |&(binding, writes): &(u32, bool)| BindGroupLayoutEntry {
        binding,
        visibility: ShaderStages::COMPUTE,
        ty: BindingType::Buffer {
            ty: BufferBindingType::Storage { read_only: !writes },
            has_dynamic_offset: false,
            min_binding_size: None,
        },
        count: None,
    };
    let entries: Vec<_> = kernel.bindings().iter().map(entry).collect();
    let layout = gpu.device.create_bind_group_layout(&BindGroupLayoutDescriptor { label, entries: &entries });
    let pipeline_layout = gpu.device.create_pipeline_layout(&PipelineLayoutDescriptor {
        label,
        bind_group_layouts: &[Some(&layout)],
        immediate_size: 0,
    });
    let source = ShaderSource::Wgsl(kernel.wgsl().into());
    let module = gpu.device.create_shader_module(ShaderModuleDescriptor { label, source });
    let pipeline = gpu.device.create_compute_pipeline(&ComputePipelineDescriptor {
        label,
        layout: Some(&pipeline_layout),
        module: &module,
        entry_point: Some("main"),
        compilation_options: Default::default(),
        cache: None,
    });
    (pipeline, layout)
}
