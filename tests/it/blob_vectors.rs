//! SOP-BLOB-1 against bytes that a script of another hand made: `vectors/blob/`.

use aes_gcm::{
    Aes256Gcm, KeyInit as _, Nonce,
    aead::{Aead as _, Payload},
};
use serde_json::Value;
use sovm_object::{
    blob::{self, Draft, Layout, OpenBlobError},
    id::{KeyRef, StorageId},
    secret::Dek,
    verified::MemoryObject,
};

use crate::sample::{id_of, unhex};

/// Length of a full chunk in an object.
const SEALED_CHUNK: usize = 65_552;

/// Filler, key reference and magic stand behind the chunks.
const TRAILER: usize = 20;

struct Vectors(Value);

impl Vectors {
    fn read() -> Self {
        Self(serde_json::from_str(include_str!("../vectors/blob/blob-1.json")).unwrap())
    }

    fn list(&self, name: &str) -> &[Value] {
        self.0[name].as_array().unwrap()
    }

    fn dek(&self) -> Dek {
        Dek::from_bytes(unhex(text(&self.0, "dek")).try_into().unwrap())
    }

    fn key_ref(&self) -> KeyRef {
        KeyRef::from_bytes(unhex(text(&self.0, "key_ref")).try_into().unwrap())
    }

    /// The bytes of an object by its name.
    fn object(&self, name: &str) -> Vec<u8> {
        let named = |list: &str| self.list(list).iter().find(|vector| vector["name"] == name).cloned();
        match (named("sealed"), named("forged")) {
            (Some(vector), _) => {
                let content = content(number(&vector, "content_len"));
                blob::seal(&content, self.dek(), self.key_ref()).unwrap().bytes
            }
            (None, Some(vector)) => self.forge(number(&vector, "total")),
            (None, None) => panic!("no vector is called {name}"),
        }
    }

    /// A blob of zeros in any length a layout has, made with a cipher that the library does not use for blobs.
    fn forge(&self, total: usize) -> Vec<u8> {
        let layout = Layout::of_total(total as u64).unwrap();
        let cipher = Aes256Gcm::new(self.dek().expose_for_sealing().into());
        let inner = vec![0; layout.inner_len() as usize];
        let mut bytes = Vec::new();
        for (index, chunk) in inner.chunks(65_536).enumerate() {
            let mut nonce = [0; 12];
            nonce[3..11].copy_from_slice(&(index as u64).to_be_bytes());
            nonce[11] = u8::from(layout.is_last(index as u64));
            let sealed = cipher.encrypt(&Nonce::from(nonce), Payload { msg: chunk, aad: &[] });
            bytes.extend(sealed.unwrap());
        }
        bytes.resize(bytes.len() + layout.filler() as usize, 0);
        bytes.extend_from_slice(self.key_ref().as_bytes());
        bytes.extend_from_slice(b"SVB1");
        bytes
    }
}

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap()
}

fn number(value: &Value, name: &str) -> usize {
    value[name].as_u64().unwrap() as usize
}

fn content(len: usize) -> Vec<u8> {
    (0..len).map(|index| (index % 251) as u8 + 1).collect()
}

fn open(bytes: &[u8], dek: &Dek) -> Result<Vec<u8>, OpenBlobError> {
    let object = MemoryObject::verify(id_of(bytes), bytes.to_vec()).unwrap();
    blob::open(object.whole(), dek).map(|content| content.to_vec())
}

/// The word of the vectors for an outcome.
fn word(outcome: &Result<Vec<u8>, OpenBlobError>) -> String {
    match outcome {
        Ok(_) => "ok".to_owned(),
        Err(OpenBlobError::KeyMismatch { index }) => format!("key mismatch {index}"),
        Err(OpenBlobError::Length(_)) => "length".to_owned(),
        Err(OpenBlobError::Magic) => "magic".to_owned(),
        Err(OpenBlobError::Filler) => "filler".to_owned(),
        Err(OpenBlobError::Padding) => "padding".to_owned(),
        Err(OpenBlobError::ContentLength { .. }) => "content length".to_owned(),
        Err(other) => other.to_string(),
    }
}

