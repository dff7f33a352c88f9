//! 32 bytes as words: six lines of four words, each followed by a check word.
//!
//! The 24 words are the English BIP-39 words of the bytes with their own checksum. The check word of a line depends on the
//! line's number and words, so that a wrong word, two swapped words or two swapped lines are found where they are: the
//! message names the line (DESIGN §9). What slips through one line's check (1 in 2,048) fails the checksum over all.

use std::fmt;

use bip39::{Language, Mnemonic};
use zeroize::Zeroizing;

/// Lines on the page.
pub(crate) const LINES: usize = 6;
/// Words of the secret in a line.
const SECRET_WORDS: usize = 4;
/// Words of a line with its check word.
const LINE_WORDS: usize = SECRET_WORDS + 1;
/// BIP-39 words are told apart by their first four letters.
const UNIQUE_LETTERS: usize = 4;

/// What is wrong with the words as typed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WordsError {
    /// There are no words at all.
    #[error("there are no words here; type the six numbered lines of the kit")]
    Empty,
    /// The number of words is wrong and the lines do not show where.
    #[error("found {found} words; a kit has 30, in six lines of five")]
    Count {
        /// Words found.
        found: usize,
    },
    /// Some lines are wrong.
    #[error("{}", join(.0))]
    Lines(Vec<LineFault>),
    /// Every line is right by itself, yet they are not one kit.
    #[error("each line is right, but together they are not one kit: some lines are from another page")]
    Mixed,
}

/// One wrong line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LineFault {
    /// Line number, from 1.
    pub line: usize,
    /// What is wrong.
    pub fault: WordFault,
}

/// What is wrong with a line.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum WordFault {
    /// Too few or too many words.
    Count {
        /// Words found.
        found: usize,
    },
    /// A word that is in no kit.
    Unknown {
        /// Place in the line, from 1.
        place: usize,
        /// The word as typed.
        word: String,
        /// The nearest word of the list, if one is near.
        near: Option<&'static str>,
    },
    /// Known words that do not fit together.
    Check {
        /// Two places that would fit if swapped.
        swapped: Option<(usize, usize)>,
    },
}

impl fmt::Display for LineFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: ", self.line)?;
        match &self.fault {
            WordFault::Count { found } => write!(f, "{found} words instead of five"),
            WordFault::Unknown {
                place,
                word,
                near: Some(near),
            } => {
                write!(f, "word {place}, \"{word}\", is in no kit; did you mean \"{near}\"?")
            }
            WordFault::Unknown {
                place,
                word,
                near: None,
            } => write!(f, "word {place}, \"{word}\", is in no kit"),
            WordFault::Check { swapped: Some((a, b)) } => {
                write!(
                    f,
                    "a word is wrong or in the wrong place (words {a} and {b} may be swapped)"
                )
            }
            WordFault::Check { swapped: None } => write!(f, "a word is wrong, or the line is in the wrong place"),
        }
    }
}

fn join(faults: &[LineFault]) -> String {
    let lines: Vec<_> = faults.iter().map(LineFault::to_string).collect();
    lines.join("; ")
}

/// The lines of a page, check words included.
pub(crate) fn encode(secret: &[u8; 32]) -> [[&'static str; LINE_WORDS]; LINES] {
    let mnemonic = Mnemonic::from_entropy_in(Language::English, secret).expect("32 bytes are 24 words");
    let indices: Zeroizing<Vec<usize>> = Zeroizing::new(mnemonic.word_indices().collect());
    std::array::from_fn(|line| {
        let words: Zeroizing<[usize; SECRET_WORDS]> =
            Zeroizing::new(std::array::from_fn(|i| indices[line * SECRET_WORDS + i]));
        std::array::from_fn(|i| {
            WORDS()[if i < SECRET_WORDS {
                words[i]
            } else {
                check_word(line, &*words)
            }]
        })
    })
}

#[expect(non_snake_case, reason = "reads as the constant it is")]
fn WORDS() -> &'static [&'static str; 2048] {
    Language::English.word_list()
}

fn check_word(line: usize, words: &[usize]) -> usize {
    let mut hasher = blake3::Hasher::new_derive_key("sovm kit line-check v1");
    hasher.update(&[line as u8]);
    for word in words {
        hasher.update(&(*word as u16).to_le_bytes());
    }
    let hash = hasher.finalize();
    usize::from(u16::from_le_bytes([hash.as_bytes()[0], hash.as_bytes()[1]])) % WORDS().len()
}

