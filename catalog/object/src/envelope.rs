//! The outline of a COSE envelope, checked before the COSE library sees it.
//!
//! The library builds a tree of whatever CBOR it is given, which takes a hundred bytes of memory and more for one byte of input:
//! a megabyte from a peer would become a hundred. Envelopes of our profiles are flat, so a walk that allocates nothing tells.

use crate::cbor::DecodeError;

/// Longest protected header: algorithm, content type and key id.
const MAX_HEADER: usize = 256;

/// Requires `tag [ protected bstr, { at most one label: bstr }, bstr … ]` with `items` items, and nothing behind it.
pub(crate) fn check_outline(bytes: &[u8], tag: u64, items: u64) -> Result<(), DecodeError> {
    match walk(bytes, tag, items) {
        Some(()) => Ok(()),
        None => Err(DecodeError::Envelope("not the outline of the profile")),
    }
}

fn walk(bytes: &[u8], tag: u64, items: u64) -> Option<()> {
    let mut d = minicbor::Decoder::new(bytes);
    if d.tag().ok()?.as_u64() != tag || d.array().ok()? != Some(items) || d.bytes().ok()?.len() > MAX_HEADER {
        return None;
    }
    match d.map().ok()? {
        Some(0) => {}
        Some(1) => {
            d.u64().ok()?;
            d.bytes().ok()?;
        }
        _ => return None,
    }
    for _ in 2..items {
        d.bytes().ok()?;
    }
    (d.position() == bytes.len()).then_some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seal0::{SealedIn, seal};

    /// SOP-90: nesting and crowds of small items are refused without a tree of them.
    #[test]
    fn what_is_not_flat_is_refused_early() {
        let sealed = seal(&[3; 32], "sovm/test-v1", Some(&[9; 16]), b"", b"secret");
        assert!(SealedIn::decode(&sealed).is_ok());
        assert_eq!(check_outline(&sealed, 16, 3), Ok(()));
        let refused = Err(DecodeError::Envelope("not the outline of the profile"));
        let nested = [&[0xd0, 0x83][..], &[0x81; 200], &[0]].concat();
        let crowd = [&[0xd0, 0x83, 0x40, 0xa0, 0x99, 0xff, 0xff][..], &[0x80; 65_535]].concat();
        let header = [&[0xd0, 0x83, 0x59, 0x01, 0x01][..], &[0; 257], &[0xa0, 0x40]].concat();
        let trailing = [&sealed[..], &[0]].concat();
        for bad in [&nested, &crowd, &header, &trailing, &Vec::new()] {
            assert_eq!(check_outline(bad, 16, 3), refused);
            assert_eq!(SealedIn::decode(bad).err(), refused.clone().err());
        }
        assert_eq!(check_outline(&sealed, 18, 3), refused);
        assert_eq!(check_outline(&sealed, 16, 4), refused);
    }
}
