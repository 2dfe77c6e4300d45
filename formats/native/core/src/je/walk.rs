//! Walking from entry to entry, and checksums.
//!
//! Source: FileReader.readNextEntry, ChecksumValidator, JE 7.5.11 and 25.3.

use crate::adler;
use crate::je::header::{self, Header, Rules, SUMMED_FROM};
use crate::je::tally::Columns;

/// State of an entry's checksum.
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checksum {
    /// It differs from the stored one.
    Bad = 0,
    /// It equals the stored one.
    Ok = 1,
    /// The entry is erased: the stored value is that of the bytes before erasure.
    None = 2,
    /// It has not been computed.
    Unchecked = 3,
}

/// Reason why [`Walk::run`] stopped.
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The next entry begins at or after the limit.
    Limit = 0,
    /// The next header or entry does not end inside the buffer.
    NeedMore = 1,
    /// Type 0, a negative size, or a size that the file cannot hold.
    BadHeader = 2,
    /// The prevOffset of the next header is not the offset of the entry before it.
    Chain = 3,
    /// The columns are full.
    Rows = 4,
}

/// Value for an offset that is not known or does not exist.
pub const NO_OFFSET: i64 = -1;

/// Bytes of a file, from offset `base` on.
#[derive(Clone, Copy, Debug)]
pub struct Window<'a> {
    /// The bytes.
    pub bytes: &'a [u8],
    /// File offset of the first byte.
    pub base: u64,
}

impl Window<'_> {
    /// Returns the index in the bytes of the file offset `at`.
    #[inline]
    pub fn index_of(&self, at: u64) -> Option<usize> {
        at.checked_sub(self.base).and_then(|index| usize::try_from(index).ok())
    }
}

impl Window<'_> {
    /// Returns the number of bytes that the window needs for a step over the entry at `at`.
    pub fn needed(&self, at: u64, rules: &Rules) -> usize {
        let Some(i) = self.index_of(at) else { return usize::MAX };
        Header::read(self.bytes, i)
            .and_then(|header| header.entry_size(rules))
            .map_or(i.saturating_add(header::MIN_SIZE), |size| i.saturating_add(size))
    }
}

/// Headers in columns of one length, one element per entry.
#[derive(Debug)]
pub struct HeaderColumns<'a> {
    /// Offset of the entry in its file.
    pub offset: &'a mut [u32],
    /// prevOffset, as stored.
    pub prev_offset: &'a mut [u32],
    /// Adler-32, as stored.
    pub stored_checksum: &'a mut [u32],
    /// Number of bytes after the header.
    pub item_size: &'a mut [i32],
    /// VLSN, or -1 if none is stored.
    pub vlsn: &'a mut [i64],
    /// Type number.
    pub type_no: &'a mut [u8],
    /// Flags.
    pub flags: &'a mut [u8],
    /// Number of bytes of the header.
    pub header_size: &'a mut [u8],
    /// A [`Checksum`].
    pub checksum: &'a mut [u8],
}

impl HeaderColumns<'_> {
    /// Returns the number of rows that fit; `None` if the columns differ in length.
    pub fn rows(&self) -> Option<usize> {
        let n = self.offset.len();
        let lengths = [
            self.prev_offset.len(),
            self.stored_checksum.len(),
            self.item_size.len(),
            self.vlsn.len(),
            self.type_no.len(),
            self.flags.len(),
            self.header_size.len(),
            self.checksum.len(),
        ];
        lengths.iter().all(|&length| length == n).then_some(n)
    }

    /// Returns those columns of the first `n` rows that a tally needs.
    pub fn tallied(&self, n: usize) -> Columns<'_> {
        let n = n.min(self.offset.len());
        Columns {
            offset: &self.offset[..n],
            item_size: &self.item_size[..n],
            type_no: &self.type_no[..n],
            flags: &self.flags[..n],
            header_size: &self.header_size[..n],
            checksum: &self.checksum[..n],
        }
    }

    #[inline]
    fn set(&mut self, row: usize, at: u32, header: &Header, size: usize, vlsn: i64) {
        self.offset[row] = at;
        self.prev_offset[row] = header.prev_offset;
        self.stored_checksum[row] = header.stored_checksum;
        self.item_size[row] = header.item_size;
        self.vlsn[row] = vlsn;
        self.type_no[row] = header.type_no;
        self.flags[row] = header.flags;
        self.header_size[row] = size as u8;
        self.checksum[row] = Checksum::Unchecked as u8;
    }
}

/// Allows every type every flag.
pub const ANY_FLAGS: [u8; 256] = [0xff; 256];

/// Summary of a set of entries.
#[derive(Clone, Debug)]
pub struct RangeSummary {
    /// Number of entries of each type, including damaged ones.
    pub counts: [i64; 256],
    /// Number of damaged entries.
    pub bad: i64,
    /// Flags that any entry has.
    pub flags: u8,
    /// Flags that the types of entries do not allow.
    pub odd_flags: u8,
    /// Offsets of the first and the last good entry.
    pub ends: Option<(u32, u32)>,
}

