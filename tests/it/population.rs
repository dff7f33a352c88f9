//! A product of real figures through its whole life, from the command line: population by place, year, sex and age
//! group, 31 editions that grow by a year each, with a data structure, five codelists and a structure product.
//!
//! `SOVM_TEST_DATA` names a directory with `population.csv.gz`, the World Population Prospects of the United Nations
//! (CC BY 3.0 IGO); without it the figures are made up, with the same columns, years, sexes and age groups for fewer
//! places.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::Read as _,
    path::{Path, PathBuf},
    process::Command,
    time::SystemTime,
};

use serde_json::{Value, json};

use crate::harness::Node;

const DATA: &str = "SOVM_TEST_DATA";
const FLOW: &str = "UN:WPP(1.0)";
const YEARS: usize = 31;
const HEADING: &str = "LocID,Location,Year,Sex,AgeGrp,AgeGrpStart,Value";

/// The figures, a year's lines together.
fn figures() -> BTreeMap<u16, Vec<String>> {
    let text = match std::env::var_os(DATA) {
        Some(dir) => {
            let path = Path::new(&dir).join("population.csv.gz");
            let file = std::fs::File::open(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            let mut text = String::new();
            flate2::read::GzDecoder::new(file).read_to_string(&mut text).unwrap();
            text
        }
        None => made_up(),
    };
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some(HEADING));
    let mut years = BTreeMap::<u16, Vec<String>>::new();
    for line in lines {
        years.entry(year(line)).or_default().push(line.to_owned());
    }
    assert_eq!(years.len(), YEARS);
    years
}

/// The columns of a line; a place's name may be quoted and hold commas.
fn columns(line: &str) -> Vec<String> {
    let (mut columns, mut quoted) = (vec![String::new()], false);
    for c in line.chars() {
        match c {
            '"' => quoted = !quoted,
            ',' if !quoted => columns.push(String::new()),
            c => columns.last_mut().unwrap().push(c),
        }
    }
    columns
}

fn year(line: &str) -> u16 {
    columns(line)[2].parse().unwrap()
}

fn made_up() -> String {
    let mut text = format!("{HEADING}\n");
    for place in 0..12_u32 {
        for step in 0..YEARS as u32 {
            for sex in ["Male", "Female"] {
                for age in 0..21_u32 {
                    let group = if age == 20 {
                        "100+".to_owned()
                    } else {
                        format!("{}-{}", age * 5, age * 5 + 4)
                    };
                    let value = 1000 * (place + 1) + 37 * step + 11 * (21 - age) + sex.len() as u32;
                    let (id, year, start) = (4 + place, 1950 + step * 5, age * 5);
                    text.push_str(&format!(
                        "{id},\"Place {id}, the\",{year},{sex},{group},{start},{value}\n"
                    ));
                }
            }
        }
    }
    text
}

fn urn(class: &str, rest: &str) -> String {
    format!("urn:sdmx:org.sdmx.infomodel.{class}={rest}")
}

fn named(id: &str, name: &str) -> Value {
    json!({"id": id, "agencyID": "UN", "version": "1.0", "names": {"en": name}})
}

fn with(mut artefact: Value, key: &str, value: Value) -> Value {
    artefact[key] = value;
    artefact
}

