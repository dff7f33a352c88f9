//! `tables.json`: what an edition consists of.

use std::{collections::BTreeSet, str::FromStr};

use serde::{Deserialize, Serialize};

use super::is_delete_file;
use crate::doc::{EditionId, FilePath, ProductId, Sha256, Tier, Urn};

/// Largest list read: a hundred thousand data files take about 20 MB.
const BYTES_MAX: usize = 256 << 20;
/// The format this build writes; it reads every 1.x.
const FORMAT_VERSION: &str = "1.0";

/// An edition's table list (INV-26): the tables with their data files, the structure messages, and its other files.
///
/// Lists are sorted, so that one content has one text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableList {
    /// The product.
    pub product_id: ProductId,
    /// The edition.
    pub edition_id: EditionId,
    /// INV-38: the edition it was begun from.
    pub previous: Option<EditionId>,
    /// Its tables, sorted by dataflow.
    pub tables: Vec<ListedTable>,
    /// Its structure messages, sorted by path.
    pub structures: Vec<StructureFile>,
    /// Its other files, sorted by path.
    pub files: Vec<OtherFile>,
}

/// One table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedTable {
    /// The dataflow it is published as.
    pub dataflow: Urn,
    /// Its data files, in the order they were added.
    pub files: Vec<ListedData>,
}

/// One data file of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedData {
    /// Its path below `data/`.
    pub path: FilePath,
    /// Its size in bytes.
    pub size: u64,
    /// Its rows.
    pub rows: u64,
    /// When a reader needs it.
    pub tier: Tier,
}

/// One structure message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StructureFile {
    /// Its path in the edition's directory.
    pub path: FilePath,
    /// INV-54: for each partial artefact in it, the fingerprint of the full one it was cut from, sorted by URN.
    pub partial_of: Vec<(Urn, Sha256)>,
}

/// One file besides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OtherFile {
    /// Its path in the edition's directory.
    pub path: FilePath,
    /// When a reader needs it.
    pub tier: Tier,
}

/// Why bytes are no table list.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TableListError {
    /// Not the JSON it should be.
    #[error("tables.json can't be read: {0} (INV-26)")]
    Json(#[from] serde_json::Error),
    /// Larger than any.
    #[error("tables.json has {0} bytes, more than are read (INV-26)")]
    TooLarge(usize),
    /// A newer format.
    #[error("tables.json has format_version {found:?}; this build reads 1.x (INV-26)")]
    Format {
        /// The version found.
        found: String,
    },
    /// A value that isn't of its kind.
    #[error("tables.json: {field} is {found:?} (INV-26)")]
    Value {
        /// Where.
        field: &'static str,
        /// What is there.
        found: String,
    },
    /// Two entries of one name, or entries out of order.
    #[error("tables.json: {list} has {second} after {first}; entries ascend and stand once (INV-26)")]
    Order {
        /// Which list.
        list: &'static str,
        /// The entry before.
        first: String,
        /// The entry after.
        second: String,
    },
    /// One data file in two places.
    #[error(
        "tables.json names data file {path} for {first} and for {second}; a file belongs to one table, once (INV-26)"
    )]
    DataTwice {
        /// The file.
        path: FilePath,
        /// One table.
        first: String,
        /// The other.
        second: String,
    },
    /// A file of deletions.
    #[error("tables.json names {path}, a delete file, for {dataflow}; no delete file ships (INV-96)")]
    DeleteFile {
        /// The file.
        path: FilePath,
        /// The table.
        dataflow: Urn,
    },
    /// Another edition's list.
    #[error(
        "tables.json is of edition {found_edition} of {found_product}, it lies in edition {edition_id} of {product_id} (INV-26)"
    )]
    OtherEdition {
        /// The product it is of.
        found_product: ProductId,
        /// The edition it is of.
        found_edition: EditionId,
        /// The product it lies in.
        product_id: ProductId,
        /// The edition it lies in.
        edition_id: EditionId,
    },
}

#[derive(Serialize, Deserialize)]
struct RawList {
    format_version: String,
    product_id: String,
    edition_id: String,
    previous: Option<String>,
    tables: Vec<RawTable>,
    structures: Vec<RawStructure>,
    files: Vec<RawFile>,
}

#[derive(Serialize, Deserialize)]
struct RawTable {
    dataflow: String,
    files: Vec<RawData>,
}

