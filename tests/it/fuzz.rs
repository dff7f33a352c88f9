//! Hostile bytes at every door: decoders, envelopes, objects, tickets and pages must refuse, never panic.
//!
//! Each storm starts from valid samples and changes them in the ways that find bugs in parsers: flipped bits, odd lengths,
//! pieces cut, doubled or taken from another sample. The numbers are seeded, so a failure repeats and prints its input.
//! What the fuzzer found is kept as files and decoded again by [`corpus`].

mod corpus;
mod entries;
mod groups;
mod objects;
mod peers;
mod recovery;
mod seeds;

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::{sample::hex, vectors};

/// Deterministic numbers (SplitMix64).
pub(crate) struct Numbers(u64);

impl Numbers {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`, or 0.
    pub(crate) const fn below(&mut self, bound: usize) -> usize {
        if bound == 0 {
            0
        } else {
            (self.next() % bound as u64) as usize
        }
    }
}

/// Changes `bytes` in one to four places.
fn mutate(bytes: &mut Vec<u8>, samples: &[Vec<u8>], numbers: &mut Numbers) {
    const ODD: [u64; 12] = [
        0,
        1,
        0x17,
        0x18,
        0x7f,
        0x80,
        0xff,
        0x7fff,
        0x8000_0000,
        0xffff_ffff,
        0x7fff_ffff_ffff_ffff,
        u64::MAX,
    ];
    for _ in 0..=numbers.below(4) {
        let at = numbers.below(bytes.len());
        let len = numbers.below(1 + (bytes.len() - at).min(64));
        match numbers.below(9) {
            _ if bytes.is_empty() => bytes.push(numbers.next() as u8),
            0 | 1 => bytes[at] ^= 1 << numbers.below(8),
            2 => bytes[at] = ODD[numbers.below(ODD.len())] as u8,
            3 => bytes.truncate(at),
            4 => drop(bytes.drain(at..at + len)),
            5 => {
                let again = bytes[at..at + len].to_vec();
                drop(bytes.splice(at..at, again));
            }
            6 => {
                // A number of 1, 2, 4 or 8 bytes, in either order.
                let width = 1 << numbers.below(4);
                let mut piece = ODD[numbers.below(ODD.len())].to_le_bytes()[..width].to_vec();
                if numbers.below(2) == 0 {
                    piece.reverse();
                }
                bytes[at..].iter_mut().zip(piece).for_each(|(byte, odd)| *byte = odd);
            }
            7 => {
                let other = &samples[numbers.below(samples.len())];
                let from = numbers.below(other.len());
                let piece = &other[from..from + numbers.below(1 + (other.len() - from).min(64))];
                drop(bytes.splice(at..at + len, piece.iter().copied()));
            }
            _ => bytes.extend((0..numbers.below(20)).map(|_| numbers.next() as u8)),
        }
    }
}

/// Gives `target` the samples as they are, then `rounds` changed ones.
fn storm(name: &str, rounds: usize, samples: &[Vec<u8>], target: impl Fn(&[u8])) {
    let mut numbers = Numbers::new(
        name.bytes()
            .fold(7, |seed, byte| seed.wrapping_mul(31).wrapping_add(u64::from(byte))),
    );
    let try_one = |round: usize, bytes: &[u8]| {
        if catch_unwind(AssertUnwindSafe(|| target(bytes))).is_err() {
            panic!(
                "{name} panicked in round {round} over {} bytes: {}",
                bytes.len(),
                hex(bytes)
            );
        }
    };
    assert!(!samples.is_empty());
    try_one(0, &[]);
    samples.iter().for_each(|sample| try_one(0, sample));
    for round in 1..=rounds {
        let mut bytes = match numbers.below(20) {
            0 => (0..numbers.below(200)).map(|_| numbers.next() as u8).collect(),
            _ => samples[numbers.below(samples.len())].clone(),
        };
        mutate(&mut bytes, samples, &mut numbers);
        try_one(round, &bytes);
    }
}

/// The same over text.
fn text_storm(name: &str, rounds: usize, samples: &[String], target: impl Fn(&str)) {
    let samples: Vec<Vec<u8>> = samples.iter().map(|text| text.clone().into_bytes()).collect();
    storm(name, rounds, &samples, |bytes| target(&String::from_utf8_lossy(bytes)));
}

/// Valid entries of every kind, as bytes.
fn entries() -> Vec<Vec<u8>> {
    vectors::entries()
        .iter()
        .map(|(_, entry)| entry.bytes().to_vec())
        .collect()
}
