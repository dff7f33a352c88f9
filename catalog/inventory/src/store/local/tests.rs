//! What only a directory can show: killed processes, left-over files, locks between processes.

use std::{process::Command, sync::Arc};

use super::{super::testing, *};

/// Names the crash point at which a child process of these tests ends itself.
const ABORT_AT: &str = "SOVM_INVENTORY_TEST_ABORT_AT";
/// Names the directory a child process of these tests works in.
const CHILD_ROOT: &str = "SOVM_INVENTORY_TEST_ROOT";
/// Names what a child process of these tests does.
const CHILD_ACTION: &str = "SOVM_INVENTORY_TEST_ACTION";

/// Ends this process as a kill would, if it is a child that was told to end here.
pub(super) fn abort_if_asked(point: &str) {
    if std::env::var_os(ABORT_AT).is_some_and(|asked| asked == point) {
        std::process::abort();
    }
}

fn path(text: &str) -> StorePath {
    StorePath::parse(text).expect("a path")
}

fn child(root: &Path, action: &str, abort_at: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command
        .args([
            "store::local::tests::child_process",
            "--exact",
            "--ignored",
            "--nocapture",
        ])
        .env(CHILD_ROOT, root)
        .env(CHILD_ACTION, action)
        .env(ABORT_AT, abort_at)
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null());
    command
}

/// The body of the child processes; does nothing when it isn't one.
#[test]
#[ignore = "run by the tests below in a process of its own"]
fn child_process() {
    let Some(root) = std::env::var_os(CHILD_ROOT) else {
        return;
    };
    let store = LocalStore::open(root).expect("a directory");
    match std::env::var(CHILD_ACTION).as_deref() {
        Ok("create") => {
            let _lock = store.take_lock().expect("locked");
            let creation = store
                .create_file(&path("inventory/000000000002.json"), b"second version")
                .expect("created");
            assert_eq!(creation, Creation::Created);
        }
        Ok("replace") => {
            let held = store.read(&path("CURRENT")).expect("read").expect("there");
            let _ = store
                .replace_file(&path("CURRENT"), &held.revision, b"new hint")
                .expect("replaced");
        }
        Ok("hold-lock") => {
            let _lock = store.take_lock().expect("locked");
            fs::write(store.root().join("locked"), b"").expect("told");
            std::thread::sleep(std::time::Duration::from_secs(600));
        }
        other => panic!("unknown action {other:?}"),
    }
}

/// INV-244: the sequence of temporary file, `fsync`, no-replace rename and `fsync` passes the conformance suite.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_directory_conforms() {
    let folders = std::sync::Mutex::new(Vec::new());
    testing::conformance(|| {
        let folder = tempfile::tempdir().expect("a folder");
        let store = LocalStore::open(folder.path()).expect("a store");
        folders.lock().expect("unpoisoned").push(folder);
        async move { Arc::new(store) as Arc<dyn InventoryStore> }
    })
    .await;
}

/// INV-242, INV-243, INV-428: a process killed at any step of a creation leaves no name or the whole document, and
/// whoever comes next can create it.
#[test]
fn a_creation_killed_at_any_step_leaves_nothing_or_everything() {
    for (point, visible) in [
        ("created", false),
        ("half-written", false),
        ("written", false),
        ("renamed", true),
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        let status = child(folder.path(), "create", point).status().expect("ran");
        assert!(!status.success(), "the child was to die at {point}");
        let store = LocalStore::open(folder.path()).expect("a store");
        let found = store.read(&path("inventory/000000000002.json")).expect("readable");
        assert_eq!(
            found.map(|stored| stored.bytes),
            visible.then(|| Bytes::from_static(b"second version")),
            "{point}"
        );
        let listed = store.names_under(None).expect("listed");
        assert_eq!(listed.len(), usize::from(visible), "at {point} listed {listed:?}");

        let expected = if visible { Creation::Exists } else { Creation::Created };
        let _lock = store.take_lock().expect("the dead process holds no lock");
        assert_eq!(
            left_over(folder.path()),
            0,
            "taking the lock sweeps what was left at {point}"
        );
        assert_eq!(
            store
                .create_file(&path("inventory/000000000002.json"), b"second version")
                .expect("ok"),
            expected
        );
    }
    let folder = tempfile::tempdir().expect("a folder");
    assert!(
        child(folder.path(), "create", "nowhere")
            .status()
            .expect("ran")
            .success(),
        "without a kill it succeeds"
    );
}