/// Five codelists, from the figures themselves where those have codes.
fn codelists(years: &BTreeMap<u16, Vec<String>>) -> Value {
    let all: Vec<Vec<String>> = years.values().flatten().map(|line| columns(line)).collect();
    let codes = |id: usize, name: usize| {
        let codes: BTreeMap<&str, &str> = all
            .iter()
            .map(|line| (line[id].as_str(), line[name].as_str()))
            .collect();
        // A code's id has letters, digits and few signs: an age group of "100+" is not one as it is.
        let code = |(id, name): (&str, &str)| json!({"id": code_id(id), "names": {"en": name}});
        codes.into_iter().map(code).collect::<Vec<_>>()
    };
    let list = |id: &str, name: &str, codes: Vec<Value>| with(named(id, name), "codes", codes.into());
    let fixed = |codes: &[(&str, &str)]| {
        codes
            .iter()
            .map(|(id, name)| json!({"id": id, "names": {"en": name}}))
            .collect()
    };
    json!([
        list("CL_AREA", "Places", codes(0, 1)),
        list("CL_SEX", "Sexes", codes(3, 3)),
        list("CL_AGE", "Age groups", codes(4, 4)),
        list(
            "CL_UNIT",
            "Units",
            fixed(&[("PERSONS", "Persons"), ("PERCENT", "Percent")])
        ),
        list("CL_OBS_STATUS", "Status", fixed(&[("A", "Normal"), ("E", "Estimated")])),
    ])
}

fn code_id(text: &str) -> String {
    text.replace('+', "_OVER").replace('-', "_TO_")
}

fn message(data: Value) -> String {
    json!({
        "meta": {"id": "TEST", "prepared": "2026-01-01T00:00:00Z", "sender": {"id": "test"}},
        "data": data,
    })
    .to_string()
}

/// What the product holds besides the codelists: concepts, the data structure, the dataflow.
fn own_structures() -> Value {
    let concepts = ["AREA", "SEX", "AGE", "TIME_PERIOD", "UNIT", "OBS_STATUS", "OBS_VALUE"];
    let scheme = concepts
        .iter()
        .map(|id| json!({"id": id, "names": {"en": id}}))
        .collect::<Vec<_>>();
    let concept = |id: &str| urn("conceptscheme.Concept", &format!("UN:CS_WPP(1.0).{id}"));
    let list = |id: &str| json!({"enumeration": urn("codelist.Codelist", &format!("UN:{id}(1.0)"))});
    let dimension = |position: usize, id: &str, codes: &str| {
        let concept = concept(id);
        json!({"id": id, "position": position, "conceptIdentity": concept, "localRepresentation": list(codes)})
    };
    let attribute = |id: &str, codes: &str| {
        json!({"id": id, "conceptIdentity": concept(id), "localRepresentation": list(codes),
               "attributeRelationship": {"observation": {}}})
    };
    let components = json!({
        "dimensionList": {
            "dimensions": [
                dimension(0, "AREA", "CL_AREA"), dimension(1, "SEX", "CL_SEX"), dimension(2, "AGE", "CL_AGE"),
            ],
            "timeDimension": {"id": "TIME_PERIOD", "conceptIdentity": concept("TIME_PERIOD"),
                              "localRepresentation": {"format": {"dataType": "ObservationalTimePeriod"}}},
        },
        "attributeList": {"attributes": [attribute("UNIT", "CL_UNIT"), attribute("OBS_STATUS", "CL_OBS_STATUS")]},
        "measureList": {"measures": [{"id": "OBS_VALUE", "conceptIdentity": concept("OBS_VALUE"),
                                      "localRepresentation": {"format": {"dataType": "Double"}}}]},
    });
    let structure = urn("datastructure.DataStructure", "UN:DSD_WPP(1.0)");
    json!({
        "conceptSchemes": [with(named("CS_WPP", "Concepts"), "concepts", scheme.into())],
        "dataStructures": [with(named("DSD_WPP", "Population"), "dataStructureComponents", components)],
        "dataflows": [with(named("WPP", "Population"), "structure", structure.into())],
    })
}

/// A catalogue that is driven by commands.
struct Office {
    node: Node,
    catalogue: String,
}

impl Office {
    fn open() -> Self {
        let node = Node::empty();
        let catalogue = node.path("catalogue").to_str().unwrap().to_owned();
        Self { node, catalogue }
    }

    fn dir(&self) -> PathBuf {
        self.catalogue.clone().into()
    }

