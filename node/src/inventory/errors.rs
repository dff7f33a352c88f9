//! What a person reads when a catalogue refuses or cannot be read: the rule, what is safe, and the next command.

use std::path::Path;

use sovm_inventory::{
    doc::{DocError, ProductId},
    edition::EditionError,
    export::ExportError,
    expunge::ExpungeRefused,
    gc::GcRefused,
    reader::ReadError,
    store::{BucketFailure, BucketFault, StoreError},
    transition::Refusal,
    writer::{RebuildRefusal, WriteError},
};

use super::{Address, retention::WindowsRefused};
use crate::{
    engine::chain,
    error::{ApiError, ErrorKind},
};

/// What is true of every refusal: the decision came before the root, which is the commit.
const NOTHING_WRITTEN: &str = "no version was written; the catalogue is as it was";
/// What is true of every reading.
const NOTHING_CHANGED: &str = "nothing was changed: this only reads";

/// A refusal of a transition.
pub(crate) fn refused(refusal: &Refusal, store: &Address) -> ApiError {
    let kind = match refusal {
        Refusal::UnknownProduct { .. } | Refusal::WrongState { found: None, .. } => ErrorKind::NotFound,
        _ => ErrorKind::Refused,
    };
    ApiError::new(kind, refusal.to_string())
        .safe(NOTHING_WRITTEN)
        .next(after(refusal, &store.option()))
}

/// The command that leads on from a refusal.
fn after(refusal: &Refusal, at: &str) -> String {
    match refusal {
        Refusal::UnknownProduct { .. } => format!("sovm inventory show{at} lists the products"),
        Refusal::WrongState { edition, .. } | Refusal::AlreadyRecorded { edition, .. } => {
            format!(
                "sovm inventory show {}{at} lists its editions and their states",
                edition.product_id
            )
        }
        Refusal::LiveChanged { product_id, .. } | Refusal::NoRollbackTarget { product_id, .. } => {
            format!("sovm inventory show {product_id}{at} lists its editions and their states")
        }
        Refusal::LiveNotNamed { live, .. } => match live.last() {
            Some(live) => format!("the same command with --if-live {live}, or another live edition"),
            None => format!("sovm inventory log{at} shows when it was taken back"),
        },
        Refusal::NotFastForward { edition, .. } | Refusal::BuiltOnWithdrawn { edition, .. } => format!(
            "sovm inventory cancel {} {}{at}, then build it again from the live edition",
            edition.product_id, edition.edition_id
        ),
        Refusal::NotDue { edition, .. } => format!(
            "sovm inventory release {} {}{at} releases it whatever its time",
            edition.product_id, edition.edition_id
        ),
        Refusal::Competing { edition, .. } => format!(
            "sovm inventory supersede-pending {} --by {}{at}, naming the edition that is meant",
            edition.product_id, edition.edition_id
        ),
        Refusal::InsideWindow { until, .. } => {
            format!("run it again from {until} on, or with --window if this catalogue keeps editions for less")
        }
        Refusal::FileUnverified { .. } => "bring the edition's files back from a backup, then run it again".to_owned(),
        Refusal::CopiesDisagree { edition, other, .. } => format!(
            "sovm inventory release {} {} {} EDITION{at} releases both in one version",
            edition.product_id, edition.edition_id, other.product_id
        ),
        Refusal::StructureNotLive { edition, home, .. } => format!(
            "sovm inventory release {home} EDITION {} {}{at} releases both in one version",
            edition.product_id, edition.edition_id
        ),
        Refusal::CorrectNotOlder { .. } => format!("sovm inventory log{at} lists the versions"),
        Refusal::CorrectResurrects { edition, .. } => format!(
            "sovm inventory reinstate {} {}{at}",
            edition.product_id, edition.edition_id
        ),
        Refusal::CorrectReleases { edition, .. } => format!(
            "sovm inventory release {} {}{at}",
            edition.product_id, edition.edition_id
        ),
        Refusal::BaseAhead { .. } | Refusal::ClockAhead { .. } => {
            "compare this machine's clock with another one, then run it again".to_owned()
        }
        Refusal::RecordsMissing { edition } | Refusal::OtherManifest { edition, .. } => format!(
            "bring the manifest of {edition} back from a backup; sovm inventory verify{at} says what else is wrong"
        ),
        Refusal::NothingToDo { .. } => format!("sovm inventory show{at} shows how it stands"),
        _ => format!("sovm inventory verify{at} says whether the catalogue itself is sound"),
    }
}

