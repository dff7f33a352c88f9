//! Each break, by the rule that names it.

use super::*;

async fn small() -> (Fixture, Vec<Arc<Stored<Manifest>>>) {
    let mut fixture = fixture().await;
    let first = fixture.released("population", None, &[]).await;
    let second = fixture.released("population", Some(&first), &[]).await;
    let third = fixture.released("population", Some(&second), &[]).await;
    (fixture, vec![first, second, third])
}

fn root(seq: u64) -> String {
    layout::root(Seq::new(seq).expect("a number"))
}

async fn newest_leaf(fixture: &Fixture) -> String {
    let root: Root = Document::decode(&fixture.get(&layout::root(fixture.head().await.seq)).await).expect("a root");
    root.products[&product("population")].path()
}

/// INV-262: without `CURRENT` the catalogue is read by the fallback, which is reported and no failure.
#[tokio::test(start_paused = true)]
async fn a_missing_current_is_reported_and_passes() {
    let (fixture, _) = small().await;
    fixture.store.delete(&path("CURRENT")).await.expect("deleted");
    let report = fixture.verify().await;
    assert_eq!(rules(&report), [(262, Severity::Warning)]);
    assert!(report.passed());
    assert_eq!(report.way, Some(Way::Fallback));
    assert_eq!(report.counts.roots, 4, "and the chain was walked");
}

/// INV-256: a `CURRENT` that names another hash, or is no JSON, is reported and no failure.
#[tokio::test(start_paused = true)]
async fn a_wrong_current_is_reported_and_passes() {
    let (fixture, _) = small().await;
    let head = fixture.head().await;
    let wrong = Current {
        root: RootRef {
            root_sha256: Sha256::of(b"another"),
            ..head
        },
    };
    // Named at a number before the newest, or the probe would mistake the newest for the forged one.
    let wrong = Current {
        root: RootRef {
            seq: Seq::new(2).expect("a number"),
            ..wrong.root
        },
    };
    for bytes in [wrong.encode().expect("encoded"), b"{".to_vec()] {
        fixture.overwrite("CURRENT", &bytes).await;
        let report = fixture.verify().await;
        assert_eq!(rules(&report), [(256, Severity::Warning)], "{:?}", report.findings);
        assert!(report.passed());
        assert_eq!(report.head.map(|found| found.seq), Some(head.seq));
    }
}

/// INV-259: a `CURRENT` that lags is a warning that names both versions.
#[tokio::test(start_paused = true)]
async fn a_current_that_lags_is_a_warning() {
    let (mut fixture, editions) = small().await;
    let held = fixture.get("CURRENT").await;
    fixture.released("population", Some(&editions[2]), &[]).await;
    fixture.overwrite("CURRENT", &held).await;
    let report = fixture.verify().await;
    assert_eq!(rules(&report), [(259, Severity::Warning)]);
    let text = report.findings[0].to_string();
    assert!(text.contains("version 4") && text.contains("is 5"), "{text}");
}

/// INV-130: nothing is a catalogue without its description; what lies there is still looked at.
#[tokio::test(start_paused = true)]
async fn a_missing_catalog_is_an_error() {
    let (fixture, _) = small().await;
    fixture.store.delete(&path("catalog.json")).await.expect("deleted");
    let report = fixture.verify().await;
    assert_eq!(rules(&report), [(130, Severity::Error)]);
    assert!(!report.passed());
    assert_eq!(report.counts.roots, 4);
}

/// INV-161, INV-321: a root with a changed byte is named by the root after it; the others are still checked.
#[tokio::test(start_paused = true)]
async fn a_changed_root_breaks_the_chain() {
    let (fixture, _) = small().await;
    let changed = String::from_utf8(fixture.get(&root(3)).await)
        .expect("text")
        .replace("a test", "a jest");
    fixture.overwrite(&root(3), changed.as_bytes()).await;
    let report = fixture.verify().await;
    assert_eq!(rules(&report), [(161, Severity::Error)]);
    assert_eq!(report.findings[0].path, root(4));
    assert_eq!(report.counts.roots, 4);
}