/// SOP-50, SOP-57: what is sealed here is what the script sealed, byte for byte by its hash, and opens to the same content.
#[test]
fn sealed_objects_are_those_of_the_script() {
    let vectors = Vectors::read();
    for vector in vectors.list("sealed") {
        let name = text(vector, "name");
        let content = content(number(vector, "content_len"));
        let bytes = vectors.object(name);
        assert_eq!(id_of(&bytes).to_string(), text(vector, "storage_id"), "{name}");
        if let Some(hex) = vector["hex"].as_str() {
            assert_eq!(bytes, unhex(hex), "{name}");
        }
        let layout = Layout::of_total(bytes.len() as u64).unwrap();
        assert_eq!(layout.chunks() as usize, number(vector, "chunks"), "{name}");
        assert_eq!(layout.filler() as usize, number(vector, "filler"), "{name}");
        let draft = Draft::new(content.len() as u64, vectors.dek(), vectors.key_ref()).unwrap();
        assert_eq!(draft.total() as usize, number(vector, "total"), "{name}");
        assert_eq!(
            draft.exact_byte_size() as usize,
            number(vector, "exact_byte_size"),
            "{name}"
        );
        assert_eq!(draft.measure(&content[..]).unwrap(), id_of(&bytes), "{name}: streamed");
        assert_eq!(open(&bytes, &vectors.dek()).unwrap(), content, "{name}");
    }
    for vector in vectors.list("forged") {
        let bytes = vectors.object(text(vector, "name"));
        assert_eq!(id_of(&bytes).to_string(), text(vector, "storage_id"));
        assert_eq!(
            Layout::of_total(bytes.len() as u64).unwrap().filler() as usize,
            number(vector, "filler")
        );
        assert_eq!(word(&open(&bytes, &vectors.dek())), text(vector, "expect"));
    }
}

/// SOP-95: every way in which a blob can be wrong has its own error, from the blob alone.
#[test]
fn whole_objects_are_judged_as_the_script_judges() {
    let vectors = Vectors::read();
    for vector in vectors.list("whole") {
        let outcome = open(&unhex(text(vector, "hex")), &vectors.dek());
        assert_eq!(word(&outcome), text(vector, "expect"), "{}", text(vector, "name"));
        if let Some(hex) = vector["content_hex"].as_str() {
            assert_eq!(outcome.unwrap(), unhex(hex), "{}", text(vector, "name"));
        }
    }
}

/// SOP-95: a changed object fails twice, each time without the other's help: its hash is another one, and under the hash it
/// has now, tags and zeros tell.
#[test]
fn changed_objects_fail_hash_and_tag_independently() {
    let vectors = Vectors::read();
    for vector in vectors.list("edited") {
        let name = text(vector, "name");
        let original = vectors.object(text(vector, "object"));
        let edited = edit(&vectors, &original, vector["edit"].as_array().unwrap());
        assert_eq!(
            id_of(&edited).to_string(),
            text(vector, "storage_id"),
            "{name}: not the script's edit"
        );
        let id: StorageId = id_of(&original);
        assert!(
            MemoryObject::verify(id, edited.clone()).is_err(),
            "{name}: the hash alone"
        );
        assert_eq!(
            word(&open(&edited, &vectors.dek())),
            text(vector, "expect"),
            "{name}: the blob alone"
        );
    }
}

/// More ways to be wrong than to be right, so that a reader that says yes to everything is noticed.
#[test]
fn rejections_outnumber_acceptances() {
    let vectors = Vectors::read();
    let all = ["sealed", "forged", "whole", "edited"].map(|list| vectors.list(list));
    let (good, bad): (Vec<_>, Vec<_>) = all.into_iter().flatten().partition(|vector| vector["expect"] == "ok");
    assert!(
        good.len() >= 8 && bad.len() > 3 * good.len(),
        "{} good, {} bad",
        good.len(),
        bad.len()
    );
}

fn edit(vectors: &Vectors, original: &[u8], steps: &[Value]) -> Vec<u8> {
    let mut bytes = original.to_vec();
    for step in steps {
        let (what, arguments) = step.as_object().unwrap().iter().next().unwrap();
        let arguments: Vec<usize> = arguments
            .as_array()
            .unwrap()
            .iter()
            .map(|argument| argument.as_u64().unwrap() as usize)
            .collect();
        match (what.as_str(), arguments.as_slice()) {
            ("xor", &[at, mask]) => bytes[at] ^= mask as u8,
            ("zero", &[from, to]) => bytes[from..to].fill(0),
            ("remove", &[from, to]) => drop(bytes.drain(from..to)),
            ("copy", &[from, to, len]) => bytes.copy_within(from..from + len, to),
            ("swap", &[a, b, len]) => {
                let (first, second) = (bytes[a..a + len].to_vec(), bytes[b..b + len].to_vec());
                bytes[a..a + len].copy_from_slice(&second);
                bytes[b..b + len].copy_from_slice(&first);
            }
            ("insert_copy", &[from, to, at]) => {
                let copied = bytes[from..to].to_vec();
                drop(bytes.splice(at..at, copied));
            }
            ("foreign_chunk", &[number]) => {
                let foreign = blob::seal(&content(140_000), Dek::from_bytes([8; 32]), vectors.key_ref());
                let foreign = foreign.unwrap().bytes;
                let from = number * SEALED_CHUNK;
                let to = (from + SEALED_CHUNK).min(bytes.len() - TRAILER);
                bytes[from..to].copy_from_slice(&foreign[from..to]);
            }
            other => panic!("the vectors know no edit {other:?}"),
        }
    }
    bytes
}
