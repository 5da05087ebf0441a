//! Writing a file for the next visit, while its bytes arrive.
//!
//! Both files of an entry stay open for as long as it is written, so that two tabs cannot write it at once. The record is what
//! counts: it is empty until bytes are safely there, then names them and their hash, and says at last that they are all.
//!
//! Invariant: a crash at any moment leaves an entry that is whole, or one that is known to be partial, or none.

use super::connection::pause;
use crate::kept::{Folder, Record, data_name, key, record_name, without_fragment};
use js_sys::{Date, Uint8Array};
use wasm_bindgen::{JsCast, JsValue};
use wasm_bindgen_futures::JsFuture;
use web_sys::{AbortSignal, FileSystemReadWriteOptions, FileSystemSyncAccessHandle};

/// A page that was reloaded while it stored a file lets go of it a moment later.
const N_TRIES: u32 = 3;
const TRY_EVERY_MS: u32 = 200;

/// An entry that is open for writing.
pub struct Entry {
    folder: Folder,
    key: String,
    url: String,
    data: FileSystemSyncAccessHandle,
    record: FileSystemSyncAccessHandle,
}

impl Entry {
    /// None when another tab writes this entry, or this browser cannot write while bytes arrive.
    pub async fn open(folder: Folder, url: &str, stop: &AbortSignal) -> Option<Self> {
        folder.sweep().await;
        let key = key(url);
        let mut data = open_file(&folder, &data_name(&key)).await;
        for _ in 0..N_TRIES {
            if data.is_none() {
                pause(TRY_EVERY_MS, stop).await;
                data = open_file(&folder, &data_name(&key)).await;
            }
        }
        let data = data?;
        let Some(record) = open_file(&folder, &record_name(&key)).await else {
            data.close();
            return None;
        };
        Some(Self { folder, key, url: without_fragment(url).to_owned(), data, record })
    }

    /// What an earlier load left of this file, if its rest can be asked for.
    pub fn partial(&self) -> Option<Record> {
        let n_bytes = self.record.get_size().ok()? as u32;
        let bytes = Uint8Array::new_with_length(n_bytes);
        self.record.read_with_js_u8_array_and_options(&bytes, &at(0)).ok()?;
        let record = Record::from_bytes(&bytes.to_vec())?;
        let is_there = self.data.get_size().ok()? >= record.bytes as f64 && record.bytes > 0;
        (record.url == self.url && !record.is_complete && record.version.is_some() && is_there).then_some(record)
    }

    /// Forgets what is there.
    pub fn restart(&self) -> Result<(), JsValue> {
        self.record.truncate_with_u32(0)?;
        self.record.flush()?;
        self.data.truncate_with_u32(0)
    }

    pub fn write(&self, position: u64, bytes: &Uint8Array) -> Result<(), JsValue> {
        write_all(&self.data, position, bytes)
    }

    pub fn read(&self, position: u64, n_bytes: u32) -> Result<Uint8Array, JsValue> {
        let bytes = Uint8Array::new_with_length(n_bytes);
        let n_read = self.data.read_with_js_u8_array_and_options(&bytes, &at(position))?;
        Ok(bytes.subarray(0, n_read as u32))
    }

    /// Notes what the bytes written so far are worth: `record`, of which the address and the date are filled in here.
    pub fn note(&self, record: Record) -> Result<(), JsValue> {
        let record = Record { url: self.url.clone(), saved_at: Date::now(), ..record };
        self.data.truncate_with_f64(record.bytes as f64)?;
        self.data.flush()?;
        let bytes = Uint8Array::from(record.to_bytes().as_slice());
        self.record.truncate_with_u32(0)?;
        write_all(&self.record, 0, &bytes)?;
        self.record.flush()
    }

    /// Deletes the entry.
    pub async fn discard(mut self) {
        self.close();
        self.folder.remove(&self.key).await;
    }

    fn close(&mut self) {
        self.data.close();
        self.record.close();
    }
}

impl Drop for Entry {
    /// Closing twice does nothing.
    fn drop(&mut self) {
        self.close();
    }
}

async fn open_file(folder: &Folder, name: &str) -> Option<FileSystemSyncAccessHandle> {
    let file = folder.create(name).await?;
    let can_open = js_sys::Reflect::has(&file, &"createSyncAccessHandle".into()).unwrap_or(false);
    let handle = if can_open { JsFuture::from(file.create_sync_access_handle()).await.ok() } else { None };
    handle.map(JsCast::unchecked_into)
}

/// A file system may take fewer bytes than it was given: that is an error as well.
fn write_all(file: &FileSystemSyncAccessHandle, position: u64, bytes: &Uint8Array) -> Result<(), JsValue> {
    let n_written = file.write_with_js_u8_array_and_options(bytes, &at(position))?;
    if n_written == f64::from(bytes.length()) { Ok(()) } else { Err(JsValue::NULL) }
}

fn at(position: u64) -> FileSystemReadWriteOptions {
    let options = FileSystemReadWriteOptions::new();
    options.set_at(position as f64);
    options
}
