use std::{fs as std_fs, path::Path};

use sovm_object::{
    hlc::{Hlc, HlcClock},
    id::{DomainId, KekId, MeshId, RecordId, SiteId},
    secret::{DatabaseKey, Kek, SiteKey},
};
use tempfile::TempDir;

use super::*;
use crate::{AgeFault, SecretString, age_file::AgeSecret};

fn contents() -> Contents {
    Contents::new(SiteKey::from_seed(&[1; 32]), DatabaseKey::from_bytes([2; 32]))
}

fn key_file(dir: &Path, name: &str) -> Unlock {
    let path = dir.join(name);
    Unlock::KeyFile(
        if path.exists() {
            KeyFile::load(&path)
        } else {
            KeyFile::create(&path)
        }
        .unwrap(),
    )
}

fn passphrase(text: &str) -> Unlock {
    Unlock::Passphrase(SecretString::from(text.to_owned()))
}

/// A home and, beside it, a directory with its key file.
struct Home {
    home: TempDir,
    keys: TempDir,
}

impl Home {
    fn new() -> Self {
        let this = Self {
            home: TempDir::new().unwrap(),
            keys: TempDir::new().unwrap(),
        };
        KeyStore::create(this.home.path(), &this.unlock(), contents()).unwrap();
        this
    }

    fn unlock(&self) -> Unlock {
        key_file(self.keys.path(), "key")
    }

    fn open(&self, fallback: Fallback) -> Result<(KeyStore, OpenReport), UnlockError> {
        KeyStore::open(self.home.path())
            .unwrap()
            .unlock(&self.unlock(), fallback)
    }

    fn store(&self) -> KeyStore {
        self.open(Fallback::Refuse).unwrap().0
    }

    fn file(&self, name: &str) -> std::path::PathBuf {
        self.home.path().join(name)
    }

    /// Home with two revisions on disk, and then a change to the current file.
    fn damaged(change: impl FnOnce(Vec<u8>) -> Option<Vec<u8>>) -> Self {
        let home = Self::new();
        home.store().begin_incarnation().unwrap();
        let path = home.file("keystore.age");
        match change(std_fs::read(&path).unwrap()) {
            Some(bytes) => std_fs::write(&path, bytes).unwrap(),
            None => std_fs::remove_file(&path).unwrap(),
        }
        home
    }

    fn fault(&self) -> (BodyFault, PreviousCopy) {
        match self.open(Fallback::Refuse).unwrap_err() {
            UnlockError::KeyStore { fault, previous } => (fault, previous),
            other => panic!("{other}"),
        }
    }
}

fn fill(contents: &mut Contents) {
    contents.mesh = Some(MeshId::from_bytes([3; 32]));
    contents.mls_keys.push(MlsKey {
        public: [4; 32],
        private: vec![5; 64].into(),
    });
    let domain = contents.domain_mut(DomainId::from_bytes([6; 32]));
    domain
        .ring
        .insert(1, KekId::from_bytes([7; 16]), Kek::from_bytes([8; 32]));
    domain
        .ring
        .insert(2, KekId::from_bytes([9; 16]), Kek::from_bytes([10; 32]));
    domain.admins.insert(SiteId::from_bytes([11; 32]));
    domain.op_heads.insert(RecordId::from_bytes([12; 32]));
    domain.accept_older_root(RootRef {
        root_id: sovm_object::id::StorageId::from_bytes([13; 32]),
        recovery_generation: 14,
        kek_generation: 2,
        kek_id: KekId::from_bytes([9; 16]),
    });
}