impl Default for RangeSummary {
    fn default() -> Self {
        Self { counts: [0; 256], bad: 0, flags: 0, odd_flags: 0, ends: None }
    }
}

impl RangeSummary {
    /// Returns the summary of the first `n` rows, whose types allow these flags.
    pub fn of(columns: &HeaderColumns<'_>, n: usize, allowed: &[u8; 256]) -> Self {
        let mut all = Self::default();
        let rows = columns.type_no.iter().zip(&*columns.flags).zip(&*columns.checksum).take(n);
        for ((&type_no, &flags), &state) in rows {
            all.counts[usize::from(type_no)] += 1;
            all.flags |= flags;
            all.odd_flags |= flags & !allowed[usize::from(type_no)];
            all.bad += i64::from(state == Checksum::Bad as u8);
        }
        let is_good = |&row: &usize| columns.checksum[row] != Checksum::Bad as u8;
        let n = n.min(columns.checksum.len());
        all.ends = (0..n)
            .find(is_good)
            .zip((0..n).rev().find(is_good))
            .map(|(first, last)| (columns.offset[first], columns.offset[last]));
        all
    }

    /// Adds the summary of entries that come after these.
    pub fn add(&mut self, other: &Self) {
        for (mine, others) in self.counts.iter_mut().zip(&other.counts) {
            *mine += others;
        }
        self.bad += other.bad;
        self.flags |= other.flags;
        self.odd_flags |= other.odd_flags;
        self.ends = match (self.ends, other.ends) {
            (Some((first, _)), Some((_, last))) => Some((first, last)),
            (mine, others) => mine.or(others),
        };
    }
}

/// A walk from entry to entry, which can continue when more bytes are loaded.
#[derive(Clone, Copy, Debug)]
pub struct Walk {
    /// File offset of the next entry.
    pub at: u64,
    /// Expected prevOffset of the next entry; [`NO_OFFSET`] for any.
    pub expected_prev: i64,
    /// Number of bytes by which prevOffsets are too low: not 0 if bytes were inserted or are
    /// missing.
    pub shift: i64,
    /// Row of the next entry.
    pub row: usize,
    last: Option<(u64, Header)>,
}

impl Walk {
    /// Returns a walk that begins at an entry.
    pub fn new(at: u64, expected_prev: i64, shift: i64, row: usize) -> Self {
        Self { at, expected_prev, shift, row, last: None }
    }

    /// Steps over the entries that begin before `limit`, and fills rows.
    ///
    /// With `check`, each entry but the last is summed when the one after it has been accepted: its
    /// bytes are in the CPU cache then, and its size is no longer in doubt. The others are
    /// [`Checksum::Unchecked`].
    pub fn run(
        &mut self,
        window: Window<'_>,
        limit: u64,
        rules: &Rules,
        columns: &mut HeaderColumns<'_>,
        check: bool,
    ) -> Stop {
        let Some(rows) = columns.rows() else { return Stop::Rows };
        let bytes = window.bytes;
        loop {
            if self.at >= limit {
                return Stop::Limit;
            }
            if self.row >= rows {
                return Stop::Rows;
            }
            let Some(i) = window.index_of(self.at) else { return Stop::NeedMore };
            let Some(header) = Header::read(bytes, i) else { return Stop::NeedMore };
            let Some(size) = header.entry_size(rules) else { return Stop::BadHeader };
            let after = self.at.saturating_add(size as u64);
            let (Ok(offset), true) = (u32::try_from(self.at), after <= rules.file_size) else {
                return Stop::BadHeader;
            };
            if self.expected_prev != NO_OFFSET && self.expected_prev != header.prev_offset.into() {
                return Stop::Chain;
            }
            if bytes.len() - i < size {
                return Stop::NeedMore;
            }
            if let (true, Some((first, before))) = (check, self.last) {
                let entry = window.index_of(first).and_then(|first| bytes.get(first..i));
                let state = checksum_of(entry.unwrap_or_default(), &before, rules);
                columns.checksum[self.row - 1] = state as u8;
            }
            let vlsn = if header.has_vlsn(rules) { header::vlsn_at(bytes, i) } else { None };
            columns.set(self.row, offset, &header, header.size(rules), vlsn.unwrap_or(-1));
            self.last = Some((self.at, header));
            self.row += 1;
            self.expected_prev = i64::from(offset).wrapping_sub(self.shift);
            self.at = after;
        }
    }
}

/// Returns the [`Checksum`] of the entry whose bytes are `entry`.
pub fn checksum_of_entry(entry: &[u8], rules: &Rules) -> Checksum {
    Header::read(entry, 0).map_or(Checksum::Bad, |header| checksum_of(entry, &header, rules))
}