/// INV-321: a deleted root is missing from the chain.
#[tokio::test(start_paused = true)]
async fn a_deleted_root_is_missing() {
    let (fixture, _) = small().await;
    fixture.store.delete(&path(&root(2))).await.expect("deleted");
    let report = fixture.verify().await;
    assert_eq!(rules(&report), [(321, Severity::Error)]);
    assert!(
        matches!(report.findings[0].fault, Fault::RootsMissing { first, last } if (first.get(), last.get()) == (2, 2))
    );
    assert_eq!(report.counts.roots, 3, "the version behind the gap is checked too");
}

/// INV-321, INV-265: without its first versions the chain ends in the air; without `CURRENT` too no reader finds it.
#[tokio::test(start_paused = true)]
async fn a_chain_without_its_first_version_is_an_error() {
    let (fixture, _) = small().await;
    fixture.store.delete(&path(&root(1))).await.expect("deleted");
    assert_eq!(rules(&fixture.verify().await), [(321, Severity::Error)]);
    fixture.store.delete(&path("CURRENT")).await.expect("deleted");
    let report = fixture.verify().await;
    assert_eq!(rules(&report), [(265, Severity::Error), (321, Severity::Error)]);
    assert_eq!(report.way, None);
    assert_eq!(report.counts.roots, 3);
}

/// INV-260: a root after the head that does not follow it.
#[tokio::test(start_paused = true)]
async fn an_invalid_root_after_the_head_is_an_error() {
    let (fixture, _) = small().await;
    fixture.put(&root(5), b"{}").await;
    assert_eq!(rules(&fixture.verify().await), [(260, Severity::Error)]);
}

/// INV-257: a root behind a gap, which no probe reaches.
#[tokio::test(start_paused = true)]
async fn a_root_behind_a_gap_is_a_warning() {
    let (fixture, _) = small().await;
    fixture.put(&root(9), &fixture.get(&root(4)).await).await;
    let report = fixture.verify().await;
    assert_eq!(rules(&report), [(257, Severity::Warning)]);
    assert_eq!(report.findings[0].path, root(9));
}

/// INV-150: a root that says another number than its name is none of the chain.
#[tokio::test(start_paused = true)]
async fn a_root_under_another_number_is_an_error() {
    let (fixture, _) = small().await;
    fixture.overwrite(&root(2), &fixture.get(&root(3)).await).await;
    assert_eq!(rules(&fixture.verify().await), [(150, Severity::Error)]);
}

/// INV-252: a version dated as the one before it.
#[tokio::test(start_paused = true)]
async fn a_version_dated_too_early_is_an_error() {
    let (fixture, _) = small().await;
    let before: Root = Document::decode(&fixture.get(&root(3)).await).expect("a root");
    fixture.edit_head(|head| head.created_at = before.created_at).await;
    assert_eq!(rules(&fixture.verify().await), [(252, Severity::Error)]);
}

/// INV-151: a version of a later epoch than the catalogue.
#[tokio::test(start_paused = true)]
async fn a_version_of_a_later_epoch_than_the_catalogue_is_an_error() {
    let (fixture, _) = small().await;
    let later = Epoch::new(3).expect("an epoch");
    fixture.edit_head(|head| head.restore_epoch = later).await;
    let head = fixture.head().await;
    let current = Current {
        root: RootRef {
            restore_epoch: later,
            ..head
        },
    };
    fixture.overwrite("CURRENT", &current.encode().expect("encoded")).await;
    assert_eq!(rules(&fixture.verify().await), [(151, Severity::Error)]);
}

/// INV-163: the history fields were there and are gone.
#[tokio::test(start_paused = true)]
async fn history_fields_that_are_lost_are_an_error() {
    let (fixture, _) = small().await;
    fixture.edit_head(|head| head.history = None).await;
    assert_eq!(rules(&fixture.verify().await), [(163, Severity::Error)]);
}

