//! Goal: after a power cut at any point of any write, the key store opens and holds the old or the new state, never neither.
//!
//! Method: a model of a disk that keeps names and contents apart. Contents are safe after their own sync; a name (new file or
//! rename) is safe only after the directory was synced. The cut comes after any number of operations, in the middle of a
//! write too, and each name that was not synced is then kept or lost in every combination.

use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
};

use sovm_object::{
    id::MeshId,
    secret::{DatabaseKey, SiteKey},
};
use tempfile::TempDir;

use super::*;

type Files = BTreeMap<PathBuf, Vec<u8>>;

#[derive(Clone)]
enum Pending {
    Put(PathBuf, Vec<u8>),
    Rename(PathBuf, PathBuf),
    Remove(PathBuf),
}

impl Pending {
    fn apply(&self, files: &mut Files) {
        match self {
            Self::Put(path, bytes) => {
                files.insert(path.clone(), bytes.clone());
            }
            Self::Rename(from, to) => {
                if let Some(bytes) = files.remove(from) {
                    files.insert(to.clone(), bytes);
                }
            }
            Self::Remove(path) => {
                files.remove(path);
            }
        }
    }
}

#[derive(Default)]
struct Disk {
    /// What survives a cut.
    safe: Files,
    /// What programs see.
    seen: Files,
    /// Names not synced yet, each with the file it names, as an inode would hold it.
    pending: Vec<Pending>,
    operations: usize,
    cut_at: Option<usize>,
}

#[derive(Default)]
struct CrashFs(Mutex<Disk>);

impl CrashFs {
    fn starting_from(files: &Files, cut_at: Option<usize>) -> Arc<Self> {
        let disk = Disk {
            safe: files.clone(),
            seen: files.clone(),
            cut_at,
            ..Disk::default()
        };
        Arc::new(Self(Mutex::new(disk)))
    }

    /// One step of work: an error once the power is gone.
    fn step<R>(&self, work: impl FnOnce(&mut Disk, bool) -> R) -> io::Result<R> {
        let mut disk = self.0.lock().unwrap();
        let cut = disk.cut_at.is_some_and(|at| disk.operations >= at);
        let cut_now = disk.cut_at == Some(disk.operations);
        disk.operations += 1;
        if cut && !cut_now {
            return Err(io::Error::other("power is gone"));
        }
        let result = work(&mut disk, cut_now);
        if cut_now {
            Err(io::Error::other("power is gone"))
        } else {
            Ok(result)
        }
    }

    /// Every state the disk can be in after the cut.
    fn outcomes(&self) -> Vec<Files> {
        let disk = self.0.lock().unwrap();
        (0..1_u32 << disk.pending.len())
            .map(|kept| {
                let mut files = disk.safe.clone();
                for (bit, pending) in disk.pending.iter().enumerate() {
                    if kept >> bit & 1 == 1 {
                        pending.apply(&mut files);
                    }
                }
                files
            })
            .collect()
    }

    fn operations(&self) -> usize {
        self.0.lock().unwrap().operations
    }

    fn files(&self) -> Files {
        self.0.lock().unwrap().seen.clone()
    }
}

impl Fs for CrashFs {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        self.0
            .lock()
            .unwrap()
            .seen
            .get(path)
            .cloned()
            .ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn write_synced(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        self.step(|disk, cut| {
            // Half a file: its name may or may not be there afterwards.
            let bytes = if cut {
                bytes[..bytes.len() / 2].to_vec()
            } else {
                bytes.to_vec()
            };
            if disk.safe.contains_key(path) {
                disk.safe.insert(path.into(), bytes.clone());
            }
            let put = Pending::Put(path.into(), bytes);
            put.apply(&mut disk.seen);
            disk.pending.push(put);
        })
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.step(|disk, _| {
            // The name `to` leads to the same file however the name `from` fares.
            let Some(bytes) = disk.seen.get(from).cloned() else {
                return;
            };
            Pending::Rename(from.into(), to.into()).apply(&mut disk.seen);
            disk.pending.push(Pending::Put(to.into(), bytes));
            disk.pending.push(Pending::Remove(from.into()));
        })
    }

    fn sync_dir(&self, _: &Path) -> io::Result<()> {
        self.step(|disk, cut| {
            if !cut {
                disk.safe = disk.seen.clone();
                disk.pending.clear();
            }
        })
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.step(|disk, _| {
            let remove = Pending::Remove(path.into());
            remove.apply(&mut disk.seen);
            disk.pending.push(remove);
        })
    }
}

const HOME: &str = "/home";

fn home() -> &'static Path {
    Path::new(HOME)
}

fn key(dir: &TempDir, name: &str) -> Unlock {
    let path = dir.path().join(name);
    Unlock::KeyFile(
        if path.exists() {
            KeyFile::load(&path)
        } else {
            KeyFile::create(&path)
        }
        .unwrap(),
    )
}

fn open(files: &Files, unlock: &Unlock) -> Option<(KeyStore, OpenReport)> {
    KeyStore::open_on(CrashFs::starting_from(files, None), home())
        .ok()?
        .unlock(unlock, Fallback::Refuse)
        .ok()
}

fn new_contents() -> Contents {
    Contents::new(SiteKey::from_seed(&[1; 32]), DatabaseKey::from_bytes([2; 32]))
}

