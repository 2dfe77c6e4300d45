//! A filter for the first bytes of many strings: one multiplication and one bit test per place.

use std::ops::Range;

/// Largest number of first bytes that are hashed.
pub const WIDTH_MAX: usize = 8;

/// Number of bits of a hash that are kept.
pub const HASH_BITS: u32 = 24;

const FILTER_BITS: u32 = 18;
const FILTER_WORDS: usize = 1 << (FILTER_BITS - 6);

/// Returns the hash of the first `width` bytes of `data`, which has at least so many.
pub fn hash_of(data: &[u8], width: usize, factor: u64) -> u32 {
    let mut bytes = [0; WIDTH_MAX];
    for (to, from) in bytes.iter_mut().zip(data.iter().take(width)) {
        *to = *from;
    }
    cut(u64::from_le_bytes(bytes).wrapping_mul(factor))
}

fn cut(hash: u64) -> u32 {
    (hash >> (64 - HASH_BITS)) as u32
}

/// Hashes of the first bytes of strings, and the strings that have each.
#[derive(Debug)]
pub struct Windows {
    width: usize,
    factor: u64,
    filter: Box<[u64; FILTER_WORDS]>,
    /// Hash and number of each string, ascending.
    strings: Vec<(u32, usize)>,
}

impl Windows {
    /// Returns the filter of strings with these hashes of their first `width` bytes.
    ///
    /// `factor` is odd. `width` is cut to `WIDTH_MAX`.
    pub fn new(hashes: impl Iterator<Item = u32>, width: usize, factor: u64) -> Self {
        let mut strings: Vec<_> = hashes.zip(0..).collect();
        strings.sort_unstable();
        let mut filter = Box::new([0; FILTER_WORDS]);
        for &(hash, _) in &strings {
            let bit = hash >> (HASH_BITS - FILTER_BITS);
            if let Some(word) = filter.get_mut(bit as usize / 64) {
                *word |= 1 << (bit % 64);
            }
        }
        Self { width: width.min(WIDTH_MAX), factor, filter, strings }
    }

    /// Calls `check` with each place in `own` and each string that may begin there.
    pub fn search(&self, data: &[u8], own: Range<usize>, check: &mut impl FnMut(usize, usize)) {
        if self.width == 0 || self.strings.is_empty() {
            return;
        }
        let mask = u64::MAX >> (64 - 8 * self.width);
        let last = (data.len() + 1).saturating_sub(self.width).min(own.end);
        // Places with eight bytes after them take one load; those at the end are copied.
        let fast = (data.len() + 1).saturating_sub(WIDTH_MAX).min(own.end);
        let part = data.get(own.start..(fast + WIDTH_MAX - 1).min(data.len())).unwrap_or_default();
        for (i, window) in part.windows(WIDTH_MAX).enumerate() {
            let Ok(bytes) = <[u8; WIDTH_MAX]>::try_from(window) else { continue };
            let hash = (u64::from_le_bytes(bytes) & mask).wrapping_mul(self.factor);
            let word = self.filter[(hash >> (64 - FILTER_BITS + 6)) as usize];
            if word >> ((hash >> (64 - FILTER_BITS)) & 63) & 1 != 0 {
                self.of_hash(cut(hash), own.start + i, check);
            }
        }
        for at in fast.max(own.start)..last {
            let hash = hash_of(data.get(at..).unwrap_or_default(), self.width, self.factor);
            self.of_hash(hash, at, check);
        }
    }

    #[cold]
    fn of_hash(&self, hash: u32, at: usize, check: &mut impl FnMut(usize, usize)) {
        let first = self.strings.partition_point(|&(each, _)| each < hash);
        for &(each, string) in self.strings.get(first..).unwrap_or_default() {
            if each != hash {
                break;
            }
            check(at, string);
        }
    }
}
