//! Steps from entry to entry, and checksums.
//!
//! Source: FileReader.readNextEntry, ChecksumValidator, JE 7.5.11 and 25.3.

use crate::adler;
use crate::je::header::{self, Header, Rules, SUMMED_FROM};

/// What is known of an entry's checksum.
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checksum {
    /// It differs from the stored one.
    Bad = 0,
    /// It is right.
    Ok = 1,
    /// An erased entry: the stored value is that of the bytes before.
    None = 2,
    /// It has not been computed.
    Unchecked = 3,
}

/// Why [`walk`] stopped.
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The next entry begins at the limit or after it.
    Limit = 0,
    /// The next header or entry does not end inside the buffer.
    NeedMore = 1,
    /// Type 0, a negative size, or a size that the file cannot hold.
    BadHeader = 2,
    /// The next header's prevOffset is not the offset of the entry before it.
    Chain = 3,
    /// The columns are full.
    Rows = 4,
}

/// No offset: nothing is known of the entry before.
pub const NO_OFFSET: i64 = -1;

/// Bytes of a file, from offset `base` on.
#[derive(Clone, Copy, Debug)]
pub struct Window<'a> {
    /// The bytes.
    pub bytes: &'a [u8],
    /// Offset in the file of the first of them.
    pub base: u64,
}

impl Window<'_> {
    /// Return the index in the bytes of offset `at` of the file.
    #[inline]
    fn index_of(&self, at: u64) -> Option<usize> {
        at.checked_sub(self.base).and_then(|index| usize::try_from(index).ok())
    }
}

/// Headers in columns, one element an entry; slices of one length.
#[derive(Debug)]
pub struct HeaderColumns<'a> {
    /// Offset of the entry in its file.
    pub offset: &'a mut [u32],
    /// Offset of the entry before it, as stored.
    pub prev_offset: &'a mut [u32],
    /// Adler-32, as stored.
    pub stored_checksum: &'a mut [u32],
    /// Bytes after the header.
    pub item_size: &'a mut [i32],
    /// VLSN, or -1 where none is stored.
    pub vlsn: &'a mut [i64],
    /// Number of the type.
    pub type_no: &'a mut [u8],
    /// Flags.
    pub flags: &'a mut [u8],
    /// Bytes of the header.
    pub header_size: &'a mut [u8],
    /// A [`Checksum`].
    pub checksum: &'a mut [u8],
}

impl HeaderColumns<'_> {
    /// Return how many rows there is room for; `None` if the columns differ in length.
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
    }
}

/// What summed entries are, all taken together.
#[derive(Debug)]
pub struct Survey<'a> {
    /// How many there are of each type, how many are bad, and the flags that any of them has.
    pub numbers: &'a mut [i64; SURVEY_SIZE],
}

/// Numbers of a [`Survey`]: 256 types, `BAD`, `FLAGS`.
pub const SURVEY_SIZE: usize = 258;
const SURVEYED_BAD: usize = 256;
const SURVEYED_FLAGS: usize = 257;

impl Survey<'_> {
    /// Add an entry.
    #[inline]
    pub fn add(&mut self, type_no: u8, flags: u8, checksum: Checksum) {
        self.numbers[usize::from(type_no)] += 1;
        self.numbers[SURVEYED_FLAGS] |= i64::from(flags);
        self.numbers[SURVEYED_BAD] += i64::from(checksum == Checksum::Bad);
    }
}

/// Where a walk begins.
#[derive(Clone, Copy, Debug)]
pub struct Start {
    /// Offset in the file of an entry.
    pub at: u64,
    /// First offset at which no entry is begun.
    pub limit: u64,
    /// What the first header's prevOffset must be; [`NO_OFFSET`] for anything.
    pub expected_prev: i64,
    /// How much further back than they are entries name the ones before them: not 0 where bytes
    /// were inserted or are missing.
    pub shift: i64,
}

/// Where a walk stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Walked {
    /// Entries found.
    pub n: usize,
    /// Offset of the first entry not taken.
    pub after: u64,
    /// Why it stopped.
    pub stop: Stop,
}

