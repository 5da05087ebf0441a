//! A place for each tensor of a plan, filled as the file comes.
//!
//! Invariant: a byte is written once, to where it stays; what the plan does not name is passed over.

use crate::backend::cpu::CpuBackend;
use crate::error::{Error, Result, quoted};
use crate::model::{Plan, TensorId};

pub struct Rooms {
    /// In the order of the file.
    rooms: Vec<Room>,
    /// Tensor -> place in `rooms`.
    places: Vec<usize>,
    /// Rooms before this one are full, or have been emptied again.
    next: usize,
}

struct Room {
    name: String,
    /// First byte in the file.
    start: u64,
    n_bytes: usize,
    bytes: Vec<u8>,
}

impl Rooms {
    /// Reserves memory for all tensors whose bytes stay; for the others, as they come.
    ///
    /// Errors: `too-large` when it is not to be had.
    pub fn new(plan: &Plan) -> Result<Self> {
        let mut order: Vec<TensorId> = (0..plan.tensors.len()).collect();
        order.sort_by_key(|&id| plan.tensors[id].bytes.start);
        let mut places = vec![0; order.len()];
        let mut rooms = Vec::with_capacity(order.len());
        for id in order {
            let tensor = &plan.tensors[id];
            let (start, n_bytes) = (tensor.bytes.start as u64, tensor.bytes.len());
            let mut room = Room { name: tensor.name.clone(), start, n_bytes, bytes: Vec::new() };
            if CpuBackend::keeps_bytes(plan, id) {
                room.reserve()?;
            }
            places[id] = rooms.len();
            rooms.push(room);
        }
        Ok(Self { rooms, places, next: 0 })
    }

    /// The next bytes, which begin at byte `at` of the file. Errors: `too-large`.
    pub fn take(&mut self, at: u64, bytes: &[u8]) -> Result<()> {
        let end = at + bytes.len() as u64;
        while let Some(room) = self.rooms.get_mut(self.next) {
            let next = room.start + room.bytes.len() as u64;
            debug_assert!(next >= at, "bytes come in order");
            if next >= end {
                break;
            }
            if room.bytes.capacity() == 0 {
                room.reserve()?;
            }
            let from = (next - at) as usize;
            let n = (bytes.len() - from).min(room.n_bytes - room.bytes.len());
            room.bytes.extend_from_slice(&bytes[from..from + n]);
            if room.bytes.len() == room.n_bytes {
                self.next += 1;
            }
        }
        Ok(())
    }

    /// The bytes of these tensors, once all of them are there. Each is given away once.
    pub fn hand_over(&mut self, ids: &[TensorId]) -> Option<Vec<Vec<u8>>> {
        let is_full = ids.iter().all(|&id| self.places[id] < self.next);
        is_full.then(|| ids.iter().map(|&id| std::mem::take(&mut self.rooms[self.places[id]].bytes)).collect())
    }

    /// The file has ended after `n_bytes`. Errors: `truncated` when a tensor is not complete.
    pub fn end(&self, n_bytes: u64) -> Result<()> {
        match self.rooms.get(self.next) {
            None => Ok(()),
            Some(Room { name, start, n_bytes: size, .. }) => Err(Error::Truncated(format!(
                "The file ends inside the tensor {}: found {n_bytes} bytes, expected at least {}.",
                quoted(name),
                start + *size as u64
            ))),
        }
    }
}

impl Room {
    fn reserve(&mut self) -> Result<()> {
        self.bytes.try_reserve_exact(self.n_bytes).map_err(|_| {
            Error::TooLarge(format!("There is no memory left for {}, {} bytes.", quoted(&self.name), self.n_bytes))
        })
    }
}