/// SOP-208: what recovery needs of a domain survives in the key store alone.
#[test]
fn everything_survives_a_restart() {
    let home = Home::new();
    let mut store = home.store();
    store.update(fill).unwrap();
    store.cover_hlc(Hlc::new(50_000, 7), 50_000).unwrap();
    store.note_catalogue_commits(42).unwrap();
    store.note_catalogue_commits(41).unwrap();
    let before = store.contents().encode();
    drop(store);

    let store = home.store();
    assert_eq!(store.contents().encode(), before);
    assert_eq!(store.site_key().site_id(), SiteKey::from_seed(&[1; 32]).site_id());
    assert_eq!(store.database_key().expose_for_sealing(), &[2; 32]);
    let domain = store.domain(&DomainId::from_bytes([6; 32])).unwrap();
    assert_eq!(domain.ring.len(), 2);
    assert_eq!(domain.root().unwrap().recovery_generation, 14);
    assert_eq!(store.hlc_floor(), Hlc::new(60_000, 0));
    assert_eq!(store.catalogue_age(42), CatalogueAge::InStep);
    assert_eq!(store.catalogue_age(41), CatalogueAge::Restored { known: 42, found: 41 });
}

/// DESIGN §5: no `seq` is given twice, whatever runs and crashes come between, and a new start takes a fresh block.
#[test]
fn seq_and_incarnation_only_rise() {
    let home = Home::new();
    let mut last = 0;
    for start in 1..=3 {
        let mut store = home.store();
        assert_eq!(store.begin_incarnation().unwrap().counter, start);
        let revision = store.contents().revision;
        for _ in 0..SEQ_BLOCK + 1 {
            let seq = store.next_seq().unwrap();
            assert!(seq > last);
            last = seq;
        }
        assert_eq!(store.contents().revision, revision + 1, "one write for a block");
    }
    let mut unannounced = home.store();
    assert!(unannounced.next_seq().unwrap() > last);
}

/// SOP-366 and `sop-rules.md` 2.7: the ceiling is stored before a stamp is used, and seldom.
#[test]
fn the_clock_is_covered_without_a_write_each_time() {
    let home = Home::new();
    let mut store = home.store();
    for ms in 0..HLC_AHEAD_MS {
        store.cover_hlc(Hlc::new(1_000_000 + ms, 1), 1_000_000 + ms).unwrap();
        assert!(store.hlc_floor() > Hlc::new(1_000_000 + ms, 1));
    }
    assert_eq!(store.contents().revision, 1);
}

/// SOP-133: a hundred commands in ten seconds, each a start of its own, leave the clock within what others accept.
#[test]
fn quick_starts_do_not_carry_the_clock_away() {
    let home = Home::new();
    let mut last = Hlc::default();
    for start in 0..100 {
        let now_ms = 1_000_000 + 100 * start;
        let mut store = home.store();
        let mut clock = HlcClock::starting_at(store.hlc_floor());
        for _ in 0..3 {
            let stamp = clock.tick(now_ms);
            assert!(stamp > last);
            store.cover_hlc(stamp, now_ms).unwrap();
            assert!(store.hlc_floor() > stamp);
            last = stamp;
        }
        assert!(last.millis() <= now_ms + HLC_AHEAD_MS + start, "{last} at {now_ms}");
    }
}

#[test]
fn a_change_that_refuses_writes_nothing() {
    let home = Home::new();
    let mut store = home.store();
    let refused = store.try_update(|contents| {
        fill(contents);
        Err::<(), _>(WriteError::Exhausted)
    });
    assert!(refused.is_err());
    assert!(store.contents().domains.is_empty() && store.contents().revision == 0);
}

#[test]
fn a_failed_write_leaves_memory_and_disk_as_they_were() {
    let home = Home::new();
    let mut store = home.store();
    // A directory in the way of the temporary file stands for any refusal of the disk.
    std_fs::create_dir(home.file("keystore.age.new")).unwrap();
    let error = store.update(fill).unwrap_err();
    assert!(
        error.to_string().contains("keystore.age.new") && error.to_string().contains("bytes"),
        "{error}"
    );
    assert!(store.contents().domains.is_empty());
    std_fs::remove_dir(home.file("keystore.age.new")).unwrap();
    store.update(fill).unwrap();
    assert_eq!(home.store().contents().domains.len(), 1);
}

