//! A fingerprint: one type per kind, tagged by canonical form.
//!
//! INV-70: there is no `==` on fingerprints, since whether two of them may be compared is known only when both forms are.
//!
//! ```compile_fail,E0369
//! # use sovm_inventory::fingerprint::{Fingerprint, Table};
//! fn wrong(a: Fingerprint<Table>, b: Fingerprint<Table>) -> bool { a == b }
//! ```
//!
//! ```compile_fail,E0308
//! # use sovm_inventory::fingerprint::{Artefact, Fingerprint, Structure};
//! // An artefact's SHA-256 is no closure's, though both are 64 hex digits.
//! fn wrong(one: Fingerprint<Artefact>) -> Fingerprint<Structure> { one }
//! ```

use std::fmt;

use sha2::{Digest, Sha256};

use super::form::{CanonicalForm, DifferentForms};

mod sealed {
    pub trait Sealed {}
}

/// What a fingerprint is of.
pub trait Kind: sealed::Sealed {
    /// What it consists of, without its form.
    type Value: Clone + Eq + fmt::Debug + fmt::Display;
    /// How messages call it.
    const NAME: &'static str;
    /// How its text looks, for messages.
    const SHAPE: &'static str;
    /// Reads the text form; exactly what `Display` writes is taken.
    fn parse_value(text: &str) -> Option<Self::Value>;
}

/// Kind of a fingerprint over the rows of one table (INV-73).
#[derive(Debug)]
pub enum Table {}

/// Kind of a fingerprint over one structural artefact (INV-76).
#[derive(Debug)]
pub enum Artefact {}

/// Kind of a fingerprint over the closure of a dataflow (INV-82).
#[derive(Debug)]
pub enum Structure {}

/// Kind of a fingerprint over a whole edition of a product (INV-86).
#[derive(Debug)]
pub enum Product {}

/// A fingerprint of one kind, tagged by the form of the text it hashes (INV-70).
pub struct Fingerprint<K: Kind> {
    form: CanonicalForm,
    value: K::Value,
}

impl<K: Kind> Fingerprint<K> {
    pub(super) fn new(form: CanonicalForm, value: K::Value) -> Self {
        Self { form, value }
    }

    /// Reads the text a manifest holds, under the form the manifest names.
    pub fn parse(form: CanonicalForm, text: &str) -> Result<Self, FingerprintParseError> {
        match K::parse_value(text) {
            Some(value) => Ok(Self { form, value }),
            None => Err(FingerprintParseError {
                what: K::NAME,
                shape: K::SHAPE,
                found: shortened(text),
            }),
        }
    }

    /// INV-70: whether both hash to the same; refused when they hash different texts.
    pub fn same_as(&self, other: &Self) -> Result<bool, DifferentForms> {
        self.form.require_same(&other.form)?;
        Ok(self.value == other.value)
    }

    /// The form this one is tagged with.
    pub fn form(&self) -> &CanonicalForm {
        &self.form
    }
}

impl Fingerprint<Table> {
    /// How many rows the table had.
    pub fn rows(&self) -> u64 {
        self.value.rows
    }
}

impl Fingerprint<Artefact> {
    /// INV-76: SHA-256 of an artefact's canonical model text.
    ///
    /// The text is the caller's and must be canonical in the form it names.
    pub fn of_canonical_text(form: CanonicalForm, text: &str) -> Self {
        Self::new(form, Sha256Value::of(text.as_bytes()))
    }
}

impl<K: Kind> Clone for Fingerprint<K> {
    fn clone(&self) -> Self {
        Self {
            form: self.form.clone(),
            value: self.value.clone(),
        }
    }
}

impl<K: Kind> fmt::Debug for Fingerprint<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} (form {})", K::NAME, self.value, self.form)
    }
}

impl<K: Kind> fmt::Display for Fingerprint<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.value.fmt(f)
    }
}

/// Text was no fingerprint of the kind that was asked for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a {what}: expected {shape}, found \"{found}\"")]
pub struct FingerprintParseError {
    what: &'static str,
    shape: &'static str,
    found: String,
}

/// Enough of a text to recognise it by: messages must not repeat a megabyte of bad input.
fn shortened(text: &str) -> String {
    text.chars().take(80).collect()
}

/// Sum of the row values and the number of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TableValue {
    pub(super) sum: u128,
    pub(super) rows: u64,
}

/// INV-73: a row adds less than this.
pub(super) const ROW_VALUE_LIMIT: u64 = 1 << 62;

impl fmt::Display for TableValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.sum, self.rows)
    }
}

/// A SHA-256 as lower-case hex.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Sha256Value([u8; 32]);

impl Sha256Value {
    pub(super) fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }
}

impl fmt::Display for Sha256Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

impl fmt::Debug for Sha256Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sha256Value({self})")
    }
}

impl sealed::Sealed for Table {}
impl Kind for Table {
    type Value = TableValue;
    const NAME: &'static str = "table fingerprint";
    const SHAPE: &'static str = "<sum>:<rows>, where the rows can add up to the sum";

