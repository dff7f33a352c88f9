//! Rules that are kept by telling people.

fn section() -> String {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guide.md");
    let page = std::fs::read_to_string(page).unwrap();
    let (_, inventory) = page
        .split_once("\n### inventory\n")
        .expect("the Inventory has a section");
    let (_, place) = inventory
        .split_once("\n#### Where a catalogue may lie\n")
        .expect("which says where it may lie");
    let section = place.split("\n#").next().unwrap_or_default();
    section.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// INV-266: the guide excludes shared network drives and folders that synchronise, and says what goes wrong on them.
#[test]
fn network_drives_and_synchronised_folders_are_excluded() {
    let section = section();
    for part in [
        "Shared network drives and folders that synchronise are not supported",
        "NFS and SMB shares",
        "lock",
        "Two versions with one number",
        "local disk",
    ] {
        assert!(section.contains(part), "{part} is not said");
    }
}

/// INV-267: the guide says when a Delta table should be considered in the Inventory's place: before compaction or a third level.
#[test]
fn the_limits_of_the_inventory_are_said() {
    let section = section();
    for part in [
        "a root and one leaf for each product",
        "not a third level of documents, nor compaction",
        "review whether a Delta table",
    ] {
        assert!(section.contains(part), "{part} is not said");
    }
}