#[test]
fn passphrase_locks_and_its_rejections_are_plain() {
    let home = TempDir::new().unwrap();
    assert!(matches!(
        KeyStore::create(home.path(), &passphrase(""), contents()),
        Err(CreateError::EmptyPassphrase)
    ));
    drop(KeyStore::create(home.path(), &passphrase("correct horse"), contents()).unwrap());
    let open = || KeyStore::open(home.path()).unwrap();
    assert_eq!(open().protection(), Protection::Passphrase);
    assert!(open().unlock(&passphrase("correct horse"), Fallback::Refuse).is_ok());
    let wrong = open().unlock(&passphrase("wrong"), Fallback::UsePrevious).unwrap_err();
    assert!(matches!(wrong, UnlockError::WrongPassphrase));
    let file = key_file(TempDir::new().unwrap().path(), "k");
    assert!(matches!(
        open().unlock(&file, Fallback::Refuse),
        Err(UnlockError::NeedsPassphrase)
    ));
    assert!(matches!(
        KeyStore::create(home.path(), &passphrase("x"), contents()),
        Err(CreateError::Exists(_))
    ));
}

#[test]
fn wrong_key_file_and_passphrase_on_a_key_file_node() {
    let home = Home::new();
    let open = || KeyStore::open(home.home.path()).unwrap();
    assert_eq!(open().protection(), Protection::KeyFile);
    let other = key_file(home.keys.path(), "other");
    let error = open().unlock(&other, Fallback::Refuse).unwrap_err();
    assert!(
        matches!(error, UnlockError::WrongKeyFile(ref path) if path.ends_with("other")),
        "{error}"
    );
    assert!(matches!(
        open().unlock(&passphrase("x"), Fallback::Refuse),
        Err(UnlockError::NeedsKeyFile)
    ));
}

#[test]
fn missing_files_are_three_different_errors() {
    let empty = TempDir::new().unwrap();
    assert!(matches!(KeyStore::open(empty.path()), Err(OpenError::NoKeyStore(_))));

    let home = Home::damaged(|_| None);
    assert!(matches!(
        home.fault(),
        (BodyFault::Missing, PreviousCopy::Usable { .. })
    ));
    std_fs::remove_file(home.file("keystore.age.prev")).unwrap();
    assert!(matches!(
        home.fault(),
        (BodyFault::Missing, PreviousCopy::Useless(BodyFault::Missing))
    ));

    let home = Home::damaged(Some);
    std_fs::remove_file(home.file("identity.age")).unwrap();
    assert!(matches!(
        KeyStore::open(home.home.path()),
        Err(OpenError::IdentityMissing(_))
    ));
    // A node that ever ran is not buried under a new one.
    assert!(matches!(
        KeyStore::create(home.home.path(), &home.unlock(), contents()),
        Err(CreateError::Orphaned(_))
    ));
}

#[test]
fn an_interrupted_init_can_simply_be_run_again() {
    let home = Home::new();
    std_fs::remove_file(home.file("identity.age")).unwrap();
    assert!(matches!(
        KeyStore::open(home.home.path()),
        Err(OpenError::IdentityMissing(_))
    ));
    KeyStore::create(home.home.path(), &home.unlock(), contents()).unwrap();
    home.store();
}

#[test]
fn damage_names_itself() {
    let flip = |at: fn(usize) -> usize| {
        move |mut bytes: Vec<u8>| {
            let at = at(bytes.len());
            bytes[at] ^= 1;
            Some(bytes)
        }
    };
    assert_eq!(
        Home::damaged(flip(|len| len - 1)).fault().0,
        BodyFault::Age(AgeFault::Damaged)
    );
    assert_eq!(
        Home::damaged(flip(|len| len / 2)).fault().0,
        BodyFault::Age(AgeFault::Damaged)
    );
    let cut = |bytes: Vec<u8>| Some(bytes[..bytes.len() - 10].to_vec());
    assert_eq!(Home::damaged(cut).fault().0, BodyFault::Age(AgeFault::Truncated));
    assert!(matches!(
        Home::damaged(|_| Some(vec![])).fault().0,
        BodyFault::Age(AgeFault::Truncated)
    ));
    assert_eq!(
        Home::damaged(|_| Some(vec![7; 4096])).fault().0,
        BodyFault::Age(AgeFault::NotAge)
    );
    // The file of another node.
    let other = Home::new();
    let foreign = std_fs::read(other.file("keystore.age")).unwrap();
    assert_eq!(
        Home::damaged(|_| Some(foreign)).fault().0,
        BodyFault::Age(AgeFault::WrongKey)
    );
}