/// Returns the [`Checksum`] of a whole entry with this header.
#[inline]
pub fn checksum_of(entry: &[u8], header: &Header, rules: &Rules) -> Checksum {
    if rules.erased_type == Some(header.type_no) {
        return Checksum::None;
    }
    let summed = entry.get(SUMMED_FROM..).unwrap_or_default();
    if adler::of_masked(summed, rules.summed_flags) == header.stored_checksum {
        Checksum::Ok
    } else {
        Checksum::Bad
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::je::testing::{Owned, RULES, push};

    fn log() -> Vec<u8> {
        let mut log = Vec::new();
        push(&mut log, 0, 25, 0, 24, 0);
        push(&mut log, 0, 1, 0x10, 100, 7);
        push(&mut log, 38, 1, 0x28, 3, 1);
        push(&mut log, 152, 43, 0, 50, 9);
        push(&mut log, 177, 2, 0, 0, 0);
        log
    }

    fn walked(bytes: &[u8], rules: &Rules, rows: usize) -> (Walk, Stop, Owned) {
        let mut columns = Owned::new(rows);
        let mut walk = Walk::new(0, NO_OFFSET, 0, 0);
        let window = Window { bytes, base: 0 };
        let stop = walk.run(window, 1 << 32, rules, &mut columns.lend(), true);
        (walk, stop, columns)
    }

    #[test]
    fn entries_become_rows() {
        let log = log();
        let (walk, stop, mut columns) = walked(&log, &RULES, 9);
        assert_eq!((walk.row, walk.at, stop), (5, 255, Stop::NeedMore));
        let lent = columns.lend();
        assert_eq!(lent.offset[..5], [0, 38, 152, 177, 241]);
        assert_eq!(lent.prev_offset[..5], [0, 0, 38, 152, 177]);
        assert_eq!(lent.item_size[..5], [24, 100, 3, 50, 0]);
        assert_eq!(lent.vlsn[..5], [-1, -1, 0x0101_0101_0101_0101, -1, -1]);
        assert_eq!(lent.header_size[..5], [14, 14, 22, 14, 14]);
        // The last one is not summed before the one after it has been seen.
        assert_eq!(lent.checksum[..6], [1, 1, 1, 2, 3, 9]);
        let survey = RangeSummary::of(&lent, 5, &ANY_FLAGS);
        assert_eq!((survey.counts[25], survey.counts[1], survey.counts[43]), (1, 2, 1));
        assert_eq!((survey.bad, survey.flags, survey.ends), (0, 0x38, Some((0, 241))));
    }

    #[test]
    fn a_changed_byte_is_a_bad_sum() {
        let mut log = log();
        log[60] ^= 1;
        let (_, _, mut columns) = walked(&log, &RULES, 9);
        let lent = columns.lend();
        assert_eq!(lent.checksum[..4], [1, 0, 1, 2]);
        assert_eq!(RangeSummary::of(&lent, 4, &ANY_FLAGS).bad, 1);
        assert_eq!(checksum_of_entry(&log[38..152], &RULES), Checksum::Bad);
        assert_eq!(checksum_of_entry(&log[152..177], &RULES), Checksum::Ok);
        assert_eq!(checksum_of_entry(&log[152..160], &RULES), Checksum::Bad);
    }

    #[test]
    fn it_says_why_it_stopped() {
        let log = log();
        let stop = |bytes: &[u8], rules: &Rules, rows| walked(bytes, rules, rows).1;
        assert_eq!(stop(&log, &RULES, 2), Stop::Rows);
        assert_eq!(stop(&log[..180], &RULES, 9), Stop::NeedMore);
        assert_eq!(stop(&log, &Rules { file_size: 254, ..RULES }, 9), Stop::BadHeader);
        for (at, byte, why) in
            [(42, 0, Stop::BadHeader), (51, 0x80, Stop::BadHeader), (158, 9, Stop::Chain)]
        {
            let mut broken = log.clone();
            broken[at] = byte;
            assert_eq!(stop(&broken, &RULES, 9), why, "{at}");
        }
    }

    #[test]
    fn it_goes_on_when_there_are_more_bytes() {
        let log = log();
        let (_, _, mut whole) = walked(&log, &RULES, 9);
        let mut columns = Owned::new(9);
        let mut walk = Walk::new(0, NO_OFFSET, 0, 0);
        for size in 0..=log.len() {
            let window = Window { bytes: &log[..size], base: 0 };
            let stop = walk.run(window, 1 << 32, &RULES, &mut columns.lend(), true);
            assert_eq!(stop, Stop::NeedMore);
            assert!(window.needed(walk.at, &RULES) > size);
        }
        assert_eq!(walk.row, 5);
        assert_eq!(columns.lend().checksum, whole.lend().checksum);
    }

    #[test]
    fn no_entry_is_begun_at_the_limit() {
        let log = log();
        let mut columns = Owned::new(9);
        let mut walk = Walk::new(0, NO_OFFSET, 0, 0);
        let window = Window { bytes: &log, base: 0 };
        let stop = walk.run(window, 152, &RULES, &mut columns.lend(), true);
        assert_eq!((walk.row, walk.at, stop), (2, 152, Stop::Limit));
    }
}
