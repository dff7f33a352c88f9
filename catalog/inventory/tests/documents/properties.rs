//! For every document: what is written is read again and fits its schema; no bytes make a decoder panic.

use std::collections::BTreeMap;

use proptest::{collection, option, prelude::*, sample::Index};
use sovm_inventory::doc::{
    ArtefactFingerprint, ArtefactRecord, Binding, Catalog, CatalogId, ChangeItem, CleanText, Current, Digests,
    Document, EditionId, EditionState, EngineVersions, Entry, EntryChange, EntryStatus, Epoch, Event, EventKind,
    FileEntry, FileRoot, FormatVersion, History, Instant, Journal, JsonObject, Leaf, LeafChange, LeafRef, Lifecycle,
    ListedEntry, Manifest, Pending, Producer, ProductId, ProductKind, Root, RootHistory, RootRef, Routing, Segment,
    SegmentHeader, SegmentKind, SegmentLine, SegmentPath, Seq, Sha256, Stored, TableFingerprint, Tier, Tombstone, Urn,
};

use super::support::{VECTORS, schema_accepts};

fn instant() -> impl Strategy<Value = Instant> {
    (0..4_000_000_000_000_i64).prop_map(Instant::from_unix_millis)
}

fn edition() -> impl Strategy<Value = EditionId> {
    (instant(), any::<[u8; 10]>()).prop_map(|(instant, random)| EditionId::at(instant, random))
}

fn catalog_id() -> impl Strategy<Value = CatalogId> {
    (instant(), any::<[u8; 10]>()).prop_map(|(instant, random)| CatalogId::at(instant, random))
}

fn sha256() -> impl Strategy<Value = Sha256> {
    any::<[u8; 32]>().prop_map(Sha256::from_bytes)
}

fn product() -> impl Strategy<Value = ProductId> {
    "[A-Za-z0-9][A-Za-z0-9._~-]{0,8}".prop_map(|text| text.parse().unwrap())
}

fn seq() -> impl Strategy<Value = Seq> {
    (1..=Seq::MAX.get()).prop_map(|number| Seq::new(number).unwrap())
}

fn epoch() -> impl Strategy<Value = Epoch> {
    (0..=Epoch::MAX.get()).prop_map(|number| Epoch::new(number).unwrap())
}

fn text() -> impl Strategy<Value = CleanText> {
    "[a-z0-9é\"\\\\/@ .]{0,8}[a-zé]".prop_map(|text| text.parse().unwrap())
}

fn urn() -> impl Strategy<Value = Urn> {
    "urn:sdmx:org\\.sdmx\\.infomodel\\.codelist\\.Codelist=[A-Z]{1,3}:[A-Z_]{1,5}\\([0-9]{1,2}(\\.[0-9]{1,2}){0,3}(-[a-z]{1,3})?\\)"
        .prop_map(|text| text.parse().unwrap())
}

fn state() -> impl Strategy<Value = EditionState> {
    proptest::sample::select(EditionState::ALL)
}

fn segment_path() -> impl Strategy<Value = SegmentPath> {
    (epoch(), seq(), seq(), instant(), any::<[u8; 10]>())
        .prop_map(|(epoch, a, b, instant, random)| SegmentPath::at(epoch, a.min(b), a.max(b), instant, random))
}

fn extra() -> impl Strategy<Value = JsonObject> {
    collection::btree_map("x-[a-zé\"]{0,4}", any::<u64>(), 0..3).prop_map(|members| {
        let mut object = JsonObject::new();
        for (key, value) in members {
            object.insert(key, value);
        }
        object
    })
}

