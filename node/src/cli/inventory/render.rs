//! An Inventory in words.

use crate::{
    api::{
        AudienceReport, CatalogueListReport, EditionChangeInfo, InventoryChangeReport, InventoryExportReport,
        InventoryExpungeReport, InventoryGcReport, InventoryLogReport, InventoryRetentionReport, InventoryShowReport,
        InventoryVerifyReport, InventoryVersionInfo, ProductChangeInfo, ReaderInfo,
    },
    config::{format_bytes, format_duration_ms},
    error::ApiError,
    output::{Output, TextTable, visible},
};

/// The log: a line a version, and one below it for each edition that changed.
pub(super) fn log(report: &InventoryLogReport) -> Vec<String> {
    let mut lines = Vec::new();
    for version in &report.versions {
        lines.push(version_line(version));
        match &version.changes {
            None => lines.push("  (from before change lists)".to_owned()),
            Some(changes) => lines.extend(changes.iter().flat_map(product_lines).map(|line| format!("  {line}"))),
        }
    }
    lines
}

/// What a reader of the log should not miss.
pub(super) fn log_notes(report: &InventoryLogReport) -> Vec<String> {
    let mut notes = report.findings.clone();
    if let Some(seq) = report.missing_from {
        notes.push(format!("version {seq} and those before it are not stored any more"));
    }
    notes
}

fn version_line(version: &InventoryVersionInfo) -> String {
    let mut line = format!(
        "{} {} {} by {}",
        version.seq, version.created_at, version.kind, version.actor
    );
    if version.kind == "embargo-change" {
        line.push_str(if version.embargo {
            ", embargo on"
        } else {
            ", embargo off"
        });
    }
    if let (Some(from), "correct") = (version.previous_inventory, version.kind.as_str()) {
        line.push_str(&format!(", from version {from}"));
    }
    if !version.reason.is_empty() {
        // On one line: a line break in it would look like another version.
        line.push_str(&format!(": {}", visible(&version.reason)));
    }
    line
}

fn product_lines(change: &ProductChangeInfo) -> Vec<String> {
    if change.editions.is_empty() {
        return vec![format!("{}: the product itself", change.product_id)];
    }
    let line = |edition: &EditionChangeInfo| {
        let word = |status: &Option<String>| status.clone().unwrap_or_else(|| "none".to_owned());
        let mut line = format!(
            "{} {} {} -> {}",
            change.product_id,
            edition.edition_id,
            word(&edition.from),
            word(&edition.to)
        );
        if let Some(at) = &edition.release_at {
            line.push_str(&format!(", release at {at}"));
        }
        line
    };
    change.editions.iter().map(line).collect()
}

/// A version's products as a table.
pub(super) fn show(report: &InventoryShowReport) -> String {
    let newest = if report.seq == report.newest {
        String::new()
    } else {
        format!(" (the newest is {})", report.newest)
    };
    let embargo = if report.embargo { "on" } else { "off" };
    let heading = format!(
        "version {}{newest} of {}, embargo {embargo}",
        report.seq, report.created_at
    );
    let mut table = TextTable::new(&["product", "edition", "state", "since", "previous", "release at"]);
    for product in &report.products {
        for edition in &product.editions {
            table.row([
                product.product_id.as_str(),
                &edition.edition_id,
                &edition.state,
                &edition.state_changed_at,
                edition.previous.as_deref().unwrap_or_default(),
                edition.release_at.as_deref().unwrap_or_default(),
            ]);
        }
        for retired in &product.retired {
            table.row([
                product.product_id.as_str(),
                &retired.edition_id,
                "tombstone",
                &retired.retired_at,
            ]);
        }
    }
    if table.is_empty() {
        return heading;
    }
    format!("{heading}\n{}", table.render())
}

