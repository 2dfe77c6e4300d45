//! Judging candidates: distinguishing good entries from bytes that look like one, anywhere in a
//! file.
//!
//! The loaded bytes are used first; if they do not decide, others of the file are read. Numbers
//! from a log have 32 bits here, and numbers derived from them fit 64.

use std::collections::HashSet;
use std::mem::replace;

use crate::file::Source;
use crate::je::file::Stretch;
use crate::je::header::{Header, MIN_SIZE, Rules};
use crate::je::resync::{ALWAYS_SUMMED, Wanted};
use crate::je::walk::NO_OFFSET;

/// Number of long entries whose checksum results are kept: the last one is asked about twice.
const SUMS_KEPT: usize = 64;

/// Length from which a chain of erased entries, which have no checksum, needs no more evidence.
const ERASED_STEPS: usize = 4096;

/// Judge of candidates anywhere in a file.
#[derive(Debug)]
pub struct Searcher {
    /// Number of bytes of the file that are log.
    pub size: i64,
    /// Rules of its headers.
    pub rules: Rules,
    /// Offset of the last entry taken.
    pub last: i64,
    /// Number of bytes by which prevOffsets are too low.
    pub shift: i64,
    /// True if any good entry is accepted that has a good one after it.
    pub relaxed: bool,
    /// Number of bytes of long candidates that may still be summed.
    pub budget: i64,
    /// True if the checksum of the last entry is right; `None` if it has not been summed.
    pub last_is_right: Option<bool>,
    look_cost: i64,
    sums: [(i64, bool); SUMS_KEPT],
    failed: HashSet<i64>,
    marks: Marks,
}

/// Bitmap of the offsets in the loaded stretch at which failed chains begin.
#[derive(Debug, Default)]
struct Marks {
    base: i64,
    size: usize,
    bits: Vec<u8>,
}

impl Marks {
    fn place_of(&self, at: i64) -> Option<(usize, u8)> {
        let index = usize::try_from(at.checked_sub(self.base)?).ok()?;
        (index < self.size).then_some((index >> 3, 1 << (index & 7)))
    }

    fn has(&self, at: i64) -> bool {
        self.place_of(at)
            .and_then(|(byte, bit)| self.bits.get(byte).map(|bits| bits & bit != 0))
            .unwrap_or(false)
    }

    /// Marks an offset; returns false if it is outside the stretch.
    fn set(&mut self, at: i64) -> bool {
        let Some((byte, bit)) = self.place_of(at) else { return false };
        if self.bits.is_empty() {
            self.bits.resize(self.size / 8 + 1, 0);
        }
        if let Some(bits) = self.bits.get_mut(byte) {
            *bits |= bit;
        }
        true
    }
}

impl Searcher {
    /// Returns a searcher that has seen nothing.
    ///
    /// `look_cost` is charged to the budget for each header read elsewhere: crafted headers may
    /// each claim another end, and each costs a read.
    pub fn new(size: i64, rules: Rules, budget: i64, look_cost: i64) -> Self {
        Self {
            size,
            rules,
            last: NO_OFFSET,
            shift: 0,
            relaxed: false,
            budget,
            last_is_right: None,
            look_cost,
            sums: [(NO_OFFSET, false); SUMS_KEPT],
            failed: HashSet::new(),
            marks: Marks::default(),
        }
    }

    /// Forgets the failed chains of the previous stretch, and begins a new one.
    pub fn begin_stretch(&mut self, base: i64, size: usize) {
        self.marks.bits.clear();
        (self.marks.base, self.marks.size) = (base, size);
    }

    /// Returns the prevOffset that the next entry must have; [`NO_OFFSET`] for any.
    pub fn expected(&self) -> i64 {
        if self.last == NO_OFFSET { NO_OFFSET } else { self.last.wrapping_sub(self.shift) }
    }

    /// Returns what `find_entry` must find as the first entry after a gap, before `limit`.
    pub fn wanted(&self, lost: i64, limit: i64) -> Wanted {
        if self.relaxed {
            return Wanted { limit, low: 0, high: 1 << 32, also: NO_OFFSET };
        }
        let low = lost.min(lost.wrapping_sub(self.shift)).max(0);
        let high = self.shift.saturating_neg().max(0);
        Wanted { limit, low, high, also: self.doubted_prev() }
    }

