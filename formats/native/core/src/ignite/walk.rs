//! Walking a segment of the write-ahead log from record to record, and resynchronizing after damage.
//!
//! A record is trusted if it names its own segment and offset, and its checksum is right. Other
//! bytes are a gap, which ends at the next record that can be trusted. Bytes from a stop byte or
//! damage to the end of the file without such a record are the tail.
//!
//! Source: RecordV2Serializer.readWithHeaders, AbstractWalRecordsIterator.advanceRecord,
//! Ignite 2.18.0.

use crate::bytes::{are_zero, zeros};
use crate::ignite::order::Order;

/// Number of bytes of the record at the start of a segment.
pub const SEGMENT_HEADER_SIZE: u64 = 29;

/// Number of bytes before the payload of a record: type, segment index, offset, length.
pub const HEADER_SIZE: usize = 17;

/// Number of bytes of a record without payload: its header and its checksum.
pub const MIN_SIZE: usize = 21;

/// Number of record types: their indexes are below it.
pub const TYPE_COUNT: u8 = 83;

/// Index of the record that ends a segment, a single byte.
pub const SWITCH_TYPE: u8 = 40;

/// Largest number of gaps to keep: a file of nothing else could have millions.
pub const GAPS_KEPT: usize = 1000;

/// Largest number of records of another segment to recognise after the end.
const STALE_MAX: u32 = 16;

/// Number of bytes that may be summed in vain, in addition to the size of the segment.
const BUDGET: u64 = 32 << 20;

/// Cost, in bytes, of a place that looks like a record. Accidental damage has at most one such
/// place in that many bytes.
const CANDIDATE_COST: u64 = 8;

const CRC_SIZE: usize = MIN_SIZE - HEADER_SIZE;
const SEGMENT_AT: usize = 1;
const OFFSET_AT: usize = 9;
const LENGTH_AT: usize = 13;

/// Returns the engine's checksum: CRC-32 without the final inversion.
///
/// Source: FastCrc.calcCrc, Ignite 2.18.0.
#[inline]
pub fn checksum(bytes: &[u8]) -> u32 {
    !crc32fast::hash(bytes)
}

/// Facts of a segment from its header.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// Absolute index of the segment.
    pub segment: i64,
    /// Byte order of the numbers.
    pub order: Order,
    /// True if records were dropped: the rest have their original offsets, which ascend.
    pub compacted: bool,
    /// False if the writer did not compute checksums.
    pub summed: bool,
    /// Number of bytes of the segment.
    pub size: u64,
}

/// Reason why no record can be trusted at an offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Cause {
    /// The file ends.
    FileEnd = 0,
    /// A byte of zero: the end of what was written.
    Zero = 1,
    /// The record that ends a segment.
    Switch = 2,
    /// The record names another segment or offset.
    Pointer = 3,
    /// No engine writes a record of this type.
    Type = 4,
    /// The length is less than that of a record without payload.
    Length = 5,
    /// The file ends inside the record.
    Cut = 6,
    /// The checksum is wrong.
    Checksum = 7,
}

/// The place where trusted records end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stop {
    /// Offset in the file.
    pub at: u64,
    /// Reason.
    pub cause: Cause,
    /// Index of the type that the bytes name; 255 for none.
    pub type_no: u8,
    /// Length that the bytes name; 0 for none.
    pub length: u32,
    /// Segment that the bytes name; -1 for none.
    pub segment: i64,
    /// Stored checksum, if that is the reason.
    pub stored: u32,
    /// Checksum of the bytes, if that is the reason.
    pub computed: u32,
}

/// Bytes without a trusted record, up to one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    /// Their start, and the reason why no record can be trusted there.
    pub stop: Stop,
    /// Offset of the next trusted record.
    pub end: u64,
    /// True if all of them are zero.
    pub is_zero: bool,
}

/// The bytes after the last trusted record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tail {
    /// Its start, and the reason why no record can be trusted there.
    pub stop: Stop,
    /// True if all bytes from there are zero.
    pub is_zero: bool,
    /// Number of records of other segments found there, at most 16; one that does not lie in a
    /// single window is not counted.
    pub stale: u32,
    /// Segment of the first of them.
    pub stale_segment: i64,
    /// Offset from which the bytes were not searched for records, because too many candidates were
    /// wrong; the size of the file if all were searched.
    pub unsearched: u64,
}

