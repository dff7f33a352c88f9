//! Entry points for fuzzing: arbitrary bytes in, no panic, no large allocation (SOP-90).
//!
//! Behind the AEAD a fuzzer would never get past the first tag, so two of the entries encrypt their input themselves. What
//! is accepted must also keep its promises; the entries assert them, since a fuzzer sees nothing but a panic.

use super::{
    Claims, DecodeOptions, Encoded, Footer, NonceSource, OpenError, PageInfo,
    footer::{self, CryptoMetadata},
    module::{self, ModuleKey},
    page,
};
use crate::{
    id::{KeyRef, StorageId},
    secret::Dek,
    verified::MemoryObject,
};

/// The key all entries use.
const KEY: [u8; 32] = [0x5a; 32];

/// `bytes` as a whole object, as a peer with write access could place it.
pub fn object(bytes: &[u8]) {
    let id = StorageId::from_bytes(*blake3::hash(bytes).as_bytes());
    let Ok(object) = MemoryObject::verify(id, bytes.to_vec()) else {
        return;
    };
    if let Ok(footer) = Footer::open_whole(&object, &Dek::from_bytes(KEY)) {
        read_all(&footer, &object);
    }
}

/// `bytes` as a decrypted footer in an object of `size` bytes, as a hostile producer could seal it.
pub fn footer(bytes: &[u8], size: u64) {
    if let Ok((stripped, _)) = footer::strip(bytes) {
        let again = footer::strip(&stripped).map(|(again, _)| again);
        assert_eq!(
            again.ok(),
            Some(stripped),
            "a stripped footer has nothing left to strip"
        );
    }
    if let Ok(footer) = from_plain(bytes, size) {
        let _ = footer.audit(&Claims::default());
        let all: Vec<usize> = (0..footer.row_groups()).collect();
        if let Ok(plan) = footer.plan(&all, &footer.project_all()) {
            assert!(
                plan.len() <= size,
                "what is fetched stands in the object, each byte once"
            );
            assert!(plan.ranges().iter().all(|range| range.end <= size));
        }
    }
}

/// `bytes` as a page header with its page behind it: the header's length and what it says.
pub fn page_header(bytes: &[u8]) -> Option<(usize, PageInfo)> {
    let header = page::parse(bytes).ok()?;
    let alone = page::parse(&bytes[..header.len]).expect("the bytes behind a header are not its own");
    assert_eq!((alone.len, alone.info), (header.len, header.info));
    Some((header.len, header.info))
}

/// `bytes` as the clear FileCryptoMetaData with the footer module behind it: its length.
pub fn crypto_metadata(bytes: &[u8]) -> Option<usize> {
    let (_, len) = footer::crypto_metadata(bytes).ok()?;
    assert!(
        footer::crypto_metadata(&bytes[..len]).is_ok(),
        "the bytes behind it are not its own"
    );
    Some(len)
}

/// `bytes` as a plain Parquet file: encrypted as a hostile producer could, then read. Reaches the page decoders.
pub fn parquet(bytes: &[u8]) {
    let mut nonces = CountingNonces::default();
    let encoded = Encoded {
        bytes: bytes.to_vec(),
        rows: 0,
    };
    let Ok(encrypted) = encoded.encrypt(&Dek::from_bytes(KEY), &mut nonces) else {
        return;
    };
    let Ok(padded) = encrypted.with_key_ref(KeyRef::from_bytes([0; 16])).pad() else {
        return;
    };
    if let Ok(sealed) = padded.seal() {
        object(&sealed.bytes);
    }
}

/// `bytes` cut at `cuts` into page headers and bodies by turns, sealed, with `footer` behind them.
pub fn pages(bytes: &[u8], cuts: &[usize], footer: &[u8]) {
    let cipher = ModuleKey::new(&Dek::from_bytes(KEY)).cipher();
    let mut nonces = CountingNonces::default();
    let mut out = super::MAGIC.to_vec();
    let mut rest = bytes;
    for cut in cuts {
        let (module, after) = rest.split_at((*cut).min(rest.len()));
        rest = after;
        if module::seal(&cipher, nonces.next_nonce(), module, &mut out).is_err() {
            return;
        }
    }
    let footer_from = out.len();
    out.extend_from_slice(&super::key_ref::crypto_metadata(&KeyRef::from_bytes([0; 16])));
    if module::seal(&cipher, nonces.next_nonce(), footer, &mut out).is_err() {
        return;
    }
    let footer_len = (out.len() - footer_from) as u32;
    out.extend_from_slice(&footer_len.to_le_bytes());
    out.extend_from_slice(&super::MAGIC);
    object(&out);
}

fn from_plain(bytes: &[u8], size: u64) -> Result<Footer, OpenError> {
    let id = StorageId::from_bytes([0; 32]);
    let key = ModuleKey::new(&Dek::from_bytes(KEY));
    Footer::from_plain(id, size, size, bytes, CryptoMetadata::default(), key)
}

fn read_all(footer: &Footer, object: &MemoryObject) {
    let _ = footer.audit(&Claims::default());
    for row_group in 0..footer.row_groups() {
        let Ok(plan) = footer.plan(&[row_group], &footer.project_all()) else {
            return;
        };
        let chunks = plan
            .ranges()
            .iter()
            .filter_map(|range| object.whole().part(range.clone()))
            .collect();
        if let Ok(batches) = footer.decode(&plan, chunks, DecodeOptions::default()) {
            // A run-length page can hold two billion nulls; a few batches are enough.
            batches.take(64).for_each(drop);
        }
    }
}

/// Nonces that count: for fuzzing and golden tests only, since they repeat between objects.
#[derive(Debug, Default)]
pub(super) struct CountingNonces(u64);

impl NonceSource for CountingNonces {
    fn next_nonce(&mut self) -> [u8; 12] {
        self.0 += 1;
        let mut nonce = [0; 12];
        nonce[4..].copy_from_slice(&self.0.to_be_bytes());
        nonce
    }
}
