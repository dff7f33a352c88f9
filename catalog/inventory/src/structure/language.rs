//! Texts by language, under normalised language tags.

use std::{collections::BTreeMap, fmt};

/// Why a text is no language tag we store.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LanguageError {
    /// The text doesn't follow BCP 47.
    #[error("INV-112: `{tag}` is no language tag: {why}")]
    Malformed {
        /// The text, shortened.
        tag: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// A stored tag that isn't in the form we store.
    #[error("INV-112: the stored language tag `{tag}` is not in normalised form, which is `{normal}`")]
    NotNormal {
        /// The tag as stored.
        tag: String,
        /// The form it should have.
        normal: String,
    },
    /// Two texts for one language.
    #[error("the language `{tag}` has two texts: `{first}` and `{second}`")]
    Twice {
        /// The tag, normalised.
        tag: String,
        /// The text met first.
        first: String,
        /// The other text.
        second: String,
    },
}

/// A language tag in normalised form: `fr`, `fr-CA`, `zh-Hant-TW`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LanguageTag(Box<str>);

impl LanguageTag {
    /// Reads a tag in any case and gives it the recommended one (RFC 5646 §2.1.1): language lower, script title, region
    /// upper, everything else lower, and everything lower after a single letter.
    pub fn parse(text: &str) -> Result<Self, LanguageError> {
        let fail = |why| LanguageError::Malformed {
            tag: super::urn::shorten(text),
            why,
        };
        if text.len() > 64 {
            return Err(fail("it is too long"));
        }
        let mut normal = String::with_capacity(text.len());
        let mut extension = false;
        for (index, part) in text.split('-').enumerate() {
            if part.is_empty() || part.len() > 8 || !part.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
                return Err(fail("its parts are one to eight letters and digits"));
            }
            if index == 0 {
                if !part.bytes().all(|byte| byte.is_ascii_alphabetic())
                    || (part.len() == 1 && !matches!(part, "x" | "X" | "i" | "I"))
                {
                    return Err(fail("it begins with a language of two to eight letters"));
                }
            } else {
                normal.push('-');
            }
            let letters = part.bytes().all(|byte| byte.is_ascii_alphabetic());
            let lower = part.to_ascii_lowercase();
            if index > 0 && !extension && letters && part.len() == 4 {
                normal.push_str(&lower[..1].to_ascii_uppercase());
                normal.push_str(&lower[1..]);
            } else if index > 0 && !extension && letters && part.len() == 2 {
                normal.push_str(&lower.to_ascii_uppercase());
            } else {
                normal.push_str(&lower);
            }
            extension |= part.len() == 1;
        }
        if extension && normal.rsplit('-').next().is_some_and(|last| last.len() == 1) {
            return Err(fail("a single letter introduces something that is missing"));
        }
        Ok(Self(normal.into()))
    }

    /// INV-112: reads a tag from something stored, where only the normalised form stands.
    pub fn stored(text: &str) -> Result<Self, LanguageError> {
        let tag = Self::parse(text)?;
        if *tag.0 == *text {
            Ok(tag)
        } else {
            Err(LanguageError::NotNormal {
                tag: text.to_owned(),
                normal: tag.0.into(),
            })
        }
    }

    /// The tag.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for LanguageTag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// One text in several languages.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LocalisedText(BTreeMap<LanguageTag, String>);

impl LocalisedText {
    /// Adds the text of one language; refuses a second text for it, unless it says the same.
    pub fn insert(&mut self, tag: LanguageTag, text: String) -> Result<(), LanguageError> {
        match self.0.get(&tag) {
            Some(first) if *first != text => Err(LanguageError::Twice {
                tag: tag.0.into(),
                first: first.clone(),
                second: text,
            }),
            _ => {
                self.0.insert(tag, text);
                Ok(())
            }
        }
    }

    /// The texts by language.
    pub fn iter(&self) -> impl Iterator<Item = (&LanguageTag, &str)> {
        self.0.iter().map(|(tag, text)| (tag, text.as_str()))
    }

    /// Whether there is no text at all.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// INV-112: tags are read in any case and stored in one.
    #[test]
    fn tags_are_normalised() {
        for (given, normal) in [
            ("EN", "en"),
            ("fr-ca", "fr-CA"),
            ("ZH-hANT-tw", "zh-Hant-TW"),
            ("en-a-AAA", "en-a-aaa"),
            ("sl-NEDIS", "sl-nedis"),
            ("x-WHATEVER", "x-whatever"),
            ("es-419", "es-419"),
        ] {
            assert_eq!(LanguageTag::parse(given).unwrap().as_str(), normal);
        }
    }

    /// INV-112: a stored tag in another form is refused, and the right form is named.
    #[test]
    fn stored_tag_that_is_not_normal_is_refused() {
        let error = LanguageTag::stored("fr-ca").unwrap_err();
        assert_eq!(
            error,
            LanguageError::NotNormal {
                tag: "fr-ca".into(),
                normal: "fr-CA".into()
            }
        );
        assert!(LanguageTag::stored("fr-CA").is_ok());
    }

    /// INV-112: what is no tag is refused.
    #[test]
    fn malformed_tags_are_refused() {
        for text in ["", "-", "e", "en-", "en--ca", "en_CA", "12", "é", "abcdefghi", "en-a"] {
            assert!(
                matches!(LanguageTag::parse(text), Err(LanguageError::Malformed { .. })),
                "{text}"
            );
        }
    }

    #[test]
    fn second_text_of_a_language_is_refused() {
        let mut text = LocalisedText::default();
        let tag = LanguageTag::parse("en").unwrap();
        text.insert(tag.clone(), "one".into()).unwrap();
        text.insert(tag.clone(), "one".into()).unwrap();
        assert!(matches!(
            text.insert(tag, "two".into()),
            Err(LanguageError::Twice { .. })
        ));
    }
}