/// Columns that rows are written to; of one length.
#[derive(Debug)]
pub struct Columns<'a> {
    /// Offset in the file.
    pub at: &'a mut [u32],
    /// Offset that the record names; not the one in the file if the segment is compacted.
    pub offset: &'a mut [u32],
    /// Number of bytes, header and checksum included.
    pub length: &'a mut [u32],
    /// Index of the type.
    pub type_no: &'a mut [u8],
}

/// Part of a segment in memory.
#[derive(Clone, Copy, Debug)]
pub struct Window<'a> {
    /// Its bytes.
    pub bytes: &'a [u8],
    /// Offset of the first.
    pub base: u64,
}

/// The need of a walk after a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// A window that begins at [`Walker::position`] and has at least this many bytes.
    Bytes(u64),
    /// Room in the columns; the window may stay.
    Room,
    /// Nothing: the segment has been read.
    Nothing,
}

enum Judged {
    Good {
        type_no: u8,
        offset: u32,
        length: u32,
    },
    /// This many bytes are needed from the offset on.
    Short(u64),
    Bad(Stop),
}

/// Reader of the records of one segment.
#[derive(Debug)]
pub struct Walker {
    rules: Rules,
    at: u64,
    last_offset: Option<u32>,
    /// The open gap, if any; `end` is not set.
    lost: Option<Gap>,
    budget: u64,
    stale: u32,
    stale_segment: i64,
    /// Offset up to which bytes were compared with zero.
    zeros_to: u64,
    /// Gaps that were closed, the first [`GAPS_KEPT`] of them.
    pub gaps: Vec<Gap>,
    /// Number of all gaps that were closed, and of their bytes.
    pub gap_totals: (u64, u64),
    /// The bytes after the last record, once everything has been read.
    pub tail: Option<Tail>,
    /// Number of bytes whose checksum was computed, by which tests measure work.
    #[cfg(test)]
    summed: std::cell::Cell<u64>,
    /// Number of places that looked like records, by which tests measure work.
    #[cfg(test)]
    candidates: u64,
}

impl Walker {
    /// Returns a reader at the first record after the segment's header.
    pub fn new(rules: Rules) -> Self {
        Self {
            rules,
            at: SEGMENT_HEADER_SIZE.min(rules.size),
            last_offset: None,
            lost: None,
            budget: rules.size.saturating_add(BUDGET),
            stale: 0,
            stale_segment: -1,
            zeros_to: 0,
            gaps: Vec::new(),
            gap_totals: (0, 0),
            tail: None,
            #[cfg(test)]
            summed: std::cell::Cell::default(),
            #[cfg(test)]
            candidates: 0,
        }
    }

    /// Returns the offset at which reading continues.
    pub fn position(&self) -> u64 {
        self.at
    }

    /// Reads the records of a window; returns the number of rows, and what is needed next.
    pub fn step(&mut self, window: Window<'_>, columns: &mut Columns<'_>) -> (usize, Next) {
        let mut rows = 0;
        while self.tail.is_none() {
            if rows == columns.at.len() {
                return (rows, Next::Room);
            }
            let needed = if self.lost.is_some() {
                self.search(window)
            } else {
                self.walk(window, columns, &mut rows)
            };
            if let Some(size) = needed {
                return (rows, Next::Bytes(size));
            }
        }
        (rows, Next::Nothing)
    }

    /// Writes rows until a record cannot be trusted, or the columns are full.
    fn walk(
        &mut self,
        window: Window<'_>,
        columns: &mut Columns<'_>,
        rows: &mut usize,
    ) -> Option<u64> {
        let places = columns.at.iter_mut().zip(columns.offset.iter_mut());
        let facts = columns.length.iter_mut().zip(columns.type_no.iter_mut());
        for ((at, own), (size, kind)) in places.zip(facts).skip(*rows) {
            match self.judge(window, self.at) {
                Judged::Good { type_no, offset, length } => {
                    (*at, *own, *size, *kind) = (self.at as u32, offset, length, type_no);
                    *rows += 1;
                    self.pass(offset, length);
                }
                Judged::Short(size) => return Some(size),
                Judged::Bad(stop) => {
                    self.lose(stop);
                    return None;
                }
            }
        }
        None
    }

    fn pass(&mut self, offset: u32, length: u32) {
        self.last_offset = Some(offset);
        self.at = self.at.saturating_add(length.into());
    }