    fn json(&self, args: &[&str]) -> Value {
        self.node.json(&[args, &["--store", &self.catalogue]].concat())
    }

    /// The catalogue is sound, has as many versions, and nothing needs attention.
    fn sound(&self, versions: usize) {
        let report = self.json(&["inventory", "verify"]);
        for nothing in ["findings", "warnings", "stale", "attention"] {
            assert_eq!(report[nothing], json!([]), "{report}");
        }
        assert_eq!(
            (report["versions"].as_u64(), report["newest"].as_u64()),
            (Some(versions as u64), Some(versions as u64)),
            "{report}"
        );
    }

    /// The same, by a program that shares no code with us.
    fn sound_for_others(&self, versions: usize) {
        let python = std::env::var_os("SOVM_TEST_PYTHON").unwrap_or_else(|| "python3".into());
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../catalog/inventory/tests/verify.py");
        let output = Command::new(&python).arg(script).arg(self.dir()).output();
        let output = output.unwrap_or_else(|error| panic!("{}: {error}", python.display()));
        let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}");
        assert!(said.starts_with(&format!("{versions} roots, ")), "{said}");
    }

    /// The data files that are there, and when each was written.
    fn data(&self) -> BTreeMap<String, SystemTime> {
        let folder = self.dir().join("products/population/data/WPP");
        let Ok(files) = std::fs::read_dir(folder) else {
            return BTreeMap::new();
        };
        let files = files.map(|file| {
            let file = file.unwrap();
            let written = file.metadata().unwrap().modified().unwrap();
            (file.file_name().into_string().unwrap(), written)
        });
        files.collect()
    }

    /// State and rows of the product's editions, by age.
    fn states(&self) -> Vec<String> {
        let report = self.json(&["edition", "list", "population"]);
        let editions = report["editions"].as_array().unwrap().iter();
        editions
            .map(|edition| edition["state"].as_str().unwrap().to_owned())
            .collect()
    }
}

