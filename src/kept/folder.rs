//! The folder of kept files, as page and engine both reach it.
//!
//! Invariant: a browser without a private file system, or one that refuses it, gives no folder; nothing here throws.

use super::{FOLDER, Record, data_name, record_name};
use js_sys::{AsyncIterator, Promise, Reflect, Uint8Array};
use wasm_bindgen::{JsCast, JsValue};
use wasm_bindgen_futures::JsFuture;
use web_sys::{
    File, FileSystemDirectoryHandle, FileSystemFileHandle, FileSystemGetDirectoryOptions, FileSystemGetFileOptions,
    StorageManager,
};

pub struct Folder {
    handle: FileSystemDirectoryHandle,
}

impl Folder {
    /// The folder, made if need be; none where the browser has no place for it (an insecure or a private page, an old browser).
    pub async fn open() -> Option<Self> {
        let storage = storage()?;
        let root: FileSystemDirectoryHandle = settled(call(&storage, "getDirectory")?).await?.unchecked_into();
        let options = FileSystemGetDirectoryOptions::new();
        options.set_create(true);
        let handle = settled(root.get_directory_handle_with_options(FOLDER, &options)).await?;
        Some(Self { handle: handle.unchecked_into() })
    }

    /// All records that can be read, the newest first.
    pub async fn list(&self) -> Vec<Record> {
        let mut records = Vec::new();
        for name in self.names().await {
            if let Some(key) = name.strip_suffix(".record")
                && let Some(record) = self.record(key).await
            {
                records.push(record);
            }
        }
        records.sort_by(|a, b| b.saved_at.total_cmp(&a.saved_at));
        records
    }

    pub async fn record(&self, key: &str) -> Option<Record> {
        let file = self.file(&record_name(key)).await?;
        let buffer = settled(file.array_buffer()).await?;
        Record::from_bytes(&Uint8Array::new(&buffer).to_vec())
    }

    /// The bytes kept under `key`, as they are now.
    pub async fn data(&self, key: &str) -> Option<File> {
        self.file(&data_name(key)).await
    }

    /// Deletes a file. False when some of it is still there: it is open for writing, here or in another tab.
    pub async fn remove(&self, key: &str) -> bool {
        // The record goes first: without it the bytes count for nothing.
        self.remove_entry(&record_name(key)).await && self.remove_entry(&data_name(key)).await
    }

    /// Deletes what no record speaks for: a tab that was closed at the wrong moment leaves such files.
    pub async fn sweep(&self) {
        for name in self.names().await {
            let key = name.split('.').next().unwrap_or_default();
            if self.record(key).await.is_none() {
                // What is being written just now stays: it is locked.
                self.remove_entry(&name).await;
            }
        }
    }

    /// A file to write to, made if need be.
    pub async fn create(&self, name: &str) -> Option<FileSystemFileHandle> {
        let options = FileSystemGetFileOptions::new();
        options.set_create(true);
        settled(self.handle.get_file_handle_with_options(name, &options)).await.map(JsCast::unchecked_into)
    }

    async fn file(&self, name: &str) -> Option<File> {
        let handle: FileSystemFileHandle = settled(self.handle.get_file_handle(name)).await?.unchecked_into();
        settled(handle.get_file()).await.map(JsCast::unchecked_into)
    }

    async fn remove_entry(&self, name: &str) -> bool {
        match JsFuture::from(self.handle.remove_entry(name)).await {
            Ok(_) => true,
            Err(error) => error_name(&error) == "NotFoundError",
        }
    }

    async fn names(&self) -> Vec<String> {
        let keys: AsyncIterator = self.handle.keys();
        let mut names = Vec::new();
        while let Ok(next) = keys.next() {
            let Some(next) = settled(next).await else { break };
            let Some(name) = Reflect::get(&next, &"value".into()).ok().and_then(|name| name.as_string()) else { break };
            names.push(name);
        }
        names
    }
}

/// `navigator.storage`, which insecure pages lack.
pub fn storage() -> Option<StorageManager> {
    let navigator = Reflect::get(&js_sys::global(), &"navigator".into()).ok()?;
    let storage = Reflect::get(&navigator, &"storage".into()).ok()?;
    storage.is_object().then(|| storage.unchecked_into())
}

/// The name of a DOMException, such as `QuotaExceededError`.
pub fn error_name(error: &JsValue) -> String {
    Reflect::get(error, &"name".into()).ok().and_then(|name| name.as_string()).unwrap_or_default()
}

/// Calls a method that may be missing, and that returns a promise.
fn call(object: &JsValue, method: &str) -> Option<Promise> {
    let method: js_sys::Function = Reflect::get(object, &method.into()).ok()?.dyn_into().ok()?;
    method.call0(object).ok()?.dyn_into().ok()
}

/// What a promise gives; none when it is rejected.
async fn settled(promise: Promise) -> Option<JsValue> {
    JsFuture::from(promise).await.ok()
}