    fn lose(&mut self, stop: Stop) {
        if stop.cause == Cause::FileEnd {
            self.finish(Gap { stop, end: stop.at, is_zero: true }, self.rules.size);
            return;
        }
        if stop.cause == Cause::Checksum {
            self.charge(stop.length.into());
        }
        let is_zero = stop.cause == Cause::Zero;
        self.zeros_to = stop.at;
        self.lost = Some(Gap { stop, end: stop.at, is_zero });
        self.at = stop.at.saturating_add(1);
    }

    fn close(&mut self, gap: Gap) {
        let (count, size) = self.gap_totals;
        self.gap_totals = (count + 1, size.saturating_add(gap.end.saturating_sub(gap.stop.at)));
        if self.gaps.len() < GAPS_KEPT {
            self.gaps.push(gap);
        }
        self.lost = None;
        self.stale = 0;
        self.stale_segment = -1;
    }

    fn finish(&mut self, lost: Gap, unsearched: u64) {
        let Gap { stop, is_zero, .. } = lost;
        let (stale, stale_segment) = (self.stale, self.stale_segment);
        self.tail = Some(Tail { stop, is_zero, stale, stale_segment, unsearched });
        self.lost = None;
    }

    fn charge(&mut self, size: u64) {
        self.budget = self.budget.saturating_sub(size);
    }

    /// Looks for the next record that can be trusted, from `at` on.
    fn search(&mut self, window: Window<'_>) -> Option<u64> {
        let mut lost = self.lost?;
        while self.budget > 0 {
            let found = self.candidate(window);
            self.see_zeros(window, &mut lost);
            let Some(at) = found else {
                if self.at.saturating_add(MIN_SIZE as u64) > self.rules.size {
                    self.finish(lost, self.rules.size);
                    return None;
                }
                self.lost = Some(lost);
                return Some(MIN_SIZE as u64);
            };
            self.at = at;
            self.charge(CANDIDATE_COST);
            #[cfg(test)]
            {
                self.candidates += 1;
            }
            match self.judge(window, at) {
                Judged::Good { .. } if self.is_confirmed(window, at) => {
                    lost.end = at;
                    lost.is_zero &= self.zeros_to >= at;
                    self.close(lost);
                    return None;
                }
                Judged::Short(size) => {
                    // A forged length may cost a read of this size.
                    self.charge(size);
                    self.lost = Some(lost);
                    return Some(size);
                }
                Judged::Good { .. } => {}
                Judged::Bad(stop) => {
                    if stop.cause == Cause::Checksum {
                        self.charge(stop.length.into());
                    }
                    self.see_stale(window, stop);
                }
            }
            self.at = at.saturating_add(1);
        }
        self.finish(lost, self.at);
        None
    }

    /// Returns the next offset in the window at which a record may begin; without one, moves `at`
    /// to the end of what was searched.
    fn candidate(&mut self, window: Window<'_>) -> Option<u64> {
        let mut start = usize::try_from(self.at.checked_sub(window.base)?).ok()?;
        let last = window.bytes.len().checked_sub(MIN_SIZE)?;
        let mut found = None;
        while found.is_none() && start <= last {
            // No record begins with a zero, and unused files have billions.
            start += zeros(window.bytes.get(start..=last)?);
            let place = self.named(window, start, last);
            start = place.unwrap_or(last + 1);
            found = place.filter(|&at| window.bytes.get(at).is_some_and(|&first| first != 0));
        }
        self.at = window.base.saturating_add(start as u64).max(self.at);
        found.map(|_| self.at)
    }

    /// Returns the first index in a range at which a record would name its segment, if that is
    /// compacted, or else its offset.
    fn named(&self, window: Window<'_>, start: usize, last: usize) -> Option<usize> {
        let Rules { order, segment, compacted, .. } = self.rules;
        let count = (last + 1).checked_sub(start)?;
        let index = if compacted {
            let fields = window.bytes.get(start + SEGMENT_AT..)?.windows(8).take(count);
            let mut eights = fields.filter_map(<[u8]>::first_chunk);
            eights.position(|eight: &[u8; 8]| order.i64_of(*eight) == segment)
        } else {
            let mut own = window.base.wrapping_add(start as u64) as u32;
            let fields = window.bytes.get(start + OFFSET_AT..)?.windows(4).take(count);
            let mut fours = fields.filter_map(<[u8]>::first_chunk);
            fours.position(|four: &[u8; 4]| {
                let found = order.u32_of(*four) == own;
                own = own.wrapping_add(1);
                found
            })
        };
        index.map(|index| start + index)
    }