/// INV-3, INV-23, INV-24, INV-26, INV-28, INV-100, INV-196, INV-197, INV-200, INV-201, INV-202, INV-395: 31 editions
/// that grow by a year each are sealed and released; each shares the data files of the one before. One is rolled back,
/// one withdrawn, retired and reinstated. At every step the catalogue verifies, by us and by a program in another
/// language.
#[test]
fn a_products_editions_grow_year_by_year() {
    let years = figures();
    let office = Office::open();
    let lists = office
        .node
        .write("codelists.json", message(json!({"codelists": codelists(&years)})));
    let own = office.node.write("structure.json", message(own_structures()));
    let (lists, own) = (lists.to_str().unwrap(), own.to_str().unwrap());
    office.json(&["inventory", "init", "--embargo", "--reason", "a year of releases"]);
    let create = |id: &str, kind: &str, title: &str| {
        let args = [
            "product",
            "create",
            id,
            "--kind",
            kind,
            "--lifecycle",
            "revisable",
            "--title",
            title,
        ];
        assert_eq!(office.json(&args)["kind"], "describe");
    };
    create("codes", "structure", "Code lists");
    create("population", "data", "Population by age and sex");
    office.json(&["edition", "build", "codes", "--structures", lists]);
    let sealed = office.json(&["edition", "seal", "codes"]);
    assert_eq!(
        (&sealed["state"], &sealed["artefacts"]),
        (&"embargoed".into(), &5.into())
    );
    office.json(&["inventory", "release", "codes", sealed["edition_id"].as_str().unwrap()]);
    let mut versions = 5;
    office.sound(versions);

    let (mut rows, mut live, mut editions) = (0, None::<String>, Vec::new());
    for (year, lines) in &years {
        let file = office
            .node
            .write(&format!("{year}.csv"), format!("{HEADING}\n{}\n", lines.join("\n")));
        let table = format!("{FLOW}={}", file.display());
        let mut build = vec!["edition", "build", "population", "--append", "--table", &table];
        if live.is_none() {
            build.extend(["--structures", lists, "--structures", own]);
        }
        let before = office.data();
        let built = office.json(&build);
        rows += lines.len() as u64;
        assert_eq!(built["previous"].as_str(), live.as_deref());
        assert_eq!(built["tables"][0]["rows"], rows);
        let sealed = office.json(&["edition", "seal", "population", "--release-at", "2026-01-01T08:30:00Z"]);
        assert_eq!(
            (&sealed["state"], &sealed["tables"][0]["rows"]),
            (&"embargoed".into(), &rows.into())
        );
        assert_eq!(sealed["tables"][0]["files"], editions.len() + 1);
        let edition = sealed["edition_id"].as_str().unwrap().to_owned();
        let released = office.json(&["inventory", "release-due", "--reason", &format!("figures of {year}")]);
        assert_eq!(
            (&released["kind"], &released["refused"]),
            (&"release".into(), &json!([]))
        );
        // Nothing that was there is written again or cleaned away.
        let mut after = office.data();
        assert_eq!(after.len(), before.len() + 1);
        after.retain(|name, _| before.contains_key(name));
        assert_eq!(after, before);
        versions += 2;
        office.sound(versions);
        live = Some(edition.clone());
        editions.push(edition);
    }
    assert_eq!(editions.len(), YEARS);
    // Every year's file is stored once, whatever number of editions list it, and its digests are those of the edition
    // before.
    assert_eq!(office.data().len(), YEARS);
    let manifest = office
        .dir()
        .join(format!("products/population/{}/manifest.json", editions[YEARS - 1]));
    let manifest: Value = serde_json::from_slice(&std::fs::read(manifest).unwrap()).unwrap();
    let files = manifest["files"].as_array().unwrap().iter();
    let carried = files.filter(|file| file["root"] == "data" && !file["carried_from"].is_null());
    assert_eq!(carried.count(), YEARS - 1);
    office.sound_for_others(versions);

    let rolled = office.json(&["inventory", "rollback", "population", "--reason", "wrong figures"]);
    assert_eq!(rolled["kind"], "rollback");
    office.sound(versions + 1);
    let mut states = vec!["superseded"; YEARS];
    (states[YEARS - 1], states[YEARS - 2]) = ("withdrawn", "live");
    assert_eq!(office.states(), states);

    office.json(&["inventory", "withdraw", "population", "--if-live", &editions[YEARS - 2]]);
    office.sound(versions + 2);
    states[YEARS - 2] = "withdrawn";
    assert_eq!(office.states(), states);
    office.json(&[
        "inventory",
        "retire",
        "population",
        &editions[YEARS - 2],
        "--window",
        "0s",
    ]);
    office.sound(versions + 3);
    states[YEARS - 2] = "tombstone";
    assert_eq!(office.states(), states);
    office.json(&["inventory", "reinstate", "population", &editions[YEARS - 2]]);
    office.sound(versions + 4);
    states[YEARS - 2] = "superseded";
    assert_eq!(office.states(), states);
    office.sound_for_others(versions + 4);

    // What a reader of the newest year gets is still what was sealed, and a byte less is found.
    let check = ["edition", "check", "population", &editions[YEARS - 1]];
    assert_eq!(office.json(&check)["findings"], json!([]));
    let distinct: BTreeSet<&String> = editions.iter().collect();
    assert_eq!(distinct.len(), YEARS);
    let (any, _) = office.data().pop_first().unwrap();
    let newest = office.dir().join("products/population/data/WPP").join(any);
    let bytes = std::fs::read(&newest).unwrap();
    std::fs::write(&newest, &bytes[..bytes.len() - 1]).unwrap();
    let run = office.node.run(&["inventory", "verify", "--store", &office.catalogue]);
    run.failed(1, &["not sound", " next: "]);
    assert!(run.stdout.contains("INV-395"), "{}", run.stdout);
}
