//! The page a person keeps: everything recovery needs, in words and lines a person can check and type.

use std::{
    fmt::{self, Write as _},
    str::FromStr,
};

use sovm_object::id::{DomainId, KitId, MeshId, RecordId, SiteId, StorageId};
use zeroize::Zeroizing;

use super::{Kit, words};

const TITLE: &str = "SOVM RECOVERY KIT";
const WORDS_BEGIN: &str = "Words";
const WORDS_END: &str = "End of words";

/// Eight bytes in four groups, short enough to compare by eye or by voice.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fingerprint([u8; 8]);

impl Fingerprint {
    /// Of a mesh: the beginning of its id.
    pub fn of_mesh(mesh: &MeshId) -> Self {
        Self::first_of(mesh.as_bytes())
    }

    /// Of a kit: the beginning of its id.
    pub fn of_kit(kit: &KitId) -> Self {
        Self::first_of(kit.as_bytes())
    }

    fn first_of(bytes: &[u8]) -> Self {
        Self(std::array::from_fn(|i| bytes[i]))
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, pair) in self.0.chunks(2).enumerate() {
            write!(f, "{}{:02x}{:02x}", if i == 0 { "" } else { "-" }, pair[0], pair[1])?;
        }
        Ok(())
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Fingerprint({self})")
    }
}

/// Text is not a fingerprint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a fingerprint: expected four groups of four hex digits")]
pub struct NotAFingerprint;

impl FromStr for Fingerprint {
    type Err = NotAFingerprint;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let digits: Vec<u8> = text
            .chars()
            .filter(|c| *c != '-' && !c.is_whitespace())
            .map(|c| c.to_digit(16).map(|d| d as u8).ok_or(NotAFingerprint))
            .collect::<Result<_, _>>()?;
        if digits.len() != 16 {
            return Err(NotAFingerprint);
        }
        Ok(Self(std::array::from_fn(|i| digits[2 * i] << 4 | digits[2 * i + 1])))
    }
}

/// A place where the domain's blobs lie.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replica {
    /// The site.
    pub site: SiteId,
    /// How it was last reached, in the form `sovm recover` takes.
    pub address: String,
}

/// What a page says besides the words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageFacts {
    /// What people call the mesh.
    pub mesh_name: String,
    /// The mesh.
    pub mesh_id: MeshId,
    /// What people call the domain.
    pub domain_name: String,
    /// The domain.
    pub domain_id: DomainId,
    /// The domain's founding record, which pins who may speak for it.
    pub genesis: RecordId,
    /// When the page was made, milliseconds since 1970.
    pub made_ms: u64,
    /// The newest recovery root at that time.
    pub root_id: StorageId,
    /// Its number in the chain.
    pub recovery_generation: u64,
    /// Generation of the KEK that root is sealed under.
    pub kek_generation: u64,
    /// Where replicas are.
    pub replicas: Vec<Replica>,
    /// The exact command to type on the clean machine.
    pub command: String,
}

/// What could be read from a page. Words alone leave everything else open.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReadFacts {
    /// What people call the mesh.
    pub mesh_name: Option<String>,
    /// The mesh.
    pub mesh_id: Option<MeshId>,
    /// What people call the domain.
    pub domain_name: Option<String>,
    /// The domain.
    pub domain_id: Option<DomainId>,
    /// The domain's founding record.
    pub genesis: Option<RecordId>,
    /// The day the page was made, `YYYY-MM-DD`.
    pub made: Option<String>,
    /// The root the page starts from.
    pub root_id: Option<StorageId>,
    /// That root's number in the chain.
    pub recovery_generation: Option<u64>,
    /// Generation of the KEK that root is sealed under.
    pub kek_generation: Option<u64>,
    /// Where replicas were.
    pub replicas: Vec<Replica>,
}