#[derive(Serialize, Deserialize)]
struct RawData {
    path: String,
    size: u64,
    rows: u64,
    tier: String,
}

#[derive(Serialize, Deserialize)]
struct RawStructure {
    path: String,
    partial_of: Vec<RawPartial>,
}

#[derive(Serialize, Deserialize)]
struct RawPartial {
    urn: String,
    fingerprint: String,
}

#[derive(Serialize, Deserialize)]
struct RawFile {
    path: String,
    tier: String,
}

fn value<T: FromStr>(field: &'static str, text: &str) -> Result<T, TableListError> {
    text.parse().map_err(|_| wrong(field, text))
}

fn wrong(field: &'static str, text: &str) -> TableListError {
    let found = text.chars().take(200).collect();
    TableListError::Value { field, found }
}

fn tier(text: &str) -> Result<Tier, TableListError> {
    Tier::from_word(text).ok_or_else(|| wrong("tier", text))
}

impl TableList {
    /// Its name in an edition's directory.
    pub const NAME: &'static str = "tables.json";
    /// Where structure messages lie in an edition's directory.
    pub(super) const STRUCTURES: &'static str = "structures/";

    /// INV-29: the list of a product's first edition: nothing.
    pub fn empty(product_id: ProductId, edition_id: EditionId) -> Self {
        Self {
            product_id,
            edition_id,
            previous: None,
            tables: Vec::new(),
            structures: Vec::new(),
            files: Vec::new(),
        }
    }

    /// INV-26: the list an edition begins with: the previous edition's, to be extended.
    pub fn following(&self, edition_id: EditionId) -> Self {
        Self {
            edition_id,
            previous: Some(self.edition_id),
            ..self.clone()
        }
    }

    /// A table of the list.
    pub fn table(&self, dataflow: &Urn) -> Option<&ListedTable> {
        self.tables.iter().find(|table| table.dataflow == *dataflow)
    }

    /// Every data file, with its table.
    pub fn data(&self) -> impl Iterator<Item = (&Urn, &ListedData)> {
        self.tables
            .iter()
            .flat_map(|table| table.files.iter().map(move |file| (&table.dataflow, file)))
    }

    /// Every file of the edition's directory it names, with its tier; the list itself included.
    pub fn edition_files(&self) -> impl Iterator<Item = (&str, Tier)> {
        let structures = self.structures.iter().map(|file| (file.path.as_str(), Tier::Required));
        let others = self.files.iter().map(|file| (file.path.as_str(), file.tier));
        [(Self::NAME, Tier::Required)]
            .into_iter()
            .chain(structures)
            .chain(others)
    }

    /// Refuses a list that lies in another edition than its own.
    pub fn check_place(&self, product_id: &ProductId, edition_id: &EditionId) -> Result<(), TableListError> {
        if self.product_id == *product_id && self.edition_id == *edition_id {
            return Ok(());
        }
        Err(TableListError::OtherEdition {
            found_product: self.product_id.clone(),
            found_edition: self.edition_id,
            product_id: product_id.clone(),
            edition_id: *edition_id,
        })
    }

    /// Reads a list, and checks what it can show by itself.
    pub fn decode(bytes: &[u8]) -> Result<Self, TableListError> {
        if bytes.len() > BYTES_MAX {
            return Err(TableListError::TooLarge(bytes.len()));
        }
        let raw: RawList = serde_json::from_slice(bytes)?;
        // The rest of a newer major means nothing here, so its version is looked at first.
        if raw.format_version.split('.').next() != Some("1") {
            return Err(TableListError::Format {
                found: raw.format_version.chars().take(40).collect(),
            });
        }
        let list = Self {
            product_id: value("product_id", &raw.product_id)?,
            edition_id: value("edition_id", &raw.edition_id)?,
            previous: raw.previous.map(|id| value("previous", &id)).transpose()?,
            tables: raw.tables.iter().map(read_table).collect::<Result<_, _>>()?,
            structures: raw.structures.iter().map(read_structure).collect::<Result<_, _>>()?,
            files: raw.files.iter().map(read_file).collect::<Result<_, _>>()?,
        };
        list.check()?;
        Ok(list)
    }

