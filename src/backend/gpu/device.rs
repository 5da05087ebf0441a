//! The GPU itself: adapter, device, and the one state that says that something went wrong with it.
//!
//! Invariant: knows nothing of models.

use crate::error::{Error, Result};
use crate::protocol::GpuDiagnostics;
use futures_channel::oneshot;
use std::sync::{Arc, OnceLock};
use wgpu::{
    Adapter, Buffer, Device, DeviceDescriptor, DeviceLostReason, DeviceType, ErrorFilter, ErrorScopeGuard, Features,
    Instance, InstanceDescriptor, MapMode, PowerPreference, Queue, RequestAdapterOptions,
};

/// Used where the adapter has them; nothing depends on them.
const OPTIONAL_FEATURES: Features = Features::TIMESTAMP_QUERY;

/// Between our sentence and what the browser said, which may be long.
pub const SAYS: &str = " The browser says: ";

/// An opened device.
pub struct Gpu {
    pub device: Device,
    pub queue: Queue,
    /// As a person may know it.
    pub adapter: String,
    /// A CPU that plays a GPU: right, but slower than the CPU engine.
    pub is_software: bool,
    /// Bytes that one binding holds at most.
    pub largest_binding: u64,
    /// The first thing that went wrong outside an error scope.
    failure: Arc<OnceLock<Error>>,
}

/// Frees what the browser would keep until its garbage collector comes by.
impl Drop for Gpu {
    fn drop(&mut self) {
        self.device.destroy();
    }
}

impl Gpu {
    /// Opens the fastest adapter there is, with limits as large as it offers.
    ///
    /// Errors: `backend`, with the reason, when there is no adapter or it gives no device.
    pub async fn open() -> Result<Self> {
        #[cfg(target_arch = "wasm32")]
        admit_internal_errors();
        let instance = Instance::new(InstanceDescriptor::new_without_display_handle());
        let options =
            RequestAdapterOptions { power_preference: PowerPreference::HighPerformance, ..Default::default() };
        let adapter = instance
            .request_adapter(&options)
            .await
            .map_err(|error| Error::Backend(format!("There is no WebGPU adapter here.{SAYS}{error}")))?;
        let (device, queue) = adapter
            .request_device(&DeviceDescriptor {
                label: Some("nucleus"),
                required_features: adapter.features() & OPTIONAL_FEATURES,
                required_limits: adapter.limits(),
                ..Default::default()
            })
            .await
            .map_err(|error| Error::Backend(format!("The WebGPU adapter gives no device.{SAYS}{error}")))?;
        let failure = watch(&device);
        let is_software = adapter.get_info().device_type == DeviceType::Cpu;
        let limits = device.limits();
        let largest_binding = limits.max_storage_buffer_binding_size.min(limits.max_buffer_size);
        Ok(Self { adapter: describe(&adapter, &device), device, queue, is_software, largest_binding, failure })
    }

    /// What can be said of the device alone.
    pub fn diagnostics(&self) -> GpuDiagnostics {
        let limits = self.device.limits();
        let limits = [
            ("maxBufferSize", limits.max_buffer_size),
            ("maxStorageBufferBindingSize", limits.max_storage_buffer_binding_size),
            ("maxStorageBuffersPerShaderStage", limits.max_storage_buffers_per_shader_stage.into()),
            ("maxComputeWorkgroupStorageSize", limits.max_compute_workgroup_storage_size.into()),
            ("maxComputeInvocationsPerWorkgroup", limits.max_compute_invocations_per_workgroup.into()),
            ("maxComputeWorkgroupsPerDimension", limits.max_compute_workgroups_per_dimension.into()),
        ];
        GpuDiagnostics {
            adapter: self.adapter.clone(),
            software: self.is_software,
            features: self
                .device
                .features()
                .iter_names()
                .map(|(name, _)| name.to_lowercase().replace('_', "-"))
                .collect(),
            limits: limits.map(|(name, value)| (name.into(), value)).into(),
            buffer_bytes: 0,
            pipelines: 0,
            compile_ms: 0.0,
            dispatches_per_token: 0,
            self_test: None,
            failure: None,
        }
    }

    /// What went wrong with the device, if anything did: it can then not be used any more.
    pub fn failure(&self) -> Option<&Error> {
        self.failure.get()
    }

    /// Fails once the device has.
    pub fn check(&self) -> Result<()> {
        self.failure().map_or(Ok(()), |error| Err(error.clone()))
    }

    /// Catches what goes wrong with the device until [`Scopes::end`].
    pub fn scopes(&self) -> Scopes {
        let scope = |filter| self.device.push_error_scope(filter);
        Scopes {
            // Popped in the opposite order.
            internal: scope(ErrorFilter::Internal),
            validation: scope(ErrorFilter::Validation),
            memory: scope(ErrorFilter::OutOfMemory),
        }
    }

    /// Waits until all that was submitted is done.
    pub async fn finish(&self) -> Result<()> {
        let (sender, receiver) = oneshot::channel();
        self.queue.on_submitted_work_done(move || drop(sender.send(Ok(()))));
        self.wait(receiver).await
    }

