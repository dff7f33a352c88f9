use super::*;

fn kit(byte: u8) -> Kit {
    Kit::from_seed(Zeroizing::new([byte; 32]))
}

fn facts() -> PageFacts {
    PageFacts {
        mesh_name: "Harbour: east".into(),
        mesh_id: MeshId::from_bytes([0xa1; 32]),
        domain_name: "main".into(),
        domain_id: DomainId::from_bytes([0xb2; 32]),
        genesis: RecordId::from_bytes([0xe5; 32]),
        made_ms: 1_790_000_000_000,
        root_id: StorageId::from_bytes([0xc3; 32]),
        recovery_generation: 12,
        kek_generation: 3,
        replicas: vec![Replica {
            site: SiteId::from_bytes([0xd4; 32]),
            address: "192.0.2.7:4433".into(),
        }],
        command: "sovm recover --kit kit.txt --from 192.0.2.7:4433".into(),
    }
}

#[test]
fn a_page_reads_back_whole() {
    let kit = kit(7);
    let page = kit.show_page(&facts());
    for needed in [
        "Whoever holds this page holds the data",
        "sovm recover --kit kit.txt",
        "2026-09-21",
    ] {
        assert!(page.contains(needed), "{needed} is not on\n{}", *page);
    }
    assert!(page.lines().all(|l| l.len() <= 110), "lines fit a printed page");
    let parsed = Kit::parse_page(&page).unwrap();
    assert_eq!(parsed.kit.id(), kit.id());
    let expected = ReadFacts {
        mesh_name: Some("Harbour: east".into()),
        mesh_id: Some(facts().mesh_id),
        domain_name: Some("main".into()),
        domain_id: Some(facts().domain_id),
        genesis: Some(facts().genesis),
        made: Some("2026-09-21".into()),
        root_id: Some(facts().root_id),
        recovery_generation: Some(12),
        kek_generation: Some(3),
        replicas: facts().replicas,
    };
    assert_eq!(parsed.facts, expected);
}

#[test]
fn words_alone_are_enough() {
    let kit = kit(8);
    let parsed = Kit::parse_page(&kit.show_words()).unwrap();
    assert_eq!(parsed.kit.id(), kit.id());
    assert_eq!(parsed.facts, ReadFacts::default());
}

#[test]
fn a_page_survives_windows_capitals_and_a_byte_order_mark() {
    let page = kit(9).show_page(&facts());
    let mangled = format!("\u{feff}{}", page.to_uppercase().replace('\n', "\r\n"));
    assert_eq!(Kit::parse_page(&mangled).unwrap().kit.id(), kit(9).id());
}

/// lessons.md, keys and recovery: a kit of another page is refused with both fingerprints, before any use.
#[test]
fn mixed_pages_are_refused_with_both_fingerprints() {
    let (a, b) = (kit(1), kit(2));
    let page = a.show_page(&facts()).replace(&*a.show_words(), &b.show_words());
    let error = Kit::parse_page(&page).unwrap_err();
    assert_eq!(
        error,
        KitError::OtherKit {
            page: a.fingerprint(),
            words: b.fingerprint()
        }
    );
    let text = error.to_string();
    assert!(text.contains(&a.fingerprint().to_string()) && text.contains(&b.fingerprint().to_string()));

    let other = Fingerprint::of_mesh(&MeshId::from_bytes([0x11; 32]));
    let mine = Fingerprint::of_mesh(&facts().mesh_id);
    let page = a.show_page(&facts()).replace(&mine.to_string(), &other.to_string());
    assert_eq!(
        Kit::parse_page(&page).unwrap_err(),
        KitError::OtherMesh { page: other, id: mine }
    );
}

#[test]
fn a_mistyped_field_names_its_line() {
    let page = kit(1).show_page(&facts());
    for (good, field) in [
        (facts().mesh_id.to_string(), "Mesh id"),
        (facts().domain_id.to_string(), "Domain id"),
        (facts().root_id.to_string(), "Root id"),
        (facts().replicas[0].site.to_string(), "Replica"),
        (kit(1).fingerprint().to_string(), "Kit"),
    ] {
        let bad = page.replace(&good, "12345");
        let line = bad.lines().position(|l| l.contains("12345")).unwrap() + 1;
        assert_eq!(Kit::parse_page(&bad).unwrap_err(), KitError::Field { line, field });
    }
}

#[test]
fn a_page_without_words_or_with_wrong_ones_is_refused() {
    let page = kit(1).show_page(&facts());
    let cut = page.split("Words (").next().unwrap();
    assert_eq!(Kit::parse_page(cut).unwrap_err(), KitError::NoWords);
    assert!(matches!(Kit::parse_page(""), Err(KitError::Words(_))));
    assert!(matches!(
        Kit::parse_page(&page.replace("    3.  ", "    3. zoo ")),
        Err(KitError::Words(_))
    ));
}

#[test]
fn a_name_cannot_forge_a_line() {
    let facts = PageFacts {
        mesh_name: format!("x\nRoot id: {}", "00".repeat(32)),
        ..facts()
    };
    let parsed = Kit::parse_page(&kit(1).show_page(&facts)).unwrap();
    assert_eq!(parsed.facts.root_id, Some(facts.root_id));
}

#[test]
fn days_are_right() {
    assert_eq!(day(0), "1970-01-01");
    assert_eq!(day(951_782_400_000), "2000-02-29");
    assert_eq!(day(1_735_689_599_999), "2024-12-31");
}
