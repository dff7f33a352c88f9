//! Step 4: grow the object to its Padmé length by one entry in the footer (SOP §11.8).

use std::borrow::Cow;

use super::{
    encode::MAX_OBJECT_LEN,
    encrypt::{Encrypted, field},
    key_ref::{Keyed, object_len},
};
use crate::{
    id::KeyRef,
    padme::{padme, solve_pad},
    thrift::{List, Struct, Value},
};

/// Key of the pad entry; hyphens may follow (SOP-64). The prefix is reserved (SOP-72, SOP-77).
pub const PAD_KEY: &str = "sovm:sop-pad-v1";
pub(super) const HYPHEN: u8 = b'-';
const ENTRY_KEY: i16 = 1;
const ENTRY_VALUE: i16 = 2;

/// Why an object cannot be padded, and so not published (SOP-58).
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum PadError {
    /// The padded object would exceed the largest size that is ever written (SOP-376).
    #[error("the object would be {len} bytes after padding; at most {MAX_OBJECT_LEN} are written")]
    TooLarge {
        /// Length it would have.
        len: u64,
    },
    /// The padded footer did not come out at the solved length.
    #[error("padding gave {len} bytes instead of {target}; the object was not written")]
    Missed {
        /// The Padmé length.
        target: u64,
        /// The length that came out.
        len: u64,
    },
}

/// At its Padmé length; only the footer's seal and the hash are missing.
#[derive(Debug)]
pub struct Padded {
    pub(super) encrypted: Encrypted,
    pub(super) key_ref: KeyRef,
    pub(super) footer: Vec<u8>,
    pub(super) unpadded_len: u64,
}

impl Keyed {
    /// Pads to the Padmé length of the object, exactly.
    pub fn pad(self) -> Result<Padded, PadError> {
        let Self {
            mut encrypted,
            key_ref,
            unpadded_len,
        } = self;
        let target = padme(unpadded_len).filter(|&target| target <= MAX_OBJECT_LEN);
        let target = target.ok_or_else(|| PadError::TooLarge {
            len: padme(unpadded_len).unwrap_or(u64::MAX),
        })?;
        let solution = solve_pad(target - unpadded_len);
        set_entry(
            &mut encrypted.footer,
            solution.value_len as usize,
            solution.hyphens as usize,
        );
        // Second and last footer encoding (SOP-67).
        let footer = encrypted.encode_footer();
        let len = object_len(encrypted.body.len(), footer.len());
        if len != target {
            return Err(PadError::Missed { target, len });
        }
        Ok(Padded {
            encrypted,
            key_ref,
            footer,
            unpadded_len,
        })
    }
}

/// Adds the empty pad entry as the last key-value entry. It is there on every object (SOP-63).
pub(super) fn add_entry(footer: &mut Struct<'_>) {
    match footer.get_mut(field::FILE_KEY_VALUES) {
        Some(Value::List(list)) => list.items.push(Value::Struct(entry(0, 0))),
        _ => footer.set(field::FILE_KEY_VALUES, Value::List(List::of_structs([entry(0, 0)]))),
    }
}

pub(super) fn set_entry(footer: &mut Struct<'_>, value_len: usize, hyphens: usize) {
    if let Some(last) = footer.structs_mut(field::FILE_KEY_VALUES).last() {
        *last = entry(value_len, hyphens);
    }
}

fn entry(value_len: usize, hyphens: usize) -> Struct<'static> {
    let mut key = PAD_KEY.as_bytes().to_vec();
    key.resize(key.len() + hyphens, HYPHEN);
    let mut entry = Struct::default();
    entry.set(ENTRY_KEY, Value::Binary(Cow::Owned(key)));
    entry.set(ENTRY_VALUE, Value::Binary(Cow::Owned(vec![0; value_len])));
    entry
}