    /// Maps a whole buffer, lets `take` read it, and unmaps it again.
    pub async fn read<T>(&self, buffer: &Buffer, take: impl FnOnce(&[u8]) -> T) -> Result<T> {
        let (sender, receiver) = oneshot::channel();
        // The receiver is gone when the run was dropped.
        buffer.map_async(MapMode::Read, .., move |result| drop(sender.send(result)));
        self.wait(receiver).await?;
        let fail = |error| self.fail(format!("The GPU did not give its results back ({error})."));
        let view = buffer.get_mapped_range(..).map_err(fail)?;
        let taken = take(&view);
        drop(view);
        buffer.unmap();
        Ok(taken)
    }

    /// Waits for something that the device will send.
    async fn wait(&self, receiver: oneshot::Receiver<Result<(), wgpu::BufferAsyncError>>) -> Result<()> {
        // In the browser this does nothing, and the event loop brings the answer.
        let polled = self.device.poll(wgpu::PollType::wait_indefinitely());
        let answer = receiver.await;
        self.check()?;
        match (polled, answer) {
            (Ok(_), Ok(Ok(()))) => Ok(()),
            (Err(error), _) => Err(self.fail(format!("The GPU did not finish its work ({error})."))),
            // The browser may say so before it says that the device is lost.
            (_, Ok(Err(_)) | Err(_)) => Err(self.fail("The GPU did not give its results back.".into())),
        }
    }

    /// From here on the device counts as lost. Returns the first failure, from which this one may follow.
    pub fn fail(&self, sentence: String) -> Error {
        self.failure.get_or_init(|| Error::DeviceLost(sentence)).clone()
    }
}

/// Error scopes around some work with a device.
#[must_use = "what is caught must be looked at"]
pub struct Scopes {
    internal: ErrorScopeGuard,
    validation: ErrorScopeGuard,
    memory: ErrorScopeGuard,
}

impl Scopes {
    /// Ends the scopes at once; the future says what was caught.
    ///
    /// Errors: `too-large` when the device has no memory left, `backend` for anything else.
    pub fn end(self) -> impl Future<Output = Result<()>> {
        let (memory, validation, internal) = (self.memory.pop(), self.validation.pop(), self.internal.pop());
        async move {
            let (memory, validation, internal) = (memory.await, validation.await, internal.await);
            if let Some(error) = memory {
                return Err(Error::TooLarge(format!("The GPU has no memory left for this model ({error}).")));
            }
            match validation.or(internal) {
                Some(error) => Err(Error::Backend(format!("The GPU refused a part of the work ({error})."))),
                None => Ok(()),
            }
        }
    }
}

/// Lost devices and errors outside any scope end up in one place.
fn watch(device: &Device) -> Arc<OnceLock<Error>> {
    let failure = Arc::new(OnceLock::new());
    let of_loss = failure.clone();
    device.set_device_lost_callback(move |reason, message| {
        let why = match reason {
            DeviceLostReason::Destroyed => "it was destroyed",
            _ => "the browser or the driver gave it up",
        };
        // Only the first failure counts: others follow from it.
        let _ = of_loss.set(Error::DeviceLost(format!("The GPU was lost: {why} ({message}).")));
    });
    let uncaptured = failure.clone();
    device.on_uncaptured_error(Arc::new(move |error: wgpu::Error| {
        let _ = uncaptured.set(Error::DeviceLost(format!("The GPU reported an error ({error}).")));
    }));
    failure
}

/// wgpu 30 panics on a `GPUInternalError`, the kind that drivers cause, wherever it hears of one. With this they are
/// `GPUValidationError`s to it, and so reasons like others.
#[cfg(target_arch = "wasm32")]
fn admit_internal_errors() {
    use js_sys::{Object, Reflect};
    use wasm_bindgen::JsCast;
    let prototype = |class: &str| {
        let class = Reflect::get(&js_sys::global(), &class.into()).ok()?;
        Reflect::get(&class, &"prototype".into()).ok()?.dyn_into::<Object>().ok()
    };
    if let (Some(internal), Some(validation)) = (prototype("GPUInternalError"), prototype("GPUValidationError")) {
        Object::set_prototype_of(&internal, &validation);
    }
}

/// The browser's words for its adapter, such as "intel gen-12lp"; it gives more only where the user allows it.
#[cfg(target_arch = "wasm32")]
fn describe(_: &Adapter, device: &Device) -> String {
    use js_sys::Reflect;
    use wasm_bindgen::JsValue;
    let info =
        device.as_webgpu().and_then(|device| Reflect::get(device, &"adapterInfo".into()).ok()).unwrap_or_default();
    let word = |key: &str| Reflect::get(&info, &key.into()).ok().as_ref().and_then(JsValue::as_string);
    let words: Vec<String> = ["vendor", "architecture", "device", "description"]
        .into_iter()
        .filter_map(word)
        .filter(|word| !word.is_empty())
        .collect();
    if words.is_empty() { "a GPU without a name".into() } else { words.join(" ") }
}

#[cfg(not(target_arch = "wasm32"))]
fn describe(adapter: &Adapter, _: &Device) -> String {
    let info = adapter.get_info();
    if info.driver_info.is_empty() { info.name } else { format!("{}, {}", info.name, info.driver_info) }
}
