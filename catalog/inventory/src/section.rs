//! The extension section of this project, in `catalog.json` and in roots: one section for everything that is kept there.

use crate::doc::{Json, JsonObject};

const SECTION: &str = "sovm";

/// The section; none where it is missing or is no object, which somebody else wrote.
pub fn of(extensions: &JsonObject) -> Option<&JsonObject> {
    match extensions.get(SECTION) {
        Some(Json::Object(section)) => Some(section),
        _ => None,
    }
}

/// Changes the section, beside the other sections and the members of it that `change` leaves alone.
pub fn change(extensions: &mut JsonObject, change: impl FnOnce(&mut JsonObject)) {
    let mut section = of(extensions).cloned().unwrap_or_default();
    change(&mut section);
    extensions.insert(SECTION, section);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_keeps_what_stands_beside_it() {
        let mut extensions = JsonObject::new();
        extensions.insert("statcat", "theirs");
        assert_eq!(of(&extensions), None);
        change(&mut extensions, |section| section.insert("a", 1_u64));
        change(&mut extensions, |section| section.insert("b", true));
        let section = of(&extensions).unwrap();
        assert_eq!(section.get("a"), Some(&Json::from(1_u64)));
        assert_eq!(section.get("b"), Some(&Json::Bool(true)));
        assert_eq!(extensions.get("statcat"), Some(&Json::from("theirs")));
        extensions.insert(SECTION, "no object");
        assert_eq!(of(&extensions), None);
        change(&mut extensions, |section| section.insert("c", "d"));
        assert_eq!(of(&extensions).map(JsonObject::len), Some(1));
    }
}
