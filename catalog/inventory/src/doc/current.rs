//! `CURRENT`: the hint that names the newest version.

use super::{
    error::{DocKind, Refused},
    fields::{Fields, text},
    id::{Epoch, Seq, Sha256},
    json::{Json, JsonObject},
    root::{read_epoch, read_seq},
    stored::JsonDocument,
};

/// Names one root by epoch, number and hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RootRef {
    /// The epoch the root was written in.
    pub restore_epoch: Epoch,
    /// Its sequence number.
    pub seq: Seq,
    /// The SHA-256 of its stored bytes.
    pub root_sha256: Sha256,
}

/// INV-147: `CURRENT`, a hint nothing trusts without verifying the root it names.
///
/// Keys are written in the order `seq`, `root_sha256`, `restore_epoch`. It has no `format_version`; unknown fields are
/// ignored and, since every write names another root, not kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Current {
    /// The root it names.
    pub root: RootRef,
}

impl JsonDocument for Current {
    const KIND: DocKind = DocKind::Current;

    fn read(json: Json) -> Result<Self, Refused> {
        let mut fields = Fields::of(json, 147)?;
        let seq = fields.required("seq", read_seq)?;
        let root_sha256 = fields.required("root_sha256", text)?;
        let restore_epoch = fields.required("restore_epoch", read_epoch)?;
        Ok(Self {
            root: RootRef {
                restore_epoch,
                seq,
                root_sha256,
            },
        })
    }

    fn write(&self) -> JsonObject {
        let mut out = JsonObject::new();
        out.push("seq", self.root.seq);
        out.push("root_sha256", self.root.root_sha256);
        out.push("restore_epoch", self.root.restore_epoch);
        out
    }

    fn check(&self) -> Result<(), Refused> {
        Ok(())
    }
}