/// DESIGN §5: a file encrypted to the identity by somebody who knows only its public half is refused.
#[test]
fn a_forged_body_is_refused() {
    let home = Home::new();
    let store = home.store();
    let forged = super::seal::seal_body(&store.contents().encode(), store.identity(), &AgeSecret::generate());
    std_fs::write(home.file("keystore.age"), forged).unwrap();
    assert_eq!(home.fault().0, BodyFault::Forged);
}

#[test]
fn a_newer_format_is_named_and_left_alone() {
    let home = Home::new();
    let store = home.store();
    let newer = super::seal::seal_body(&[0xab, 1, 9], store.identity(), store.identity());
    std_fs::write(home.file("keystore.age"), newer).unwrap();
    assert_eq!(home.fault().0, BodyFault::Newer(9));
}

/// Going back is explicit and reported, and repeats no number that the lost write may have used.
#[test]
fn the_previous_copy_is_used_only_when_asked_for() {
    let home = Home::new();
    let mut store = home.store();
    store.begin_incarnation().unwrap();
    let used = store.next_seq().unwrap();
    drop(store);
    let path = home.file("keystore.age");
    let mut bytes = std_fs::read(&path).unwrap();
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    std_fs::write(&path, bytes).unwrap();

    let (fault, previous) = home.fault();
    assert_eq!(
        (fault.clone(), previous.clone()),
        (AgeFault::Damaged.into(), PreviousCopy::Usable { revision: 0 })
    );
    assert!(previous.to_string().contains("doctor --repair"));
    let (mut store, report) = home.open(Fallback::UsePrevious).unwrap();
    assert_eq!(report.fell_back, Some(fault));
    assert_eq!(store.begin_incarnation().unwrap().counter, 2);
    assert!(store.next_seq().unwrap() > used);
    drop(store);
    assert_eq!(home.open(Fallback::Refuse).unwrap().1.fell_back, None);
}

#[test]
fn both_copies_damaged_says_so() {
    let home = Home::damaged(|_| Some(vec![0; 100]));
    std_fs::write(home.file("keystore.age.prev"), b"").unwrap();
    let (_, previous) = home.fault();
    assert!(matches!(previous, PreviousCopy::Useless(_)) && previous.to_string().contains("sovm recover"));
}

#[test]
fn a_damaged_identity_is_not_a_wrong_key() {
    let home = Home::new();
    let path = home.file("identity.age");
    let good = std_fs::read(&path).unwrap();
    std_fs::write(&path, &good[..good.len() - 3]).unwrap();
    let fault = home.open(Fallback::Refuse).unwrap_err();
    assert!(matches!(fault, UnlockError::Identity(AgeFault::Truncated)), "{fault}");
    let mut flipped = good.clone();
    flipped[good.len() - 3] ^= 4;
    std_fs::write(&path, flipped).unwrap();
    assert!(matches!(
        home.open(Fallback::Refuse),
        Err(UnlockError::Identity(AgeFault::Damaged))
    ));
    std_fs::write(&path, b"nonsense").unwrap();
    assert!(matches!(
        KeyStore::open(home.home.path()),
        Err(OpenError::Identity {
            fault: AgeFault::NotAge,
            ..
        })
    ));
}

