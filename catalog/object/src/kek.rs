//! KEKs of a domain: the ring of those held here, and which one new wraps must use (SOP part 2.8, `mls.md` R5).

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    id::{KekGeneration, KekId, SiteId},
    record::KekRecord,
    roster::Roster,
    secret::Kek,
    sign::Signed,
};

/// The KEKs of one domain this node holds. Old ones stay: accepted entries are read with them.
#[derive(Debug, Default)]
pub struct KekRing {
    keks: BTreeMap<(KekGeneration, KekId), Kek>,
    generations: BTreeMap<KekId, KekGeneration>,
}

impl KekRing {
    /// Adds a KEK; one that is already held stays as it is.
    pub fn insert(&mut self, generation: KekGeneration, kek_id: KekId, kek: Kek) {
        if self.generations.contains_key(&kek_id) {
            return;
        }
        self.generations.insert(kek_id, generation);
        self.keks.insert((generation, kek_id), kek);
    }

    /// The KEK with this id.
    pub fn get(&self, kek_id: &KekId) -> Option<&Kek> {
        self.keks.get(&(*self.generations.get(kek_id)?, *kek_id))
    }

    /// Generation of a KEK that is held.
    pub fn generation(&self, kek_id: &KekId) -> Option<KekGeneration> {
        self.generations.get(kek_id).copied()
    }

    /// All KEKs of one generation; forks can both mint the same number (SOP-221).
    pub fn of_generation(&self, generation: KekGeneration) -> impl Iterator<Item = (KekId, &Kek)> {
        self.iter()
            .filter(move |(found, ..)| *found == generation)
            .map(|(_, id, kek)| (id, kek))
    }

    /// All KEKs, oldest first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (KekGeneration, KekId, &Kek)> {
        self.keks.iter().map(|((generation, id), kek)| (*generation, *id, kek))
    }

    /// The KEK of the highest generation.
    pub fn newest(&self) -> Option<(KekGeneration, KekId, &Kek)> {
        self.iter().next_back()
    }

    /// Number of KEKs held.
    pub fn len(&self) -> usize {
        self.keks.len()
    }

    /// Whether none is held.
    pub fn is_empty(&self) -> bool {
        self.keks.is_empty()
    }
}

/// Who may hold a KEK: the audience its minter named, and every site added later with a history that reaches it.
///
/// "Later" is not a time: it is an Add op the minter had not seen. So the audience is a function of the set of records.
pub fn audience(record: &KekRecord, roster: &Roster) -> BTreeSet<SiteId> {
    let mut audience: BTreeSet<_> = record.audience.iter().copied().collect();
    audience.extend(roster.late_grants(&record.ops_seen, record.generation));
    audience
}

/// Whether new wraps may use this KEK: nobody outside the roster has it, and nobody inside is cut off from it.
pub fn is_usable(record: &KekRecord, roster: &Roster) -> bool {
    let readers: BTreeSet<_> = roster.readers().map(|(site, _)| site).collect();
    let audience = audience(record, roster);
    audience.is_subset(&readers)
        && roster
            .readers()
            .all(|(site, history_from)| history_from <= record.generation && audience.contains(&site))
}

/// The KEK that new wraps must use: the highest (generation, id) of the usable ones. None means one must be minted.
pub fn current<'a>(
    records: impl IntoIterator<Item = &'a Signed<KekRecord>>,
    roster: &Roster,
) -> Option<(KekGeneration, KekId)> {
    records
        .into_iter()
        .map(Signed::body)
        .filter(|record| is_usable(record, roster))
        .map(|record| (record.generation, record.kek_id))
        .max()
}

/// The generation a newly minted KEK gets.
pub fn next_generation<'a>(records: impl IntoIterator<Item = &'a Signed<KekRecord>>) -> KekGeneration {
    records
        .into_iter()
        .map(|record| record.body().generation)
        .max()
        .unwrap_or(0)
        + 1
}