/// Step over entries from `start.at` while they begin before `start.limit`, filling the columns.
///
/// With a survey, each entry is summed and surveyed when the one after it has been taken, as its
/// bytes are in the core's cache then; before that its size may be wild. So the last one is not.
pub fn walk(
    window: Window<'_>,
    start: Start,
    rules: &Rules,
    columns: &mut HeaderColumns<'_>,
    mut survey: Option<Survey<'_>>,
) -> Walked {
    let Some(rows) = columns.rows() else {
        return Walked { n: 0, after: start.at, stop: Stop::Rows };
    };
    let bytes = window.bytes;
    let (mut n, mut at, mut expected_prev) = (0, start.at, start.expected_prev);
    let mut last: Option<(usize, Header)> = None;
    let stop = loop {
        if at >= start.limit {
            break Stop::Limit;
        }
        if n >= rows {
            break Stop::Rows;
        }
        let Some(i) = window.index_of(at) else { break Stop::NeedMore };
        let Some(header) = Header::read(bytes, i) else { break Stop::NeedMore };
        let Some(size) = header.entry_size(rules) else { break Stop::BadHeader };
        let after = at.saturating_add(size as u64);
        let (Ok(offset), true) = (u32::try_from(at), after <= rules.file_size) else {
            break Stop::BadHeader;
        };
        if expected_prev != NO_OFFSET && expected_prev != i64::from(header.prev_offset) {
            break Stop::Chain;
        }
        if bytes.len() - i < size {
            break Stop::NeedMore;
        }
        if let (Some(survey), Some((first, before))) = (&mut survey, last) {
            let state = checksum_of(&bytes[first..i], &before, rules);
            columns.checksum[n - 1] = state as u8;
            survey.add(before.type_no, before.flags, state);
        }
        let vlsn = if header.has_vlsn(rules) { header::vlsn_at(bytes, i) } else { None };
        columns.set(n, offset, &header, header.size(rules), vlsn.unwrap_or(-1));
        last = Some((i, header));
        n += 1;
        expected_prev = i64::from(offset).wrapping_sub(start.shift);
        at = after;
    };
    Walked { n, after: at, stop }
}

/// Fill `states` with the [`Checksum`] of the entries at `offsets` of the file.
///
/// An entry that does not lie in the window is bad.
pub fn check_sums(window: Window<'_>, rules: &Rules, offsets: &[u32], states: &mut [u8]) {
    for (&offset, state) in offsets.iter().zip(states) {
        *state = entry_at(window, offset, rules)
            .map_or(Checksum::Bad, |(header, entry)| checksum_of(entry, &header, rules))
            as u8;
    }
}

fn entry_at<'a>(window: Window<'a>, offset: u32, rules: &Rules) -> Option<(Header, &'a [u8])> {
    let start = window.index_of(offset.into())?;
    let header = Header::read(window.bytes, start)?;
    let after = start.checked_add(header.entry_size(rules)?)?;
    Some((header, window.bytes.get(start..after)?))
}