/// DESIGN §5: after a change of the lock, an old identity file with its old lock opens nothing that was written since, nor
/// the previous copy.
#[test]
fn changing_the_lock_leaves_nothing_behind() {
    let home = Home::new();
    let mut store = home.store();
    store.update(fill).unwrap();
    let old_identity = std_fs::read(home.file("identity.age")).unwrap();
    let new = key_file(home.keys.path(), "new");
    store.change_lock(&new).unwrap();
    drop(store);

    assert!(matches!(
        home.open(Fallback::UsePrevious),
        Err(UnlockError::WrongKeyFile(_))
    ));
    let (store, report) = KeyStore::open(home.home.path())
        .unwrap()
        .unlock(&new, Fallback::Refuse)
        .unwrap();
    assert!(!report.finished_lock_change && store.contents().domains.len() == 1);
    std_fs::write(home.file("identity.age"), old_identity).unwrap();
    let (fault, previous) = home.fault();
    assert_eq!(fault, BodyFault::Age(AgeFault::WrongKey));
    assert_eq!(previous, PreviousCopy::Useless(AgeFault::WrongKey.into()));
}

#[test]
fn key_files_are_guarded() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("key");
    assert!(matches!(KeyFile::load(&path), Err(KeyFileError::Missing(_))));
    let made = KeyFile::create(&path).unwrap();
    assert!(made.lies_in(dir.path()) && !made.lies_in(&dir.path().join("elsewhere")));
    assert!(matches!(KeyFile::create(&path), Err(KeyFileError::Exists(_))));
    assert!(KeyFile::load(&path).is_ok());
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = |mode| std_fs::set_permissions(&path, std_fs::Permissions::from_mode(mode)).unwrap();
        assert_eq!(std_fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        mode(0o640);
        let error = KeyFile::load(&path).unwrap_err();
        assert!(error.to_string().contains("chmod 600"), "{error}");
        mode(0o600);
    }
    let good = std_fs::read_to_string(&path).unwrap();
    for bad in [
        "",
        "# only a remark\n",
        "AGE-SECRET-KEY-1XYZ",
        &format!("{good}{good}"),
        "\u{0}\u{1}",
    ] {
        std_fs::write(&path, bad).unwrap();
        assert!(matches!(KeyFile::load(&path), Err(KeyFileError::NotAKey(_))), "{bad:?}");
    }
    std_fs::write(&path, [0xff, 0xfe]).unwrap();
    assert!(matches!(KeyFile::load(&path), Err(KeyFileError::NotAKey(_))));
}

/// Lengths tell neither how many domains a node has nor how often it rotated, and files are for their owner only.
#[test]
fn files_have_common_sizes_and_modes() {
    let home = Home::new();
    let mut store = home.store();
    let size = |name: &str| std_fs::metadata(home.file(name)).unwrap().len();
    let empty = size("keystore.age");
    store.update(fill).unwrap();
    assert_eq!(
        (empty, size("keystore.age"), size("keystore.age.prev")),
        (4_096, 4_096, 4_096)
    );
    assert_eq!(size("identity.age"), 1_024);
    #[cfg(unix)]
    for name in ["keystore.age", "keystore.age.prev", "identity.age"] {
        use std::os::unix::fs::PermissionsExt as _;
        assert_eq!(
            std_fs::metadata(home.file(name)).unwrap().permissions().mode() & 0o777,
            0o600
        );
    }
    store
        .update(|contents| {
            for generation in 0..500 {
                let domain = contents.domain_mut(DomainId::from_bytes([6; 32]));
                domain
                    .ring
                    .insert(generation, KekId::from_bytes([generation as u8; 16]), Kek::generate());
            }
        })
        .unwrap();
    assert_eq!(size("keystore.age") % 4_096, 0);
    drop(store);
    assert!(home.store().contents().domains.len() == 1);
}

/// SOP-22: neither the store nor what it holds prints a secret.
#[test]
fn debug_prints_no_secret() {
    let home = Home::new();
    let mut store = home.store();
    store.update(fill).unwrap();
    let text = format!("{store:?} {:?} {:?}", store.contents(), home.unlock());
    for secret in [[1_u8; 32], [2; 32], [8; 32]] {
        assert!(!text.contains(&format!("{secret:?}")) && !text.contains("[1, 1, 1"));
    }
}
