//! Catalogues that pass.

use super::*;

/// INV-395, INV-176, INV-188: thirty-one editions with a rollback, a withdrawal and a reinstatement pass without a finding,
/// and everything was looked at.
#[tokio::test(start_paused = true)]
async fn a_catalogue_of_thirty_one_editions_passes() {
    let mut fixture = fixture().await;
    let editions = fixture.population().await;
    let report = fixture.verify().await;
    assert_eq!(report.findings, []);
    assert!(report.passed());
    assert_eq!(report.way, Some(Way::Current));
    // Version 1, 31 seals, a rollback, a withdrawal, a retirement, a reinstatement.
    assert_eq!(report.head.map(|head| head.seq.get()), Some(36));
    assert_eq!(report.counts.roots, 36);
    assert_eq!(report.counts.change_lists, 36);
    assert_eq!(report.counts.leaves, 35);
    // Each data file once, although later editions list it again.
    assert_eq!(report.counts.files, 31 * 2);
    assert_eq!(editions.len(), 31);
}
