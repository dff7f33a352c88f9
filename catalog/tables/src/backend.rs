//! Everything redb writes, encrypted sector by sector (DESIGN §5).
//!
//! redb sees a [`StorageBackend`] of plain bytes; below it each sector of 512 bytes is AES-256-XTS under two keys drawn from
//! the database key, with the sector's number (little-endian) as tweak:
//!
//! ```text
//! redb pages     | 0 .. 511 | 512 .. 1023 | ...          any offset, any length
//! catalog.redb   |   XTS 0  |    XTS 1    | ...          whole sectors only
//! ```
//!
//! Two properties of redb's crash safety are kept:
//!
//! * New space reads as zeros. After growth the file holds zero bytes, so a stored sector of zeros is read as zeros. That a
//!   real sector encrypts to 512 zero bytes happens with probability 2^-4096.
//! * A torn write costs no more than in plain redb. Inside a sector the 16-byte blocks are encrypted one by one, so the bytes
//!   that reached the disk are the new ones and all others are the old ones, as without encryption.
//!
//! XTS hides, it does not authenticate. The threat is a stolen, powered-off disk. Signatures inside the rows, and an AEAD tag on
//! rows that no signature covers ([`crate::store`]), notice changed contents. Locking the home is the node's job, so no file
//! lock is passed on.

pub(crate) mod salt;

#[cfg(test)]
pub(crate) mod crash;
#[cfg(test)]
mod tests;

use std::{
    fmt, io,
    sync::{Mutex, PoisonError},
};

use aes::{Aes256, cipher::KeyInit as _};
use redb::StorageBackend;
use xts_mode::{Xts128, get_tweak_default};

use self::salt::XtsKeys;

/// Unit of encryption. Small enough that the disk writes it at once, so that a torn page is torn between sectors.
pub(crate) const SECTOR: usize = 512;
/// Scratch space kept between writes; a longer write gives its surplus back.
const SCRATCH_KEPT: usize = 1 << 20;

/// A storage that encrypts on the way to `inner`.
pub(crate) struct XtsBackend<B> {
    inner: B,
    cipher: Xts128<Aes256>,
    /// Holds one write's sectors. The lock also makes read-modify-write of a shared sector one step.
    scratch: Mutex<Vec<u8>>,
}

impl<B> XtsBackend<B> {
    /// Wraps `inner`.
    pub(crate) fn new(inner: B, keys: &XtsKeys) -> Self {
        let cipher = Xts128::new(Aes256::new((&*keys.data).into()), Aes256::new((&*keys.tweak).into()));
        Self {
            inner,
            cipher,
            scratch: Mutex::new(Vec::new()),
        }
    }

    fn decrypt(&self, sectors: &mut [u8], first: u64) {
        for (sector, number) in sectors.chunks_exact_mut(SECTOR).zip(first..) {
            if sector.iter().any(|byte| *byte != 0) {
                self.cipher.decrypt_sector(sector, get_tweak_default(number.into()));
            }
        }
    }
}

impl<B> fmt::Debug for XtsBackend<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("XtsBackend(..)")
    }
}

/// The whole sectors that cover `length` bytes from `offset`.
struct Cover {
    start: u64,
    end: u64,
    /// Where the wanted bytes begin inside the cover.
    head: usize,
}

impl Cover {
    fn of(offset: u64, length: usize) -> io::Result<Self> {
        let sector = SECTOR as u64;
        let start = offset - offset % sector;
        let end = offset
            .checked_add(length as u64)
            .and_then(|end| end.checked_next_multiple_of(sector))
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "offset beyond the largest file"))?;
        Ok(Self {
            start,
            end,
            head: (offset - start) as usize,
        })
    }

    fn len(&self) -> usize {
        (self.end - self.start) as usize
    }

    fn first_sector(&self) -> u64 {
        self.start / SECTOR as u64
    }
}

impl<B: StorageBackend> StorageBackend for XtsBackend<B> {
    fn len(&self) -> io::Result<u64> {
        self.inner.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        if out.is_empty() {
            return Ok(());
        }
        let cover = Cover::of(offset, out.len())?;
        if cover.head == 0 && cover.len() == out.len() {
            self.inner.read(offset, out)?;
            self.decrypt(out, cover.first_sector());
            return Ok(());
        }
        let mut sectors = vec![0; cover.len()];
        self.inner.read(cover.start, &mut sectors)?;
        self.decrypt(&mut sectors, cover.first_sector());
        out.copy_from_slice(&sectors[cover.head..cover.head + out.len()]);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        if !len.is_multiple_of(SECTOR as u64) {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "length is not a whole number of sectors",
            ));
        }
        self.inner.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.inner.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        if data.is_empty() {
            return Ok(());
        }
        let cover = Cover::of(offset, data.len())?;
        // A panic while it was held leaves only ciphertext or bytes about to be overwritten.
        let mut scratch = self.scratch.lock().unwrap_or_else(PoisonError::into_inner);
        scratch.resize(cover.len(), 0);
        let tail = cover.head + data.len();
        let last = cover.len() - SECTOR;
        if cover.head != 0 {
            self.inner.read(cover.start, &mut scratch[..SECTOR])?;
            self.decrypt(&mut scratch[..SECTOR], cover.first_sector());
        }
        if tail != cover.len() && (last != 0 || cover.head == 0) {
            self.inner.read(cover.end - SECTOR as u64, &mut scratch[last..])?;
            self.decrypt(&mut scratch[last..], cover.end / SECTOR as u64 - 1);
        }
        scratch[cover.head..tail].copy_from_slice(data);
        self.cipher
            .encrypt_area(&mut scratch, SECTOR, cover.first_sector().into(), get_tweak_default);
        let written = self.inner.write(cover.start, &scratch);
        scratch.clear();
        scratch.shrink_to(SCRATCH_KEPT);
        written
    }

    fn close(&self) -> io::Result<()> {
        self.inner.close()
    }
}