/// Why a page does not read as a kit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KitError {
    /// The words are wrong.
    #[error("the kit's words do not read: {0}. Nothing was tried with them")]
    Words(#[from] words::WordsError),
    /// The page has a title but no section of words.
    #[error(
        "this is a kit page without its words; the six numbered lines between \"Words\" and \"End of words\" are missing"
    )]
    NoWords,
    /// Words of one kit on the page of another.
    #[error("the words belong to kit {words}, but the page is of kit {page}; do not mix pages")]
    OtherKit {
        /// What the page says.
        page: Fingerprint,
        /// What the words give.
        words: Fingerprint,
    },
    /// The page's mesh id and its fingerprint disagree: one was mistyped.
    #[error("the page names mesh {id}, but gives the fingerprint {page}; one of the two is mistyped")]
    OtherMesh {
        /// The fingerprint on the page.
        page: Fingerprint,
        /// The fingerprint of the id on the page.
        id: Fingerprint,
    },
    /// A field does not read.
    #[error("line {line}: \"{field}\" does not read; correct the line or delete it")]
    Field {
        /// Line of the page, from 1.
        line: usize,
        /// The field.
        field: &'static str,
    },
}

/// A kit and what its page said.
#[derive(Debug)]
pub struct ParsedKit {
    /// The keys.
    pub kit: Kit,
    /// The rest of the page.
    pub facts: ReadFacts,
}

impl Kit {
    /// The whole page as text. Whoever reads it holds the data, so it goes to a printer or a file a person chose.
    pub fn show_page(&self, facts: &PageFacts) -> Zeroizing<String> {
        let mut page = Zeroizing::new(String::with_capacity(4_096));
        let mut line = |text: &str| {
            page.push_str(text);
            page.push('\n');
        };
        let field = |name: &str, value: &str| format!("{:<18}{}", format!("{name}:"), one_line(value));
        line(TITLE);
        line("");
        line("Whoever holds this page holds the data: it opens everything in the domain below, past and");
        line("future, until the kit is retired. Keep it offline, where you would keep a deed or cash.");
        line("");
        line(&field("Mesh", &facts.mesh_name));
        line(&field("Domain", &facts.domain_name));
        line(&field("Kit", &self.fingerprint().to_string()));
        line(&field(
            "Mesh fingerprint",
            &Fingerprint::of_mesh(&facts.mesh_id).to_string(),
        ));
        line(&field("Made", &day(facts.made_ms)));
        line(&field("Mesh id", &facts.mesh_id.to_string()));
        line(&field("Domain id", &facts.domain_id.to_string()));
        line(&field("Domain record", &facts.genesis.to_string()));
        line(&field("Root id", &facts.root_id.to_string()));
        line(&field("Root number", &facts.recovery_generation.to_string()));
        line(&field("KEK generation", &facts.kek_generation.to_string()));
        for replica in &facts.replicas {
            line(&field("Replica", &format!("{} {}", replica.site, replica.address)));
        }
        line("");
        line("On a clean machine, with one replica in reach or a directory with its blobs, type:");
        line("");
        line(&format!("    {}", one_line(&facts.command)));
        line("");
        line(&format!("{WORDS_BEGIN} (the fifth word of each line checks the line):"));
        line("");
        page.push_str(&self.show_words());
        page.push('\n');
        page.push_str(WORDS_END);
        page.push('\n');
        page
    }

    /// The six lines of words alone.
    pub fn show_words(&self) -> Zeroizing<String> {
        let mut text = Zeroizing::new(String::with_capacity(512));
        for (number, [a, b, c, d, check]) in words::encode(self.expose_seed()).iter().enumerate() {
            // Straight into the wiped string: a `format!` would leave a copy behind.
            let _ = writeln!(text, "    {}.  {a:<9} {b:<9} {c:<9} {d:<9}   {check}", number + 1);
        }
        text
    }