/// A failure of the protocol of writing.
pub(crate) fn unwritten(error: &WriteError, store: &Address) -> ApiError {
    let at = store.option();
    let kind = match error {
        WriteError::Rule(refusal) => return refused(refusal, store),
        WriteError::Read(error) => return unread(error, store).safe(NOTHING_WRITTEN),
        WriteError::Store(error) => return storage(error),
        WriteError::OutcomeUnknown { .. } => {
            return ApiError::new(ErrorKind::Storage, chain(error))
                .safe("the version is there with all it needs, or not at all")
                .next(format!("sovm inventory log --limit 1{at} shows which"));
        }
        WriteError::CatalogExists { .. } => ErrorKind::Exists,
        WriteError::NoCatalog => ErrorKind::NotFound,
        WriteError::NotEmpty { .. } | WriteError::Rebuild(_) | WriteError::Expired { .. } => ErrorKind::Refused,
        WriteError::Contended { .. } | WriteError::CurrentContended(_) => ErrorKind::Timeout,
        _ => ErrorKind::Integrity,
    };
    let next = match error {
        WriteError::CatalogExists { .. } => format!("sovm inventory show{at} shows what is in it"),
        WriteError::NoCatalog => format!("sovm inventory init{at}, or name {}", store.another()),
        WriteError::NotEmpty { .. } => match store {
            Address::Bucket(_) => "name a prefix of the bucket below which nothing lies".to_owned(),
            _ => "name a directory that is empty or isn't there yet".to_owned(),
        },
        WriteError::Rebuild(RebuildRefusal::Unassured) => format!(
            "if nothing was ever rolled back, withdrawn or embargoed here: sovm inventory rebuild --nothing-ever-withheld{at}"
        ),
        WriteError::Rebuild(RebuildRefusal::Readable(_)) => format!("sovm inventory show{at} reads it as it is"),
        WriteError::Rebuild(_) => "restore inventory/ from a backup".to_owned(),
        WriteError::Contended { .. } | WriteError::CurrentContended(_) => "run the same command again".to_owned(),
        _ => format!("sovm inventory verify{at} says what is wrong; restore that from a backup"),
    };
    ApiError::new(kind, chain(error)).safe(NOTHING_WRITTEN).next(next)
}

