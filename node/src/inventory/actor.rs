//! Who writes to a catalogue outside a node.

use std::os::unix::fs::MetadataExt as _;

use sovm_inventory::doc::CleanText;

use crate::{
    engine::machine_name,
    error::{ApiError, ErrorKind},
};

/// Who changes a catalogue, and why: both stand in the version for as long as it is kept.
#[derive(Debug, Clone)]
pub(crate) struct Author {
    /// The name recorded as `actor`.
    pub(crate) actor: CleanText,
    /// The text recorded as `reason`; may be empty.
    pub(crate) reason: String,
}

impl Author {
    /// INV-391: `<os user>@<hostname>`, unless the operator names somebody.
    pub(crate) fn new(actor: Option<CleanText>, reason: Option<String>) -> Result<Self, ApiError> {
        let actor = match actor {
            Some(actor) => actor,
            None => format!("{}@{}", os_user(), machine_name())
                .parse::<CleanText>()
                .map_err(|error| {
                    ApiError::new(
                        ErrorKind::Failed,
                        format!("this machine gives no name to record as the actor: {error} (INV-156)"),
                    )
                    .safe("no version was written")
                    .next("name the actor with --actor NAME")
                })?,
        };
        Ok(Self {
            actor,
            reason: reason.unwrap_or_default(),
        })
    }
}

/// The user this process runs as. The system's word comes first: an environment variable is the caller's.
fn os_user() -> String {
    let uid = std::fs::metadata("/proc/self").ok().map(|process| process.uid());
    let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    uid.and_then(|uid| user_of(&users, uid))
        .or_else(|| std::env::var("USER").ok())
        .or_else(|| std::env::var("LOGNAME").ok())
        .filter(|name| !name.trim().is_empty())
        .or_else(|| uid.map(|uid| format!("uid-{uid}")))
        .unwrap_or_else(|| "unknown".to_owned())
}

/// The name of a user id in the text of a user database.
fn user_of(users: &str, uid: u32) -> Option<String> {
    users.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next().filter(|name| !name.is_empty())?;
        (fields.nth(1)?.parse() == Ok(uid)).then(|| name.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_found_by_id() {
        let users = "root:x:0:0:root:/root:/bin/sh\nbroken\n:x:7:7::/:\nann:x:1000:1000::/home/ann:/bin/sh\n";
        assert_eq!(user_of(users, 1000).as_deref(), Some("ann"));
        assert_eq!(user_of(users, 0).as_deref(), Some("root"));
        assert_eq!(user_of(users, 7), None);
        assert_eq!(user_of(users, 8), None);
        assert_eq!(user_of("", 0), None);
    }

    /// INV-391: the actor names a user and a machine, and an operator may set another.
    #[test]
    fn the_actor_is_user_at_machine_unless_named() {
        let author = Author::new(None, None).unwrap();
        let (user, machine) = author.actor.as_str().split_once('@').unwrap();
        assert!(!user.is_empty() && !machine.is_empty(), "{author:?}");
        let named = Author::new(Some("release desk".parse().unwrap()), Some("08:30".into())).unwrap();
        assert_eq!((named.actor.as_str(), named.reason.as_str()), ("release desk", "08:30"));
    }
}