    /// Writes the list; refuses what [`decode`](Self::decode) would refuse.
    pub fn encode(&self) -> Result<Vec<u8>, TableListError> {
        self.check()?;
        let raw = RawList {
            format_version: FORMAT_VERSION.to_owned(),
            product_id: self.product_id.to_string(),
            edition_id: self.edition_id.to_string(),
            previous: self.previous.map(|id| id.to_string()),
            tables: self.tables.iter().map(write_table).collect(),
            structures: self.structures.iter().map(write_structure).collect(),
            files: self
                .files
                .iter()
                .map(|file| RawFile {
                    path: file.path.to_string(),
                    tier: file.tier.as_str().to_owned(),
                })
                .collect(),
        };
        Ok(serde_json::to_vec(&raw)?)
    }

    fn check(&self) -> Result<(), TableListError> {
        ascending("tables", self.tables.iter().map(|table| table.dataflow.as_str()))?;
        ascending("structures", self.structures.iter().map(|file| file.path.as_str()))?;
        ascending("files", self.files.iter().map(|file| file.path.as_str()))?;
        for file in &self.structures {
            ascending("partial_of", file.partial_of.iter().map(|(urn, _)| urn.as_str()))?;
        }
        let mut names = BTreeSet::new();
        if let Some((path, _)) = self.edition_files().find(|(path, _)| !names.insert(*path)) {
            return Err(TableListError::Order {
                list: "the edition's files",
                first: path.to_owned(),
                second: path.to_owned(),
            });
        }
        let mut owners = std::collections::BTreeMap::new();
        for (dataflow, file) in self.data() {
            if is_delete_file(&file.path) {
                let (path, dataflow) = (file.path.clone(), dataflow.clone());
                return Err(TableListError::DeleteFile { path, dataflow });
            }
            if let Some(first) = owners.insert(&file.path, dataflow) {
                return Err(TableListError::DataTwice {
                    path: file.path.clone(),
                    first: first.to_string(),
                    second: dataflow.to_string(),
                });
            }
        }
        Ok(())
    }
}

fn ascending<'a>(list: &'static str, entries: impl Iterator<Item = &'a str>) -> Result<(), TableListError> {
    let mut last: Option<&str> = None;
    for entry in entries {
        if let Some(first) = last.filter(|first| *first >= entry) {
            let (first, second) = (first.to_owned(), entry.to_owned());
            return Err(TableListError::Order { list, first, second });
        }
        last = Some(entry);
    }
    Ok(())
}

fn read_table(raw: &RawTable) -> Result<ListedTable, TableListError> {
    let file = |raw: &RawData| {
        Ok(ListedData {
            path: value("path", &raw.path)?,
            size: raw.size,
            rows: raw.rows,
            tier: tier(&raw.tier)?,
        })
    };
    Ok(ListedTable {
        dataflow: value("dataflow", &raw.dataflow)?,
        files: raw.files.iter().map(file).collect::<Result<_, TableListError>>()?,
    })
}

fn write_table(table: &ListedTable) -> RawTable {
    let file = |file: &ListedData| RawData {
        path: file.path.to_string(),
        size: file.size,
        rows: file.rows,
        tier: file.tier.as_str().to_owned(),
    };
    RawTable {
        dataflow: table.dataflow.to_string(),
        files: table.files.iter().map(file).collect(),
    }
}

fn read_structure(raw: &RawStructure) -> Result<StructureFile, TableListError> {
    let partial = |raw: &RawPartial| Ok((value("urn", &raw.urn)?, value("fingerprint", &raw.fingerprint)?));
    Ok(StructureFile {
        path: value("path", &raw.path)?,
        partial_of: raw
            .partial_of
            .iter()
            .map(partial)
            .collect::<Result<_, TableListError>>()?,
    })
}

fn write_structure(file: &StructureFile) -> RawStructure {
    let partial = |(urn, fingerprint): &(Urn, Sha256)| RawPartial {
        urn: urn.to_string(),
        fingerprint: fingerprint.to_string(),
    };
    RawStructure {
        path: file.path.to_string(),
        partial_of: file.partial_of.iter().map(partial).collect(),
    }
}