/// INV-143: a replacement killed at any step leaves the old bytes or the new ones, and no lock.
#[test]
fn a_replacement_killed_at_any_step_leaves_old_or_new() {
    for (point, new) in [
        ("created", false),
        ("half-written", false),
        ("written", false),
        ("renamed", true),
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        let store = LocalStore::open(folder.path()).expect("a store");
        let _ = store.create_file(&path("CURRENT"), b"old hint").expect("created");
        let status = child(folder.path(), "replace", point).status().expect("ran");
        assert!(!status.success(), "the child was to die at {point}");
        let found = store.read(&path("CURRENT")).expect("readable").expect("never gone");
        assert_eq!(
            &found.bytes[..],
            if new { &b"new hint"[..] } else { b"old hint" },
            "{point}"
        );
        let replaced = store
            .replace_file(&path("CURRENT"), &found.revision, b"newest")
            .expect("no lock is left");
        assert_eq!(replaced, Replacement::Replaced);
    }
}

/// INV-292: another process is kept out by the lock, and let in when the holder is killed, without any clean-up.
#[test]
fn the_lock_excludes_processes_and_dies_with_its_holder() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut holder = child(folder.path(), "hold-lock", "nowhere").spawn().expect("started");
    while !folder.path().join("locked").exists() {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let lock_file = File::open(folder.path().join(LOCK_FILE)).expect("the lock's file");
    assert!(matches!(lock_file.try_lock(), Err(fs::TryLockError::WouldBlock)));
    holder.kill().expect("killed");
    holder.wait().expect("gone");
    let store = LocalStore::open(folder.path()).expect("a store");
    drop(store.take_lock().expect("free again"));
}

/// INV-33: `LOCK` stays the same file through locking, unlocking and writing.
#[test]
fn the_lock_file_is_created_once_and_never_deleted() {
    use std::os::unix::fs::MetadataExt as _;
    let folder = tempfile::tempdir().expect("a folder");
    let store = LocalStore::open(folder.path()).expect("a store");
    assert!(!folder.path().join(LOCK_FILE).exists(), "opening creates nothing");
    drop(store.take_lock().expect("locked"));
    let first = fs::metadata(folder.path().join(LOCK_FILE)).expect("there").ino();
    let _ = store.create_file(&path("CURRENT"), b"1").expect("created");
    drop(store.take_lock().expect("locked again"));
    assert_eq!(fs::metadata(folder.path().join(LOCK_FILE)).expect("there").ino(), first);
    assert_eq!(
        store.names_under(None).expect("listed"),
        [path("CURRENT")],
        "it is no document"
    );
}

#[test]
fn a_sweep_leaves_the_temporary_file_of_a_live_writer() {
    let folder = tempfile::tempdir().expect("a folder");
    let live = TemporaryFile::write(folder.path(), b"being written").expect("written");
    fs::write(folder.path().join(".tmp/left-over"), b"half").expect("written");
    sweep(folder.path());
    assert_eq!(left_over(folder.path()), 1);
    live.rename_new(&folder.path().join("target")).expect("still there");
    drop(live);
    assert_eq!(left_over(folder.path()), 0);
    assert_eq!(fs::read(folder.path().join("target")).expect("there"), b"being written");
}

#[test]
fn a_file_that_is_no_document_is_refused_and_not_waited_for() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = LocalStore::open(folder.path()).expect("a store");
    fs::create_dir(folder.path().join("CURRENT")).expect("made");
    let refusal = store.read(&path("CURRENT")).expect_err("a folder").to_string();
    assert!(refusal.contains("no regular file"), "{refusal}");
    let pipe = folder.path().join("pipe");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &pipe,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RWXU,
        0,
    )
    .expect("made");
    let refusal = store.read(&path("pipe")).expect_err("a pipe").to_string();
    assert!(refusal.contains("no regular file"), "{refusal}");
    let huge = File::create(folder.path().join("huge")).expect("made");
    huge.set_len(DOCUMENT_BYTES_MAX + 1).expect("sparse");
    let refusal = store.read(&path("huge")).expect_err("too large").to_string();
    assert!(refusal.contains("more than the"), "{refusal}");
    assert!(LocalStore::open(folder.path().join("absent")).is_err());
    assert!(LocalStore::open(folder.path().join("huge")).is_err());
}

#[test]
fn a_link_in_a_documents_place_is_neither_followed_by_a_creation_nor_replaced() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = LocalStore::open(folder.path()).expect("a store");
    std::os::unix::fs::symlink(folder.path().join("elsewhere"), folder.path().join("CURRENT")).expect("linked");
    assert_eq!(
        store.create_file(&path("CURRENT"), b"1").expect("answered"),
        Creation::Exists
    );
    assert!(!folder.path().join("elsewhere").exists());
}

fn left_over(root: &Path) -> usize {
    fs::read_dir(root.join(".tmp")).map_or(0, Iterator::count)
}
