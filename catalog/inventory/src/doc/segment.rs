//! History segments: the roots an expiry or a restore removed, one line each.

use std::{fmt, str::FromStr};

use super::{
    error::{DocError, DocKind, Problem, Refused, ascending, disagree},
    fields::{Fields, boolean, keep, list, nullable, object, text},
    history::take_segment,
    id::{CatalogId, CleanText, EditionId, Epoch, IdError, Seq, Sha256, json_text},
    instant::Instant,
    json::{Json, JsonObject},
    layout,
    leaf::{word, words},
    root::{
        Event, Producer, Root, RootHistory, check_links, read_epoch, read_event, read_producer, read_seq, take_history,
    },
    stored::{Document, Stored},
    version::FormatVersion,
};

/// INV-283: `history/<epoch>/<first>-<last>-<uuid7>.jsonl`. The UUID makes every name of every run unique.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SegmentPath {
    /// The epoch of the roots it records.
    pub epoch: Epoch,
    /// The lowest number in it.
    pub first: Seq,
    /// The highest number in it.
    pub last: Seq,
    // A UUIDv7 in its one spelling; the same form as an edition's id.
    run: EditionId,
}

impl SegmentPath {
    /// A fresh name for a segment of these roots.
    pub fn generate(epoch: Epoch, first: Seq, last: Seq) -> Self {
        Self {
            epoch,
            first,
            last,
            run: EditionId::generate(),
        }
    }

    /// The name with given random bits; the same arguments give the same name.
    pub fn at(epoch: Epoch, first: Seq, last: Seq, instant: Instant, random: [u8; 10]) -> Self {
        Self {
            epoch,
            first,
            last,
            run: EditionId::at(instant, random),
        }
    }
}

impl FromStr for SegmentPath {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        parse_path(text)
            .ok_or_else(|| IdError::new("a segment path (history/<epoch>/<first>-<last>-<uuid7>.jsonl)", text))
    }
}

fn parse_path(text: &str) -> Option<SegmentPath> {
    let (epoch, name) = text
        .strip_prefix(layout::SEGMENTS)?
        .strip_prefix('/')?
        .split_once('/')?;
    let mut parts = name.strip_suffix(".jsonl")?.splitn(3, '-');
    let (first, last, run) = (parts.next()?, parts.next()?, parts.next()?);
    let seq = |digits: &str| {
        if digits.len() == 12 {
            Seq::new(digits.parse().ok()?)
        } else {
            None
        }
    };
    let path = SegmentPath {
        epoch: Epoch::new(epoch.parse().ok()?)?,
        first: seq(first)?,
        last: seq(last)?,
        run: run.parse().ok()?,
    };
    // The text that comes out again is the only spelling: no signs, no padded epoch.
    (path.first <= path.last && path.to_string() == text).then_some(path)
}

impl fmt::Display for SegmentPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            epoch,
            first,
            last,
            run,
        } = self;
        write!(
            f,
            "{}/{epoch}/{:012}-{:012}-{run}.jsonl",
            layout::SEGMENTS,
            first.get(),
            last.get()
        )
    }
}

impl fmt::Debug for SegmentPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SegmentPath({self})")
    }
}

json_text!(SegmentPath);

words! {
    /// INV-287: why the roots of a segment were removed.
    SegmentKind {
        /// They were older than the retention window.
        Expiry = "expiry",
        /// A restore discarded them.
        Restore = "restore",
    }
}

/// INV-287, INV-288: a segment's first line, the plan written before any deletion.
///
/// Keys are written in the order `format_version`, `catalog_id`, `kind`, `restore_epoch`, `first`, `last`,
/// `previous_segment`, `previous_segment_sha256`, `expired_at`, `actor`, `roots`, `leaves`, `unread`, then the unknown ones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SegmentHeader {
    /// Its own format.
    pub format_version: FormatVersion,
    /// `catalog.json`'s id.
    pub catalog_id: CatalogId,
    /// Why the roots were removed.
    pub kind: SegmentKind,
    /// The epoch of the roots, which names the segment's directory.
    pub restore_epoch: Epoch,
    /// INV-285: the segment before it, whatever its epoch, and the SHA-256 of its bytes.
    pub previous_segment: Option<(SegmentPath, Sha256)>,
    /// When it was written.
    pub expired_at: Instant,
    /// Who wrote it.
    pub actor: CleanText,
    /// The numbers of the roots the run deletes, ascending; their ends are written as `first` and `last`.
    pub roots: Vec<Seq>,
    /// The leaves only those roots name; empty in a restore segment.
    pub leaves: Vec<Sha256>,
    /// Roots a restore could not read, so that they have no line; empty in an expiry segment.
    pub unread: Vec<Seq>,
    /// Fields this build does not know.
    pub extra: JsonObject,
}