/// What a command did and refused, product by product.
pub(super) fn change(report: &InventoryChangeReport) -> Vec<String> {
    let done = report.changes.iter().flat_map(product_lines);
    let refused = report.refused.iter().map(|refused| {
        format!(
            "{} {} refused: {}",
            refused.product_id, refused.edition_id, refused.message
        )
    });
    let waiting = report.waiting.iter().map(|waiting| {
        format!(
            "{} {} waits: {}",
            waiting.product_id, waiting.edition_id, waiting.message
        )
    });
    done.chain(refused).chain(waiting).collect()
}

/// The version a command wrote.
pub(super) fn written(report: &InventoryChangeReport) -> String {
    match (report.seq, &report.kind, &report.actor) {
        (Some(seq), Some(kind), Some(actor)) => format!("wrote version {seq}: {kind} by {actor}"),
        _ if report.operation == "fold" && report.refused.is_empty() => {
            "no registration can be recorded now; no version was written".to_owned()
        }
        _ if report.refused.is_empty() => "nothing is due; no version was written".to_owned(),
        _ => "no version was written".to_owned(),
    }
}

/// Each finding on a line of its own.
pub(super) fn verify(report: &InventoryVerifyReport, output: &Output) -> Result<(), ApiError> {
    for finding in &report.findings {
        output.line(&finding.message)?;
    }
    if report.omitted > 0 {
        output.warn(format!("{} more are not listed", report.omitted));
    }
    for warning in &report.warnings {
        output.warn(&warning.message);
    }
    for told in report.stale.iter().chain(&report.expunged) {
        output.note(told);
    }
    if report.findings.is_empty() {
        let newest = report.newest.unwrap_or_default();
        output.line(format!(
            "sound: {} versions, the newest is {newest}; {} editions, {} files, {}",
            report.versions,
            report.editions,
            report.files,
            format_bytes(report.bytes)
        ))?;
    }
    Ok(())
}

/// What was copied.
pub(super) fn export(report: &InventoryExportReport) -> String {
    let what = if report.live_only {
        "the live view"
    } else {
        "the catalogue"
    };
    let gone = match report.files_gone.len() {
        0 => String::new(),
        gone => format!("; {gone} files of retired editions are gone"),
    };
    format!(
        "copied {what} to {}: {} versions, {} editions, {} files, {} were there already{gone}",
        report.to, report.versions, report.editions, report.files, report.files_present
    )
}

/// What was deleted or would be, a line a file.
pub(super) fn gc(report: &InventoryGcReport, output: &Output) -> Result<(), ApiError> {
    for deleted in &report.deleted {
        output.line(format!("{} INV-{}: {}", deleted.path, deleted.rule, deleted.why))?;
    }
    report.kept.iter().for_each(|kept| output.warn(kept));
    for spared in &report.spared {
        output.warn(format!("{spared} may not be deleted any more"));
    }
    let (files, bytes) = (report.deleted.len(), format_bytes(report.bytes));
    output.note(if report.dry_run {
        format!("{files} files of {bytes} may be deleted; nothing was")
    } else {
        format!("deleted {files} files of {bytes}")
    });
    Ok(())
}

/// What was expunged or would be, a line a file; then the four stages of the deletion, apart (SOP §14.8).
pub(super) fn expunge(report: &InventoryExpungeReport, output: &Output) -> Result<(), ApiError> {
    for removed in &report.removed {
        output.line(format!("{} {}", removed.path, format_bytes(removed.bytes)))?;
    }
    for stays in &report.stays {
        let listed_by = stays.listed_by.join(", ");
        output.note(format!("{} stays: edition {listed_by} lists it", stays.path));
    }
    let (files, bytes) = (report.removed.len(), format_bytes(report.bytes));
    if report.dry_run {
        output.note(format!("{files} files of {bytes} would be deleted; nothing was"));
    } else {
        let stages = &report.stages;
        output.note(format!("recorded in {}", report.record));
        output.note(format!("deleted here: {files} files of {bytes}"));
        output.note(format!(
            "keys: {} destroyed, {} grants stay; a member who read it may keep a copy",
            stages.keys_destroyed, stages.keys_left
        ));
        output.note(format!(
            "other sites: {} acknowledged, {} did not",
            stages.acknowledged, stages.waiting
        ));
    }
    for holder in &report.holders {
        let name = holder.name.as_deref().unwrap_or("a site");
        output.note(format!("may hold a copy: {name} {}", holder.site));
    }
    for scrub in &report.scrub {
        output.note(format!("to scrub by hand: {scrub}"));
    }
    Ok(())
}

