//! What an object does against its profile without becoming unreadable (SOP-43, SOP-44, SOP-74, SOP-75).
//!
//! Findings speak against the producer. None of them stops a read: content addressing holds all the same.

use super::{Footer, PageInfo, PageKind};
use crate::{id::KeyRef, padme::padme};

/// What the signed manifest says about the object.
#[derive(Clone, Copy, Debug, Default)]
pub struct Claims {
    /// key_ref of the manifest.
    pub key_ref: Option<KeyRef>,
    /// Unpadded length of the manifest.
    pub exact_byte_size: Option<u64>,
}

/// One breach of SOP-PME-1.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Finding {
    /// No pad entry (SOP-63).
    #[error("the footer has no pad entry")]
    NoPadEntry,
    /// More than one pad entry.
    #[error("the footer has {0} pad entries")]
    SeveralPadEntries(usize),
    /// The key has something other than hyphens behind its name (SOP-64).
    #[error("the pad entry's key is not the reserved one")]
    PadKey,
    /// The pad value is not all zeros (SOP-61).
    #[error("the pad entry holds something other than zeros")]
    PadValue,
    /// The length is not the Padmé length of the unpadded length (SOP-57).
    #[error("the object has {len} bytes where its padded length is {target}")]
    OffTarget {
        /// Length of the object.
        len: u64,
        /// Padmé length of what it is without padding.
        target: u64,
    },
    /// The manifest's unpadded length is not the object's (SOP-75).
    #[error("the manifest says {claimed} bytes before padding, the object has {found}")]
    ExactByteSize {
        /// From the manifest.
        claimed: u64,
        /// From the object.
        found: u64,
    },
    /// No key_metadata (SOP-44).
    #[error("the object has no key reference")]
    NoKeyRef,
    /// key_metadata of another length than 16 (SOP-44).
    #[error("the object's key reference has {0} bytes")]
    KeyRefLength(usize),
    /// key_ref of manifest and object differ (SOP-43).
    #[error("the object's key reference is not the one of its manifest")]
    KeyRefMismatch,
    /// Column chunks without crypto marker (SOP-371).
    #[error("columns are not marked as encrypted")]
    NoCryptoMarker,
    /// Columns without field id (SOP-14).
    #[error("{0} columns have no field id")]
    NoFieldId(usize),
    /// A bloom filter stands in the footer (SOP-369).
    #[error("the footer names bloom filters")]
    BloomFilter,
    /// A chunk has other than one data page (SOP-368).
    #[error("a column chunk has {0} data pages")]
    DataPages(usize),
    /// A chunk has version 2 pages (SOP-23).
    #[error("a column chunk has version 2 pages")]
    PageVersion,
}

impl Footer {
    /// Compares the object's envelope and footer with the profile and with its manifest.
    pub fn audit(&self, claims: &Claims) -> Vec<Finding> {
        let mut findings = Vec::new();
        self.audit_padding(claims, &mut findings);
        match (self.crypto.key_metadata_len, self.crypto.key_ref) {
            (None, _) => findings.push(Finding::NoKeyRef),
            (Some(len), None) => findings.push(Finding::KeyRefLength(len)),
            (Some(_), Some(found)) if claims.key_ref.is_some_and(|claimed| claimed != found) => {
                findings.push(Finding::KeyRefMismatch);
            }
            (Some(_), Some(_)) => {}
        }
        if self.facts.marked_chunks != self.facts.chunks {
            findings.push(Finding::NoCryptoMarker);
        }
        if self.facts.missing_field_ids > 0 {
            findings.push(Finding::NoFieldId(self.facts.missing_field_ids));
        }
        if self.facts.has_bloom {
            findings.push(Finding::BloomFilter);
        }
        findings
    }

    fn audit_padding(&self, claims: &Claims, findings: &mut Vec<Finding>) {
        let pads = &self.facts.pads;
        match pads.len() {
            0 => findings.push(Finding::NoPadEntry),
            1 => {}
            several => findings.push(Finding::SeveralPadEntries(several)),
        }
        if pads.iter().any(|pad| !pad.key_is_proper) {
            findings.push(Finding::PadKey);
        }
        if pads.iter().any(|pad| !pad.value_is_zero) {
            findings.push(Finding::PadValue);
        }
        // Without exactly one entry the unpadded length is not defined; the object still has a target.
        let unpadded = match pads.as_slice() {
            [only] => self.size.saturating_sub(only.growth),
            _ => self.size,
        };
        let target = padme(unpadded).unwrap_or(u64::MAX);
        if target != self.size {
            findings.push(Finding::OffTarget { len: self.size, target });
        }
        if let Some(claimed) = claims.exact_byte_size
            && (pads.len() == 1 && claimed != unpadded || padme(claimed) != Some(self.size))
        {
            findings.push(Finding::ExactByteSize {
                claimed,
                found: unpadded,
            });
        }
    }
}

/// Compares the pages of one column chunk with the profile.
pub fn audit_pages(pages: &[PageInfo]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let data = pages.iter().filter(|page| page.kind != PageKind::Dictionary).count();
    if data != 1 {
        findings.push(Finding::DataPages(data));
    }
    if pages.iter().any(|page| page.kind == PageKind::DataV2) {
        findings.push(Finding::PageVersion);
    }
    findings
}
