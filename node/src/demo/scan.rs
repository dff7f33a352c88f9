//! Looks for planted words in every byte of a directory: the proof that nothing lies there in clear (DESIGN §5).
//!
//! Words are looked for as UTF-8 and as both orders of UTF-16, in file contents and in file names.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, Read},
    path::{Path, PathBuf},
};

/// Bytes read at a time.
const PIECE_BYTES: usize = 1 << 20;

/// Shorter words turn up in random bytes by chance: five bytes once in 16,000 runs over 64 MiB, four bytes once in 60.
pub(super) const SHORTEST_WORD_BYTES: usize = 7;

/// What is looked for.
#[derive(Debug)]
pub(super) struct Needles {
    words: Vec<String>,
    patterns: Vec<(Vec<u8>, usize)>,
    /// Patterns by their first two bytes; most positions fall through here.
    starts: Vec<bool>,
    by_start: BTreeMap<[u8; 2], Vec<usize>>,
    longest: usize,
}

/// What a scan saw.
#[derive(Debug, Default)]
pub(super) struct Scan {
    /// Regular files read.
    pub(super) files: u64,
    /// Bytes read.
    pub(super) bytes: u64,
    /// Every hit: word and file.
    pub(super) hits: Vec<(String, PathBuf)>,
}

impl Needles {
    /// Prepares words; each must be long enough to mean something.
    pub(super) fn new<S: Into<String>>(words: impl IntoIterator<Item = S>) -> Self {
        let words: Vec<String> = words.into_iter().map(Into::into).collect();
        let mut patterns = Vec::new();
        for (index, word) in words.iter().enumerate() {
            debug_assert!(word.len() >= SHORTEST_WORD_BYTES, "{word} is too short");
            patterns.push((word.as_bytes().to_vec(), index));
            patterns.push((word.encode_utf16().flat_map(u16::to_le_bytes).collect(), index));
            patterns.push((word.encode_utf16().flat_map(u16::to_be_bytes).collect(), index));
        }
        let mut starts = vec![false; 1 << 16];
        let mut by_start: BTreeMap<[u8; 2], Vec<usize>> = BTreeMap::new();
        for (index, (pattern, _)) in patterns.iter().enumerate() {
            let start = [pattern[0], pattern[1]];
            starts[usize::from(u16::from_le_bytes(start))] = true;
            by_start.entry(start).or_default().push(index);
        }
        let longest = patterns.iter().map(|(pattern, _)| pattern.len()).max().unwrap_or(2);
        Self {
            words,
            patterns,
            starts,
            by_start,
            longest,
        }
    }

    /// How many words are looked for.
    pub(super) const fn count(&self) -> usize {
        self.words.len()
    }

    /// Scans a directory with everything below it. Files that vanish meanwhile are what a running node does.
    pub(super) fn scan(&self, directory: &Path) -> io::Result<Scan> {
        let mut scan = Scan::default();
        self.descend(directory, &mut scan)?;
        Ok(scan)
    }

    /// Scans one file into a running count.
    pub(super) fn scan_file(&self, path: &Path, scan: &mut Scan) -> io::Result<()> {
        let found = self.words_in(File::open(path)?, &mut scan.bytes)?;
        scan.files += 1;
        scan.hits.extend(
            found
                .into_iter()
                .map(|word| (self.words[word].clone(), path.to_owned())),
        );
        Ok(())
    }

