use super::*;
use crate::structure::{
    record::record,
    testing::{Change, associate, change, constraint, dataflow_like, sample, sample_with_hierarchy, urn},
};

const FLOW: &str = "datastructure.Dataflow=SYNTHETIC:DF_SYNTHETIC(1.0)";
const DIM_1: &str = "codelist.Codelist=SYNTHETIC:CL_DIM_1(1.0)";
const DIM_2: &str = "codelist.Codelist=SYNTHETIC:CL_DIM_2(1.0)";
const ATTR: &str = "codelist.Codelist=SYNTHETIC:CL_ATTR_1(1.0)";

/// Observations with these columns.
fn observed(columns: &[(&str, &[&str])]) -> BTreeMap<ArtefactUrn, Observed> {
    let columns = columns
        .iter()
        .map(|(id, codes)| ((*id).to_owned(), codes.iter().map(|&code| code.to_owned()).collect()));
    BTreeMap::from([(
        urn(FLOW),
        Observed {
            observations: 6,
            columns: columns.collect(),
        },
    )])
}

/// The sample's data: every coded column is written.
fn data() -> BTreeMap<ArtefactUrn, Observed> {
    observed(&[
        ("DIM_1", &["D1_05"]),
        ("DIM_2", &["D2_0", "D2_1"]),
        ("ATTR_1", &["V0", "V1", "V2"]),
    ])
}

fn codes(structures: &Structures, codelist: &str) -> Vec<String> {
    let Some(Artefact::Codelist(codelist)) = structures.get(&urn(codelist)) else {
        panic!()
    };
    codelist.codes.iter().map(|code| code.id.clone()).collect()
}

fn cut_on(structures: &Structures) -> Cut {
    cut(structures, &data(), Partials::On).unwrap()
}