/// INV-137: a catalogue that opted in has a `HISTORY`.
#[tokio::test(start_paused = true)]
async fn an_opted_in_catalogue_without_history_is_an_error() {
    let (fixture, _) = small().await;
    let bytes = edited::<Catalog>(&fixture.get("catalog.json").await, |catalog| {
        *catalog = catalog.clone().opted_in(Seq::FIRST);
    });
    fixture.overwrite("catalog.json", &bytes).await;
    assert!(rules(&fixture.verify().await).contains(&(137, Severity::Error)));
}

/// INV-167: a leaf is missing; it is reported once, however many versions name it.
#[tokio::test(start_paused = true)]
async fn a_missing_leaf_is_an_error() {
    let (fixture, _) = small().await;
    let leaf = newest_leaf(&fixture).await;
    fixture.edit_head(|_| {}).await;
    fixture.store.delete(&path(&leaf)).await.expect("deleted");
    let report = fixture.verify().await;
    assert_eq!(rules(&report), [(167, Severity::Error)]);
    assert_eq!(report.findings.len(), 1);
    assert_eq!(report.findings[0].path, leaf);
}

/// INV-166: a leaf with other bytes than its name says.
#[tokio::test(start_paused = true)]
async fn a_changed_leaf_is_an_error() {
    let (fixture, _) = small().await;
    let leaf = newest_leaf(&fixture).await;
    let bytes = String::from_utf8(fixture.get(&leaf).await)
        .expect("text")
        .replace("revisable", "final");
    fixture.overwrite(&leaf, bytes.as_bytes()).await;
    assert_eq!(rules(&fixture.verify().await), [(166, Severity::Error)]);
}

/// INV-169: a product's leaf is another product's.
#[tokio::test(start_paused = true)]
async fn a_leaf_of_another_product_is_an_error() {
    let (mut fixture, _) = small().await;
    fixture.released("trade", None, &[]).await;
    fixture
        .edit_head(|head| {
            let leaf = head.products[&product("population")];
            head.products.insert(product("trade"), leaf);
            // The list agrees, or the root would not decode.
            head.history.as_mut().expect("history fields").changes[0].leaf_sha256.to = Some(leaf.leaf_sha256);
        })
        .await;
    assert_eq!(rules(&fixture.verify().await), [(169, Severity::Error)]);
}

/// INV-162: a product that differs and is not in the change list; one that is in it and does not differ.
#[tokio::test(start_paused = true)]
async fn a_change_list_that_hides_or_invents_is_an_error() {
    let (fixture, _) = small().await;
    fixture
        .edit_head(|head| head.history.as_mut().expect("history fields").changes.clear())
        .await;
    let report = fixture.verify().await;
    assert_eq!(rules(&report), [(162, Severity::Error)]);
    assert!(matches!(report.findings[0].fault, Fault::ChangeMissing { .. }));

    let (mut fixture, editions) = small().await;
    fixture.released("trade", None, &[]).await;
    fixture.released("population", Some(&editions[2]), &[]).await;
    fixture
        .edit_head(|head| {
            let to = Some(head.products[&product("trade")].leaf_sha256);
            head.history.as_mut().expect("history fields").changes.push(ChangeItem {
                product_id: product("trade"),
                leaf_sha256: LeafChange {
                    from: Some(Sha256::of(b"another leaf")),
                    to,
                },
                entries: Vec::new(),
            });
        })
        .await;
    let report = fixture.verify().await;
    assert_eq!(rules(&report), [(162, Severity::Error)]);
    assert!(matches!(report.findings[0].fault, Fault::ChangeUnfounded { .. }));
}

/// INV-177, INV-183: a change list that comes from another leaf than the version before has.
#[tokio::test(start_paused = true)]
async fn a_change_list_from_another_leaf_is_an_error() {
    let (fixture, _) = small().await;
    let other = Some(Sha256::of(b"another leaf"));
    fixture
        .edit_head(|head| {
            head.history.as_mut().expect("history fields").changes[0]
                .leaf_sha256
                .from = other
        })
        .await;
    assert_eq!(rules(&fixture.verify().await), [(177, Severity::Error)]);
}