    /// Notes whether the bytes of the gap are zero, up to `at` or the end of the file.
    fn see_zeros(&mut self, window: Window<'_>, lost: &mut Gap) {
        let ends = self.at.saturating_add(MIN_SIZE as u64) > self.rules.size;
        let stop = if ends { self.rules.size } else { self.at };
        if !lost.is_zero || stop <= self.zeros_to {
            return;
        }
        let index_of = |at: u64| usize::try_from(at.saturating_sub(window.base)).unwrap_or(0);
        let bytes = window.bytes.get(index_of(self.zeros_to)..index_of(stop));
        lost.is_zero = bytes.is_some_and(are_zero);
        self.zeros_to = stop;
    }

    /// Returns true if a record that was found can be trusted: without checksums, only if another
    /// record or the end of the file follows it.
    fn is_confirmed(&self, window: Window<'_>, at: u64) -> bool {
        let Judged::Good { length, .. } = self.judge(window, at) else { return false };
        let after = at.saturating_add(length.into());
        self.rules.summed
            || after == self.rules.size
            || matches!(self.judge(window, after), Judged::Good { .. })
    }

    /// Counts a whole record of another segment, which a reused file still has after its end.
    fn see_stale(&mut self, window: Window<'_>, stop: Stop) {
        if stop.cause != Cause::Pointer || self.stale >= STALE_MAX || stop.segment < 0 {
            return;
        }
        let Some(index) = stop.at.checked_sub(window.base).and_then(|n| usize::try_from(n).ok())
        else {
            return;
        };
        let size = self.rules.order.u32_at(window.bytes, index.saturating_add(LENGTH_AT));
        let size = size.and_then(|size| usize::try_from(size).ok()).unwrap_or(0);
        let Some(record) = window.bytes.get(index..index.saturating_add(size)) else { return };
        self.charge(record.len() as u64);
        if let Some((stored, computed)) = self.sums(record) {
            if stored == computed {
                self.stale_segment =
                    if self.stale == 0 { stop.segment } else { self.stale_segment };
                self.stale += 1;
            }
        }
    }

    /// Returns the stored checksum of a record and that of its bytes; `None` if it is too short.
    fn sums(&self, record: &[u8]) -> Option<(u32, u32)> {
        let summed = record.get(..record.len().checked_sub(CRC_SIZE)?)?;
        if record.len() < MIN_SIZE {
            return None;
        }
        #[cfg(test)]
        self.summed.set(self.summed.get() + summed.len() as u64);
        Some((self.rules.order.u32_at(record, summed.len())?, checksum(summed)))
    }