prop_compose! {
    fn entry(kind: ProductKind)(
        edition_id in edition(), previous in option::of(edition()), state in state(), manifest_sha256 in sha256(),
        schema_version in text(), state_changed_at in instant(), release_at in option::of(instant()),
        artefacts in option::of(collection::btree_map(urn(), (sha256(), option::of(sha256())), 0..3)),
        routing in option::of((collection::btree_set(urn(), 0..3), 0..1_u64 << 53)), extra in extra(),
    ) -> Entry {
        Entry {
            edition_id, previous: previous.filter(|previous| *previous != edition_id), state, manifest_sha256,
            schema_version, state_changed_at, release_at: release_at.filter(|_| state == EditionState::Embargoed),
            structure_source: None,
            artefacts: artefacts.map(|map| map.into_iter().map(|(urn, (fingerprint, partial_of))| {
                (urn, ArtefactFingerprint { fingerprint, partial_of })
            }).collect()),
            routing: routing.map(|(dataflows, pull_bytes)| Routing {
                dataflows: if kind == ProductKind::Structure { Vec::new() } else { dataflows.into_iter().collect() },
                pull_bytes,
            }),
            extra,
        }
    }
}

fn leaf() -> impl Strategy<Value = Leaf> {
    let kind = proptest::sample::select(ProductKind::ALL);
    kind.prop_flat_map(|kind| {
        let lifecycle = proptest::sample::select(Lifecycle::ALL);
        (
            Just(kind),
            product(),
            lifecycle,
            collection::vec(entry(kind), 0..4),
            extra(),
        )
    })
    .prop_map(|(kind, product_id, lifecycle, mut editions, extra)| {
        editions.sort_by_key(|entry| entry.edition_id);
        editions.dedup_by_key(|entry| entry.edition_id);
        Leaf {
            format_version: FormatVersion::INVENTORY,
            product_id,
            kind,
            lifecycle,
            editions,
            extra,
        }
    })
}

/// What happened to one product: its leaf before and after, and its editions.
type Change = (Option<Sha256>, Option<Sha256>, Vec<(Entry, Option<EditionState>, u8)>);

fn change() -> impl Strategy<Value = Change> {
    let entries = collection::vec((entry(ProductKind::Data), option::of(state()), 0..3_u8), 1..4);
    (option::of(sha256()), option::of(sha256()), entries)
}

prop_compose! {
    fn root()(
        number in 2..1_000_000_u64, first in any::<bool>(), restore_epoch in epoch(), created_at in instant(),
        name in text(), actor in text(), reason in ".{0,8}", embargo in any::<bool>(),
        changes in collection::btree_map(product(), change(), 0..4), untouched in collection::btree_map(product(), sha256(), 0..3),
        previous in sha256(), kind in 0..10_usize, with_history in any::<bool>(), extra in extra(),
    ) -> Root {
        let seq = if first { Seq::FIRST } else { Seq::new(number).unwrap() };
        let mut products: BTreeMap<_, _> =
            untouched.into_iter().map(|(product, leaf_sha256)| (product, LeafRef { leaf_sha256 })).collect();
        let (mut retired, mut items) = (Vec::new(), Vec::new());
        for (product_id, (from, to, mut editions)) in changes {
            editions.sort_by_key(|(entry, ..)| entry.edition_id);
            editions.dedup_by_key(|(entry, ..)| entry.edition_id);
            match to {
                Some(leaf_sha256) => products.insert(product_id.clone(), LeafRef { leaf_sha256 }),
                None => products.remove(&product_id),
            };
            let from = from.filter(|_| !first);
            let mut entries = Vec::new();
            for (entry, before, what) in editions {
                let unchanged = from == to;
                let before = before.map(EntryStatus::State).filter(|_| !first && !unchanged);
                let edition_id = entry.edition_id;
                let item = |from, to, entry| EntryChange { edition_id, from, to, entry };
                entries.push(match what {
                    0 if to.is_some() && !unchanged => {
                        item(before, Some(EntryStatus::State(entry.state)), Some(ListedEntry::from(&entry)))
                    }
                    1 if !first => item(Some(EntryStatus::Tombstone), None, None),
                    _ => {
                        retired.push(Tombstone { product_id: product_id.clone(), edition_id, retired_at: created_at });
                        item(before, Some(EntryStatus::Tombstone), None)
                    }
                });
            }
            items.push(ChangeItem { product_id, leaf_sha256: LeafChange { from, to }, entries });
        }
        let kind = EventKind::WRITTEN[kind].clone();
        let silent = matches!(kind, EventKind::Describe | EventKind::EmbargoChange);
        Root {
            format_version: FormatVersion::INVENTORY, seq, previous_inventory: seq.previous(), restore_epoch, created_at,
            producer: Producer { name: name.clone(), version: name }, embargo, products, retired,
            event: Event { actor, reason, kind },
            extensions: JsonObject::new(),
            history: with_history.then(|| RootHistory {
                previous_root_sha256: (!first).then_some(previous),
                changes: if silent { Vec::new() } else { items },
            }),
            extra,
        }
    }
}