/// INV-177, INV-256, INV-260: a change list that goes to another leaf than its own root names makes the root invalid: readers
/// keep the version before, and the finding names the rule.
#[tokio::test(start_paused = true)]
async fn a_change_list_to_another_leaf_makes_the_root_invalid() {
    let (fixture, _) = small().await;
    let text = String::from_utf8(fixture.get(&root(4)).await).expect("text");
    let leaf = newest_leaf(&fixture).await;
    let to = format!("\"to\":\"{}\"", layout::leaf_sha256(&leaf).expect("a leaf"));
    let changed = text.replace(&to, &format!("\"to\":\"{}\"", Sha256::of(b"another leaf")));
    assert_ne!(text, changed);
    fixture.put_head(changed.as_bytes()).await;
    let report = fixture.verify().await;
    assert_eq!(rules(&report), [(258, Severity::Error), (260, Severity::Error)]);
    assert!(
        report
            .findings
            .iter()
            .all(|finding| finding.to_string().contains("INV-177"))
    );
    assert_eq!(report.head.map(|head| head.seq.get()), Some(3));
}

/// INV-178, INV-179: a change list that tells another story of an edition, by its states or by a field of its entry.
#[tokio::test(start_paused = true)]
async fn a_change_list_with_other_entries_is_an_error() {
    let edits: [fn(&mut Vec<EntryChange>); 3] = [
        |entries| drop(entries.remove(0)),
        |entries| entries[0].from = Some(EntryStatus::Tombstone),
        |entries| {
            let entry = entries[1].entry.as_mut().expect("an entry");
            entry.manifest_sha256 = Sha256::of(b"another manifest");
        },
    ];
    for edit in edits {
        let (fixture, _) = small().await;
        fixture
            .edit_head(|head| edit(&mut head.history.as_mut().expect("history fields").changes[0].entries))
            .await;
        assert_eq!(rules(&fixture.verify().await), [(178, Severity::Error)]);
    }
}

/// INV-215: two editions live at one schema version. INV-235: a `previous` nobody knows.
#[tokio::test(start_paused = true)]
async fn a_leaf_with_two_live_editions_or_an_unknown_previous_is_an_error() {
    let (fixture, _) = small().await;
    fixture
        .edit_leaf("population", |leaf| {
            for entry in &mut leaf.editions {
                entry.state = EditionState::Live;
            }
        })
        .await;
    assert!(rules(&fixture.verify().await).contains(&(215, Severity::Error)));

    let (fixture, _) = small().await;
    fixture
        .edit_leaf("population", |leaf| drop(leaf.editions.remove(1)))
        .await;
    assert!(rules(&fixture.verify().await).contains(&(235, Severity::Error)));
}

/// INV-181: an edition recorded and retired at once.
#[tokio::test(start_paused = true)]
async fn an_edition_recorded_and_retired_at_once_is_an_error() {
    let (fixture, editions) = small().await;
    fixture
        .edit_head(|head| {
            head.retired.push(Tombstone {
                product_id: product("population"),
                edition_id: editions[0].edition_id,
                retired_at: head.created_at,
            });
        })
        .await;
    assert!(rules(&fixture.verify().await).contains(&(181, Severity::Error)));
}

/// INV-216: a manifest with other bytes. INV-395: one that is not there, although the edition is recorded.
#[tokio::test(start_paused = true)]
async fn a_changed_or_missing_manifest_is_an_error() {
    let (fixture, editions) = small().await;
    let name = layout::manifest(&product("population"), &editions[0].edition_id);
    let mut bytes = fixture.get(&name).await;
    bytes.push(b'\n');
    fixture.overwrite(&name, &bytes).await;
    let report = fixture.verify().await;
    assert_eq!(rules(&report), [(216, Severity::Error)]);
    assert_eq!(report.findings[0].path, name);
    fixture.store.delete(&path(&name)).await.expect("deleted");
    let report = fixture.verify().await;
    assert!(matches!(
        report.findings[..],
        [crate::verify::Finding {
            fault: Fault::ManifestMissing { .. },
            ..
        }]
    ));
}