/// INV-368, INV-54: a partial holds the codes used and their ancestors, in the full codelist's order, and records what it
/// was cut from.
#[test]
fn codes_used_are_kept_with_their_ancestors() {
    let structures = sample();
    let cut = cut_on(&structures);
    assert_eq!(codes(&cut.structures, DIM_1), ["D1_00", "D1_01", "D1_05"]);
    assert_eq!(codes(&cut.structures, DIM_2), ["D2_0", "D2_1"]);
    let full = CanonicalText::of(structures.get(&urn(DIM_1)).unwrap()).fingerprint();
    assert_eq!(cut.partial_of[&urn(DIM_1)], full);
    let partial = cut.structures.get(&urn(DIM_1)).unwrap();
    assert!(partial.is_partial());
    assert!(CanonicalText::of(partial).as_str().contains(r#""is_partial":true"#));
    assert_ne!(CanonicalText::of(partial).fingerprint(), full);
}

/// INV-369: only codelists are cut.
#[test]
fn everything_but_codelists_stays_as_it_is() {
    let structures = sample();
    let cut = cut_on(&structures);
    for artefact in structures
        .iter()
        .filter(|artefact| !matches!(artefact, Artefact::Codelist(_)))
    {
        assert_eq!(cut.structures.get(artefact.urn()), Some(artefact));
    }
    assert_eq!(cut.structures.len(), structures.len());
}

/// INV-370: codes an allowed constraint names are kept; where it cascades, what lies below too.
#[test]
fn allowed_codes_are_kept() {
    for (values, expected) in [
        (&["D1_16"] as &[&str], vec!["D1_00", "D1_01", "D1_05", "D1_15", "D1_16"]),
        (
            &["D1_15+"],
            vec!["D1_00", "D1_01", "D1_05", "D1_15", "D1_16", "D1_17", "D1_18", "D1_19"],
        ),
        (
            &["D1_03-"],
            vec!["D1_00", "D1_01", "D1_03", "D1_05", "D1_10", "D1_11", "D1_12"],
        ),
    ] {
        for attached in [FLOW, "datastructure.DataStructure=SYNTHETIC:DSD_SYNTHETIC(1.0)"] {
            let mut structures = sample();
            structures
                .insert(constraint("C", &[attached], &[("DIM_1", values)]))
                .unwrap();
            assert_eq!(codes(&cut_on(&structures).structures, DIM_1), expected, "{values:?}");
        }
    }
}

/// INV-370: a constraint that says what is there, or that belongs to another dataflow, keeps nothing.
#[test]
fn other_constraints_keep_nothing() {
    let mut structures = sample();
    structures
        .insert(constraint("C", &[FLOW], &[("DIM_1", &["D1_16"])]))
        .unwrap();
    change(
        &mut structures,
        "registry.DataConstraint=SYNTHETIC:C(1.0)",
        Change::Role(ConstraintRole::Actual),
    );
    let other = "datastructure.Dataflow=SYNTHETIC:DF_ELSEWHERE(1.0)";
    structures
        .insert(constraint("D", &[other], &[("DIM_1", &["D1_17"])]))
        .unwrap();
    assert_eq!(
        codes(&cut_on(&structures).structures, DIM_1),
        ["D1_00", "D1_01", "D1_05"]
    );
}

/// INV-370: codes another artefact of the edition refers to are kept.
#[test]
fn referenced_codes_are_kept() {
    let mut structures = sample();
    structures
        .insert(associate("HA", "codelist.Code=SYNTHETIC:CL_DIM_1(1.0).D1_19"))
        .unwrap();
    assert_eq!(
        codes(&cut_on(&structures).structures, DIM_1),
        ["D1_00", "D1_01", "D1_05", "D1_15", "D1_19"]
    );
}

/// INV-453: nothing is cut unless asked.
#[test]
fn partials_are_off_unless_asked_for() {
    assert_eq!(Partials::default(), Partials::Off);
    let structures = sample();
    let cut = cut(&structures, &data(), Partials::default()).unwrap();
    assert_eq!(cut.structures, structures);
    assert!(cut.partial_of.is_empty());
    assert!(cut.full.values().all(|because| *because == FullBecause::PartialsOff));
}

/// INV-371: a codelist stays full when a hierarchy places its codes.
#[test]
fn codelist_placed_by_a_hierarchy_stays_full() {
    let cut = cut_on(&sample_with_hierarchy());
    assert_eq!(
        cut.full[&urn(DIM_1)],
        FullBecause::PlacedBy(urn("codelist.Hierarchy=SYNTHETIC:H_DIM_1_1(1.0)"))
    );
    assert_eq!(codes(&cut.structures, DIM_1).len(), 20);
    assert!(cut.partial_of.contains_key(&urn(DIM_2)));
}

/// INV-371: a codelist stays full when it has extensions, and so does the one it takes codes from.
#[test]
fn codelist_with_extensions_stays_full() {
    let mut structures = sample();
    change(&mut structures, DIM_2, Change::Extend(DIM_1));
    let cut = cut_on(&structures);
    assert_eq!(cut.full[&urn(DIM_2)], FullBecause::HasExtensions);
    assert_eq!(cut.full[&urn(DIM_1)], FullBecause::ExtendedBy(urn(DIM_2)));
}

/// INV-371: a codelist stays full when a component it enumerates has no written column; a column of nulls is written.
#[test]
fn codelist_of_an_unwritten_column_stays_full() {
    let structures = sample();
    let written = observed(&[("DIM_1", &["D1_05"]), ("ATTR_1", &[])]);
    let cut = cut(&structures, &written, Partials::On).unwrap();
    assert_eq!(
        cut.full[&urn(DIM_2)],
        FullBecause::NoColumn {
            dataflow: urn(FLOW),
            component: "DIM_2".into()
        }
    );
    assert_eq!(codes(&cut.structures, ATTR), [""; 0]);
}

/// INV-371: a codelist stays full when a dataflow it serves has no observations.
#[test]
fn codelist_of_a_dataflow_without_observations_stays_full() {
    let mut structures = sample();
    structures.insert(dataflow_like("DF_EMPTY", "empty")).unwrap();
    let empty = urn("datastructure.Dataflow=SYNTHETIC:DF_EMPTY(1.0)");
    let cut_with = |observed: &BTreeMap<_, _>| cut(&structures, observed, Partials::On).unwrap();
    assert_eq!(
        cut_with(&data()).full[&urn(DIM_1)],
        FullBecause::NoObservations(empty.clone())
    );
    let mut observed = data();
    observed.insert(
        empty.clone(),
        Observed {
            observations: 0,
            columns: data()[&urn(FLOW)].columns.clone(),
        },
    );
    assert_eq!(
        cut_with(&observed).full[&urn(DIM_1)],
        FullBecause::NoObservations(empty.clone())
    );
    observed.insert(empty, data()[&urn(FLOW)].clone());
    assert!(cut_with(&observed).partial_of.contains_key(&urn(DIM_1)));
}

/// INV-371: a cut that keeps every code is no cut.
#[test]
fn codelist_whose_codes_are_all_used_stays_full() {
    let structures = sample();
    let cut = cut_on(&structures);
    assert_eq!(cut.full[&urn(ATTR)], FullBecause::AllCodesUsed);
    assert_eq!(cut.structures.get(&urn(ATTR)), structures.get(&urn(ATTR)));
}

/// INV-371: with no dataflow nothing says what is used, so a structure product's codelists stay full (INV-373).
#[test]
fn structure_product_holds_full_codelists() {
    let mut structures = sample();
    structures.remove(&urn(FLOW));
    let dsd = urn("datastructure.DataStructure=SYNTHETIC:DSD_SYNTHETIC(1.0)");
    let full = |structures: &Structures| cut(structures, &BTreeMap::new(), Partials::On).unwrap().full;
    assert_eq!(full(&structures)[&urn(DIM_1)], FullBecause::NoDataflow(dsd.clone()));
    structures.remove(&dsd);
    assert_eq!(full(&structures)[&urn(DIM_1)], FullBecause::EnumeratesNothing);
}

/// INV-54: a partial isn't cut again: what it was cut from stays the full one's fingerprint.
#[test]
fn a_partial_is_not_cut_again() {
    let first = cut_on(&sample());
    let second = cut(&first.structures, &observed(&[("DIM_1", &["D1_00"])]), Partials::On).unwrap();
    assert_eq!(second.full[&urn(DIM_1)], FullBecause::AlreadyPartial);
    assert_eq!(codes(&second.structures, DIM_1), codes(&first.structures, DIM_1));
    assert!(!second.partial_of.contains_key(&urn(DIM_1)));
}

/// INV-111: observations with a code the codelist lacks are refused.
#[test]
fn unknown_observed_code_is_refused() {
    let written = observed(&[("DIM_1", &["NO"]), ("DIM_2", &[]), ("ATTR_1", &[])]);
    let error = cut(&sample(), &written, Partials::On).unwrap_err();
    assert!(
        matches!(&error, CutError::UnknownCode { code, component, .. } if code == "NO" && component == "DIM_1"),
        "{error}"
    );
}

/// INV-370: a constraint that allows a code the codelist lacks is refused.
#[test]
fn unknown_allowed_code_is_refused() {
    let mut structures = sample();
    structures
        .insert(constraint("C", &[FLOW], &[("DIM_1", &["NO"])]))
        .unwrap();
    let error = cut(&structures, &data(), Partials::On).unwrap_err();
    assert!(
        matches!(&error, CutError::UnknownAllowedCode { code, .. } if code == "NO"),
        "{error}"
    );
}

/// INV-87: a reference to a code the codelist lacks is refused.
#[test]
fn unknown_referenced_code_is_refused() {
    let mut structures = sample();
    structures
        .insert(associate("HA", "codelist.Code=SYNTHETIC:CL_DIM_1(1.0).NO"))
        .unwrap();
    let error = cut(&structures, &data(), Partials::On).unwrap_err();
    assert!(
        matches!(&error, CutError::UnknownReferencedCode { code, .. } if code == "NO"),
        "{error}"
    );
}

fn checked(cut: &Cut, full: &Structures) -> Vec<PartialFinding> {
    let records = record(&cut.structures, &cut.partial_of).unwrap();
    check(&cut.structures, &records, &[("structure-geo".to_owned(), full)])
}

/// INV-113: a cut passes the check against what it was cut from.
#[test]
fn a_cut_is_part_of_the_full_artefacts() {
    assert_eq!(checked(&cut_on(&sample()), &sample()), []);
}

/// INV-113: no structure edition, or one that holds a partial itself, is no full artefact.
#[test]
fn partial_without_a_full_artefact_is_reported() {
    let cut = cut_on(&sample());
    for full in [Structures::default(), cut.structures.clone()] {
        let findings = checked(&cut, &full);
        assert!(
            matches!(
                &findings[..],
                [PartialFinding::NoFull { .. }, PartialFinding::NoFull { .. }]
            ),
            "{findings:?}"
        );
    }
}

/// INV-113: `partial_of` has to equal the full artefact's fingerprint.
#[test]
fn partial_of_another_full_artefact_is_reported() {
    let mut full = sample();
    change(&mut full, DIM_1, Change::RenameCode("D1_19", "another name"));
    let findings = checked(&cut_on(&sample()), &full);
    assert!(
        matches!(&findings[..], [PartialFinding::OtherFull { urn: of, .. }] if *of == urn(DIM_1)),
        "{findings:?}"
    );
    assert!(findings[0].to_string().contains("structure-geo holds"));
}

/// INV-90, INV-113: a partial is compared as a subset: a code, or a code's parent, that the full one doesn't have.
#[test]
fn partial_that_is_no_subset_is_reported() {
    let mut full = sample();
    let cut_of = |full: &Structures| cut_on(full).partial_of[&urn(DIM_1)];
    // Codes the partial holds are dropped from, and moved in, the full one; `partial_of` names the changed one.
    for (edits, expected) in [
        (Change::DropCode("D1_05"), "NotInFull"),
        (Change::Move("D1_05", Some("D1_02")), "OtherParent"),
        (Change::Move("D1_05", None), "OtherParent"),
    ] {
        let mut cut = cut_on(&sample());
        change(&mut full, DIM_1, edits);
        cut.partial_of.insert(
            urn(DIM_1),
            CanonicalText::of(full.get(&urn(DIM_1)).unwrap()).fingerprint(),
        );
        let findings = checked(&cut, &full);
        assert_eq!(findings.len(), 1, "{findings:?}");
        assert!(format!("{findings:?}").contains(expected), "{findings:?}");
        full = sample();
    }
    assert_eq!(cut_of(&full), cut_on(&sample()).partial_of[&urn(DIM_1)]);
}

/// INV-372: folding changes names of a partial and carries what it was cut from; the check still passes.
#[test]
fn folding_carries_partial_of() {
    let mut cut = cut_on(&sample());
    let before = record(&cut.structures, &cut.partial_of).unwrap();
    change(&mut cut.structures, DIM_1, Change::RenameCode("D1_05", "folded name"));
    let after = record(&cut.structures, &before.partial_of()).unwrap();
    let of = |records: &ArtefactRecords| {
        records
            .records
            .iter()
            .find(|record| record.urn == urn(DIM_1))
            .unwrap()
            .clone()
    };
    assert_eq!(of(&after).partial_of, of(&before).partial_of);
    assert_ne!(of(&after).fingerprint, of(&before).fingerprint);
    assert_eq!(check(&cut.structures, &after, &[("geo".to_owned(), &sample())]), []);
}

/// INV-70: a full artefact whose text has another form than the record can't be compared, and that is what is said.
#[test]
fn partial_of_another_form_is_reported() {
    let cut = cut_on(&sample());
    let mut full = sample();
    change(&mut full, DIM_1, Change::RenameCode("D1_19", "nom à accent"));
    let findings = checked(&cut, &full);
    assert!(
        matches!(
            &findings[..],
            [PartialFinding::OtherForm {
                full: CanonicalForm::Sovm1,
                ..
            }]
        ),
        "{findings:?}"
    );
}

/// INV-433: a codelist cut without an ancestor can't become one of an edition's structures.
#[test]
fn partial_without_an_ancestor_is_refused() {
    let cut = cut_on(&sample());
    let Some(Artefact::Codelist(codelist)) = cut.structures.get(&urn(DIM_1)) else {
        panic!()
    };
    let mut codelist = codelist.clone();
    codelist.codes.retain(|code| code.id != "D1_01");
    let error = Structures::new([Artefact::Codelist(codelist)]).unwrap_err();
    assert!(
        matches!(&error, StructureError::NoParent { parent, .. } if parent == "D1_01"),
        "{error}"
    );
}