fn catalog() -> impl Strategy<Value = Catalog> {
    (catalog_id(), epoch(), option::of(seq()), extra()).prop_map(|(id, restore_epoch, since_seq, extra)| {
        let catalog = Catalog {
            restore_epoch,
            extra,
            ..Catalog::new(id)
        };
        since_seq.map_or_else(|| catalog.clone(), |since_seq| catalog.clone().opted_in(since_seq))
    })
}

fn history() -> impl Strategy<Value = History> {
    let newest = option::of((segment_path(), sha256()));
    (
        catalog_id(),
        epoch(),
        newest,
        option::of(seq()),
        option::of(segment_path()),
        extra(),
    )
        .prop_map(|(id, epoch, newest_segment, through, cleaned, extra)| History {
            expired_through: through.filter(|_| newest_segment.is_some()),
            cleaned_through: cleaned.filter(|_| newest_segment.is_some()),
            newest_segment,
            extra,
            ..History::at_opt_in(id, epoch)
        })
}

prop_compose! {
    fn file()(
        path in "[a-z]{1,4}(/[a-zé]{1,4}){0,2}\\.(parquet|duckdb|bin)", size in 0..1_u64 << 53,
        root in proptest::sample::select(FileRoot::ALL), tier in proptest::sample::select(Tier::ALL), hash in sha256(),
        blake3 in option::of(any::<[u8; 32]>()), carried_from in option::of(edition()), extra in extra(),
    ) -> FileEntry {
        let digests = Digests::new(hash);
        let digests = match blake3 {
            Some(blake3) => digests.with("blake3", &blake3).unwrap(),
            None => digests,
        };
        FileEntry { path: path.parse().unwrap(), size, root, tier, digests, carried_from, extra }
    }
}

prop_compose! {
    fn manifest()(
        product_id in product(), edition_id in edition(), previous in option::of(edition()), created_at in instant(),
        name in text(), mut files in collection::vec(file(), 0..4), versions in (text(), text()),
        flows in collection::vec((urn(), 0..1_u64 << 50, sha256()), 0..3),
        artefacts in collection::btree_map(urn(), (sha256(), option::of(sha256())), 0..4),
        content_fingerprint in option::of(sha256()), extra in extra(),
    ) -> Manifest {
        files.sort_by(|a, b| (a.root, &a.path).cmp(&(b.root, &b.path)));
        files.dedup_by(|a, b| (a.root, &a.path) == (b.root, &b.path));
        let duckdb = files.iter().any(|file| file.path.as_str().ends_with(".duckdb"));
        let (version, storage) = versions;
        Manifest {
            format_version: FormatVersion::MANIFEST, product_id, edition_id,
            previous: previous.filter(|previous| *previous != edition_id), created_at,
            producer: Producer { name: name.clone(), version: name.clone() }, schema_version: name.clone(),
            engine: EngineVersions {
                duckdb_version: duckdb.then_some(version),
                duckdb_storage_version: duckdb.then_some(storage),
                ..EngineVersions::default()
            },
            files,
            bindings: flows.into_iter().map(|(dataflow, rows, structure_fingerprint)| Binding {
                structural_version: dataflow.clone(), dataflow, observations: rows,
                fingerprint: TableFingerprint { sum: u128::from(rows), rows }, structure_fingerprint,
            }).collect(),
            artefacts: artefacts.into_iter().map(|(urn, (fingerprint, partial_of))| {
                ArtefactRecord { urn, fingerprint, partial_of }
            }).collect(),
            canonical_form: name, content_fingerprint, producer_fields: extra.clone(), extensions: JsonObject::new(), extra,
        }
    }
}