/// INV-289: one removed root, without `products` and `retired`, with its `root_sha256` last.
///
/// The line keeps the root's field order and its unknown fields, so the object is kept beside what is read from it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SegmentLine {
    object: JsonObject,
    /// The Inventory format of the root.
    pub format_version: FormatVersion,
    /// Its number.
    pub seq: Seq,
    /// The version it was built from.
    pub previous_inventory: Option<Seq>,
    /// Its epoch.
    pub restore_epoch: Epoch,
    /// When it was written.
    pub created_at: Instant,
    /// What wrote it.
    pub producer: Producer,
    /// Whether sealed editions waited for a release.
    pub embargo: bool,
    /// Who did what, and why.
    pub event: Event,
    /// Sections keyed by package.
    pub extensions: JsonObject,
    /// The history fields; always there in an expiry segment (INV-290).
    pub history: Option<RootHistory>,
    /// The SHA-256 of the root's stored bytes.
    pub root_sha256: Sha256,
}

/// A history segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Segment {
    /// Its first line.
    pub header: SegmentHeader,
    /// One line for each root of the header that was read, ascending.
    pub lines: Vec<SegmentLine>,
}

/// Fields of a root a line leaves out.
const LEFT_OUT: [&str; 2] = ["products", "retired"];

impl SegmentLine {
    /// The line of a root, made from its stored bytes, so that nothing the root holds is lost or moved.
    pub fn of<V>(root: &Stored<Root, V>) -> Result<Self, DocError> {
        let line = || {
            let mut object = object(Json::parse(root.bytes())?, 289)?;
            for field in LEFT_OUT {
                object.remove(field);
            }
            // A root of a later minor version might have a field of this name; the hash of the bytes is what a line says.
            object.remove("root_sha256");
            object.push("root_sha256", root.sha256());
            Self::read(Json::Object(object))
        };
        line().map_err(|refused: Refused| refused.of(DocKind::Segment))
    }

    /// Whether this is the line of exactly these bytes.
    pub fn records<V>(&self, root: &Stored<Root, V>) -> bool {
        self.root_sha256 == root.sha256() && Self::of(root).is_ok_and(|line| line == *self)
    }

    /// The line as stored, without its line end.
    pub fn to_text(&self) -> String {
        Json::Object(self.object.clone()).to_text()
    }

    fn read(json: Json) -> Result<Self, Refused> {
        let object = object(json, 289)?;
        if object.iter().last().map(|(key, _)| key) != Some("root_sha256") {
            let found = match object.get("root_sha256") {
                None => return Err(Refused::by(289, Problem::Missing).inside("root_sha256")),
                Some(_) => "before other fields".to_owned(),
            };
            return Err(Refused::by(
                289,
                Problem::Misplaced {
                    found,
                    expected: "last",
                },
            )
            .inside("root_sha256"));
        }
        let mut fields = Fields::of(Json::Object(object.clone()), 289)?;
        for field in LEFT_OUT {
            if fields.take(field).is_some() {
                let because = "a line leaves it out".to_owned();
                return Err(Refused::by(289, Problem::PresentBut { field, because }));
            }
        }
        let format_version: FormatVersion = fields.required("format_version", text)?;
        format_version.supported(192, 1, 1)?;
        let line = Self {
            format_version,
            seq: fields.required("seq", read_seq)?,
            previous_inventory: fields.required("previous_inventory", nullable(read_seq))?,
            restore_epoch: fields.required("restore_epoch", read_epoch)?,
            created_at: fields.required("created_at", text)?,
            producer: fields.required("producer", read_producer)?,
            embargo: fields.required("embargo", boolean)?,
            event: fields.required("event", read_event)?,
            extensions: fields
                .optional("extensions", 289, super::fields::object)?
                .unwrap_or_default(),
            history: take_history(&mut fields)?,
            root_sha256: fields.required("root_sha256", text)?,
            object,
        };
        check_links(line.seq, line.previous_inventory, &line.event, line.history.as_ref())?;
        Ok(line)
    }
}