    fn descend(&self, directory: &Path, scan: &mut Scan) -> io::Result<()> {
        let entries = match std::fs::read_dir(directory) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            other => other?,
        };
        for entry in entries {
            let entry = entry?;
            let path = entry.path();
            let mut counted = 0;
            let named = self.words_in(entry.file_name().as_encoded_bytes(), &mut counted)?;
            scan.hits
                .extend(named.into_iter().map(|word| (self.words[word].clone(), path.clone())));
            let kind = match entry.file_type() {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                other => other?,
            };
            if kind.is_dir() {
                self.descend(&path, scan)?;
            } else if kind.is_file() {
                match self.scan_file(&path, scan) {
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                    other => other?,
                }
            }
        }
        Ok(())
    }

    /// Which words stand in a stream.
    fn words_in(&self, mut source: impl Read, bytes: &mut u64) -> io::Result<Vec<usize>> {
        let mut found = vec![false; self.words.len()];
        let mut buffer = Vec::with_capacity(PIECE_BYTES + self.longest);
        loop {
            // A word may lie across two pieces: the end of the last one is kept.
            let kept = buffer.len().min(self.longest - 1);
            buffer.drain(..buffer.len() - kept);
            let read = source.by_ref().take(PIECE_BYTES as u64).read_to_end(&mut buffer)?;
            *bytes += read as u64;
            self.mark(&buffer, &mut found);
            if read == 0 {
                return Ok(found
                    .iter()
                    .enumerate()
                    .filter(|(_, found)| **found)
                    .map(|(word, _)| word)
                    .collect());
            }
        }
    }

    fn mark(&self, bytes: &[u8], found: &mut [bool]) {
        for (position, pair) in bytes.windows(2).enumerate() {
            let start = [pair[0], pair[1]];
            if !self.starts[usize::from(u16::from_le_bytes(start))] {
                continue;
            }
            for &index in &self.by_start[&start] {
                let (pattern, word) = &self.patterns[index];
                if bytes[position..].starts_with(pattern) {
                    found[*word] = true;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn utf16(word: &str) -> Vec<u8> {
        word.encode_utf16().flat_map(u16::to_le_bytes).collect()
    }

    /// DESIGN §5: the scan finds a planted word in every form it could lie in, or its silence would prove nothing.
    #[test]
    fn finds_words_in_contents_names_and_both_encodings() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("deep")).unwrap();
        std::fs::write(dir.path().join("deep/plain"), b"xx lighthouse xx").unwrap();
        std::fs::write(
            dir.path().join("wide"),
            [b"\x01".as_slice(), &utf16("Zürich Kloten")].concat(),
        )
        .unwrap();
        let big_endian: Vec<u8> = "wind_speed".encode_utf16().flat_map(u16::to_be_bytes).collect();
        std::fs::write(dir.path().join("big"), big_endian).unwrap();
        std::fs::write(dir.path().join("watermill.log"), b"").unwrap();
        let needles = Needles::new(["lighthouse", "Zürich Kloten", "wind_speed", "watermill", "not there"]);
        let scan = needles.scan(dir.path()).unwrap();
        let mut words: Vec<&str> = scan.hits.iter().map(|(word, _)| word.as_str()).collect();
        words.sort_unstable();
        assert_eq!(words, ["Zürich Kloten", "lighthouse", "watermill", "wind_speed"]);
        assert_eq!(scan.files, 4);
    }

    #[test]
    fn finds_a_word_across_two_pieces_and_at_both_ends() {
        let needles = Needles::new(["lighthouse"]);
        for position in [0, PIECE_BYTES - 9, PIECE_BYTES - 1, PIECE_BYTES, 2 * PIECE_BYTES] {
            let mut bytes = vec![b'l'; position];
            bytes.extend_from_slice(b"lighthouse");
            let mut count = 0;
            assert_eq!(
                needles.words_in(bytes.as_slice(), &mut count).unwrap(),
                [0],
                "{position}"
            );
            assert_eq!(count, bytes.len() as u64);
        }
    }

    #[test]
    fn says_nothing_when_there_is_nothing() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("a"), b"lighthous e LIGHTHOUSE").unwrap();
        let scan = Needles::new(["lighthouse"]).scan(dir.path()).unwrap();
        assert!(scan.hits.is_empty());
        assert_eq!(scan.bytes, 22);
        assert_eq!(
            Needles::new(["lighthouse"])
                .scan(&dir.path().join("absent"))
                .unwrap()
                .files,
            0
        );
    }
}