    fn parse_value(text: &str) -> Option<TableValue> {
        let (sum, rows) = text.split_once(':')?;
        let value = TableValue {
            sum: canonical_number(sum)?.parse().ok()?,
            rows: canonical_number(rows)?.parse().ok()?,
        };
        // No set of rows has a greater sum, and none at all has the sum 0: the text was damaged or made up.
        let sum_max = u128::from(value.rows) * u128::from(ROW_VALUE_LIMIT - 1);
        (value.sum <= sum_max).then_some(value)
    }
}

/// Decimal digits as `Display` writes them: no sign, no leading zero.
fn canonical_number(text: &str) -> Option<&str> {
    let plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    (plain && (text == "0" || !text.starts_with('0'))).then_some(text)
}

macro_rules! sha256_kind {
    ($kind:ident, $name:literal) => {
        impl sealed::Sealed for $kind {}
        impl Kind for $kind {
            type Value = Sha256Value;
            const NAME: &'static str = $name;
            const SHAPE: &'static str = "64 lower-case hex digits";

            fn parse_value(text: &str) -> Option<Sha256Value> {
                if text.bytes().any(|byte| byte.is_ascii_uppercase()) {
                    return None;
                }
                let mut bytes = [0; 32];
                hex::decode_to_slice(text, &mut bytes).ok()?;
                Some(Sha256Value(bytes))
            }
        }
    };
}

sha256_kind!(Artefact, "artefact fingerprint");
sha256_kind!(Structure, "structural fingerprint");
sha256_kind!(Product, "product fingerprint");

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn table(text: &str) -> Result<Fingerprint<Table>, FingerprintParseError> {
        Fingerprint::parse(CanonicalForm::ONE, text)
    }

    /// INV-70: the same value under two forms is neither equal nor unequal; the comparison is refused, naming both.
    #[test]
    fn different_forms_are_never_compared() {
        let text = "17731608059257675041:6";
        let ours = Fingerprint::<Table>::parse(CanonicalForm::SOVM_1, text).unwrap();
        let theirs = table(text).unwrap();
        let refusal = ours.same_as(&theirs).unwrap_err();
        assert_eq!(refusal.left, CanonicalForm::SOVM_1);
        assert_eq!(refusal.right, CanonicalForm::ONE);
        let message = refusal.to_string();
        assert!(message.contains("sovm-1") && message.contains("INV-70"), "{message}");
        assert_eq!(theirs.same_as(&table(text).unwrap()), Ok(true));
        assert_eq!(theirs.same_as(&table("17731608059257675042:6").unwrap()), Ok(false));
    }

    /// INV-73: text that no table can have is refused, as is any second spelling of one.
    #[test]
    fn table_text_that_is_not_canonical_is_refused() {
        for bad in [
            "",
            ":",
            "0",
            "0:",
            ":0",
            "1:0",
            "00:0",
            "0:00",
            "+1:1",
            "1:+1",
            "-1:1",
            "01:1",
            "1 :1",
            "1:1 ",
            "1:1:1",
            "0x1:1",
            "4611686018427387904:1",
            "9223372036854775807:2",
            "1:18446744073709551616",
            "340282366920938463463374607431768211456:18446744073709551615",
            "١:1",
        ] {
            let refusal = table(bad).expect_err(bad);
            assert!(refusal.to_string().contains("table fingerprint"));
        }
        assert_eq!(table("0:0").unwrap().rows(), 0);
        assert_eq!(
            table("4611686018427387903:1").unwrap().to_string(),
            "4611686018427387903:1"
        );
        assert_eq!(table("9223372036854775806:2").unwrap().rows(), 2);
    }

    #[test]
    fn hash_text_that_is_not_lower_case_hex_is_refused() {
        let good = "02f3f4f4fab3bee7419d3848c807ccd0a59b9ffac33e7f6fa56e2e5afb010625";
        let parse = |text: &str| Fingerprint::<Product>::parse(CanonicalForm::ONE, text);
        assert_eq!(parse(good).unwrap().to_string(), good);
        for bad in [
            String::new(),
            good.to_uppercase(),
            good[1..].to_owned(),
            format!("{good}0"),
            format!("{}g", &good[1..]),
            format!(" {}", &good[1..]),
        ] {
            assert!(parse(&bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_message_does_not_repeat_a_long_input() {
        let refusal = table(&"9".repeat(1 << 20)).unwrap_err();
        assert!(refusal.to_string().len() < 300);
    }

    proptest! {
        #[test]
        fn what_parses_prints_as_it_was(text in "[0-9:+ -]{0,50}") {
            if let Ok(value) = table(&text) {
                prop_assert_eq!(value.to_string(), text);
            }
        }

        #[test]
        fn any_text_parses_or_is_refused(text in any::<String>()) {
            let _ = table(&text);
            let _ = Fingerprint::<Artefact>::parse(CanonicalForm::ONE, &text);
            let _ = text.parse::<CanonicalForm>();
        }

        #[test]
        fn every_reachable_table_value_survives_its_text(rows in any::<u64>(), share in any::<u64>()) {
            let sum = u128::from(rows) * u128::from(share % ROW_VALUE_LIMIT);
            let text = TableValue { sum, rows }.to_string();
            prop_assert_eq!(table(&text).unwrap().to_string(), text);
        }
    }
}