    /// Reads a whole page, or just the words.
    pub fn parse_page(text: &str) -> Result<ParsedKit, KitError> {
        let text = text.trim_start_matches('\u{feff}');
        let mut facts = ReadFacts::default();
        let (mut kit_on_page, mut mesh_on_page) = (None, None);
        let mut words = Zeroizing::new(String::with_capacity(1_024));
        let mut section = Section::Before;
        for (number, line) in text.lines().enumerate() {
            let lower = line.trim().to_lowercase();
            match section {
                Section::Before if is_words_heading(&lower) => section = Section::Words,
                Section::Words if lower.starts_with(&WORDS_END.to_lowercase()) => section = Section::After,
                Section::Words => {
                    words.push_str(line);
                    words.push('\n');
                }
                _ => read_field(line, number + 1, &mut facts, &mut kit_on_page, &mut mesh_on_page)?,
            }
        }
        let seed = match section {
            Section::Before if text.to_uppercase().contains(TITLE) => return Err(KitError::NoWords),
            Section::Before => words::decode(text)?,
            _ => words::decode(&words)?,
        };
        let kit = Self::from_seed(seed);
        if let Some(page) = kit_on_page.filter(|page| *page != kit.fingerprint()) {
            return Err(KitError::OtherKit {
                page,
                words: kit.fingerprint(),
            });
        }
        if let (Some(page), Some(id)) = (mesh_on_page, facts.mesh_id.as_ref().map(Fingerprint::of_mesh))
            && page != id
        {
            return Err(KitError::OtherMesh { page, id });
        }
        Ok(ParsedKit { kit, facts })
    }
}

#[derive(Clone, Copy)]
enum Section {
    Before,
    Words,
    After,
}

/// The heading is the word alone or with its remark; a first line of words may well begin with another word.
fn is_words_heading(lower: &str) -> bool {
    let begin = WORDS_BEGIN.to_lowercase();
    lower
        .strip_prefix(&begin)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', ':']) && rest.ends_with(':'))
}

fn read_field(
    line: &str,
    number: usize,
    facts: &mut ReadFacts,
    kit: &mut Option<Fingerprint>,
    mesh: &mut Option<Fingerprint>,
) -> Result<(), KitError> {
    let Some((name, value)) = line.split_once(':') else {
        return Ok(());
    };
    let value = value.trim();
    fn read<T: FromStr>(value: &str, line: usize, field: &'static str) -> Result<Option<T>, KitError> {
        value.parse().map(Some).map_err(|_| KitError::Field { line, field })
    }
    match name.trim().to_lowercase().as_str() {
        "mesh" => facts.mesh_name = Some(value.to_owned()),
        "domain" => facts.domain_name = Some(value.to_owned()),
        "made" => facts.made = Some(value.to_owned()),
        "kit" => *kit = read(value, number, "Kit")?,
        "mesh fingerprint" => *mesh = read(value, number, "Mesh fingerprint")?,
        "mesh id" => facts.mesh_id = read(value, number, "Mesh id")?,
        "domain id" => facts.domain_id = read(value, number, "Domain id")?,
        "domain record" => facts.genesis = read(value, number, "Domain record")?,
        "root id" => facts.root_id = read(value, number, "Root id")?,
        "root number" => facts.recovery_generation = read(value, number, "Root number")?,
        "kek generation" => facts.kek_generation = read(value, number, "KEK generation")?,
        "replica" => {
            let (site, address) = value.split_once(' ').unwrap_or((value, ""));
            let site = site.parse().map_err(|_| KitError::Field {
                line: number,
                field: "Replica",
            })?;
            facts.replicas.push(Replica {
                site,
                address: address.trim().to_owned(),
            });
        }
        _ => {}
    }
    Ok(())
}

/// A name on the page must not be able to forge another line of it.
fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// `YYYY-MM-DD` of a time in UTC, by the usual count of days from 1 March of year 0.
fn day(ms: u64) -> String {
    let days = ms / 86_400_000 + 719_468;
    let era = days / 146_097;
    let in_era = days % 146_097;
    let year_of_era = (in_era - in_era / 1_460 + in_era / 36_524 - in_era / 146_096) / 365;
    let in_year = in_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * in_year + 2) / 153;
    let day = in_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 {
        shifted_month + 3
    } else {
        shifted_month - 9
    };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}

#[cfg(test)]
mod tests;
