//! A filter for a few bytes of many strings: one multiplication and one bit test per place.

use std::ops::Range;

/// Largest number of bytes that are hashed.
pub const WIDTH_MAX: usize = 8;

/// Number of bits of a hash that are kept.
pub const HASH_BITS: u32 = 24;

const SMALL_BITS: u32 = 18;
const SMALL: usize = 1 << (SMALL_BITS - 6);
const LARGE_BITS: u32 = 21;
const LARGE: usize = 1 << (LARGE_BITS - 6);

/// Number of hashes from which the small filter, which fits the L1 cache, lets too many places
/// pass.
const LARGE_FROM: usize = 4_000;

/// Returns the hash of the first `width` bytes of `data`, which has at least that many.
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

/// Some bytes of a string: their hash, the number of the string, and their offset in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Sample {
    /// Hash of the bytes.
    pub hash: u32,
    /// Number of the string.
    pub string: usize,
    /// Offset of the bytes in the string.
    pub offset: usize,
}

#[derive(Debug)]
enum Filter {
    Small(Box<[u64; SMALL]>),
    Large(Vec<u64>),
}

/// Samples of strings, by their hashes.
///
/// With a stride of n, each string has samples at offsets 0 to n - 1, and only every nth place of
/// the data is checked: each occurrence of a string has one sample at such a place.
#[derive(Debug)]
pub struct Windows {
    width: usize,
    stride: usize,
    factor: u64,
    filter: Filter,
    samples: Vec<Sample>,
}

impl Windows {
    /// Returns the filter of samples of `width` bytes; `factor` is odd.
    ///
    /// `width` is cut to `WIDTH_MAX`. A stride of 0 counts as 1.
    pub fn new(mut samples: Vec<Sample>, width: usize, stride: usize, factor: u64) -> Self {
        samples.sort_unstable();
        let filter = if samples.len() < LARGE_FROM {
            let mut words = Box::new([0; SMALL]);
            fill(words.as_mut_slice(), SMALL_BITS, &samples);
            Filter::Small(words)
        } else {
            let mut words = vec![0; LARGE];
            fill(&mut words, LARGE_BITS, &samples);
            Filter::Large(words)
        };
        Self { width: width.min(WIDTH_MAX), stride: stride.max(1), factor, filter, samples }
    }

    /// Calls `check` with each place in `own` and each string that may begin there.
    pub fn search(&self, data: &[u8], own: Range<usize>, check: &mut impl FnMut(usize, usize)) {
        if self.width == 0 || self.samples.is_empty() {
            return;
        }
        match &self.filter {
            Filter::Small(words) => self.search_by::<SMALL, SMALL_BITS>(words, data, own, check),
            Filter::Large(words) => {
                if let Ok(words) = <&[u64; LARGE]>::try_from(words.as_slice()) {
                    self.search_by::<LARGE, LARGE_BITS>(words, data, own, check);
                }
            }
        }
    }

    fn search_by<const WORDS: usize, const BITS: u32>(
        &self,
        words: &[u64; WORDS],
        data: &[u8],
        own: Range<usize>,
        check: &mut impl FnMut(usize, usize),
    ) {
        let mask = u64::MAX >> (64 - 8 * self.width);
        // A string that begins at the last place of the range has its sample after it.
        let end = own.end.saturating_add(self.stride - 1);
        let last = (data.len() + 1).saturating_sub(self.width).min(end);
        // Places with eight bytes after them take one load; those at the end are copied.
        let fast = (data.len() + 1).saturating_sub(WIDTH_MAX).min(end);
        let part = data.get(own.start..(fast + WIDTH_MAX - 1).min(data.len())).unwrap_or_default();
        let windows = part.windows(WIDTH_MAX);
        let test = |window: &[u8]| -> Option<u32> {
            let hash = (<[u8; WIDTH_MAX]>::try_from(window).map(u64::from_le_bytes).ok()? & mask)
                .wrapping_mul(self.factor);
            let word = words[(hash >> (64 - BITS + 6)) as usize];
            (word >> ((hash >> (64 - BITS)) & 63) & 1 != 0).then_some(cut(hash))
        };
        let mut report = |(i, window)| {
            if let Some(hash) = test(window) {
                self.of_hash(hash, own.start + i * self.stride, &own, check);
            }
        };
        let count = windows.len().div_ceil(self.stride);
        if self.stride == 1 {
            // `step_by` costs a third of the speed.
            windows.enumerate().for_each(&mut report);
        } else {
            windows.step_by(self.stride).enumerate().for_each(&mut report);
        }
        let mut at = own.start + count * self.stride;
        while at < last {
            let hash = hash_of(data.get(at..).unwrap_or_default(), self.width, self.factor);
            self.of_hash(hash, at, &own, check);
            at += self.stride;
        }
    }

    #[cold]
    fn of_hash(
        &self,
        hash: u32,
        at: usize,
        own: &Range<usize>,
        check: &mut impl FnMut(usize, usize),
    ) {
        let first = self.samples.partition_point(|each| each.hash < hash);
        for sample in self.samples.get(first..).unwrap_or_default() {
            if sample.hash != hash {
                break;
            }
            if let Some(start) = at.checked_sub(sample.offset).filter(|start| own.contains(start)) {
                check(start, sample.string);
            }
        }
    }
}

fn fill(words: &mut [u64], bits: u32, samples: &[Sample]) {
    for sample in samples {
        let bit = sample.hash >> (HASH_BITS - bits);
        if let Some(word) = words.get_mut(bit as usize / 64) {
            *word |= 1 << (bit % 64);
        }
    }
}