fn round_trip<T: Document + PartialEq + std::fmt::Debug>(value: &T) -> Result<(), TestCaseError> {
    let bytes = value.encode().map_err(|error| TestCaseError::fail(error.to_string()))?;
    prop_assert_eq!(
        &T::decode(&bytes).map_err(|error| TestCaseError::fail(error.to_string()))?,
        value
    );
    let text = std::str::from_utf8(&bytes).unwrap();
    prop_assert!(schema_accepts(T::KIND, text), "schema of {}: {}", T::KIND, text);
    Ok(())
}

/// Gives bytes to every decoder, and what one of them accepts to its encoder.
fn decode_all(bytes: &[u8]) {
    fn one<T: Document>(bytes: &[u8]) {
        if let Ok(value) = T::decode(bytes) {
            assert!(T::decode(&value.encode().unwrap()).is_ok());
        }
    }
    one::<Catalog>(bytes);
    one::<Current>(bytes);
    one::<Root>(bytes);
    one::<Leaf>(bytes);
    one::<Manifest>(bytes);
    one::<History>(bytes);
    one::<Segment>(bytes);
    one::<Journal>(bytes);
    one::<Pending>(bytes);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    /// INV-166, INV-169, INV-170, INV-174, INV-184: leaves.
    #[test]
    fn leaves_survive(leaf in leaf()) {
        round_trip(&leaf)?;
    }

    /// INV-152, INV-154, INV-155, INV-161, INV-162, INV-177, INV-178, INV-179: roots.
    #[test]
    fn roots_survive(root in root()) {
        round_trip(&root)?;
        let stored = Stored::encode(root).map_err(|error| TestCaseError::fail(error.to_string()))?;
        let again = Stored::<Root>::verify(stored.bytes().clone(), stored.sha256());
        prop_assert_eq!(again.map_err(|error| TestCaseError::fail(error.to_string()))?, stored);
    }

    /// INV-35, INV-45, INV-49, INV-51, INV-52, INV-56, INV-184: manifests.
    #[test]
    fn manifests_survive(manifest in manifest()) {
        round_trip(&manifest)?;
        let stored = Stored::encode(manifest).map_err(|error| TestCaseError::fail(error.to_string()))?;
        let routing = stored.routing();
        prop_assert!(routing.dataflows.windows(2).all(|pair| pair[0] < pair[1]));
        prop_assert_eq!(stored.artefact_fingerprints().len(), stored.artefacts.len());
    }

    /// INV-284, INV-286, INV-287, INV-289: segments, made of the lines of roots.
    #[test]
    fn segments_survive(
        roots in collection::vec(root(), 1..4), unread in option::of(1_000_000..2_000_000_u64), catalog_id in catalog_id(),
        restore_epoch in epoch(), previous_segment in option::of((segment_path(), sha256())), expired_at in instant(),
        actor in text(), extra in extra(),
    ) {
        let mut lines = Vec::new();
        for root in roots {
            let root = Root { restore_epoch, ..root };
            let stored = Stored::encode(root).map_err(|error| TestCaseError::fail(error.to_string()))?;
            lines.push(SegmentLine::of(&stored).map_err(|error| TestCaseError::fail(error.to_string()))?);
        }
        lines.sort_by_key(|line| line.seq);
        lines.dedup_by_key(|line| line.seq);
        let unread: Vec<Seq> = unread.and_then(Seq::new).into_iter().collect();
        let header = SegmentHeader {
            format_version: FormatVersion::SEGMENT, catalog_id, kind: SegmentKind::Restore, restore_epoch, previous_segment,
            expired_at, actor, roots: lines.iter().map(|line| line.seq).chain(unread.clone()).collect(), leaves: Vec::new(),
            unread, extra,
        };
        round_trip(&Segment { header, lines })?;
    }

    /// INV-289: the line of a root records it, and keeps its fields.
    #[test]
    fn lines_survive(root in root()) {
        let stored = Stored::encode(root).map_err(|error| TestCaseError::fail(error.to_string()))?;
        let line = SegmentLine::of(&stored).map_err(|error| TestCaseError::fail(error.to_string()))?;
        prop_assert!(line.records(&stored));
        prop_assert_eq!(line.seq, stored.seq);
        prop_assert_eq!(&line.history, &stored.history);
    }

    /// INV-130, INV-131, INV-147, INV-268, INV-280, INV-403: the small documents.
    #[test]
    fn small_documents_survive(
        catalog in catalog(), history in history(), epoch in epoch(), seq in seq(), hash in sha256(),
        product_id in product(), edition_id in edition(), release_at in option::of(instant()), sealed_at in instant(),
        extra in extra(),
    ) {
        round_trip(&catalog)?;
        round_trip(&history)?;
        round_trip(&Current { root: RootRef { restore_epoch: epoch, seq, root_sha256: hash } })?;
        round_trip(&Journal { product_id, edition_id, previous: None, sealed_at, release_at: Some(sealed_at) })?;
        round_trip(&Pending { edition_id, release_at, extra })?;
    }

    /// INV-283: segment names.
    #[test]
    fn segment_names_survive(path in segment_path()) {
        prop_assert_eq!(path.to_string().parse::<SegmentPath>().unwrap(), path);
    }

    /// INV-166: no bytes make a decoder panic.
    #[test]
    fn any_bytes(bytes in collection::vec(any::<u8>(), 0..64)) {
        decode_all(&bytes);
    }

    /// INV-166: no text of JSON's own characters does.
    #[test]
    fn any_tokens(text in "[\\[\\]{}:,\"\\\\/0-9eE.+\\-nulltruefals u\u{e9}\n ]{0,64}") {
        decode_all(text.as_bytes());
        // serde_json is the oracle for what is JSON: what it refuses, a decoder refuses as no JSON.
        let ours = Current::decode(text.as_bytes()).unwrap_err();
        let theirs = serde_json::from_str::<serde::de::IgnoredAny>(&text);
        if theirs.is_err() {
            prop_assert_eq!(ours.rule, None, "{}", ours);
        }
    }

    /// INV-166: no vector with bytes changed, cut, doubled or moved does, and what is still read is written again.
    #[test]
    fn mutated_documents(
        vector in any::<Index>(), edits in collection::vec((any::<Index>(), any::<u8>(), 0..4_u8), 1..4),
    ) {
        let (_, text) = VECTORS[vector.index(VECTORS.len())];
        let mut bytes = text.as_bytes().to_vec();
        for (at, byte, what) in edits {
            if bytes.is_empty() {
                break;
            }
            let at = at.index(bytes.len());
            match what {
                0 => bytes[at] = byte,
                1 => bytes.insert(at, byte),
                2 => bytes.truncate(at),
                _ => { bytes.remove(at); }
            }
        }
        decode_all(&bytes);
    }

    /// INV-150, INV-191: no value in the place of another does.
    #[test]
    fn swapped_values(
        vector in any::<Index>(), at in any::<Index>(),
        value in proptest::sample::select(&["null", "0", "-1", "1.0", "1e999", "\"\"", "[]", "{}", "true", "\"x\"", "99999999999999999999"][..]),
    ) {
        let (_, text) = VECTORS[vector.index(VECTORS.len())];
        let colons: Vec<usize> = text.match_indices("\":").map(|(at, _)| at + 2).collect();
        let start = colons[at.index(colons.len())];
        let end = start + text[start..].find([',', '}', '\n']).unwrap();
        decode_all(format!("{}{value}{}", &text[..start], &text[end..]).as_bytes());
    }
}