    /// Returns the prevOffset of an entry that points back to the last one taken, if the checksum
    /// of the last one is wrong; otherwise [`NO_OFFSET`].
    ///
    /// Its size may be garbage, and lead to bytes that point back only by chance. Then the entry
    /// after it may begin before its end.
    fn doubted_prev(&self) -> i64 {
        if self.last_is_right == Some(false) { self.expected() } else { NO_OFFSET }
    }

    /// Sums the last entry taken, unless it has been summed.
    ///
    /// The budget does not matter: the search continues after the entry, so this sums no byte
    /// twice.
    ///
    /// # Errors
    ///
    /// Returns the error of a failed read.
    pub fn sum_last<S: Source>(&mut self, file: &mut Stretch<'_, S>) -> Result<(), S::Error> {
        if self.last_is_right.is_none() && self.last != NO_OFFSET {
            let budget = replace(&mut self.budget, i64::MAX);
            let is_right = self.sum_is_right(file, self.last);
            self.budget = budget;
            self.last_is_right = Some(is_right?);
        }
        Ok(())
    }

    fn end_by(&self, at: i64, header: Option<Header>) -> i64 {
        header
            .and_then(|header| header.entry_size(&self.rules))
            .and_then(|size| at.checked_add(i64::try_from(size).ok()?))
            .filter(|&end| end <= self.size)
            .unwrap_or(NO_OFFSET)
    }

    /// Returns the end of the entry at `at`, as its header says; [`NO_OFFSET`] if there is no such
    /// entry.
    ///
    /// # Errors
    ///
    /// Returns the error of a failed read, like all methods below.
    pub fn end_of<S: Source>(&self, file: &mut Stretch<'_, S>, at: i64) -> Result<i64, S::Error> {
        Ok(self.end_by(at, file.header(at)?))
    }

    /// Returns the number of bytes of the entry at `at`, or of a header if there is no entry.
    pub fn size_at<S: Source>(&self, file: &mut Stretch<'_, S>, at: i64) -> Result<i64, S::Error> {
        let end = self.end_of(file, at)?;
        Ok(if end == NO_OFFSET { MIN_SIZE as i64 } else { end - at })
    }

    /// Returns the prevOffset of the header at `at`; [`NO_OFFSET`] if there is none.
    pub fn prev_at<S: Source>(&self, file: &mut Stretch<'_, S>, at: i64) -> Result<i64, S::Error> {
        Ok(file.header(at)?.map_or(NO_OFFSET, |header| header.prev_offset.into()))
    }

    /// Returns true if the entry at `after` points back to the one at `at`.
    ///
    /// Returns false, too, if its header is not loaded and the budget is used up.
    pub fn leads_on<S: Source>(
        &mut self,
        file: &mut Stretch<'_, S>,
        at: i64,
        after: i64,
    ) -> Result<bool, S::Error> {
        let is_whole = after >= 0 && after.saturating_add(MIN_SIZE as i64) <= self.size;
        if !is_whole {
            return Ok(false);
        }
        if file.index_of(after).is_none() {
            if self.budget < self.look_cost {
                return Ok(false);
            }
            self.budget -= self.look_cost;
        }
        let Some(header) = file.header(after)? else { return Ok(false) };
        if header.entry_size(&self.rules).is_none() {
            return Ok(false);
        }
        let prev = i64::from(header.prev_offset);
        Ok(prev == at || prev == at.wrapping_sub(self.shift))
    }

    /// Returns true if a whole entry begins at `at` whose checksum is right, or means nothing.
    ///
    /// Returns false, too, if the entry is long and exceeds the budget.
    pub fn sum_is_right<S: Source>(
        &mut self,
        file: &mut Stretch<'_, S>,
        at: i64,
    ) -> Result<bool, S::Error> {
        let header = file.header(at)?;
        let stop = self.end_by(at, header);
        let (Some(header), true) = (header, stop != NO_OFFSET) else { return Ok(false) };
        if self.is_erased(&header) {
            return Ok(true);
        }
        let flags = self.rules.summed_flags;
        let size = stop - at;
        if size <= ALWAYS_SUMMED {
            return Ok(file.sum(at, stop, flags)? == header.stored_checksum);
        }
        // A long last entry is asked about twice, and is charged to the budget once.
        let slot = slot_of(at);
        if self.sums[slot].0 != at {
            if size > self.budget {
                return Ok(false);
            }
            self.budget -= size;
            self.sums[slot] = (at, file.sum(at, stop, flags)? == header.stored_checksum);
        }
        Ok(self.sums[slot].1)
    }