/// Reads words as people type them: any case, any spacing and punctuation, with or without line numbers, lines in any
/// order when all six are numbered, and words shortened to their first four letters.
pub(crate) fn decode(text: &str) -> Result<Zeroizing<[u8; 32]>, WordsError> {
    let lines = layout(text)?;
    let mut faults = Vec::new();
    let mut secret = Zeroizing::new(String::with_capacity(LINES * SECRET_WORDS * 9));
    for (number, words) in lines.iter().enumerate() {
        match read_line(number, words) {
            Ok(indices) => {
                for index in &indices[..SECRET_WORDS] {
                    secret.push_str(WORDS()[*index]);
                    secret.push(' ');
                }
            }
            Err(found) => faults.extend(found.into_iter().map(|fault| LineFault {
                line: number + 1,
                fault,
            })),
        }
    }
    if !faults.is_empty() {
        return Err(WordsError::Lines(faults));
    }
    let mnemonic = Mnemonic::parse_in_normalized(Language::English, &secret).map_err(|_| WordsError::Mixed)?;
    let bytes = Zeroizing::new(mnemonic.to_entropy());
    Ok(Zeroizing::new(
        bytes.as_slice().try_into().map_err(|_| WordsError::Mixed)?,
    ))
}

type Line = Zeroizing<Vec<String>>;

/// Cuts the text into six lines of words.
fn layout(text: &str) -> Result<Vec<Line>, WordsError> {
    let mut lines: Vec<(Option<usize>, Line)> = Vec::new();
    for line in text.lines() {
        let words: Vec<String> = line
            .split(|c: char| !c.is_alphabetic())
            .filter(|w| !w.is_empty())
            .map(str::to_lowercase)
            .collect();
        if !words.is_empty() {
            let digits: String = line.trim_start().chars().take_while(char::is_ascii_digit).collect();
            lines.push((digits.parse().ok(), Zeroizing::new(words)));
        }
    }
    // Numbered lines may come in any order.
    let mut numbers: Vec<_> = lines.iter().map(|(number, _)| *number).collect();
    numbers.sort_unstable();
    if numbers.iter().copied().eq((1..=LINES).map(Some)) {
        lines.sort_by_key(|(number, _)| *number);
    }
    let found = lines.iter().map(|(_, words)| words.len()).sum();
    if found == 0 {
        return Err(WordsError::Empty);
    }
    if lines.len() == LINES {
        return Ok(lines.into_iter().map(|(_, words)| words).collect());
    }
    if found != LINES * LINE_WORDS {
        return Err(WordsError::Count { found });
    }
    let all: Line = Zeroizing::new(lines.iter().flat_map(|(_, words)| words.iter().cloned()).collect());
    Ok(all
        .chunks(LINE_WORDS)
        .map(|words| Zeroizing::new(words.to_vec()))
        .collect())
}

fn read_line(number: usize, words: &[String]) -> Result<Vec<usize>, Vec<WordFault>> {
    if words.len() != LINE_WORDS {
        return Err(vec![WordFault::Count { found: words.len() }]);
    }
    let mut indices = Vec::with_capacity(LINE_WORDS);
    let mut faults = Vec::new();
    for (place, word) in words.iter().enumerate() {
        match find(word) {
            Some(index) => indices.push(index),
            None => faults.push(WordFault::Unknown {
                place: place + 1,
                word: word.clone(),
                near: nearest(word),
            }),
        }
    }
    if !faults.is_empty() {
        return Err(faults);
    }
    if fits(number, &indices) {
        return Ok(indices);
    }
    Err(vec![WordFault::Check {
        swapped: swap_that_fits(number, &mut indices),
    }])
}

fn fits(number: usize, indices: &[usize]) -> bool {
    check_word(number, &indices[..SECRET_WORDS]) == indices[SECRET_WORDS]
}

fn swap_that_fits(number: usize, indices: &mut [usize]) -> Option<(usize, usize)> {
    for a in 0..LINE_WORDS {
        for b in a + 1..LINE_WORDS {
            indices.swap(a, b);
            let fit = fits(number, indices);
            indices.swap(a, b);
            if fit {
                return Some((a + 1, b + 1));
            }
        }
    }
    None
}

fn find(word: &str) -> Option<usize> {
    if let Some(index) = Language::English.find_word(word) {
        return Some(usize::from(index));
    }
    if word.chars().count() != UNIQUE_LETTERS {
        return None;
    }
    match Language::English.words_by_prefix(word) {
        [only] => Language::English.find_word(only).map(usize::from),
        _ => None,
    }
}

/// The one word at the smallest distance of at most two letters.
fn nearest(word: &str) -> Option<&'static str> {
    WORDS()
        .iter()
        .map(|w| (distance(word, w), *w))
        .filter(|(d, _)| *d <= 2)
        .min()
        .map(|(_, w)| w)
}

