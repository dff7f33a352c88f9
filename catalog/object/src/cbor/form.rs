//! Whether an item of unknown meaning is in its deterministic form.
//!
//! [`from_slice`](super::from_slice) proves that by encoding again, which needs to know every field. Here only the form is known: what a
//! newer build wrote is passed on byte for byte, and may not have two spellings either.

use minicbor::{Decoder, data::Type};

use super::{DecodeError, malformed};

/// Deepest nesting of any format, with room for newer ones.
const MAX_DEPTH: usize = 16;

/// Passes one item with everything in it.
pub(super) fn pass_item(d: &mut Decoder<'_>) -> Result<(), DecodeError> {
    item(d, MAX_DEPTH)
}

fn item(d: &mut Decoder<'_>, depth: usize) -> Result<(), DecodeError> {
    let depth = depth.checked_sub(1).ok_or(DecodeError::Malformed)?;
    let from = d.position();
    match d.datatype().map_err(malformed)? {
        Type::U8 | Type::U16 | Type::U32 | Type::U64 => {
            let value = d.u64().map_err(malformed)?;
            head(d.position() - from, value)
        }
        Type::I8 | Type::I16 | Type::I32 | Type::I64 | Type::Int => {
            let value = i128::from(d.int().map_err(malformed)?);
            let argument = u64::try_from(-1 - value).map_err(|_| DecodeError::Malformed)?;
            head(d.position() - from, argument)
        }
        Type::Bytes => {
            let len = d.bytes().map_err(malformed)?.len();
            head(d.position() - from - len, len as u64)
        }
        Type::String => {
            let len = d.str().map_err(malformed)?.len();
            head(d.position() - from - len, len as u64)
        }
        Type::Bool => d.bool().map(drop).map_err(malformed),
        Type::Null => d.null().map_err(malformed),
        Type::Array => {
            let count = d.array().map_err(malformed)?.ok_or(DecodeError::NotDeterministic)?;
            head(d.position() - from, count)?;
            (0..count).try_for_each(|_| item(d, depth))
        }
        Type::Map => {
            let count = d.map().map_err(malformed)?.ok_or(DecodeError::NotDeterministic)?;
            head(d.position() - from, count)?;
            pairs(d, count, depth)
        }
        // No format of ours has floats, tags, undefined values or lengths that are left open.
        _ => Err(DecodeError::NotDeterministic),
    }
}

/// Keys in ascending order of their bytes, none twice.
fn pairs(d: &mut Decoder<'_>, count: u64, depth: usize) -> Result<(), DecodeError> {
    let input = d.input();
    let mut before: Option<&[u8]> = None;
    for _ in 0..count {
        let from = d.position();
        item(d, depth)?;
        let key = &input[from..d.position()];
        if before.is_some_and(|before| before >= key) {
            return Err(DecodeError::NotDeterministic);
        }
        before = Some(key);
        item(d, depth)?;
    }
    Ok(())
}

/// Whether a head of `len` bytes is the shortest for its argument.
const fn head(len: usize, argument: u64) -> Result<(), DecodeError> {
    let shortest = match argument {
        0..=23 => 1,
        24..=0xff => 2,
        0x100..=0xffff => 3,
        0x1_0000..=0xffff_ffff => 5,
        _ => 9,
    };
    if len == shortest {
        Ok(())
    } else {
        Err(DecodeError::NotDeterministic)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn passes(bytes: &[u8]) -> bool {
        let mut d = Decoder::new(bytes);
        pass_item(&mut d).is_ok() && d.position() == bytes.len()
    }

    fn of_hex(text: &str) -> Vec<u8> {
        hex::decode(text.replace(' ', "")).unwrap()
    }

    /// SOP-130: one spelling for each value, also where nobody knows what it means.
    #[test]
    fn one_spelling_each() {
        let accepted = [
            "00",
            "17",
            "1818",
            "190100",
            "1a00010000",
            "1b0000000100000000",
            "20",
            "3818",
            "3bffffffffffffffff",
            "40",
            "4101",
            "60",
            "6161",
            "80",
            "8101",
            "a0",
            "a200010102",
            "a20061616100 00",
            "f4",
            "f5",
            "f6",
        ];
        for good in accepted {
            assert!(passes(&of_hex(good)), "{good}");
        }
        let refused = [
            ("1817", "integer not shortest"),
            ("190018", "integer in two bytes for one"),
            ("1a00000100", "integer in four bytes for two"),
            ("1b0000000000010000", "integer in eight bytes for four"),
            ("3817", "negative integer not shortest"),
            ("580101", "length not shortest"),
            ("780161", "length of text not shortest"),
            ("980101", "length of array not shortest"),
            ("b8010000", "length of map not shortest"),
            ("5f4101ff", "bytes in pieces"),
            ("7f6161ff", "text in pieces"),
            ("9f01ff", "array without a length"),
            ("bf0001ff", "map without a length"),
            ("a201010001", "keys not ascending"),
            ("a200010002", "key twice"),
            ("a2616100 0001", "text before integer"),
            ("61ff", "no UTF-8"),
            ("c000", "tag"),
            ("f90000", "half float"),
            ("fa00000000", "float"),
            ("fb0000000000000000", "double"),
            ("f7", "undefined"),
            ("e0", "simple value"),
            ("f820", "long simple value"),
            ("1c", "reserved"),
            ("18", "cut short"),
            ("4201", "bytes cut short"),
            ("8201", "array cut short"),
            ("a100", "map cut short"),
            ("9bffffffffffffffff", "array longer than its input"),
            ("", "nothing"),
        ];
        for (bad, why) in refused {
            assert!(!passes(&of_hex(bad)), "{why}");
        }
    }

    #[test]
    fn nesting_is_bounded() {
        let nested = |depth: usize| [vec![0x81; depth - 1], vec![0]].concat();
        assert!(passes(&nested(MAX_DEPTH)));
        assert!(!passes(&nested(MAX_DEPTH + 1)));
        assert!(!passes(&nested(60_000)), "the stack does not grow with the input");
    }

    proptest! {
        /// What passes, the independent decoder of `dcbor` takes too. It also wants text in normal form C, which is no matter of form
        /// here.
        #[test]
        fn dcbor_agrees(bytes in proptest::collection::vec(any::<u8>(), 0..24)) {
            if passes(&bytes) && bytes.is_ascii() {
                prop_assert!(dcbor::CBOR::try_from_data(&bytes).is_ok());
            }
        }
    }
}