impl SegmentHeader {
    fn read(json: Json) -> Result<Self, Refused> {
        let mut fields = Fields::of(json, 287)?;
        let format_version: FormatVersion = fields.required("format_version", text)?;
        format_version.supported(192, 1, 1)?;
        let catalog_id = fields.required("catalog_id", text)?;
        let kind = fields.required("kind", word(SegmentKind::from_word, "expiry or restore"))?;
        let restore_epoch = fields.required("restore_epoch", read_epoch)?;
        let first: Seq = fields.required("first", read_seq)?;
        let last: Seq = fields.required("last", read_seq)?;
        let previous_segment = take_segment(&mut fields, 287, "previous_segment", "previous_segment_sha256")?;
        let expired_at = fields.required("expired_at", text)?;
        let actor = fields.required("actor", text)?;
        let roots = fields.required("roots", list(read_seq))?;
        let leaves = fields.required("leaves", list(text))?;
        let unread = fields.required("unread", list(read_seq))?;
        let header = Self {
            format_version,
            catalog_id,
            kind,
            restore_epoch,
            previous_segment,
            expired_at,
            actor,
            roots,
            leaves,
            unread,
            extra: fields.rest(),
        };
        let (lowest, highest) = header.check()?;
        let end = |field, written: Seq, found: Seq| {
            if written == found {
                return Ok(());
            }
            Err(Refused::by(287, disagree(field, written, "the end of roots", found)).inside(field))
        };
        end("first", first, lowest)?;
        end("last", last, highest)?;
        Ok(header)
    }

    fn write(&self, first: Seq, last: Seq) -> JsonObject {
        let (path, hash) = self
            .previous_segment
            .as_ref()
            .map_or((None, None), |(path, hash)| (Some(path), Some(hash)));
        let seqs = |seqs: &[Seq]| seqs.iter().map(|seq| Json::from(*seq)).collect::<Vec<Json>>();
        let mut out = JsonObject::new();
        out.push("format_version", self.format_version);
        out.push("catalog_id", self.catalog_id);
        out.push("kind", self.kind.as_str());
        out.push("restore_epoch", self.restore_epoch);
        out.push("first", first);
        out.push("last", last);
        out.push("previous_segment", path);
        out.push("previous_segment_sha256", hash);
        out.push("expired_at", self.expired_at);
        out.push("actor", &self.actor);
        out.push("roots", seqs(&self.roots));
        out.push("leaves", self.leaves.iter().map(Json::from).collect::<Vec<Json>>());
        out.push("unread", seqs(&self.unread));
        keep(&mut out, &self.extra);
        out
    }

    /// Checks the header and gives the ends of its roots.
    fn check(&self) -> Result<(Seq, Seq), Refused> {
        self.format_version.supported(192, 1, 1)?;
        ascending(&self.roots, 287, |seq| *seq).map_err(|refused| refused.inside("roots"))?;
        ascending(&self.unread, 287, |seq| *seq).map_err(|refused| refused.inside("unread"))?;
        let (Some(&first), Some(&last)) = (self.roots.first(), self.roots.last()) else {
            let because = "a segment records at least one root".to_owned();
            return Err(Refused::by(
                287,
                Problem::AbsentBut {
                    field: "a root",
                    because,
                },
            )
            .inside("roots"));
        };
        if let Some(seq) = self.unread.iter().find(|seq| self.roots.binary_search(seq).is_err()) {
            let because = format!("unread names root {seq}");
            return Err(Refused::by(
                287,
                Problem::AbsentBut {
                    field: "the root in roots",
                    because,
                },
            )
            .inside("unread"));
        }
        let empty = |field, list_is_empty: bool, kind| {
            if list_is_empty || self.kind != kind {
                return Ok(());
            }
            let because = format!("it is empty in a segment of kind {kind}");
            Err(Refused::by(
                288,
                Problem::PresentBut {
                    field: "an element",
                    because,
                },
            )
            .inside(field))
        };
        empty("leaves", self.leaves.is_empty(), SegmentKind::Restore)?;
        empty("unread", self.unread.is_empty(), SegmentKind::Expiry)?;
        Ok((first, last))
    }
}

impl Segment {
    /// INV-284: most lines of roots a segment holds before it is split.
    pub const MAX_LINES: usize = 1000;
    /// INV-284: size at which a segment is split, in bytes; a single longer line stands alone.
    pub const MAX_BYTES: usize = 64 << 20;

