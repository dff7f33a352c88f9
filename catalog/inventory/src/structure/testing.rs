//! Structures the tests of this module share: the synthetic sample and what is built around it.

use super::{
    Structures,
    language::{LanguageTag, LocalisedText},
    message::{Limits, read_json},
    model::{
        Artefact, Cascade, ConstraintRole, CubeRegion, DataConstraint, Dataflow, Header, HierarchyAssociation,
        SelectedValue, Selection,
    },
    urn::{ArtefactUrn, Urn},
};

/// A URN without its common beginning.
pub(super) fn urn(rest: &str) -> ArtefactUrn {
    ArtefactUrn::parse(&format!("urn:sdmx:org.sdmx.infomodel.{rest}")).unwrap()
}

fn reference(rest: &str) -> Urn {
    Urn::parse(&format!("urn:sdmx:org.sdmx.infomodel.{rest}")).unwrap()
}

/// The sample message's six artefacts.
pub(super) fn sample() -> Structures {
    read_json(include_bytes!("../../tests/sdmx/structure_2.0.json"), Limits::default())
        .unwrap()
        .structures
}

/// The golden hierarchy as an SDMX-JSON message.
pub(super) fn hierarchy_message() -> String {
    let (text, _) = super::canonical::golden("urn:sdmx:org.sdmx.infomodel.codelist.Hierarchy=SYNTHETIC:H_DIM_1_1(1.0)");
    let golden: serde_json::Value = serde_json::from_str(&text).unwrap();
    fn codes(tree: &serde_json::Value) -> serde_json::Value {
        let codes = tree.as_array().unwrap().iter().map(|code| {
            serde_json::json!({"id": code["id"], "code": code["code"], "hierarchicalCodes": codes(&code["children"])})
        });
        codes.collect()
    }
    let hierarchy = serde_json::json!({
        "id": "H_DIM_1_1", "agencyID": "SYNTHETIC", "version": "1.0", "names": golden["name"],
        "hierarchicalCodes": codes(&golden["tree"]),
    });
    serde_json::json!({"data": {"hierarchies": [hierarchy]}}).to_string()
}

/// The sample with its hierarchy and association: all eight golden artefacts.
pub(super) fn sample_with_hierarchy() -> Structures {
    let mut structures = sample();
    for artefact in read_json(hierarchy_message().as_bytes(), Limits::default())
        .unwrap()
        .structures
        .iter()
    {
        structures.insert(artefact.clone()).unwrap();
    }
    let association = associate(
        "HA_DIM_1_1",
        "datastructure.Dimension=SYNTHETIC:DSD_SYNTHETIC(1.0).DIM_1",
    );
    let Artefact::HierarchyAssociation(mut association) = association else {
        panic!()
    };
    association.header.name = LocalisedText::default();
    for (tag, text) in [
        ("en", "Dimension 1 hierarchy 1 association (en)"),
        ("fr", "Dimension 1 hierarchy 1 association (fr)"),
    ] {
        association
            .header
            .name
            .insert(LanguageTag::parse(tag).unwrap(), text.to_owned())
            .unwrap();
    }
    structures.insert(Artefact::HierarchyAssociation(association)).unwrap();
    structures
}

fn header(class: &str, id: &str, name: &str) -> Header {
    let mut header = Header::new(urn(&format!("{class}=SYNTHETIC:{id}(1.0)")));
    header
        .name
        .insert(LanguageTag::parse("en").unwrap(), name.to_owned())
        .unwrap();
    header
}

/// Another dataflow of the sample's data structure.
pub(super) fn dataflow_like(id: &str, name: &str) -> Artefact {
    let structure = reference("datastructure.DataStructure=SYNTHETIC:DSD_SYNTHETIC(1.0)");
    Artefact::Dataflow(Dataflow {
        header: header("datastructure.Dataflow", id, name),
        structure,
        dimension_constraint: vec![],
    })
}

/// An association of the sample's hierarchy with something.
pub(super) fn associate(id: &str, linked: &str) -> Artefact {
    Artefact::HierarchyAssociation(HierarchyAssociation {
        header: header("codelist.HierarchyAssociation", id, id),
        linked_hierarchy: reference("codelist.Hierarchy=SYNTHETIC:H_DIM_1_1(1.0)"),
        linked_object: reference(linked),
        context_object: None,
    })
}

/// An allowed constraint that selects values of components; `value+` selects what lies below too, `value-` only that.
pub(super) fn constraint(id: &str, attached: &[&str], selections: &[(&str, &[&str])]) -> Artefact {
    let selected = |value: &&str| match (value.strip_suffix('+'), value.strip_suffix('-')) {
        (Some(value), _) => SelectedValue {
            value: value.to_owned(),
            cascade: Cascade::Descendants,
        },
        (_, Some(value)) => SelectedValue {
            value: value.to_owned(),
            cascade: Cascade::ExcludeRoot,
        },
        _ => SelectedValue {
            value: (*value).to_owned(),
            cascade: Cascade::None,
        },
    };
    let keys = selections.iter().map(|(id, values)| Selection {
        id: (*id).to_owned(),
        include: true,
        values: values.iter().map(selected).collect(),
        time_range: None,
    });
    Artefact::DataConstraint(DataConstraint {
        header: header("registry.DataConstraint", id, id),
        role: ConstraintRole::Allowed,
        attachment: attached.iter().map(|rest| reference(rest)).collect(),
        region: Some(CubeRegion {
            annotations: vec![],
            keys: keys.collect(),
            components: vec![],
        }),
    })
}

/// Changes an artefact in place.
pub(super) enum Change<'a> {
    /// A dataflow's reference to its data structure.
    Structure(&'a str),
    /// A constraint's role.
    Role(ConstraintRole),
    /// A codelist's code is taken out.
    DropCode(&'a str),
    /// A codelist's code gets another name.
    RenameCode(&'a str, &'a str),
    /// A codelist takes over another's codes.
    Extend(&'a str),
    /// A codelist's code is put below another.
    Move(&'a str, Option<&'a str>),
}

pub(super) fn change(structures: &mut Structures, rest: &str, change: Change<'_>) {
    let mut artefact = structures.remove(&urn(rest)).unwrap();
    match (&mut artefact, change) {
        (Artefact::Dataflow(flow), Change::Structure(text)) => flow.structure = Urn::parse(text).unwrap(),
        (Artefact::DataConstraint(constraint), Change::Role(role)) => constraint.role = role,
        (Artefact::Codelist(codelist), Change::DropCode(id)) => codelist.codes.retain(|code| code.id != id),
        (Artefact::Codelist(codelist), Change::RenameCode(id, name)) => {
            let code = codelist.codes.iter_mut().find(|code| code.id == id).unwrap();
            code.name = LocalisedText::default();
            code.name
                .insert(LanguageTag::parse("en").unwrap(), name.to_owned())
                .unwrap();
        }
        (Artefact::Codelist(codelist), Change::Extend(other)) => {
            let codelist_urn = reference(other);
            codelist.extensions.push(super::model::CodelistExtension {
                codelist: codelist_urn,
                prefix: Some("X_".to_owned()),
                selection: None,
            });
        }
        (Artefact::Codelist(codelist), Change::Move(id, parent)) => {
            codelist.codes.iter_mut().find(|code| code.id == id).unwrap().parent = parent.map(ToOwned::to_owned);
        }
        _ => panic!("no such change to {rest}"),
    }
    structures.insert(artefact).unwrap();
}