/// A home after its first start.
fn started(unlock: &Unlock) -> Files {
    let fs = CrashFs::starting_from(&Files::new(), None);
    let mut store = KeyStore::create_on(fs.clone(), home(), unlock, new_contents()).unwrap();
    store.begin_incarnation().unwrap();
    fs.files()
}

/// Runs `work` with a cut after each of its operations and hands over every disk that can be left.
fn cut_everywhere(files: &Files, work: impl Fn(Arc<CrashFs>) -> bool, mut check: impl FnMut(bool, &Files)) {
    let whole = CrashFs::starting_from(files, None);
    assert!(work(whole.clone()));
    let operations = whole.operations();
    assert!(operations >= 3);
    for cut_at in 0..operations {
        let fs = CrashFs::starting_from(files, Some(cut_at));
        let done = work(fs.clone());
        assert!(!done || cut_at + 1 >= operations, "success was reported before the end");
        for left in fs.outcomes() {
            check(done, &left);
        }
    }
    check(true, &whole.files());
}

/// DESIGN §5: write temporary, sync, rename, sync directory.
#[test]
fn an_update_is_whole_or_absent() {
    let keys = TempDir::new().unwrap();
    let unlock = key(&keys, "key");
    let mesh = MeshId::from_bytes([9; 32]);
    let files = started(&unlock);
    let (mut old, mut new) = (0, 0);
    let work = |fs: Arc<CrashFs>| {
        let Ok(locked) = KeyStore::open_on(fs, home()) else {
            return false;
        };
        let Ok((mut store, _)) = locked.unlock(&key(&keys, "key"), Fallback::Refuse) else {
            return false;
        };
        store.update(|contents| contents.mesh = Some(mesh)).is_ok()
    };
    cut_everywhere(&files, work, |done, left| {
        let (store, _) = open(left, &unlock).expect("the key store opens after any cut");
        match store.contents().mesh {
            None => {
                assert!(!done, "a write that was reported is gone");
                old += 1;
            }
            Some(found) => {
                assert_eq!(found, mesh);
                new += 1;
            }
        }
        // And it can be written again.
        let fs = CrashFs::starting_from(left, None);
        assert!(work(fs.clone()));
        assert_eq!(open(&fs.files(), &unlock).unwrap().0.contents().mesh, Some(mesh));
    });
    assert!(old > 3 && new > 1, "the cuts reached both sides: {old} old, {new} new");
}

/// DESIGN §5: numbers handed out before a cut are never handed out after it.
#[test]
fn no_seq_is_used_twice_across_a_cut() {
    let keys = TempDir::new().unwrap();
    let unlock = key(&keys, "key");
    let files = started(&unlock);
    let highest = Mutex::new(0);
    let work = |fs: Arc<CrashFs>| {
        *highest.lock().unwrap() = 0;
        let Ok(locked) = KeyStore::open_on(fs, home()) else {
            return false;
        };
        let Ok((mut store, _)) = locked.unlock(&key(&keys, "key"), Fallback::Refuse) else {
            return false;
        };
        for _ in 0..SEQ_BLOCK + 5 {
            match store.next_seq() {
                Ok(seq) => *highest.lock().unwrap() = seq,
                Err(_) => return false,
            }
        }
        true
    };
    cut_everywhere(&files, work, |_, left| {
        let (mut store, _) = open(left, &unlock).unwrap();
        assert!(store.next_seq().unwrap() > *highest.lock().unwrap());
    });
}

/// lessons.md, disks: an interrupted `init` is no node yet or a whole one, and can be run again.
#[test]
fn init_is_whole_or_can_be_repeated() {
    let keys = TempDir::new().unwrap();
    let unlock = key(&keys, "key");
    let work = |fs: Arc<CrashFs>| KeyStore::create_on(fs, home(), &key(&keys, "key"), new_contents()).is_ok();
    cut_everywhere(&Files::new(), work, |done, left| match open(left, &unlock) {
        Some(_) => {}
        None => {
            assert!(!done);
            let fs = CrashFs::starting_from(left, None);
            assert!(work(fs.clone()), "init can be run again");
            assert!(open(&fs.files(), &unlock).is_some());
        }
    });
}

/// lessons.md, keys and recovery: changing the lock under a cut leaves the old or the new one working, never neither.
#[test]
fn a_lock_change_leaves_one_lock_working() {
    let keys = TempDir::new().unwrap();
    let (old, new) = (key(&keys, "key"), key(&keys, "new"));
    let files = started(&old);
    let work = |fs: Arc<CrashFs>| {
        let Ok(locked) = KeyStore::open_on(fs, home()) else {
            return false;
        };
        let Ok((mut store, _)) = locked.unlock(&key(&keys, "key"), Fallback::Refuse) else {
            return false;
        };
        store.change_lock(&key(&keys, "new")).is_ok()
    };
    let mut finished = 0;
    cut_everywhere(&files, work, |done, left| {
        let by_old = open(left, &old);
        let by_new = open(left, &new);
        assert!(by_old.is_some() != by_new.is_some(), "exactly one lock opens");
        assert!(!done || by_new.is_some());
        let (store, report) = by_old.or(by_new).unwrap();
        assert_eq!(store.site_key().site_id(), SiteKey::from_seed(&[1; 32]).site_id());
        finished += usize::from(report.finished_lock_change);
    });
    assert!(finished > 0, "some cut fell into the middle of the change");
}