    /// INV-283, INV-284: refuses a segment that lies under another name or another epoch's directory than its own.
    pub fn check_path(&self, path: &SegmentPath) -> Result<(), DocError> {
        let header = &self.header;
        let own = (
            Some(header.restore_epoch),
            header.roots.first().copied(),
            header.roots.last().copied(),
        );
        if own == (Some(path.epoch), Some(path.first), Some(path.last)) {
            return Ok(());
        }
        let ends = |seq: Option<Seq>| seq.map_or(0, Seq::get);
        let text = format!(
            "epoch {}, roots {} to {}",
            header.restore_epoch,
            ends(own.1),
            ends(own.2)
        );
        Err(Refused::by(283, disagree("the header", text, "the path", path)).of(DocKind::Segment))
    }

    fn read(bytes: &[u8]) -> Result<Self, Refused> {
        if bytes.is_empty() {
            return Err(Refused::by(286, Problem::Missing).inside(0));
        }
        let mut lines = bytes.split(|byte| *byte == b'\n');
        // Every line has its end, so what follows the last one is empty.
        if lines.next_back().is_none_or(|rest| !rest.is_empty()) {
            let found = "past the last line end".to_owned();
            return Err(Refused::by(
                286,
                Problem::Misplaced {
                    found,
                    expected: "a line end last",
                },
            ));
        }
        let first = lines.next().unwrap_or_default();
        let numbered = |index: usize| move |refused: Refused| refused.inside(index);
        let header = Json::parse_compact(first)
            .and_then(SegmentHeader::read)
            .map_err(numbered(0))?;
        let mut read = Vec::new();
        for (index, line) in lines.enumerate() {
            read.push(
                Json::parse_compact(line)
                    .and_then(SegmentLine::read)
                    .map_err(numbered(index + 1))?,
            );
        }
        let segment = Self { header, lines: read };
        segment.check()?;
        Ok(segment)
    }

    fn check(&self) -> Result<(Seq, Seq), Refused> {
        let ends = self.header.check().map_err(|refused| refused.inside(0))?;
        if self.lines.len() > Self::MAX_LINES {
            let problem = disagree(
                "the number of lines",
                self.lines.len(),
                "the most a segment holds",
                Self::MAX_LINES,
            );
            return Err(Refused::by(284, problem));
        }
        let mut expected = self
            .header
            .roots
            .iter()
            .filter(|seq| self.header.unread.binary_search(seq).is_err());
        for (index, line) in self.lines.iter().enumerate() {
            let refuse = |rule, problem| Err(Refused::by(rule, problem).inside(index + 1));
            match expected.next() {
                Some(seq) if *seq == line.seq => {}
                Some(seq) => return refuse(289, disagree("the line's seq", line.seq, "the next of roots", seq)),
                None => return refuse(289, disagree("the line's seq", line.seq, "the next of roots", "none")),
            }
            if line.restore_epoch != self.header.restore_epoch {
                let (line, header) = (line.restore_epoch, self.header.restore_epoch);
                return refuse(284, disagree("the line's restore_epoch", line, "the header's", header));
            }
            if self.header.kind == SegmentKind::Expiry && line.history.is_none() {
                let because = "the segment is of kind expiry".to_owned();
                return refuse(
                    290,
                    Problem::AbsentBut {
                        field: "changes",
                        because,
                    },
                );
            }
        }
        match expected.next() {
            Some(seq) => {
                let because = format!("roots names {seq}");
                Err(Refused::by(
                    289,
                    Problem::AbsentBut {
                        field: "a line",
                        because,
                    },
                ))
            }
            None => Ok(ends),
        }
    }
}

impl Document for Segment {
    const KIND: DocKind = DocKind::Segment;

    fn decode(bytes: &[u8]) -> Result<Self, DocError> {
        Self::read(bytes).map_err(|refused| refused.of(Self::KIND))
    }

    fn encode(&self) -> Result<Vec<u8>, DocError> {
        let (first, last) = self.check().map_err(|refused| refused.of(Self::KIND))?;
        let mut text = Json::Object(self.header.write(first, last)).to_text();
        text.push('\n');
        for line in &self.lines {
            text.push_str(&line.to_text());
            text.push('\n');
        }
        Ok(text.into_bytes())
    }
}
