//! Whether coded columns hold codes of their codelists, and whether stored availability is the data's.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    closure::LookupError,
    lookup::Lookup,
    model::{Artefact, ConstraintRole},
    partial::selected_codes,
    set::Structures,
    urn::ArtefactUrn,
};

/// A column that doesn't fit its structures.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AvailabilityFinding {
    /// A coded column holds what its codelist doesn't.
    #[error("INV-111: the column `{component}` of `{dataflow}` holds {}, which `{codelist}` doesn't have", some(.codes))]
    UnknownCodes {
        /// The dataflow.
        dataflow: ArtefactUrn,
        /// The column.
        component: String,
        /// The codelist.
        codelist: ArtefactUrn,
        /// The values.
        codes: BTreeSet<String>,
    },
    /// A constraint says other values are there than there are.
    #[error("INV-111: `{constraint}` says of `{component}` what the data of `{dataflow}` don't: it alone has {}, the data alone have {}", some(.stored_only), some(.data_only))]
    OtherAvailability {
        /// The dataflow.
        dataflow: ArtefactUrn,
        /// The constraint.
        constraint: ArtefactUrn,
        /// The component.
        component: String,
        /// Values the constraint names and the data don't hold.
        stored_only: BTreeSet<String>,
        /// Values the data hold and the constraint doesn't name.
        data_only: BTreeSet<String>,
    },
}

fn some(values: &BTreeSet<String>) -> String {
    const SHOWN: usize = 5;
    if values.is_empty() {
        return "nothing".to_owned();
    }
    let shown: Vec<String> = values.iter().take(SHOWN).map(|value| format!("`{value}`")).collect();
    let rest = values.len().saturating_sub(SHOWN);
    if rest == 0 {
        shown.join(", ")
    } else {
        format!("{} and {rest} more", shown.join(", "))
    }
}

