//! Resynchronization: the search for entries in bytes of which nothing is known.

use crate::adler;
use crate::bytes::{i32_at, u32_at};
use crate::je::header::{FILE_HEADER_TYPE, MAX_SIZE, MIN_SIZE, Rules, SUMMED_FROM};

/// Result of [`find_entry`] for the offset that it returns.
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// No entry begins before the offset.
    Nothing,
    /// A plausible header, and a right checksum.
    Entry,
    /// A plausible header whose checksum is undecided: the entry is erased, or ends outside the
    /// bytes.
    Ask,
    /// The header does not end inside the bytes.
    NeedMore,
    /// This many of the bytes must be read to decide.
    Unread(usize),
}

/// Largest type number of any log version.
pub const TYPE_NO_MAX: u8 = 45;

/// Number of bytes up to which a candidate is summed even if the budget is used up.
pub const ALWAYS_SUMMED: i64 = 4096;

/// Bytes of a file, of which the first ones have been read.
#[derive(Clone, Copy, Debug)]
pub struct Bytes<'a> {
    /// The bytes read so far.
    pub read: &'a [u8],
    /// Number of all bytes.
    pub size: usize,
    /// File offset of the first byte.
    pub base: i64,
}

/// Bounds for the offset and the prevOffset of an entry.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    /// Offset at which the search ends.
    pub limit: i64,
    /// Smallest prevOffset.
    pub low: i64,
    /// A prevOffset must be less than the entry's own offset plus this.
    pub high: i64,
    /// One more prevOffset that is right; negative for none.
    pub also: i64,
}

/// Returns the first offset from `at` on at which a good entry begins, or may begin.
///
/// A plausible header has a known type, a size that fits the file, and a prevOffset within bounds.
/// The checksum must be right. `budget` is the number of bytes of candidates longer than
/// [`ALWAYS_SUMMED`] that may still be summed, so that crafted headers cannot stall the search.
pub fn find_entry(
    bytes: Bytes<'_>,
    mut at: i64,
    wanted: Wanted,
    rules: &Rules,
    budget: &mut i64,
) -> (i64, Found) {
    while at < wanted.limit {
        let index = at.checked_sub(bytes.base).and_then(|index| usize::try_from(index).ok());
        let Some(index) = index.filter(|&index| index + MIN_SIZE <= bytes.size) else {
            return (at, Found::NeedMore);
        };
        let Some(raw) = bytes.read.get(index..index + MIN_SIZE) else {
            return (at, Found::Unread(index + MIN_SIZE));
        };
        if let Some(size) = plausible_size(raw, at, wanted, rules) {
            let found = judge(bytes, index, size, rules, budget);
            if found != Found::Nothing {
                return (at, found);
            }
        }
        at += 1;
    }
    (at, Found::Nothing)
}

/// Returns the size of the entry that a header claims; `None` if it is not plausible at `at`.
#[inline]
fn plausible_size(raw: &[u8], at: i64, wanted: Wanted, rules: &Rules) -> Option<usize> {
    let type_no = *raw.get(4)?;
    if type_no == 0 || type_no > TYPE_NO_MAX || type_no == FILE_HEADER_TYPE {
        return None;
    }
    let item_size = usize::try_from(i32_at(raw, 10)?).ok()?;
    let is_long = raw.get(5)? & rules.vlsn_mask != 0;
    let size = item_size + if is_long { MAX_SIZE } else { MIN_SIZE };
    let prev = i64::from(u32_at(raw, 6)?);
    // Both terms are below 2^33.
    let after = u64::try_from(at).ok()? + size as u64;
    let is_within = wanted.low <= prev && prev < at.saturating_add(wanted.high);
    let is_chained = is_within || prev == wanted.also;
    (is_chained && after <= rules.file_size).then_some(size)
}

#[inline]
fn judge(bytes: Bytes<'_>, index: usize, size: usize, rules: &Rules, budget: &mut i64) -> Found {
    let end = index + size;
    if rules.erased_type.is_some_and(|no| bytes.read.get(index + 4) == Some(&no)) {
        return Found::Ask;
    }
    if end > bytes.size {
        return Found::Ask;
    }
    let cost = size as i64;
    if cost > ALWAYS_SUMMED && cost > *budget {
        return Found::Nothing;
    }
    let Some(summed) = bytes.read.get(index + SUMMED_FROM..end) else {
        return Found::Unread(end);
    };
    if cost > ALWAYS_SUMMED {
        *budget -= cost;
    }
    if u32_at(bytes.read, index) == Some(adler::of_masked(summed, rules.summed_flags)) {
        Found::Entry
    } else {
        Found::Nothing
    }
}
