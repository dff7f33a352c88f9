//! Four words that two people compare.

use std::fmt;

/// 32 bits as four of 256 words. With nonces that are committed before they are shown, an attacker has one try in four
/// thousand million.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Words([u8; 4]);

impl Words {
    pub(super) const fn from_bytes(bytes: [u8; 4]) -> Self {
        Self(bytes)
    }

    /// The words in order.
    pub fn words(&self) -> [&'static str; 4] {
        self.0.map(|byte| LIST[usize::from(byte)])
    }
}

impl fmt::Display for Words {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.words().join(" "))
    }
}

/// Short, common, and told apart by their first four letters. The order is the format.
#[rustfmt::skip]
const LIST: [&str; 256] = [
    "acorn", "agent", "alarm", "album", "alley", "amber", "anchor", "apple", "april", "apron", "arena", "armor",
    "arrow", "atlas", "attic", "autumn", "bacon", "badge", "bagel", "baker", "bamboo", "banjo", "barrel", "basil",
    "beacon", "beaver", "bell", "bench", "berry", "bishop", "blanket", "bottle", "bridge", "broom", "bucket",
    "butter", "cabin", "cactus", "camel", "candle", "canoe", "carbon", "castle", "cedar", "cement", "chalk",
    "cherry", "chess", "cider", "circus", "clover", "cobra", "coffee", "comet", "copper", "coral", "cotton",
    "cousin", "crayon", "cricket", "crown", "crystal", "cuckoo", "curtain", "daisy", "dancer", "danger", "delta",
    "denim", "desert", "diesel", "dinner", "doctor", "dolphin", "donkey", "dragon", "drum", "dune", "eagle", "easel",
    "echo", "elbow", "elder", "ember", "engine", "envoy", "fabric", "falcon", "farmer", "fiddle", "finger", "flame",
    "flute", "forest", "fossil", "fox", "frost", "galaxy", "garden", "garlic", "gecko", "ghost", "ginger", "giraffe",
    "glacier", "globe", "goblet", "golf", "gravel", "guitar", "hammer", "harbor", "hazel", "helmet", "heron",
    "hockey", "honey", "horse", "hotel", "husky", "igloo", "indigo", "island", "ivory", "jacket", "jaguar", "jelly",
    "jewel", "jigsaw", "jungle", "kayak", "kettle", "kitten", "koala", "ladder", "lagoon", "lantern", "lava",
    "lemon", "lentil", "library", "lily", "linen", "lizard", "lobster", "locket", "lotus", "lunar", "magnet",
    "mango", "maple", "marble", "meadow", "melon", "mentor", "mirror", "monkey", "morning", "mosaic", "muffin",
    "museum", "napkin", "nectar", "needle", "nickel", "night", "north", "nugget", "nylon", "oasis", "ocean", "olive",
    "onion", "opera", "orange", "orbit", "orchid", "otter", "oyster", "paddle", "palace", "panda", "paper", "parrot",
    "pebble", "pencil", "pepper", "piano", "pigeon", "pillow", "pirate", "planet", "plaza", "polar", "pond",
    "potato", "prairie", "prism", "pumpkin", "puzzle", "quail", "quartz", "quiver", "rabbit", "radar", "raisin",
    "raven", "ribbon", "river", "robin", "rocket", "ruby", "saddle", "salmon", "sandal", "saturn", "scarf", "seal",
    "shadow", "silver", "siren", "sketch", "sleigh", "snow", "socket", "spider", "sponge", "squid", "stable",
    "summer", "sunset", "swan", "table", "tango", "temple", "thunder", "tiger", "timber", "toast", "tomato", "tower",
    "trumpet", "tulip", "tundra", "turtle", "umbrella", "valley", "velvet", "violin", "volcano", "wagon", "walnut",
    "whale", "willow", "winter", "zebra",
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn words_are_distinct_by_their_first_letters() {
        let heads: BTreeSet<&str> = LIST.iter().map(|word| &word[..word.len().min(4)]).collect();
        assert_eq!(heads.len(), 256);
        assert!(
            LIST.iter()
                .all(|word| word.len() <= 8 && word.bytes().all(|b| b.is_ascii_lowercase()))
        );
        assert!(LIST.is_sorted());
        assert_eq!(
            Words::from_bytes([0, 1, 254, 255]).to_string(),
            "acorn agent winter zebra"
        );
    }
}