/// Something that could not be done to an edition.
pub(crate) fn edition(error: &EditionError, product_id: &ProductId, store: &Address) -> ApiError {
    let at = store.option();
    let kind = match error {
        EditionError::Refused(refusal) => return refused(refusal, store),
        EditionError::Write(error) => return unwritten(error, store),
        EditionError::Read(error) => return unread(error, store).safe(NOTHING_WRITTEN),
        EditionError::Store(error) => return storage(error),
        EditionError::NoCatalog => ErrorKind::NotFound,
        EditionError::NoEdition { .. } | EditionError::NothingToResume { .. } | EditionError::NoData { .. } => {
            ErrorKind::NotFound
        }
        EditionError::UnsealedExists { .. } => ErrorKind::Exists,
        EditionError::Message { .. }
        | EditionError::Structure(_)
        | EditionError::Records(_)
        | EditionError::Table { .. }
        | EditionError::DifferentColumns { .. }
        | EditionError::Text(_) => ErrorKind::BadInput,
        EditionError::DataSize { .. }
        | EditionError::CarriedDigest { .. }
        | EditionError::CopyDiffers { .. }
        | EditionError::DeclaredMissing { .. }
        | EditionError::Document(_)
        | EditionError::Rows { .. }
        | EditionError::TableList(_)
        | EditionError::Version(_) => ErrorKind::Integrity,
        _ => ErrorKind::Refused,
    };
    let next = match error {
        EditionError::NoCatalog | EditionError::NoCatalogAmong { .. } => {
            format!("sovm inventory init{at}, or name {}", store.another())
        }
        EditionError::OtherLayout { .. } => "name the directory of a catalogue".to_owned(),
        EditionError::UnsealedExists { edition_id, .. } => format!(
            "sovm edition build {product_id} --resume{at} goes on with it; sovm edition discard {product_id} \
             {edition_id}{at} deletes it"
        ),
        EditionError::UnsealedTwice { first, .. } => format!("sovm edition discard {product_id} {first}{at}"),
        EditionError::NothingToResume { .. } => format!("sovm edition build {product_id}{at} begins one"),
        EditionError::NoEdition { .. } | EditionError::DiscardSealed { .. } | EditionError::NotSealed { .. } => {
            format!("sovm edition list {product_id}{at}")
        }
        EditionError::Unregistered { .. } => format!("sovm edition seal {product_id}{at}"),
        EditionError::RegisteredOtherwise { .. } => format!("sovm edition seal {product_id}{at} without --release-at"),
        EditionError::OnlyRegisters { .. } => "sovm inventory list names the site that writes it".to_owned(),
        EditionError::AlreadySealed { .. } => format!("sovm edition build {product_id}{at} begins the next one"),
        EditionError::Structure(_) => format!(
            "sovm edition build {product_id} --resume --replace-structures --structures FILE…{at} takes the messages there \
             out first"
        ),
        EditionError::Records(_) => {
            "release the full artefact in a structure product first, or bring a message with it in full".to_owned()
        }
        EditionError::Unresolved(_) | EditionError::NoStructure { .. } => {
            format!("sovm edition build {product_id} --resume --structures FILE…{at}, with what is missing")
        }
        EditionError::DifferentColumns { .. } => format!(
            "sovm edition build {product_id} --resume --replace --table DATAFLOW=FILE…{at}, with files of the same columns"
        ),
        EditionError::ChangedMeanwhile { .. } => format!("sovm edition build {product_id} --resume{at}"),
        EditionError::CopyDiffers { .. }
        | EditionError::DataSize { .. }
        | EditionError::CarriedDigest { .. }
        | EditionError::Document(_) => "bring that file back from a backup, then run it again".to_owned(),
        _ => format!("sovm edition list {product_id}{at} shows what is there"),
    };
    ApiError::new(kind, chain(error)).safe(NOTHING_WRITTEN).next(next)
}

/// A copy that was not made.
pub(crate) fn unexported(error: &ExportError, store: &Address, to: &Path) -> ApiError {
    let kind = match error {
        ExportError::Read(error) => return unread(error, store),
        ExportError::Store(error) => return storage(error),
        ExportError::OfAnotherCatalog { .. } | ExportError::NotLiveOnly { .. } | ExportError::SameId(_) => {
            ErrorKind::Refused
        }
        _ => ErrorKind::Integrity,
    };
    let next = match kind {
        ErrorKind::Refused => "name another directory with --to DIR".to_owned(),
        _ => format!(
            "sovm inventory verify{} says what else is wrong; restore that from a backup",
            store.option()
        ),
    };
    ApiError::new(kind, chain(error))
        .safe(format!(
            "the catalogue was only read; what is in {} is whole file by file, and the same command goes on with it",
            to.display()
        ))
        .next(next)
}

/// Garbage that was not collected.
pub(crate) fn uncollected(error: &GcRefused, store: &Address) -> ApiError {
    match error {
        GcRefused::Read(error) => unread(error, store),
        GcRefused::Store(error) => storage(error),
        error => ApiError::new(ErrorKind::Integrity, chain(error))
            .safe("nothing that is recorded was deleted; each file that was stands in the log")
            .next(format!(
                "sovm inventory verify{} says what else is wrong; restore that from a backup",
                store.option()
            )),
    }
}

/// Windows that are no configuration.
pub(crate) fn windows(error: &WindowsRefused, store: &Address) -> ApiError {
    ApiError::new(ErrorKind::Refused, chain(error))
        .safe(NOTHING_WRITTEN)
        .next(format!(
            "sovm inventory retention{at} shows them; set those that contradict each other in one command",
            at = store.option()
        ))
}