/// INV-111: checks the distinct values of a dataflow's written columns, by component id.
///
/// Constraints of role Actual that are attached to the dataflow are its stored availability. Ranges of time aren't
/// compared, since periods of different frequency have no common order.
pub fn check(
    structures: &Structures,
    dataflow: &ArtefactUrn,
    columns: &BTreeMap<String, BTreeSet<String>>,
) -> Result<Vec<AvailabilityFinding>, LookupError> {
    let lookup = Lookup::new(structures);
    let (_, structure) = lookup.dataflow(dataflow)?;
    let mut findings = Vec::new();
    let mut codelists = BTreeMap::new();
    for (_, component) in structure.components() {
        for codelist in lookup.codelists(component) {
            codelists.insert(component.id.as_str(), codelist);
            let known: BTreeSet<&str> = codelist.codes.iter().map(|code| code.id.as_str()).collect();
            let column = columns.get(&component.id).into_iter().flatten();
            let codes: BTreeSet<String> = column.filter(|code| !known.contains(code.as_str())).cloned().collect();
            // The codes an extended codelist takes over are in other codelists, under prefixes: what it lacks itself may
            // be one of them.
            if !codes.is_empty() && codelist.extensions.is_empty() {
                findings.push(AvailabilityFinding::UnknownCodes {
                    dataflow: dataflow.clone(),
                    component: component.id.clone(),
                    codelist: codelist.header.urn.clone(),
                    codes,
                });
            }
        }
    }
    for artefact in structures.iter() {
        let Artefact::DataConstraint(constraint) = artefact else {
            continue;
        };
        let this = BTreeSet::from([dataflow]);
        let attached = constraint
            .attachment
            .iter()
            .any(|reference| lookup.points_at(reference, &this));
        if constraint.role != ConstraintRole::Actual || !attached {
            continue;
        }
        for selection in constraint
            .region
            .iter()
            .flat_map(|region| region.keys.iter().chain(&region.components))
        {
            if selection.time_range.is_some() {
                continue;
            }
            let named = || selection.values.iter().map(|selected| selected.value.clone()).collect();
            let stored: BTreeSet<String> = match (codelists.get(selection.id.as_str()), selection.include) {
                // A value the codelist lacks can't cascade; it is compared as it stands.
                (Some(codelist), true) => selected_codes(codelist, selection).unwrap_or_else(|_| named()),
                (Some(codelist), false) => {
                    let left_out = selected_codes(codelist, selection).unwrap_or_else(|_| named());
                    let all = codelist.codes.iter().map(|code| code.id.clone());
                    all.filter(|code| !left_out.contains(code)).collect()
                }
                (None, true) => named(),
                // What values of an uncoded component are left is said nowhere.
                (None, false) => continue,
            };
            let empty = BTreeSet::new();
            let data = columns.get(&selection.id).unwrap_or(&empty);
            if stored != *data {
                findings.push(AvailabilityFinding::OtherAvailability {
                    dataflow: dataflow.clone(),
                    constraint: artefact.urn().clone(),
                    component: selection.id.clone(),
                    stored_only: stored.difference(data).cloned().collect(),
                    data_only: data.difference(&stored).cloned().collect(),
                });
            }
        }
    }
    Ok(findings)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::structure::testing::{Change, change, constraint, sample, urn};

    const FLOW: &str = "datastructure.Dataflow=SYNTHETIC:DF_SYNTHETIC(1.0)";

    fn columns(columns: &[(&str, &[&str])]) -> BTreeMap<String, BTreeSet<String>> {
        let set = |codes: &[&str]| codes.iter().map(|&code| code.to_owned()).collect();
        columns
            .iter()
            .map(|(id, codes)| ((*id).to_owned(), set(codes)))
            .collect()
    }

    fn checked(structures: &Structures, written: &[(&str, &[&str])]) -> Vec<AvailabilityFinding> {
        check(structures, &urn(FLOW), &columns(written)).unwrap()
    }

    fn with_actual(selections: &[(&str, &[&str])]) -> Structures {
        let mut structures = sample();
        structures.insert(constraint("C", &[FLOW], selections)).unwrap();
        change(
            &mut structures,
            "registry.DataConstraint=SYNTHETIC:C(1.0)",
            Change::Role(ConstraintRole::Actual),
        );
        structures
    }

    /// INV-111: coded columns hold codes of their codelists; others hold what they like.
    #[test]
    fn codes_of_the_codelists_pass() {
        let written = [
            ("DIM_1", &["D1_00", "D1_19"] as &[_]),
            ("ATTR_1", &["V2"]),
            ("OBS_VALUE", &["0.97"]),
            ("TIME_PERIOD", &["2000"]),
        ];
        assert_eq!(checked(&sample(), &written), []);
    }

    /// INV-111: a value that is no code of the codelist is named.
    #[test]
    fn unknown_codes_are_named() {
        let findings = checked(&sample(), &[("DIM_1", &["D1_00", "NO", "V0"]), ("ATTR_1", &["V9"])]);
        let [
            AvailabilityFinding::UnknownCodes { codes, component, .. },
            AvailabilityFinding::UnknownCodes { .. },
        ] = &findings[..]
        else {
            panic!("{findings:?}")
        };
        assert_eq!((component.as_str(), codes.len()), ("DIM_1", 2));
        assert!(findings[0].to_string().contains("INV-111"), "{}", findings[0]);
    }

    /// INV-111: stored availability is the data's, no more and no less.
    #[test]
    fn stored_availability_is_the_data() {
        let structures = with_actual(&[("DIM_2", &["D2_0", "D2_1"]), ("TIME_PERIOD", &["2000"])]);
        assert_eq!(
            checked(&structures, &[("DIM_2", &["D2_0", "D2_1"]), ("TIME_PERIOD", &["2000"])]),
            []
        );
        let findings = checked(&structures, &[("DIM_2", &["D2_0", "D2_2"]), ("TIME_PERIOD", &["2000"])]);
        let [
            AvailabilityFinding::OtherAvailability {
                stored_only, data_only, ..
            },
        ] = &findings[..]
        else {
            panic!()
        };
        assert!(stored_only.contains("D2_1") && data_only.contains("D2_2"));
        // A column that isn't written holds nothing.
        assert_eq!(checked(&structures, &[("DIM_2", &["D2_0", "D2_1"])]).len(), 1);
    }

    /// INV-111: a selection that cascades stands for the codes below.
    #[test]
    fn cascading_availability_is_expanded() {
        let structures = with_actual(&[("DIM_1", &["D1_03-"])]);
        assert_eq!(checked(&structures, &[("DIM_1", &["D1_10", "D1_11", "D1_12"])]), []);
        assert_eq!(
            checked(&structures, &[("DIM_1", &["D1_03", "D1_10", "D1_11", "D1_12"])]).len(),
            1
        );
    }

    /// INV-111: what is allowed is not what is there.
    #[test]
    fn allowed_constraints_say_nothing_about_availability() {
        let mut structures = sample();
        structures
            .insert(constraint("C", &[FLOW], &[("DIM_2", &["D2_0"])]))
            .unwrap();
        assert_eq!(checked(&structures, &[("DIM_2", &["D2_1"])]), []);
    }

    #[test]
    fn dataflow_that_is_not_held_is_refused() {
        let other = urn("datastructure.Dataflow=SYNTHETIC:NO(1.0)");
        assert!(matches!(
            check(&sample(), &other, &BTreeMap::new()),
            Err(LookupError::NoDataflow { .. })
        ));
    }
}