/// INV-176, INV-188, INV-170: what an entry repeats of its manifest and the manifest says otherwise.
#[tokio::test(start_paused = true)]
async fn entries_that_disagree_with_their_manifests_are_errors() {
    type Edit = fn(&mut Entry);
    let edits: [(u16, Edit); 5] = [
        (176, |entry| {
            let artefact = ArtefactFingerprint {
                fingerprint: Sha256::of(b"x"),
                partial_of: None,
            };
            entry.artefacts = Some([(codelist("CL_X"), artefact)].into());
        }),
        (188, |entry| entry.routing.as_mut().expect("filled").pull_bytes += 1),
        (188, |entry| entry.routing.as_mut().expect("filled").dataflows.clear()),
        (170, |entry| entry.schema_version = "2.53".parse().expect("clean text")),
        (170, |entry| entry.previous = None),
    ];
    for (rule, edit) in edits {
        let (fixture, _) = small().await;
        fixture
            .edit_leaf("population", |leaf| edit(&mut leaf.editions[2]))
            .await;
        assert_eq!(rules(&fixture.verify().await), [(rule, Severity::Error)]);
    }
}

/// INV-395: a listed file that is missing, longer, or changed in place, shared files once for each edition that lists them.
#[tokio::test(start_paused = true)]
async fn missing_and_changed_files_are_errors() {
    let (fixture, editions) = small().await;
    let shared = format!("{}/part-0001.parquet", layout::data(&product("population")));
    let own = format!(
        "{}/structures.json",
        layout::edition(&product("population"), &editions[1].edition_id)
    );
    let bytes = fixture.get(&shared).await;
    for (name, broken, count) in [
        (&shared, [&bytes[..], b"more"].concat(), 3),
        (&shared, bytes.iter().rev().copied().collect(), 3 * 4),
        (&own, Vec::new(), 1),
    ] {
        let held = fixture.get(name).await;
        fixture.overwrite(name, &broken).await;
        let report = fixture.verify().await;
        assert_eq!(rules(&report), [(395, Severity::Error)]);
        assert_eq!(report.findings.len(), count, "{:?}", report.findings);
        assert!(report.findings.iter().all(|finding| finding.path == **name));
        fixture.overwrite(name, &held).await;
    }
    fixture.store.delete(&path(&shared)).await.expect("deleted");
    let report = fixture.verify().await;
    assert_eq!(report.findings.len(), 3);
    assert!(
        report
            .findings
            .iter()
            .all(|finding| matches!(finding.fault, Fault::FileMissing { .. }))
    );
}

/// INV-217: a current edition's canonical form is unknown here; the rule names the known ones.
#[tokio::test(start_paused = true)]
async fn an_unknown_canonical_form_is_an_error() {
    let (fixture, _) = small().await;
    let forms = ["9".parse().expect("clean text")].into();
    let options = crate::verify::Options {
        files: None,
        references: None,
        canonical_forms: &forms,
        findings_kept: 10,
    };
    let report = crate::verify::verify(&*fixture.store, &options).await;
    assert_eq!(rules(&report), [(217, Severity::Error)]);
    assert_eq!(
        report.findings.len(),
        1,
        "superseded editions are compared with nothing"
    );
    assert_eq!(report.counts.files_unmeasured, 3 + 2 + 1 + 3);
}

/// INV-395: findings beyond the limit are counted, and the report still fails.
#[tokio::test(start_paused = true)]
async fn findings_beyond_the_limit_are_counted() {
    let (fixture, editions) = small().await;
    for manifest in &editions {
        let name = layout::manifest(&manifest.product_id, &manifest.edition_id);
        fixture.store.delete(&path(&name)).await.expect("deleted");
    }
    let options = crate::verify::Options {
        files: None,
        references: None,
        canonical_forms: &fixture.forms,
        findings_kept: 2,
    };
    let report = crate::verify::verify(&*fixture.store, &options).await;
    assert_eq!((report.findings.len(), report.omitted(), report.errors()), (2, 1, 3));
    assert!(!report.passed());
}