/// An expunge that was refused or failed.
pub(crate) fn unexpunged(error: &ExpungeRefused, store: &Address) -> ApiError {
    let at = store.option();
    let (kind, next) = match error {
        ExpungeRefused::Rule(refusal) => {
            let refused = refused(refusal, store).safe("nothing was deleted");
            return match refusal {
                Refusal::WrongState { edition, found: Some(_), .. } => refused.next(format!(
                    "take it back first: sovm inventory withdraw, cancel or rollback{at}; sovm inventory show {}{at} shows how it \
                     stands",
                    edition.product_id
                )),
                _ => refused,
            };
        }
        ExpungeRefused::Read(error) => return unread(error, store).safe("nothing was deleted"),
        ExpungeRefused::Store(error) => {
            let failed = storage(error).safe("nothing was deleted that the record does not name");
            return match failed.next {
                Some(_) => failed,
                None => failed.next("run the same command again: it goes on where this one ended"),
            };
        }
        ExpungeRefused::Building { edition } => (
            ErrorKind::Refused,
            format!(
                "sovm edition seal {0}{at}, or sovm edition discard {0} {1}{at}; then run it again",
                edition.product_id, edition.edition_id
            ),
        ),
        ExpungeRefused::Gone { .. } => (
            ErrorKind::NotFound,
            format!("sovm inventory verify{at} says what is there"),
        ),
        ExpungeRefused::RecordChanged { .. } => (ErrorKind::Timeout, "run the same command again".to_owned()),
        _ => (
            ErrorKind::Integrity,
            format!(
                "bring that document back from a backup, then run it again; sovm inventory verify{at} says what else is wrong"
            ),
        ),
    };
    ApiError::new(kind, chain(error)).safe("nothing was deleted").next(next)
}

/// What an expunge would do, or did, that cannot be read.
pub(crate) fn unlooked(error: &ExpungeRefused, store: &Address) -> ApiError {
    match error {
        ExpungeRefused::Store(error) => storage(error).safe("nothing was changed"),
        error => unexpunged(error, store),
    }
}

/// A catalogue that cannot be read.
pub(crate) fn unread(error: &ReadError, store: &Address) -> ApiError {
    let at = store.option();
    match error {
        ReadError::Fetch(error) => storage(error),
        ReadError::NoCatalog => ApiError::new(ErrorKind::NotFound, format!("{error}: {store}"))
            .safe(NOTHING_CHANGED)
            .next(format!("sovm inventory init{at} makes one, or name {}", store.another())),
        ReadError::NoVersion { .. } => ApiError::new(ErrorKind::NotFound, chain(error))
            .safe(NOTHING_CHANGED)
            .next(format!(
                "sovm inventory init{at} completes a catalogue whose making was interrupted; else restore inventory/ from a \
                 backup"
            )),
        error => ApiError::new(ErrorKind::Integrity, chain(error))
            .safe(NOTHING_CHANGED)
            .next(format!(
                "sovm inventory verify{at} says what is wrong; restore that from a backup"
            )),
    }
}

/// A document that does not decode or verify.
pub(crate) fn undecoded(error: &DocError) -> ApiError {
    ApiError::new(ErrorKind::Integrity, error.to_string())
        .safe(NOTHING_WRITTEN)
        .next("restore that document from a backup")
}

/// A directory that can't be opened. For one that isn't there, the most likely reason is its name.
pub(crate) fn unopened(error: &StoreError, directory: &str) -> ApiError {
    let error = storage(error);
    if error.kind != ErrorKind::NotFound {
        return error;
    }
    let at = Address::Directory(directory.to_owned()).option();
    error
        .safe("nothing was changed: nothing was there to read")
        .next(format!(
            "sovm inventory init{at} makes a catalogue there, or name another directory"
        ))
}

/// A bucket that ignores the conditions of a put.
pub(crate) fn unconditional(store: &Address) -> ApiError {
    ApiError::new(
        ErrorKind::Refused,
        format!("the server of {store} ignores If-None-Match or If-Match, so two writers would overwrite each other's versions"),
    )
    .safe("no catalogue was made")
    .next("name a bucket on a server with conditional writes, or a directory with --store DIR")
}