/// Return what there is to know of the checksum of a whole entry.
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
    use crate::je::header::{MAX_SIZE, MIN_SIZE};
    use proptest::prelude::*;

    const RULES: Rules =
        Rules { vlsn_mask: 0x28, summed_flags: 0xef, erased_type: Some(43), file_size: 1 << 32 };

    /// Columns that are owned, as Python owns them.
    #[derive(Debug)]
    struct Owned {
        words: [Vec<u32>; 3],
        item_size: Vec<i32>,
        vlsn: Vec<i64>,
        small: [Vec<u8>; 4],
    }

    impl Owned {
        fn new(rows: usize) -> Self {
            Self {
                words: std::array::from_fn(|_| vec![0; rows]),
                item_size: vec![0; rows],
                vlsn: vec![0; rows],
                small: std::array::from_fn(|_| vec![9; rows]),
            }
        }

        fn lend(&mut self) -> HeaderColumns<'_> {
            let [offset, prev_offset, stored_checksum] = &mut self.words;
            let [type_no, flags, header_size, checksum] = &mut self.small;
            HeaderColumns {
                offset,
                prev_offset,
                stored_checksum,
                item_size: &mut self.item_size,
                vlsn: &mut self.vlsn,
                type_no,
                flags,
                header_size,
                checksum,
            }
        }
    }

    /// Append an entry whose item repeats `fill`.
    fn push(log: &mut Vec<u8>, prev: u32, type_no: u8, flags: u8, size: usize, fill: u8) {
        let start = log.len();
        let vlsn = if flags & 0x28 != 0 { MAX_SIZE - MIN_SIZE } else { 0 };
        log.extend([0, 0, 0, 0, type_no, flags]);
        log.extend(prev.to_le_bytes());
        log.extend((size as u32).to_le_bytes());
        log.resize(log.len() + vlsn + size, fill);
        let sum = adler::of_masked(&log[start + 4..], 0xef);
        log[start..start + 4].copy_from_slice(&sum.to_le_bytes());
    }

    fn log() -> Vec<u8> {
        let mut log = Vec::new();
        push(&mut log, 0, 25, 0, 24, 0);
        push(&mut log, 0, 1, 0x10, 100, 7);
        push(&mut log, 38, 1, 0x28, 3, 1);
        push(&mut log, 152, 43, 0, 50, 9);
        push(&mut log, 177, 2, 0, 0, 0);
        log
    }

    fn start(limit: u64) -> Start {
        Start { at: 0, limit, expected_prev: NO_OFFSET, shift: 0 }
    }

    fn walked(bytes: &[u8], rules: &Rules, rows: usize) -> (Walked, Owned, [i64; SURVEY_SIZE]) {
        let mut columns = Owned::new(rows);
        let mut numbers = [0; SURVEY_SIZE];
        let survey = Survey { numbers: &mut numbers };
        let window = Window { bytes, base: 0 };
        let found = walk(window, start(1 << 32), rules, &mut columns.lend(), Some(survey));
        (found, columns, numbers)
    }

    #[test]
    fn entries_become_rows() {
        let log = log();
        let (found, columns, survey) = walked(&log, &RULES, 9);
        assert_eq!(found, Walked { n: 5, after: 255, stop: Stop::NeedMore });
        assert_eq!(columns.words[0][..5], [0, 38, 152, 177, 241]);
        assert_eq!(columns.words[1][..5], [0, 0, 38, 152, 177]);
        assert_eq!(columns.item_size[..5], [24, 100, 3, 50, 0]);
        assert_eq!(columns.vlsn[..5], [-1, -1, 0x0101_0101_0101_0101, -1, -1]);
        assert_eq!(columns.small[2][..5], [14, 14, 22, 14, 14]);
        assert_eq!(columns.small[3][..6], [1, 1, 1, 2, 9, 9]);
        assert_eq!((survey[25], survey[1], survey[43], survey[2]), (1, 2, 1, 0));
        assert_eq!((survey[SURVEYED_BAD], survey[SURVEYED_FLAGS]), (0, 0x38));
    }

    #[test]
    fn a_changed_byte_is_a_bad_sum() {
        let mut log = log();
        log[60] ^= 1;
        let (_, mut columns, survey) = walked(&log, &RULES, 9);
        assert_eq!(columns.small[3][..4], [1, 0, 1, 2]);
        assert_eq!(survey[SURVEYED_BAD], 1);
        let window = Window { bytes: &log, base: 0 };
        check_sums(window, &RULES, &columns.words[0][..5], &mut columns.small[3][..5]);
        assert_eq!(columns.small[3][..6], [1, 0, 1, 2, 1, 9]);
        check_sums(window, &RULES, &[500, 250], &mut columns.small[3][..2]);
        assert_eq!(columns.small[3][..2], [0, 0]);
    }

    #[test]
    fn it_says_why_it_stopped() {
        let log = log();
        let stop = |bytes: &[u8], rules: &Rules, rows| walked(bytes, rules, rows).0.stop;
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
    fn no_entry_is_begun_at_the_limit() {
        let log = log();
        let mut columns = Owned::new(9);
        let window = Window { bytes: &log, base: 0 };
        let found = walk(window, start(152), &RULES, &mut columns.lend(), None);
        assert_eq!(found, Walked { n: 2, after: 152, stop: Stop::Limit });
        assert_eq!(columns.small[3], [9; 9]);
    }

    proptest! {
        #[test]
        fn any_bytes_are_walked_inside_the_window(
            changes in proptest::collection::vec((0_usize..255, any::<u8>()), 0..6),
            (from, to) in (0_usize..255, 0_usize..256),
            at in 0_u64..300,
            file_size in prop_oneof![Just(1_u64 << 32), 0_u64..300],
            (expected_prev, shift) in (any::<i64>(), any::<i64>()),
        ) {
            let mut log = log();
            for (at, byte) in changes {
                log[at] = byte;
            }
            let window = Window { bytes: &log[from..to.max(from)], base: from as u64 };
            let rules = Rules { file_size, ..RULES };
            let mut columns = Owned::new(7);
            for expected_prev in [expected_prev, NO_OFFSET] {
                let start = Start { at, limit: 1 << 32, expected_prev, shift };
                let mut numbers = [0; SURVEY_SIZE];
                let survey = Survey { numbers: &mut numbers };
                let found = walk(window, start, &rules, &mut columns.lend(), Some(survey));
                prop_assert!(found.n <= 7 && (found.n == 0 || found.after <= to as u64));
                let surveyed: i64 = numbers[..SURVEYED_BAD].iter().sum();
                prop_assert_eq!(surveyed, found.n.saturating_sub(1) as i64);
            }
        }
    }
}