fn read_file(raw: &RawFile) -> Result<OtherFile, TableListError> {
    Ok(OtherFile {
        path: value("path", &raw.path)?,
        tier: tier(&raw.tier)?,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::edition::testing::{edition_id, product};

    fn flow(id: &str) -> Urn {
        format!("urn:sdmx:org.sdmx.infomodel.datastructure.Dataflow=AG:{id}(1.0)")
            .parse()
            .unwrap()
    }

    fn data(path: &str) -> ListedData {
        ListedData {
            path: path.parse().unwrap(),
            size: 10,
            rows: 2,
            tier: Tier::Remote,
        }
    }

    fn list() -> TableList {
        let mut list = TableList::empty(product(), edition_id(1)).following(edition_id(2));
        list.tables = vec![
            ListedTable {
                dataflow: flow("A"),
                files: vec![data("A/2.parquet"), data("A/1.parquet")],
            },
            ListedTable {
                dataflow: flow("B"),
                files: vec![],
            },
        ];
        list.structures = vec![StructureFile {
            path: "structures/x.json".parse().unwrap(),
            partial_of: vec![(flow("A"), Sha256::of(b"full"))],
        }];
        list.files = vec![OtherFile {
            path: "search/index.json".parse().unwrap(),
            tier: Tier::Lazy,
        }];
        list
    }

    /// INV-26, INV-29: a list comes back as written; a first one holds nothing, a following one names where it came from.
    #[test]
    fn a_list_comes_back_as_it_was_written() {
        let list = list();
        assert_eq!(TableList::decode(&list.encode().unwrap()).unwrap(), list);
        assert_eq!(list.previous, Some(edition_id(1)));
        let first = TableList::empty(product(), edition_id(1));
        assert_eq!(
            (
                first.tables.len(),
                first.structures.len(),
                first.files.len(),
                first.previous
            ),
            (0, 0, 0, None)
        );
    }

    /// INV-26, INV-96: each way in which a list contradicts itself is refused by name, when written and when read.
    #[test]
    fn lists_that_contradict_themselves_are_refused() {
        type Change = fn(&mut TableList);
        let cases: [(&str, Change); 7] = [
            ("tables has", |list| list.tables.swap(0, 1)),
            ("and for", |list| list.tables[1].files.push(data("A/1.parquet"))),
            ("belongs to one table, once", |list| {
                list.tables[0].files.push(data("A/1.parquet"))
            }),
            ("INV-96", |list| {
                list.tables[1].files.push(data("B/ducklake-1-delete.parquet"))
            }),
            ("structures has", |list| {
                list.structures.push(list.structures[0].clone())
            }),
            ("the edition's files has", |list| {
                list.files.push(OtherFile {
                    path: TableList::NAME.parse().unwrap(),
                    tier: Tier::Lazy,
                });
            }),
            ("partial_of has", |list| {
                let again = list.structures[0].partial_of[0].clone();
                list.structures[0].partial_of.push(again);
            }),
        ];
        for (expected, change) in cases {
            let mut list = list();
            change(&mut list);
            let refusal = list.encode().unwrap_err().to_string();
            assert!(refusal.contains(expected), "{refusal}");
        }
    }

    /// INV-26: a list of another form is refused, naming what is wrong.
    #[test]
    fn other_forms_are_refused() {
        let text = String::from_utf8(list().encode().unwrap()).unwrap();
        for (from, to, expected) in [
            ("\"1.0\"", "\"2.0\"", "format_version \"2.0\""),
            ("\"remote\"", "\"cold\"", "tier is \"cold\""),
            ("A/1.parquet", "../1.parquet", "path is"),
            ("\"rows\":2", "\"rows\":-2", "can't be read"),
            ("Dataflow=AG:A(1.0)\",\"files", "Dataflow=AG:A\",\"files", "dataflow is"),
            ("\"tables\":", "\"tables\":[],\"tables\":", "duplicate field"),
        ] {
            let refusal = TableList::decode(text.replacen(from, to, 1).as_bytes())
                .unwrap_err()
                .to_string();
            assert!(refusal.contains(expected), "{refusal}");
        }
        let refusal = list().check_place(&product(), &edition_id(3)).unwrap_err().to_string();
        assert!(refusal.contains(&edition_id(2).to_string()) && refusal.contains(&edition_id(3).to_string()));
    }

    proptest! {
        /// INV-26: no bytes make the reader panic.
        #[test]
        fn mutated_lists_never_panic(at in 0usize..900, with in any::<[u8; 3]>(), cut in 0usize..900) {
            let mut bytes = list().encode().unwrap();
            let at = at % bytes.len();
            bytes.splice(at..(at + 1).min(bytes.len()), with);
            if let Ok(read) = TableList::decode(&bytes) {
                prop_assert!(read.encode().is_ok());
            }
            bytes.truncate(cut);
            let _ = TableList::decode(&bytes);
        }
    }
}
