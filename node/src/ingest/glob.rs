//! File names with wildcards, for where no shell expands them: `sovm ingest t 'data/*.csv'`.
//!
//! `*` and `?` stand for any characters of one name, `[a-z]` and `[!0-9]` for one of a set; a name that begins with a dot is
//! only found by a pattern that does. A pattern that is the name of a file means that file.

use std::{
    io,
    path::{Component, Path, PathBuf},
};

/// The files a path stands for, sorted. A path without wildcards stands for itself, whether it exists or not.
pub(crate) fn expand(path: &Path) -> io::Result<Vec<PathBuf>> {
    if !path.to_str().is_some_and(is_pattern) || path.symlink_metadata().is_ok() {
        return Ok(vec![path.to_owned()]);
    }
    let mut found = vec![PathBuf::new()];
    for component in path.components() {
        let name = match component {
            Component::Normal(name) => name,
            other => {
                found.iter_mut().for_each(|path| path.push(other));
                continue;
            }
        };
        let Some(pattern) = name.to_str().filter(|name| is_pattern(name)) else {
            found.iter_mut().for_each(|path| path.push(name));
            continue;
        };
        let pattern: Vec<char> = pattern.chars().collect();
        let mut next = Vec::new();
        for dir in &found {
            next.extend(matches_in(dir, &pattern)?);
        }
        found = next;
    }
    found.retain(|path| path.exists());
    found.sort();
    Ok(found)
}

fn is_pattern(name: &str) -> bool {
    name.contains(['*', '?', '['])
}

fn matches_in(dir: &Path, pattern: &[char]) -> io::Result<Vec<PathBuf>> {
    let listed = if dir.as_os_str().is_empty() {
        Path::new(".")
    } else {
        dir
    };
    let entries = match std::fs::read_dir(listed) {
        Ok(entries) => entries,
        // What is no directory has no files in it.
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(Vec::new());
        }
        Err(error) => return Err(error),
    };
    let mut found = Vec::new();
    for entry in entries {
        let name = entry?.file_name();
        let Some(text) = name.to_str() else { continue };
        let hidden = text.starts_with('.') && pattern.first() != Some(&'.');
        let name: Vec<char> = text.chars().collect();
        if !hidden && is_match(pattern, &name) {
            found.push(dir.join(text));
        }
    }
    Ok(found)
}

/// Goes back to the last `*` only, so the time is the product of both lengths at most.
fn is_match(pattern: &[char], name: &[char]) -> bool {
    let (mut at, mut read) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while read < name.len() {
        let step = match pattern.get(at) {
            Some('*') => {
                star = Some((at, read));
                at += 1;
                continue;
            }
            Some('?') => Some(1),
            Some('[') => set(&pattern[at..], name[read]),
            Some(letter) => (*letter == name[read]).then_some(1),
            None => None,
        };
        match (step, star) {
            (Some(step), _) => {
                at += step;
                read += 1;
            }
            // The star takes one character more.
            (None, Some((star_at, star_read))) => {
                star = Some((star_at, star_read + 1));
                (at, read) = (star_at + 1, star_read + 1);
            }
            (None, None) => return false,
        }
    }
    pattern[at..].iter().all(|letter| *letter == '*')
}

/// Length of the set that `pattern` begins with, when the letter is in it. A bracket that never closes is a letter.
fn set(pattern: &[char], letter: char) -> Option<usize> {
    let negated = matches!(pattern.get(1), Some('!' | '^'));
    let first = if negated { 2 } else { 1 };
    // A closing bracket in the first place belongs to the set.
    let close = pattern.iter().skip(first + 1).position(|letter| *letter == ']');
    let Some(end) = close.map(|close| close + first + 1) else {
        return (letter == '[').then_some(1);
    };
    let mut members = &pattern[first..end];
    let mut found = false;
    while let [from, rest @ ..] = members {
        (found, members) = match rest {
            ['-', to, rest @ ..] => (found || (*from..=*to).contains(&letter), rest),
            _ => (found || *from == letter, rest),
        };
    }
    (found != negated).then_some(end + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_match_patterns() {
        let is = |pattern: &str, name: &str| {
            let chars = |text: &str| text.chars().collect::<Vec<_>>();
            is_match(&chars(pattern), &chars(name))
        };
        for (pattern, name) in [
            ("*.csv", "a.csv"),
            ("*", ""),
            ("a*b*c", "aXbYbZc"),
            ("a?c", "abc"),
            ("?", "ä"),
            ("[a-c]x", "bx"),
            ("[!a-c]x", "dx"),
            ("[]]", "]"),
            ("[a", "[a"),
            ("2013-0[1-9]*", "2013-07-12.csv"),
        ] {
            assert!(is(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in [
            ("*.csv", "a.csvx"),
            ("a?c", "ac"),
            ("[a-c]x", "dx"),
            ("[!a-c]x", "bx"),
            ("", "a"),
            ("a", ""),
            ("*a*a*a*a*a*a*a*b", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"),
        ] {
            assert!(!is(pattern, name), "{pattern} {name}");
        }
    }

    #[test]
    fn patterns_find_files_in_order() {
        let dir = tempfile::tempdir().unwrap();
        for name in [
            "x/b.csv",
            "x/a.csv",
            "y/c.csv",
            "y/c.json",
            "x/.hidden.csv",
            "x/odd[1].csv",
        ] {
            let path = dir.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "").unwrap();
        }
        let find = |pattern: &str| -> Vec<String> {
            let found = expand(&dir.path().join(pattern)).unwrap();
            let name = |path: &PathBuf| path.strip_prefix(dir.path()).unwrap().display().to_string();
            found.iter().map(name).collect()
        };
        assert_eq!(find("x/[ab].csv"), ["x/a.csv", "x/b.csv"]);
        assert_eq!(find("*/?.csv"), ["x/a.csv", "x/b.csv", "y/c.csv"]);
        assert_eq!(find("x/.*.csv"), ["x/.hidden.csv"]);
        assert_eq!(find("x/odd[1].csv"), ["x/odd[1].csv"], "a file of that very name");
        assert_eq!(find("*/nothing*"), Vec::<String>::new());
        assert_eq!(find("x/a.csv/*"), Vec::<String>::new());
        assert_eq!(find("gone.csv"), ["gone.csv"]);
    }
}
