//! A storage that forgets what was not synced, in the style of redb's own crash tests.
//!
//! Each write since the last sync is kept apart. [`CrashDisk::after_crash`] gives the file as a power cut may leave it: the
//! synced bytes, plus any subset of the later writes, one of them possibly cut at a 16-byte step.

use std::{
    io,
    sync::{Arc, Mutex},
};

use redb::StorageBackend;

#[derive(Clone, Debug)]
enum Change {
    Length(usize),
    Bytes(usize, Vec<u8>),
}

#[derive(Debug, Default)]
struct State {
    live: Vec<u8>,
    durable: Vec<u8>,
    pending: Vec<Change>,
    /// Writes and syncs done so far.
    steps: u64,
    /// From this step on nothing reaches the disk and every call fails, as when power is lost.
    dies_at: Option<u64>,
    /// Writes that need space fail, as on a full disk.
    full: bool,
}

impl State {
    fn step(&mut self) -> io::Result<()> {
        if self.dies_at.is_some_and(|at| self.steps >= at) {
            return Err(io::Error::other("power lost"));
        }
        self.steps += 1;
        if self.full {
            Err(io::ErrorKind::StorageFull.into())
        } else {
            Ok(())
        }
    }
}

/// A disk in memory that can lose power.
#[derive(Clone, Debug, Default)]
pub(crate) struct CrashDisk(Arc<Mutex<State>>);

impl CrashDisk {
    /// A disk that holds `image` durably.
    pub(crate) fn with_image(image: Vec<u8>) -> Self {
        Self(Arc::new(Mutex::new(State {
            live: image.clone(),
            durable: image,
            ..State::default()
        })))
    }

    /// Writes and syncs done so far.
    pub(crate) fn steps(&self) -> u64 {
        self.0.lock().unwrap().steps
    }

    /// Power goes at step `at`.
    pub(crate) fn die_at(&self, at: u64) {
        self.0.lock().unwrap().dies_at = Some(at);
    }

    /// Fills the disk, or frees it.
    pub(crate) fn set_full(&self, full: bool) {
        self.0.lock().unwrap().full = full;
    }

    /// All bytes as they stand now.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.0.lock().unwrap().live.clone()
    }

    /// The disk after the power cut. `seed` chooses which unsynced writes got through, and where the last one was cut.
    pub(crate) fn after_crash(&self, seed: u64) -> Self {
        let state = self.0.lock().unwrap();
        let mut image = state.durable.clone();
        let mut random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut next = || {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random
        };
        for change in &state.pending {
            match change {
                // A file system may write a length without the data; redb syncs growth, shrinking may come early.
                Change::Length(length) => image.resize(*length, 0),
                Change::Bytes(offset, bytes) => {
                    let kept = match next() % 4 {
                        0 => 0,
                        1 => (next() as usize % (bytes.len() / 16 + 1)) * 16,
                        _ => bytes.len(),
                    };
                    let end = (offset + kept).min(image.len());
                    if *offset < end {
                        image[*offset..end].copy_from_slice(&bytes[..end - offset]);
                    }
                }
            }
        }
        Self::with_image(image)
    }
}

impl StorageBackend for CrashDisk {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.lock().unwrap().live.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let state = self.0.lock().unwrap();
        let offset = offset as usize;
        let source = state.live.get(offset..offset + out.len());
        out.copy_from_slice(source.ok_or_else(|| io::Error::from(io::ErrorKind::UnexpectedEof))?);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut state = self.0.lock().unwrap();
        state.step()?;
        state.live.resize(len as usize, 0);
        state.pending.push(Change::Length(len as usize));
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut state = self.0.lock().unwrap();
        state.step()?;
        state.durable = state.live.clone();
        state.pending.clear();
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut state = self.0.lock().unwrap();
        state.step()?;
        let offset = offset as usize;
        let target = state.live.get_mut(offset..offset + data.len());
        target
            .ok_or_else(|| io::Error::from(io::ErrorKind::UnexpectedEof))?
            .copy_from_slice(data);
        state.pending.push(Change::Bytes(offset, data.to_vec()));
        Ok(())
    }
}