/// Letters to change, add or drop, by the usual table.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().take(64).enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let above = row[j + 1];
            row[j + 1] = (diagonal + usize::from(x != *y)).min(above + 1).min(row[j] + 1);
            diagonal = above;
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn text(secret: &[u8; 32]) -> String {
        encode(secret)
            .iter()
            .enumerate()
            .map(|(i, l)| format!("{}. {}\n", i + 1, l.join(" ")))
            .collect()
    }

    fn lines_of(error: WordsError) -> Vec<usize> {
        match error {
            WordsError::Lines(faults) => faults.into_iter().map(|f| f.line).collect(),
            other => panic!("{other}"),
        }
    }

    /// The words are a format: this page must open for ever.
    #[test]
    fn golden_words() {
        let secret: [u8; 32] = std::array::from_fn(|i| i as u8);
        let page = text(&secret);
        let golden = include_str!("golden_words.txt");
        assert_eq!(page, golden);
        assert_eq!(*decode(&page).unwrap(), secret);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn any_secret_survives(secret: [u8; 32]) {
            prop_assert_eq!(*decode(&text(&secret)).unwrap(), secret);
        }

        /// A wrong word is found in its own line, or by the checksum over all.
        #[test]
        fn a_wrong_word_never_gives_a_key(secret: [u8; 32], line in 0..LINES, place in 0..LINE_WORDS, to in 0..2048_usize) {
            let mut lines = encode(&secret);
            prop_assume!(lines[line][place] != WORDS()[to]);
            lines[line][place] = WORDS()[to];
            let typed: String = lines.iter().map(|l| l.join(" ") + "\n").collect();
            match decode(&typed) {
                Err(WordsError::Lines(faults)) => prop_assert!(faults.iter().all(|f| f.line == line + 1)),
                Err(WordsError::Mixed) => {}
                other => prop_assert!(false, "{:?}", other.map(|_| "a key")),
            }
        }

        #[test]
        fn garbage_is_an_error(text in ".{0,300}") {
            prop_assert!(decode(&text).is_err());
        }
    }

    #[test]
    fn typed_carelessly_it_still_reads() {
        let secret = [0x5a; 32];
        let page = text(&secret);
        let mut backwards: Vec<_> = page.lines().collect();
        backwards.reverse();
        let short: String = page
            .split_whitespace()
            .map(|w| w.chars().take(4).collect::<String>() + " ")
            .collect::<String>();
        let variants = [
            page.to_uppercase(),
            page.replace('\n', "\r\n\r\n"),
            page.replace(' ', " ,\t- "),
            page.split_whitespace()
                .filter(|w| !w.ends_with('.'))
                .collect::<Vec<_>>()
                .join(" "),
            backwards.join("\n"),
            short,
        ];
        for variant in variants {
            assert_eq!(*decode(&variant).unwrap(), secret, "{variant}");
        }
    }

    /// lessons.md, keys and recovery: a wrong word, swapped words, swapped lines are named by their line.
    #[test]
    fn faults_name_their_line() {
        let secret: [u8; 32] = std::array::from_fn(|i| (i * 37) as u8);
        let good = encode(&secret);
        let typed = |lines: &[[&str; LINE_WORDS]]| lines.iter().map(|l| l.join(" ") + "\n").collect::<String>();

        let mut wrong = good;
        wrong[2][1] = "zoo";
        assert_eq!(lines_of(decode(&typed(&wrong)).unwrap_err()), [3]);

        let mut swapped = good;
        swapped[4].swap(0, 3);
        let error = decode(&typed(&swapped)).unwrap_err();
        assert!(
            error.to_string().contains("line 5") && error.to_string().contains("words 1 and 4"),
            "{error}"
        );

        let mut lines = good;
        lines.swap(0, 5);
        assert_eq!(lines_of(decode(&typed(&lines)).unwrap_err()), [1, 6]);

        let mut two = good;
        two[0][0] = two[3][2];
        two[5][4] = "abandon";
        assert_eq!(lines_of(decode(&typed(&two)).unwrap_err()), [1, 6]);

        let misspelt = typed(&good).replacen(good[1][0], "abandn", 1);
        let error = decode(&misspelt).unwrap_err().to_string();
        assert!(
            error.contains("line 2: word 1, \"abandn\"") && error.contains("\"abandon\""),
            "{error}"
        );

        let missing = typed(&good).replacen(&format!(" {}", good[3][4]), "", 1);
        assert_eq!(lines_of(decode(&missing).unwrap_err()), [4]);
        assert_eq!(decode("abandon ability"), Err(WordsError::Count { found: 2 }));
        assert_eq!(decode(" 1. 2. \n"), Err(WordsError::Empty));
    }

    #[test]
    fn lines_of_two_kits_do_not_make_a_third() {
        let (a, b) = (encode(&[1; 32]), encode(&[0xfe; 32]));
        let mut mixed = a;
        mixed[3] = b[3];
        let typed: String = mixed.iter().map(|l| l.join(" ") + "\n").collect();
        assert_eq!(decode(&typed), Err(WordsError::Mixed));
    }
}
