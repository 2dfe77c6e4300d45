//! Needles that are known by size and hashes only: a filter for their first bytes, then a hash of
//! all bytes. The caller confirms each hit with a digest.

use std::ops::Range;

use super::Hit;
use super::windows::{Sample, WIDTH_MAX, Windows, hash_of};

/// Secret of a list of hashed needles: without it, nobody can choose bytes that collide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seed(u64);

impl Seed {
    /// Returns a seed of any number.
    pub fn new(number: u64) -> Self {
        Self(number | 1)
    }

    /// Returns 24 bits of the hash of the first `width` bytes.
    pub fn first(self, value: &[u8], width: usize) -> u32 {
        hash_of(value, width.min(WIDTH_MAX), self.0)
    }

    /// Returns 32 bits of a 64-bit hash of all bytes.
    pub fn whole(self, value: &[u8]) -> u32 {
        let step =
            |hash: u64, &byte: &u8| (hash ^ u64::from(byte)).wrapping_mul(self.0).rotate_left(29);
        let hash = value.iter().fold(self.0.rotate_left(32), step).wrapping_mul(self.0);
        (hash >> 32) as u32
    }
}

/// Needles by their sizes and hashes.
#[derive(Debug)]
pub struct HashedNeedles {
    seed: Seed,
    sizes: Vec<usize>,
    wholes: Vec<u32>,
    windows: Windows,
}

impl HashedNeedles {
    /// Returns the needles; `None` if the columns differ in length, or a needle is shorter than
    /// `width`, or `width` is 0.
    pub fn new(
        seed: Seed,
        width: usize,
        sizes: Vec<usize>,
        firsts: &[u32],
        wholes: Vec<u32>,
    ) -> Option<Self> {
        let same = sizes.len() == firsts.len() && sizes.len() == wholes.len();
        if !same || width == 0 || sizes.iter().any(|&size| size < width) {
            return None;
        }
        let sample = |(&hash, string)| Sample { hash, string, offset: 0 };
        let samples = firsts.iter().zip(0..).map(sample).collect();
        let windows = Windows::new(samples, width, 1, seed.0);
        Some(Self { seed, sizes, wholes, windows })
    }

    /// Returns the number of needles.
    pub fn len(&self) -> usize {
        self.sizes.len()
    }

    /// Returns true if there are no needles.
    pub fn is_empty(&self) -> bool {
        self.sizes.is_empty()
    }

    /// Returns the size of the longest needle.
    pub fn reach(&self) -> usize {
        self.sizes.iter().copied().max().unwrap_or(0)
    }

    /// Reports places in `own` where both hashes fit.
    pub fn search(&self, data: &[u8], own: Range<usize>, report: &mut impl FnMut(Hit)) {
        self.windows.search(data, own, &mut |start, needle| {
            let (Some(&size), Some(&whole)) = (self.sizes.get(needle), self.wholes.get(needle))
            else {
                return;
            };
            let value = start.checked_add(size).and_then(|end| data.get(start..end));
            if value.is_some_and(|value| self.seed.whole(value) == whole) {
                report(Hit { start, size, needle });
            }
        });
    }
}