/// A bucket that fails.
fn bucket(action: &str, path: &str, failure: &BucketFailure) -> ApiError {
    let (kind, next) = match failure.fault() {
        BucketFault::NoBucket => (
            ErrorKind::NotFound,
            "make the bucket with its provider's tools, or name another one; AWS_ENDPOINT_URL says which server is asked",
        ),
        BucketFault::Denied => (
            ErrorKind::Failed,
            "check AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN, and that they may s3:GetObject and \
             s3:ListBucket there, and to write s3:PutObject and s3:DeleteObject",
        ),
        BucketFault::NoCredentials => (
            ErrorKind::Failed,
            "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY; for a bucket that everybody may read, AWS_SKIP_SIGNATURE=true",
        ),
        BucketFault::Elsewhere => (
            ErrorKind::Refused,
            "set AWS_REGION to the bucket's region, and AWS_ENDPOINT_URL to its server",
        ),
        BucketFault::Unreachable => (
            ErrorKind::Network,
            "check AWS_ENDPOINT_URL, AWS_REGION and the network, then run the same command again",
        ),
        BucketFault::Unconditional => (
            ErrorKind::Refused,
            "use a bucket on a server with conditional writes, or a directory with --store DIR",
        ),
        BucketFault::Other => (
            ErrorKind::Storage,
            "run the same command again; if it stays, the server's log says more",
        ),
    };
    ApiError::new(kind, format!("{action} {path}: {failure}"))
        .safe("a version is written whole or not at all")
        .next(next)
}

/// A directory or a bucket that fails.
pub(crate) fn storage(error: &StoreError) -> ApiError {
    match error {
        StoreError::Bucket { action, path, source } => bucket(action, path, source),
        StoreError::Io { action, path, source } => {
            // A block of a data file that was read from a bucket fails as reading does.
            let failure = source.get_ref().and_then(|inner| inner.downcast_ref::<BucketFailure>());
            match failure {
                Some(failure) => bucket(action, path, failure),
                None => ApiError::io(format!("{action} {path}"), source),
            }
        }
        StoreError::FileTooLarge { .. } => ApiError::new(ErrorKind::Refused, chain(error))
            .safe("a version is written whole or not at all")
            .next("give the table as several files, the second and later ones with --append"),
        error => ApiError::new(ErrorKind::Storage, chain(error)).safe("a version is written whole or not at all"),
    }
}

/// A live-only chain that could not be brought up to its catalogue.
pub(crate) fn unspread(error: &ExportError) -> ApiError {
    ApiError::new(ErrorKind::Integrity, chain(error))
        .safe("the version stands; readers go on with the one before")
        .next("sovm inventory verify says what is wrong; then sovm inventory announce")
}

#[cfg(test)]
mod tests {
    use sovm_inventory::transition::{EditionKey, Verb};

    use super::*;

    fn address() -> Address {
        Address::parse(Some("/c")).unwrap()
    }

    /// Each refusal says the rule, what is safe and what next; only what is not there is `not_found`.
    #[test]
    fn refusals_say_three_things() {
        let product_id = "weather".parse().unwrap();
        let edition = EditionKey::new("weather".parse().unwrap(), sovm_inventory::doc::EditionId::generate());
        let unknown = refused(&Refusal::UnknownProduct { product_id }, &address());
        assert_eq!((unknown.kind, unknown.exit_code), (ErrorKind::NotFound, 1));
        assert!(unknown.message.contains("INV-204") && unknown.safe.is_some());
        assert_eq!(
            unknown.next.as_deref(),
            Some("sovm inventory show --store /c lists the products")
        );
        let state = refused(
            &Refusal::WrongState {
                verb: Verb::Release,
                edition: edition.clone(),
                found: Some(sovm_inventory::doc::EntryStatus::Tombstone),
            },
            &address(),
        );
        assert_eq!(state.kind, ErrorKind::Refused);
        assert!(state.message.contains("INV-197"), "{}", state.message);
        let competing = refused(
            &Refusal::Competing {
                other: edition.edition_id,
                base: None,
                edition,
            },
            &address(),
        );
        assert!(
            competing
                .next
                .unwrap()
                .starts_with("sovm inventory supersede-pending weather --by ")
        );
    }
}
