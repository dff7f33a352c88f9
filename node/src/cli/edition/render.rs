//! Editions in words.

use crate::{
    api::{EditionBuildReport, EditionCheckReport, EditionCopyReport, EditionListReport, EditionSealReport},
    config::format_bytes,
    error::ApiError,
    output::{Output, TextTable},
};

/// What an unsealed edition holds.
pub(super) fn build(report: &EditionBuildReport) -> Vec<String> {
    let begun = if report.resumed { "goes on" } else { "is begun" };
    let from = match &report.previous {
        Some(previous) => format!("from {previous}"),
        None => "from nothing".to_owned(),
    };
    let mut notes = vec![format!("edition {} {begun}, {from}", report.edition_id)];
    for table in &report.tables {
        let before = match table.rows_before {
            Some(before) if before != table.rows => format!(", {before} before"),
            _ => String::new(),
        };
        notes.push(format!(
            "{}: {} rows in {} files{before}",
            table.dataflow, table.rows, table.files
        ));
    }
    notes.push(format!(
        "{} structure messages, {} other files; sovm edition seal makes it an edition",
        report.structures.len(),
        report.files.len()
    ));
    notes
}

/// What a seal came to: the edition and its state, or every finding.
pub(super) fn seal(report: &EditionSealReport, output: &Output) -> Result<(), ApiError> {
    for finding in &report.findings {
        output.line(&finding.message)?;
    }
    let state = match (&report.state, &report.registered_with) {
        (Some(state), _) => state.clone(),
        (None, Some(authority)) => format!("registered with the authority {authority}"),
        (None, None) => return Ok(()),
    };
    output.line(format!("{} {} {state}", report.product_id, report.edition_id))?;
    if report.repaired {
        output.note("its seal had been interrupted; this went on with what was sealed");
    }
    for table in &report.tables {
        let fingerprint = table.fingerprint.as_deref().unwrap_or_default();
        output.note(format!(
            "{}: {} rows, fingerprint {fingerprint}",
            table.dataflow, table.rows
        ));
    }
    if let Some(why) = &report.current_failed {
        output.warn(format!("CURRENT does not name the version yet: {why}"));
    }
    if let Some(seq) = report.seq {
        output.note(format!("wrote version {seq}"));
    }
    Ok(())
}

/// Editions as a table.
pub(super) fn list(report: &EditionListReport) -> String {
    let mut table = TextTable::new(&[
        "product",
        "edition",
        "state",
        "sealed",
        "previous",
        "release at",
        "problem",
    ]);
    for edition in &report.editions {
        table.row([
            edition.product_id.as_str(),
            &edition.edition_id,
            &edition.state,
            edition.sealed_at.as_deref().unwrap_or_default(),
            edition.previous.as_deref().unwrap_or_default(),
            edition.release_at.as_deref().unwrap_or_default(),
            edition.problem.as_deref().unwrap_or_default(),
        ]);
    }
    table.render()
}

/// Each finding on a line of its own.
pub(super) fn check(report: &EditionCheckReport, output: &Output) -> Result<(), ApiError> {
    for finding in &report.findings {
        output.line(&finding.message)?;
    }
    if report.findings.is_empty() {
        output.line(format!(
            "sound: {} {}, profile {} ({})",
            report.product_id,
            report.edition_id,
            report.profile,
            report.checks.join(", ")
        ))?;
    }
    Ok(())
}

/// What was copied.
pub(super) fn copy(report: &EditionCopyReport) -> String {
    format!(
        "copied {} files ({}) to {}; {} were there already",
        report.files,
        format_bytes(report.bytes),
        report.to,
        report.files_present
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::{EditionTable, ListedEditionInfo};

    #[test]
    fn a_build_says_what_grew() {
        let report = EditionBuildReport {
            edition_id: "e2".into(),
            previous: Some("e1".into()),
            tables: vec![EditionTable {
                dataflow: "flow".into(),
                files: 2,
                rows: 30,
                rows_before: Some(10),
                fingerprint: None,
            }],
            ..EditionBuildReport::default()
        };
        let notes = build(&report);
        assert_eq!(notes[0], "edition e2 is begun, from e1");
        assert_eq!(notes[1], "flow: 30 rows in 2 files, 10 before");
    }

    #[test]
    fn editions_read_as_a_table() {
        let report = EditionListReport {
            editions: vec![ListedEditionInfo {
                product_id: "weather".into(),
                edition_id: "e1".into(),
                state: "unsealed".into(),
                ..ListedEditionInfo::default()
            }],
            ..EditionListReport::default()
        };
        let text = list(&report);
        assert_eq!(text.lines().count(), 3, "{text}");
        assert!(text.contains("unsealed"), "{text}");
    }
}