/// How long things are kept, a line a window.
pub(super) fn retention(report: &InventoryRetentionReport) -> String {
    let time = |seconds: u64| format_duration_ms(seconds.saturating_mul(1_000));
    let windows = [
        ("backup", time(report.backup_secs)),
        ("data", time(report.data_secs)),
        ("tombstone", time(report.tombstone_secs)),
        ("edition", time(report.edition_secs)),
        ("versions", time(report.versions_secs)),
        ("newest-versions", report.newest_versions.to_string()),
        ("longest-poll", time(report.longest_poll_secs)),
        ("longest-fetch", time(report.longest_fetch_secs)),
    ];
    let mut table = TextTable::new(&["window", ">kept"]);
    for (name, kept) in &windows {
        table.row([*name, kept.as_str()]);
    }
    let said = match report.configured {
        true => format!("as version {} says", report.seq),
        false => "by default: the catalogue says nothing".to_owned(),
    };
    format!("{}\n{said}", table.render())
}

/// The catalogues of a node.
pub(super) fn catalogues(report: &CatalogueListReport) -> String {
    let mut table = TextTable::new(&["catalogue", ">version", "shows", "written by", "read in", "note"]);
    for catalogue in &report.catalogues {
        let domains = [&catalogue.release_domain, &catalogue.public_domain];
        let domains: Vec<&str> = domains.into_iter().flatten().map(String::as_str).collect();
        let writer = match (&catalogue.authority, catalogue.written_here) {
            (_, true) => "this node".to_owned(),
            (Some(authority), false) => authority.chars().take(10).collect(),
            (None, false) => String::new(),
        };
        let note = catalogue.alarm.as_ref().or(catalogue.releasing.as_ref());
        table.row([
            catalogue.catalog_id.as_str(),
            &catalogue.version.map(|version| version.to_string()).unwrap_or_default(),
            if catalogue.live_only {
                "what is live"
            } else {
                "everything"
            },
            &writer,
            &domains.join(", "),
            &note.map_or_else(String::new, |note| match catalogue.alarm {
                Some(_) => format!("ALARM: {note}"),
                None => format!("releasing {note}"),
            }),
        ]);
    }
    let registrations = report.catalogues.iter().flat_map(|catalogue| &catalogue.registrations);
    let lines = registrations.map(|registration| {
        let publisher: String = registration.publisher.chars().take(10).collect();
        let note = registration
            .note
            .as_ref()
            .map_or_else(String::new, |note| format!(": {note}"));
        format!(
            "\nregistered by {publisher}: {} {}, {}{note}",
            registration.product_id, registration.edition_id, registration.state
        )
    });
    table.render() + &lines.collect::<String>()
}