    /// Remembers that the checksum of the entry at `at` is right: it may be asked about again.
    pub fn note_sum(&mut self, at: i64) {
        self.sums[slot_of(at)] = (at, true);
    }

    /// Returns true if the entry is erased, so that its checksum means nothing.
    pub fn is_erased(&self, header: &Header) -> bool {
        self.rules.erased_type == Some(header.type_no)
    }

    /// Returns true if a good entry at `at` may follow what is known of the bytes before it.
    ///
    /// If nothing is known, it must point back to an entry that ends at it. After a gap, the entry
    /// before it may be damaged, so the entry after it counts: if that one is good, it must point
    /// back to `at`. It does not do so if `at` is in a copy of a log inside a record, or if bytes
    /// are missing. If `relaxed`, the entry after it need only be good.
    pub fn is_placed<S: Source>(
        &mut self,
        file: &mut Stretch<'_, S>,
        at: i64,
        lost: i64,
    ) -> Result<bool, S::Error> {
        let prev = self.prev_at(file, at)?;
        if lost == NO_OFFSET {
            return Ok(self.end_of(file, prev)? == at);
        }
        let after = self.end_of(file, at)?;
        if self.relaxed {
            return Ok(after == self.size || self.sum_is_right(file, after)?);
        }
        if after == self.size {
            let is_known = prev == lost || prev == self.doubted_prev();
            return Ok(is_known || self.end_of(file, prev)? == at);
        }
        Ok(self.leads_on(file, at, after)? || !self.sum_is_right(file, after)?)
    }

    /// Returns true if a good entry begins at `first`. An erased one has no checksum, so the
    /// entries after it must agree.
    ///
    /// Failed chains are cheap to remember, as no entry belongs to two of them.
    pub fn begins_chain<S: Source>(
        &mut self,
        file: &mut Stretch<'_, S>,
        first: i64,
    ) -> Result<bool, S::Error> {
        let mut chain = Vec::new();
        let mut at = first;
        for _ in 0..ERASED_STEPS {
            chain.push(at);
            if self.marks.has(at) || self.failed.contains(&at) || !self.sum_is_right(file, at)? {
                return Ok(self.fail(&chain));
            }
            let Some(header) = file.header(at)? else { return Ok(self.fail(&chain)) };
            let after = self.end_by(at, Some(header));
            if !self.is_erased(&header) || after == self.size {
                return Ok(true);
            }
            if !self.leads_on(file, at, after)? {
                return Ok(self.fail(&chain));
            }
            at = after;
        }
        Ok(true)
    }

    /// Remembers a failed chain; returns false.
    fn fail(&mut self, chain: &[i64]) -> bool {
        for &at in chain {
            if !self.marks.set(at) {
                self.failed.insert(at);
            }
        }
        false
    }
}

fn slot_of(at: i64) -> usize {
    usize::try_from(at).unwrap_or(0) % SUMS_KEPT
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::je::file::Loaded;
    use crate::je::testing::{RULES, push};
    use crate::testing::Memory;

    /// Sums the only entry of a log; returns the result, and the budget that is left.
    fn summed_last(log: &[u8], budget: i64) -> (Option<bool>, i64) {
        let file_size = log.len() as i64;
        let rules = Rules { file_size: log.len() as u64, ..RULES };
        let mut search = Searcher::new(file_size, rules, budget, MIN_SIZE as i64);
        search.last = 0;
        let (source, loaded) = (&mut Memory(log), &mut Loaded::default());
        let mut file = Stretch { source, buffer: &mut [], loaded, file_size };
        search.sum_last(&mut file).unwrap();
        (search.last_is_right, search.budget)
    }

    #[test]
    fn the_bytes_of_a_long_last_entry_decide_and_not_the_budget() {
        let mut log = Vec::new();
        push(&mut log, 0, 1, 0, 2 * ALWAYS_SUMMED as usize, 7);
        for budget in [0, ALWAYS_SUMMED, i64::MAX] {
            assert_eq!(summed_last(&log, budget), (Some(true), budget));
        }
        log[MIN_SIZE] ^= 1;
        for budget in [0, ALWAYS_SUMMED, i64::MAX] {
            assert_eq!(summed_last(&log, budget), (Some(false), budget));
        }
    }
}