    /// Judges the bytes at an offset, in the order of the engine's reader.
    fn judge(&self, window: Window<'_>, at: u64) -> Judged {
        let Rules { order, segment, compacted, summed, size } = self.rules;
        let mut stop = Stop {
            at,
            cause: Cause::FileEnd,
            type_no: u8::MAX,
            length: 0,
            segment: -1,
            stored: 0,
            computed: 0,
        };
        let left = size.saturating_sub(at);
        let index = at.checked_sub(window.base).and_then(|n| usize::try_from(n).ok());
        let bytes = index.and_then(|index| window.bytes.get(index..)).unwrap_or_default();
        let Some(&first) = bytes.first() else {
            return if left == 0 { Judged::Bad(stop) } else { Judged::Short(1) };
        };
        let Some(type_no) = first.checked_sub(1) else {
            return Judged::Bad(Stop { cause: Cause::Zero, ..stop });
        };
        stop.type_no = type_no;
        if type_no == SWITCH_TYPE {
            return Judged::Bad(Stop { cause: Cause::Switch, ..stop });
        }
        if left < MIN_SIZE as u64 {
            return Judged::Bad(Stop { cause: Cause::Cut, ..stop });
        }
        let (Some(own_segment), Some(offset), Some(length)) = (
            order.i64_at(bytes, SEGMENT_AT),
            order.u32_at(bytes, OFFSET_AT),
            order.u32_at(bytes, LENGTH_AT),
        ) else {
            return Judged::Short(MIN_SIZE as u64);
        };
        stop.segment = own_segment;
        stop.length = length;
        let is_own_offset = if compacted {
            self.last_offset.is_none_or(|last| offset > last)
        } else {
            u64::from(offset) == at
        };
        if own_segment != segment || !is_own_offset {
            return Judged::Bad(Stop { cause: Cause::Pointer, ..stop });
        }
        if type_no >= TYPE_COUNT {
            return Judged::Bad(Stop { cause: Cause::Type, ..stop });
        }
        if length < MIN_SIZE as u32 {
            return Judged::Bad(Stop { cause: Cause::Length, ..stop });
        }
        if u64::from(length) > left {
            return Judged::Bad(Stop { cause: Cause::Cut, ..stop });
        }
        let Some(record) = usize::try_from(length).ok().and_then(|length| bytes.get(..length))
        else {
            return Judged::Short(length.into());
        };
        if !summed {
            return Judged::Good { type_no, offset, length };
        }
        match self.sums(record) {
            Some((stored, computed)) if stored != computed => {
                Judged::Bad(Stop { cause: Cause::Checksum, stored, computed, ..stop })
            }
            Some(_) => Judged::Good { type_no, offset, length },
            None => Judged::Bad(Stop { cause: Cause::Length, ..stop }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SEGMENT: i64 = 7;

    fn record(order: Order, type_no: u8, segment: i64, offset: u32, payload: &[u8]) -> Vec<u8> {
        let length = (payload.len() + MIN_SIZE) as u32;
        let mut out = vec![type_no + 1];
        let big = order == Order::Big;
        out.extend(if big { segment.to_be_bytes() } else { segment.to_le_bytes() });
        for number in [offset, length] {
            out.extend(if big { number.to_be_bytes() } else { number.to_le_bytes() });
        }
        out.extend(payload);
        let sum = checksum(&out);
        out.extend(if big { sum.to_be_bytes() } else { sum.to_le_bytes() });
        out
    }

    /// Returns a segment whose records have these payload sizes, and the offsets of the records.
    fn segment(order: Order, sizes: &[usize]) -> (Vec<u8>, Vec<u64>) {
        let mut bytes = vec![5; SEGMENT_HEADER_SIZE as usize];
        let mut places = Vec::new();
        for &size in sizes {
            let at = bytes.len() as u32;
            places.push(at.into());
            bytes.extend(record(order, 1, SEGMENT, at, &vec![at as u8; size]));
        }
        (bytes, places)
    }

    fn rules(order: Order, size: usize) -> Rules {
        Rules { segment: SEGMENT, order, compacted: false, summed: true, size: size as u64 }
    }

    /// Reads a segment in windows of `size` bytes, with columns of `room` rows.
    fn read(bytes: &[u8], rules: Rules, size: usize, room: usize) -> (Vec<(u64, u32)>, Walker) {
        let mut walker = Walker::new(rules);
        let mut rows = Vec::new();
        let (mut at, mut offset) = (vec![0; room], vec![0; room]);
        let (mut length, mut type_no) = (vec![0; room], vec![0; room]);
        let mut wanted = size;
        loop {
            let from = walker.position() as usize;
            let to = from.saturating_add(wanted.max(size)).min(bytes.len());
            let window = Window { bytes: &bytes[from..to], base: from as u64 };
            let mut columns = Columns {
                at: &mut at,
                offset: &mut offset,
                length: &mut length,
                type_no: &mut type_no,
            };
            let (n, next) = walker.step(window, &mut columns);
            rows.extend((0..n).map(|i| (u64::from(at[i]), length[i])));
            match next {
                Next::Bytes(size) => wanted = size as usize,
                Next::Room => {}
                Next::Nothing => return (rows, walker),
            }
        }
    }

    #[test]
    fn every_record_is_a_row_in_both_orders() {
        for order in [Order::Little, Order::Big] {
            let (mut bytes, places) = segment(order, &[0, 5, 300]);
            bytes.extend([0; 40]);
            let (rows, walker) = read(&bytes, rules(order, bytes.len()), 64, 2);
            assert_eq!(rows.iter().map(|row| row.0).collect::<Vec<_>>(), places);
            let tail = walker.tail.unwrap();
            assert_eq!((tail.stop.cause, tail.is_zero), (Cause::Zero, true));
            assert_eq!(walker.gaps, []);
        }
    }

    #[test]
    fn a_bad_record_is_a_gap_up_to_the_next_good_one() {
        let (good, places) = segment(Order::Little, &[10, 20, 30, 0]);
        for index in places[1]..places[2] {
            let mut bytes = good.clone();
            bytes[index as usize] ^= 0x10;
            let (rows, walker) = read(&bytes, rules(Order::Little, bytes.len()), 50, 9);
            let kept = [places[0], places[2], places[3]];
            assert_eq!(rows.iter().map(|row| row.0).collect::<Vec<_>>(), kept, "{index}");
            let gap = walker.gaps[0];
            assert_eq!((gap.stop.at, gap.end), (places[1], places[2]), "{index}");
            assert_eq!(walker.tail.unwrap().stop.cause, Cause::FileEnd);
        }
    }

    #[test]
    fn zeros_between_records_are_a_gap() {
        let (mut bytes, places) = segment(Order::Little, &[10, 20, 30]);
        bytes[places[1] as usize..places[2] as usize].fill(0);
        let (rows, walker) = read(&bytes, rules(Order::Little, bytes.len()), 30, 9);
        assert_eq!(rows.len(), 2);
        assert_eq!((walker.gaps[0].is_zero, walker.gaps[0].stop.cause), (true, Cause::Zero));
    }

    #[test]
    fn a_torn_record_is_the_tail() {
        let (good, places) = segment(Order::Little, &[10, 20]);
        for size in places[1] as usize + 1..good.len() {
            let bytes = &good[..size];
            let (rows, walker) = read(bytes, rules(Order::Little, size), 30, 9);
            assert_eq!(rows.len(), 1);
            let tail = walker.tail.unwrap();
            assert_eq!((tail.stop.at, tail.stop.cause), (places[1], Cause::Cut));
        }
    }

    #[test]
    fn records_of_the_segment_before_in_the_file_are_stale() {
        let (mut bytes, places) = segment(Order::Little, &[10, 20, 30]);
        let old = record(Order::Little, 1, SEGMENT - 3, places[2] as u32, &[9; 30]);
        bytes[places[2] as usize..].copy_from_slice(&old);
        bytes[places[1] as usize] = SWITCH_TYPE + 1;
        let (rows, walker) = read(&bytes, rules(Order::Little, bytes.len()), bytes.len(), 9);
        let tail = walker.tail.unwrap();
        assert_eq!(rows.len(), 1);
        assert_eq!((tail.stop.cause, tail.stale, tail.stale_segment), (Cause::Switch, 1, 4));
    }

    #[test]
    fn records_of_a_compacted_segment_keep_their_offsets() {
        let mut bytes = vec![5; SEGMENT_HEADER_SIZE as usize];
        for offset in [100, 4000, 4100] {
            bytes.extend(record(Order::Little, 70, SEGMENT, offset, &[1; 12]));
        }
        let rules = Rules { compacted: true, ..rules(Order::Little, bytes.len()) };
        assert_eq!(read(&bytes, rules, 40, 9).0.len(), 3);
        bytes[29 + 33 + 20] ^= 1;
        let (rows, walker) = read(&bytes, rules, 40, 9);
        assert_eq!(rows.iter().map(|row| row.0).collect::<Vec<_>>(), [29, 95]);
        assert_eq!((walker.gaps[0].stop.at, walker.gaps[0].end), (62, 95));
    }

    #[test]
    fn forged_lengths_do_not_cost_more_than_the_budget() {
        let size = 1 << 20;
        let mut bytes = vec![7; size];
        for at in (29..size - 40).step_by(21) {
            let mut forged = record(Order::Little, 1, SEGMENT, at as u32, &[]);
            forged[13..17].copy_from_slice(&((size - at) as u32).to_le_bytes());
            bytes[at..at + 21].copy_from_slice(&forged);
        }
        let (rows, walker) = read(&bytes, rules(Order::Little, size), 1 << 16, 100);
        assert_eq!(rows, []);
        assert!(walker.tail.unwrap().unsearched < 5000);
    }

    /// Returns a segment of headers, each of which names a record up to the end.
    fn headers_to_the_end(segment: i64, size: usize) -> Vec<u8> {
        let mut bytes = vec![5; SEGMENT_HEADER_SIZE as usize];
        bytes.push(0);
        while bytes.len() + MIN_SIZE < size {
            let at = bytes.len();
            bytes.extend(&record(Order::Little, 1, segment, at as u32, &[])[..LENGTH_AT]);
            bytes.extend(((size - at - 1) as u32).to_le_bytes());
        }
        bytes.resize(size, 1);
        bytes
    }

    #[test]
    fn forged_records_of_another_segment_do_not_cost_more_than_the_budget() {
        let size = 4 << 20;
        let bytes = headers_to_the_end(SEGMENT + 1, size);
        let (rows, walker) = read(&bytes, rules(Order::Little, size), size, 100);
        let tail = walker.tail.unwrap();
        assert_eq!((rows.len(), tail.stale), (0, 0));
        assert!(tail.unsearched < 1000, "{}", tail.unsearched);
        // The last one may be longer than what is left of the budget.
        assert!(walker.summed.get() <= 2 * size as u64 + BUDGET, "{}", walker.summed.get());
    }

    #[test]
    fn forged_records_without_checksums_are_not_summed() {
        let size = 4 << 20;
        let bytes = headers_to_the_end(SEGMENT, size);
        let rules = Rules { summed: false, ..rules(Order::Little, size) };
        let (rows, walker) = read(&bytes, rules, size, 100);
        assert_eq!((rows.len(), walker.tail.unwrap().unsearched), (0, size as u64));
        assert_eq!(walker.summed.get(), 0);
    }

    #[test]
    fn no_zero_looks_like_a_record_of_segment_0() {
        let bytes = vec![0; 1 << 20];
        let rules = Rules { segment: 0, compacted: true, ..rules(Order::Little, bytes.len()) };
        let (rows, walker) = read(&bytes, rules, 1 << 16, 100);
        let tail = walker.tail.unwrap();
        assert_eq!((rows, walker.candidates), (vec![], 0));
        assert_eq!((tail.is_zero, tail.unsearched), (true, bytes.len() as u64));
    }

    #[test]
    fn places_that_look_like_records_do_not_cost_more_than_the_budget() {
        let bytes = vec![1; 10_000];
        let segment = i64::from_ne_bytes([1; 8]);
        let rules = Rules { segment, compacted: true, ..rules(Order::Little, bytes.len()) };
        let mut walker = Walker { budget: 100 * CANDIDATE_COST, ..Walker::new(rules) };
        let (mut at, mut offset, mut length, mut type_no) = ([0], [0], [0], [0]);
        let mut columns = Columns {
            at: &mut at,
            offset: &mut offset,
            length: &mut length,
            type_no: &mut type_no,
        };
        let found = walker.step(Window { bytes: &bytes[29..], base: 29 }, &mut columns);
        assert_eq!((found, walker.candidates), ((0, Next::Nothing), 100));
        assert_eq!(walker.tail.unwrap().unsearched, 29 + 1 + 100);
    }

    proptest! {
        #[test]
        fn windows_and_room_change_nothing(
            sizes in proptest::collection::vec(0_usize..90, 0..12),
            flips in proptest::collection::vec((0_usize..900, any::<u8>()), 0..4),
            window in 1_usize..200,
            room in 1_usize..5,
            compacted: bool,
            summed: bool,
        ) {
            let (mut bytes, _) = segment(Order::Little, &sizes);
            for (at, change) in flips {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte ^= change;
                }
            }
            let rules = Rules { compacted, summed: summed || compacted,
                ..rules(Order::Little, bytes.len()) };
            let (whole, one) = read(&bytes, rules, bytes.len(), 100);
            let (parts, other) = read(&bytes, rules, window, room);
            let mut end = SEGMENT_HEADER_SIZE;
            for &(at, length) in &whole {
                prop_assert!(at >= end);
                end = at + u64::from(length);
            }
            prop_assert!(end <= bytes.len() as u64);
            if rules.summed {
                prop_assert_eq!(whole, parts);
                prop_assert_eq!(one.gaps, other.gaps);
                prop_assert_eq!(one.tail.map(|tail| tail.stop), other.tail.map(|tail| tail.stop));
            }
        }

        #[test]
        fn any_bytes_are_read_to_their_end(
            bytes in proptest::collection::vec(0_u8..8, 0..400),
            compacted: bool,
        ) {
            let rules = Rules { segment: 0, compacted, ..rules(Order::Big, bytes.len()) };
            let (_, walker) = read(&bytes, rules, 40, 3);
            prop_assert!(walker.tail.unwrap().stop.at <= bytes.len() as u64);
        }
    }
}