/// Who can read what.
pub(super) fn audience(report: &AudienceReport) -> String {
    let mut table = TextTable::new(&["site", "name", "reads"]);
    let mut add = |readers: &[ReaderInfo], what: &str| {
        for reader in readers {
            let name = reader.name.clone().unwrap_or_default();
            let name = if reader.this_node {
                format!("{name} (this node)")
            } else {
                name
            };
            let site: String = reader.site.chars().take(10).collect();
            table.row([site.as_str(), &name, what]);
        }
    };
    add(&report.embargoed, "everything, before its release too");
    add(&report.live, "what is live");
    table.render()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::{EditionInfo, InventoryProduct, RefusedEdition, RetiredEdition};

    const EDITION: &str = "01980000-0000-7000-8000-000000000001";

    fn released() -> Vec<ProductChangeInfo> {
        vec![ProductChangeInfo {
            product_id: "weather".into(),
            editions: vec![EditionChangeInfo {
                edition_id: EDITION.into(),
                from: Some("embargoed".into()),
                to: Some("live".into()),
                release_at: None,
            }],
        }]
    }

    #[test]
    fn a_log_reads_as_lines() {
        let version = |seq, kind: &str, changes| InventoryVersionInfo {
            seq,
            restore_epoch: 0,
            root_sha256: "ab".repeat(32),
            previous_inventory: Some(seq - 1),
            created_at: "2026-01-01T08:30:00.000001Z".into(),
            kind: kind.into(),
            actor: "ann@desk".into(),
            reason: if kind == "release" {
                "08:30".into()
            } else {
                String::new()
            },
            embargo: true,
            changes,
        };
        let report = InventoryLogReport {
            store: "/c".into(),
            versions: vec![
                version(4, "release", Some(released())),
                version(3, "embargo-change", Some(vec![])),
                version(2, "correct", None),
            ],
            older: false,
            missing_from: Some(1),
            broken: None,
            findings: vec![],
        };
        insta::assert_snapshot!(log(&report).join("\n"), @r"
        4 2026-01-01T08:30:00.000001Z release by ann@desk: 08:30
          weather 01980000-0000-7000-8000-000000000001 embargoed -> live
        3 2026-01-01T08:30:00.000001Z embargo-change by ann@desk, embargo on
        2 2026-01-01T08:30:00.000001Z correct by ann@desk, from version 1
          (from before change lists)
        ");
        assert_eq!(
            log_notes(&report),
            ["version 1 and those before it are not stored any more"]
        );
    }

    #[test]
    fn a_version_reads_as_a_table() {
        let report = InventoryShowReport {
            store: "/c".into(),
            seq: 3,
            newest: 5,
            restore_epoch: 0,
            root_sha256: "ab".repeat(32),
            created_at: "2026-01-01T08:30:00Z".into(),
            embargo: false,
            found_by: "current".into(),
            ahead_of_current: 0,
            description: None,
            products: vec![InventoryProduct {
                product_id: "weather".into(),
                kind: Some("data".into()),
                lifecycle: Some("revisable".into()),
                editions: vec![EditionInfo {
                    edition_id: EDITION.into(),
                    state: "live".into(),
                    state_changed_at: "2026-01-01T08:30:00Z".into(),
                    previous: None,
                    release_at: None,
                    schema_version: "1".into(),
                    manifest_sha256: "cd".repeat(32),
                }],
                retired: vec![RetiredEdition {
                    edition_id: EDITION.replace('1', "2"),
                    retired_at: "2026-01-01T08:30:00Z".into(),
                }],
            }],
            findings: vec![],
        };
        let text = show(&report);
        assert!(
            text.starts_with("version 3 (the newest is 5) of 2026-01-01T08:30:00Z, embargo off\n"),
            "{text}"
        );
        assert!(text.contains(" live ") && text.contains(" tombstone "), "{text}");
    }

    /// A batch says for each product what happened, and what was refused by which rule.
    #[test]
    fn a_batch_reports_per_product() {
        let report = InventoryChangeReport {
            operation: "release-due".into(),
            seq: Some(9),
            kind: Some("release".into()),
            actor: Some("ann@desk".into()),
            changes: released(),
            refused: vec![RefusedEdition {
                product_id: "airports".into(),
                edition_id: EDITION.into(),
                rule: 205,
                message: "INV-205: not built from the live edition".into(),
            }],
            ..InventoryChangeReport::default()
        };
        let lines = change(&report);
        assert_eq!(lines.len(), 2);
        assert!(lines[0].ends_with("embargoed -> live"));
        assert!(lines[1].starts_with("airports ") && lines[1].contains("INV-205"));
        assert_eq!(written(&report), "wrote version 9: release by ann@desk");
        assert!(written(&InventoryChangeReport::default()).starts_with("nothing is due"));
    }
}
