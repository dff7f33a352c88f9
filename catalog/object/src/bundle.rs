//! Several named documents in the content of one plain file: what a version of an Inventory brings (DESIGN §10).
//!
//! ```text
//! ["sovm/bundle-v1", [[name, bytes], …]]        deterministic CBOR; names sorted by their bytes, each once
//! ```
//!
//! Nothing in it is trusted for standing in it: its reader verifies every document by the hash that another one names.

use std::collections::BTreeMap;

use bytes::Bytes;

use crate::cbor::{DecodeError, Decoder, Encoder};

const FORMAT: &str = "sovm/bundle-v1";

/// Longest name.
pub const MAX_NAME_BYTES: usize = 1_024;

/// Most documents.
pub const MAX_DOCUMENTS: usize = 1 << 20;

/// Documents by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bundle(BTreeMap<String, Bytes>);

impl Bundle {
    /// Adds a document. One of the same name is replaced.
    pub fn insert(&mut self, name: impl Into<String>, bytes: impl Into<Bytes>) {
        self.0.insert(name.into(), bytes.into());
    }

    /// A document.
    pub fn get(&self, name: &str) -> Option<&Bytes> {
        self.0.get(name)
    }

    /// All of them, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Bytes)> {
        self.0.iter().map(|(name, bytes)| (name.as_str(), bytes))
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The content of the file.
    pub fn encode(&self) -> Vec<u8> {
        let mut e = Encoder::new();
        e.array(2).text(FORMAT).array(self.0.len());
        for (name, bytes) in &self.0 {
            e.array(2).text(name).bytes(bytes);
        }
        e.into_vec()
    }

    /// Decodes a file's content. Documents share its memory.
    pub fn decode(content: &Bytes) -> Result<Self, DecodeError> {
        let mut d = Decoder::new(content);
        d.array_of(2)?;
        if d.text()? != FORMAT {
            return Err(DecodeError::UnknownContentType);
        }
        let count = d.array()?;
        let mut documents = BTreeMap::new();
        let mut last: Option<&str> = None;
        for _ in 0..count {
            d.array_of(2)?;
            let name = d.text()?;
            if name.is_empty() || name.len() > MAX_NAME_BYTES || documents.len() == MAX_DOCUMENTS {
                return Err(DecodeError::OutOfRange(0));
            }
            if last.is_some_and(|last| last >= name) {
                return Err(DecodeError::OutOfRange(0));
            }
            last = Some(name);
            documents.insert(name.to_owned(), content.slice_ref(d.bytes()?));
        }
        let bundle = Self(documents);
        // One content for one set of documents: no longer forms, nothing behind.
        if bundle.encode() != *content {
            return Err(DecodeError::NotDeterministic);
        }
        Ok(bundle)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bundle() -> Bundle {
        let mut bundle = Bundle::default();
        bundle.insert("inventory/000000000001.json", "{}");
        bundle.insert("catalog.json", "{\"a\": 1}");
        bundle.insert("empty", "");
        bundle
    }

    #[test]
    fn documents_come_back() {
        let content = Bytes::from(bundle().encode());
        let decoded = Bundle::decode(&content).unwrap();
        assert_eq!(decoded, bundle());
        assert_eq!(decoded.get("catalog.json").unwrap(), "{\"a\": 1}");
        assert_eq!(decoded.iter().map(|(name, _)| name).next(), Some("catalog.json"));
        assert_eq!((decoded.len(), decoded.is_empty()), (3, false));
        let empty = Bytes::from(Bundle::default().encode());
        assert!(Bundle::decode(&empty).unwrap().is_empty());
        // The vector: ["sovm/bundle-v1", [["a", h'01']]].
        let mut one = Bundle::default();
        one.insert("a", vec![1]);
        assert_eq!(hex::encode(one.encode()), "826e736f766d2f62756e646c652d7631818261614101");
    }

    #[test]
    fn other_forms_are_refused() {
        let vector = |text: &str| Bytes::from(hex::decode(text).unwrap());
        let head = "826e736f766d2f62756e646c652d7631";
        for (why, content) in [
            ("nothing", String::new()),
            ("no array", "00".to_owned()),
            ("another format", head.replace("7631", "7632") + "80"),
            ("three parts", head.replacen("82", "83", 1) + "8000"),
            ("one part", "816e736f766d2f62756e646c652d7631".to_owned()),
            ("documents are no array", format!("{head}00")),
            ("a document of one part", format!("{head}81816161")),
            ("a name of bytes", format!("{head}818241614101")),
            ("a document of text", format!("{head}818261616131")),
            ("an empty name", format!("{head}8182604101")),
            ("the same name twice", format!("{head}8282616141018261614101")),
            ("names out of order", format!("{head}8282616241018261614101")),
            ("fewer than said", format!("{head}828261614101")),
            ("something behind", format!("{head}81826161410100")),
            ("a length in a longer form", format!("{head}81826161580101")),
            ("indefinite documents", format!("{head}9f8261614101ff")),
            ("a length beyond the end", format!("{head}818261615affffffff")),
        ] {
            assert!(Bundle::decode(&vector(&content)).is_err(), "{why}");
        }
        let mut long = Bundle::default();
        long.insert("x".repeat(MAX_NAME_BYTES + 1), "");
        assert!(Bundle::decode(&Bytes::from(long.encode())).is_err());
    }
}
