//! Reading a range of a log file as rows, and resynchronizing after damage.
//!
//! An entry is trusted if its checksum is right, or else if the entry after it points back to it
//! with its prevOffset (a damaged entry, still a row). Other bytes are a gap, up to an entry with a
//! plausible header, a right checksum, a prevOffset that leads into the gap, and an entry after it
//! that points back to it. If bytes were inserted or are missing, all prevOffsets from there on are
//! wrong by the same number (`shift`): one break of the chain, not one per entry.

use crate::file::Source;
use crate::je::file::{Loaded, Stretch};
use crate::je::header::{FILE_HEADER_TYPE, MIN_SIZE, Rules};
use crate::je::notes::{Notes, Watch};
use crate::je::resync::{Bytes, Found, find_entry};
use crate::je::search::Searcher;
use crate::je::segments::Segments;
use crate::je::tally::{Programs, Tally, tally_sizes, tally_types};
use crate::je::walk::{
    ANY_FLAGS, Checksum, HeaderColumns, NO_OFFSET, RangeSummary, Stop, Walk, Window,
    checksum_of_entry,
};

/// Number of bytes of the entry at the start of a file.
pub const FILE_HEADER_SIZE: i64 = 38;

/// Number of candidates to try if nothing is known of the bytes before a range.
const LONE_TRIES: u32 = 256;

/// Largest number of damaged rows to report.
pub const BAD_KEPT: usize = 1000;

const HEADER: i64 = MIN_SIZE as i64;

/// Position between two entries of a file; see `reader.ReadState`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Offset of the next entry; [`NO_OFFSET`] if it is lost.
    pub at: i64,
    /// Offset of the last entry taken; [`NO_OFFSET`] before the first.
    pub last: i64,
    /// Number of bytes by which prevOffsets are too low.
    pub shift: i64,
    /// Start of a gap whose end has not been found; else [`NO_OFFSET`].
    pub lost_from: i64,
    /// True if any good entry is accepted that has a good one after it.
    pub relaxed: bool,
}

/// Range of a file to read, and options.
#[derive(Clone, Copy, Debug)]
pub struct Range {
    /// Offset from which entries may begin.
    pub start: i64,
    /// Offset before which entries must begin.
    pub stop: i64,
    /// Number of bytes of the file that are log.
    pub size: i64,
    /// Known position at the start; `None` to begin at the first certain entry.
    pub place: Option<Place>,
    /// True to verify checksums.
    pub check: bool,
    /// Number of bytes to load at once.
    pub window: i64,
    /// Number of bytes of long candidates that may be summed.
    pub budget: i64,
    /// Number of bytes to load beyond the window; also charged to the budget for each header read
    /// elsewhere.
    pub slack: i64,
}

/// Bytes [start, stop) without an entry that can be trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    /// Offset at which an entry should begin.
    pub start: i64,
    /// Offset of the next entry.
    pub stop: i64,
    /// [`SINGLE`], [`INSERTED`], both or neither.
    pub kind: i64,
}

/// Kind of a gap that is one entry: the entry after it points back to the start of the gap.
pub const SINGLE: i64 = 1;

/// Kind of a gap that never was an entry: the entry after it points back to the one before the gap.
pub const INSERTED: i64 = 2;

/// A good entry that does not point back to the one before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChainBreak {
    /// Offset of the entry.
    pub offset: i64,
    /// Expected prevOffset.
    pub expected: i64,
    /// Stored prevOffset.
    pub found: i64,
    /// Number of bytes by which the prevOffsets after it are too low.
    pub shift: i64,
}

/// Reason why [`Reader::step`] returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// This many rows of the columns are filled; their bytes are in the buffer.
    Rows(usize),
    /// The buffer must have this many bytes.
    Grow(usize),
    /// The range has been read.
    Done,
}

#[derive(Clone, Copy, Debug)]
enum Phase {
    Start,
    Begun,
    /// Looking for the first certain entry, with this many tries left.
    Alone(u32),
    Find,
    Walk,
    Done,
}

/// Bytes to load before reading continues.
#[derive(Clone, Copy, Debug)]
struct Load {
    at: i64,
    size: i64,
    /// Number of bytes of the entry at `at`, to be loaded even beyond the range.
    whole: i64,
    /// True if a search continues there, past bytes that are all zero.
    searches: bool,
}

/// Reader of the entries that begin in a range of one file.
#[derive(Debug)]
pub struct Reader {
    range: Range,
    search: Searcher,
    loaded: Loaded,
    phase: Phase,
    pending: Option<Load>,
    at: i64,
    lost: i64,
    expected: i64,
    n: usize,
    /// Offset and prevOffset of the first entry; [`NO_OFFSET`] if none begins in the range.
    pub first: (i64, i64),
    /// Gaps that were closed inside the range.
    pub gaps: Vec<Gap>,
    /// Breaks in the chain of prevOffsets.
    pub breaks: Vec<ChainBreak>,
    /// Offsets [start, stop) of rows whose checksum is wrong, the first [`BAD_KEPT`] of them.
    pub bad: Vec<(i64, i64)>,
    /// True if a search loaded the whole range at once and found only zeros.
    pub blank: bool,
    /// Summary of the rows returned last.
    pub survey: RangeSummary,
    /// Summary of the rows that were not returned, as no one asked for them.
    pub quiet: Box<Quiet>,
    /// Entries that were noted, returned or not.
    pub notes: Notes,
    /// Segments of transactions of all rows, returned or not, if they are wanted.
    pub segments: Option<Box<Segments>>,
    asked: Option<WantedEntries>,
    watch: Option<Box<Watch>>,
}

/// Selection of rows. A batch of some megabytes of log is returned in full if it has a selected or
/// a damaged row; otherwise only its summary is kept.
#[derive(Clone, Debug)]
pub struct WantedEntries {
    /// Types of which a single entry selects the batch.
    pub types: [bool; 256],
    /// Flags of which any selects the batch.
    pub flags: u8,
    /// True to tally the rows that are not returned, by type.
    pub is_tallied: bool,
    /// Programs that find keys and values, to tally these too.
    pub programs: Option<Programs>,
}

impl WantedEntries {
    fn wants(&self, survey: &RangeSummary) -> bool {
        let of_types = survey.counts.iter().zip(&self.types).any(|(&n, &asked)| asked && n > 0);
        survey.bad > 0 || survey.flags & self.flags != 0 || of_types
    }
}

/// Summary of all rows that were not returned.
#[derive(Clone, Debug, Default)]
pub struct Quiet {
    /// Counts, flags and offsets of the rows.
    pub survey: RangeSummary,
    /// Tally of the rows, if [`WantedEntries`] has programs.
    pub tally: Tally,
}

fn window_of<'a, S: Source>(file: &'a Stretch<'_, S>) -> Window<'a> {
    let base = u64::try_from(file.loaded.base).unwrap_or(0);
    Window { bytes: file.filled(), base }
}

type Stepped<S> = Result<(), <S as Source>::Error>;

impl Reader {
    /// Returns a reader that has read nothing.
    pub fn new(
        range: Range,
        rules: Rules,
        asked: Option<WantedEntries>,
        watch: Option<Box<Watch>>,
    ) -> Self {
        let known = range.place.unwrap_or(Place {
            at: NO_OFFSET,
            last: NO_OFFSET,
            shift: 0,
            lost_from: NO_OFFSET,
            relaxed: false,
        });
        let mut search = Searcher::new(range.size, rules, range.budget, range.slack);
        search.last = known.last;
        search.shift = known.shift;
        search.relaxed = known.relaxed;
        Self {
            range: Range { stop: range.stop.min(range.size), ..range },
            search,
            loaded: Loaded::default(),
            phase: Phase::Start,
            pending: None,
            at: known.at,
            lost: known.lost_from,
            expected: NO_OFFSET,
            n: 0,
            first: (NO_OFFSET, NO_OFFSET),
            gaps: Vec::new(),
            breaks: Vec::new(),
            bad: Vec::new(),
            blank: false,
            survey: RangeSummary::default(),
            quiet: Box::default(),
            notes: Notes::default(),
            segments: None,
            asked,
            watch,
        }
    }

    /// Returns the reader, which also collects segments of transactions.
    pub fn with_segments(self, segments: Option<Segments>) -> Self {
        Self { segments: segments.map(Box::new), ..self }
    }

    /// Returns the position at which reading continues.
    pub fn place(&self) -> Place {
        Place {
            at: self.at,
            last: self.search.last,
            shift: self.search.shift,
            lost_from: self.lost,
            relaxed: self.search.relaxed,
        }
    }

    /// Returns the file offset of the first byte in the buffer, and the number of bytes loaded.
    pub fn window(&self) -> (i64, usize) {
        (self.loaded.base, self.loaded.size)
    }

    /// Reads until rows must be taken, a longer buffer is needed, or the range ends.
    ///
    /// The buffer must keep its bytes between calls; the columns need not.
    ///
    /// # Errors
    ///
    /// Returns the error of a failed read.
    pub fn step<S: Source>(
        &mut self,
        source: &mut S,
        buffer: &mut [u8],
        columns: &mut HeaderColumns<'_>,
    ) -> Result<Event, S::Error> {
        let mut loaded = self.loaded.within(buffer.len());
        let mut file = Stretch { source, buffer, loaded: &mut loaded, file_size: self.range.size };
        let event = loop {
            match self.advance(&mut file, columns)? {
                None => {}
                Some(Event::Rows(0)) => break Event::Done,
                Some(Event::Rows(n)) => {
                    self.describe(columns, n);
                    self.n = 0;
                    if let Some(segments) = &mut self.segments {
                        segments.add(window_of(&file), columns.tallied(n));
                    }
                    if !self.keep_quiet(&file, columns, n) {
                        break Event::Rows(n);
                    }
                }
                Some(event) => break event,
            }
        };
        self.loaded = loaded;
        Ok(event)
    }

    fn advance<S: Source>(
        &mut self,
        file: &mut Stretch<'_, S>,
        columns: &mut HeaderColumns<'_>,
    ) -> Result<Option<Event>, S::Error> {
        if let Some(load) = self.pending {
            if self.n > 0 {
                return Ok(Some(Event::Rows(self.n)));
            }
            let stop = self.stop_of(load);
            let size = usize::try_from(stop - load.at.min(stop)).unwrap_or(0);
            if size > file.buffer.len() {
                return Ok(Some(Event::Grow(size)));
            }
            file.load(load.at, stop);
            self.search.begin_stretch(load.at, size);
            self.pending = None;
            if load.searches {
                self.pass_zeros(file)?;
            }
        }
        match self.phase {
            Phase::Start => self.start(),
            Phase::Begun => self.begin(file)?,
            Phase::Alone(tries) => self.find_alone(file, tries)?,
            Phase::Find => self.find_on(file)?,
            Phase::Walk => return self.walk_on(file, columns),
            Phase::Done if self.n > 0 => return Ok(Some(Event::Rows(self.n))),
            Phase::Done => return Ok(Some(Event::Done)),
        }
        Ok(None)
    }

    /// Adds rows to the summary of rows that are not wanted; returns false if they are wanted.
    fn keep_quiet<S: Source>(
        &mut self,
        file: &Stretch<'_, S>,
        columns: &HeaderColumns<'_>,
        n: usize,
    ) -> bool {
        let Some(asked) = self.asked.as_ref().filter(|asked| !asked.wants(&self.survey)) else {
            return false;
        };
        let rows = columns.tallied(n);
        if asked.is_tallied {
            tally_types(rows, &mut self.quiet.tally.types);
        }
        if let Some(programs) = &asked.programs {
            tally_sizes(window_of(file), rows, programs, &mut self.quiet.tally.sizes);
        }
        self.quiet.survey.add(&self.survey);
        true
    }

    /// Records the summary of the rows that are about to be returned.
    fn describe(&mut self, columns: &HeaderColumns<'_>, n: usize) {
        let allowed = self.watch.as_ref().map_or(&ANY_FLAGS, |watch| &watch.allowed);
        self.survey = RangeSummary::of(columns, n, allowed);
        if let Some(watch) = &self.watch {
            self.notes.add(watch, columns, n, &self.survey);
        }
        if self.first.0 == NO_OFFSET {
            self.first = (columns.offset[0].into(), columns.prev_offset[0].into());
        }
        if self.survey.bad > 0 {
            let room = BAD_KEPT.saturating_sub(self.bad.len());
            let is_bad = |&row: &usize| columns.checksum[row] == Checksum::Bad as u8;
            self.bad.extend((0..n).filter(is_bad).take(room).map(|row| {
                let start = i64::from(columns.offset[row]);
                let header = i64::from(columns.header_size[row]);
                (start, start + header + i64::from(columns.item_size[row]))
            }));
        }
    }

    fn stop_of(&self, load: Load) -> i64 {
        let Range { stop, slack, size, .. } = self.range;
        let wanted = stop.max(load.at.saturating_add(load.whole)).saturating_add(slack);
        load.at.saturating_add(load.size).min(size).min(wanted)
    }

    fn load(&mut self, at: i64, searches: bool) {
        let size = self.range.window.saturating_add(self.range.slack);
        self.pending = Some(Load { at, size, whole: 0, searches });
    }

    fn start(&mut self) {
        self.phase = Phase::Begun;
        if self.at == 0 {
            self.load(0, false);
        }
    }

    fn begin<S: Source>(&mut self, file: &mut Stretch<'_, S>) -> Stepped<S> {
        if self.at == 0 && !begins_file(file)? {
            self.lost = 0;
        }
        self.expected = self.search.expected();
        if self.range.place.is_none() {
            self.at = self.range.start;
            self.phase = Phase::Alone(LONE_TRIES);
        } else if self.lost != NO_OFFSET {
            self.at = self.range.start.max(self.lost.saturating_add(1));
            self.begin_search(file)?;
        } else {
            self.phase = if self.at == NO_OFFSET { Phase::Done } else { Phase::Walk };
        }
        Ok(())
    }

    /// Continues a search after the loaded bytes, if these are all zero.
    fn pass_zeros<S: Source>(&mut self, file: &mut Stretch<'_, S>) -> Stepped<S> {
        if file.is_blank()? {
            let stop = file.stop();
            self.blank |= self.loaded_from(file) == self.range.start && stop >= self.range.stop;
            self.at = stop - HEADER + 1;
        }
        Ok(())
    }

    fn loaded_from<S>(&self, file: &Stretch<'_, S>) -> i64 {
        file.loaded.base
    }

    /// Finds the next offset at which an entry may begin, and judges it.
    fn find<S: Source>(&mut self, file: &mut Stretch<'_, S>, lost: i64) -> Result<Found, S::Error> {
        let wanted = self.search.wanted(lost, self.range.stop);
        loop {
            let bytes =
                Bytes { read: file.filled(), size: file.loaded.size, base: file.loaded.base };
            let rules = self.search.rules;
            let (at, found) = find_entry(bytes, self.at, wanted, &rules, &mut self.search.budget);
            self.at = at;
            match found {
                Found::Unread(size) => file.fill(size)?,
                Found::Entry => {
                    self.search.note_sum(at);
                    return Ok(found);
                }
                _ => return Ok(found),
            }
        }
    }

    /// Returns true if a search continues in the loaded bytes; else schedules a load, or gives up.
    fn can_search<S>(&mut self, file: &Stretch<'_, S>) -> bool
    where
        S: Source,
    {
        if self.at >= self.range.stop {
            self.give_up();
            return false;
        }
        if file.index_of(self.at).is_some() {
            return true;
        }
        if self.at.saturating_add(HEADER) > self.range.size {
            self.give_up();
        } else {
            self.load(self.at, true);
        }
        false
    }

    fn give_up(&mut self) {
        self.at = NO_OFFSET;
        self.phase = Phase::Done;
    }

    /// Looks for the first good entry when nothing is known of the bytes before it.
    fn find_alone<S: Source>(&mut self, file: &mut Stretch<'_, S>, tries: u32) -> Stepped<S> {
        if tries == 0 {
            self.give_up();
            return Ok(());
        }
        if !self.can_search(file) {
            return Ok(());
        }
        let found = self.find(file, NO_OFFSET)?;
        if !matches!(found, Found::Entry | Found::Ask) {
            return Ok(());
        }
        // The place is checked first: it is cheap, while the checksum may take megabytes.
        if self.search.is_placed(file, self.at, NO_OFFSET)?
            && (found == Found::Entry || self.search.begins_chain(file, self.at)?)
        {
            self.phase = Phase::Walk;
            return Ok(());
        }
        self.at += 1;
        self.phase = Phase::Alone(tries - 1);
        Ok(())
    }

    fn begin_search<S: Source>(&mut self, file: &mut Stretch<'_, S>) -> Stepped<S> {
        self.phase = Phase::Find;
        self.search.sum_last(file)
    }

    /// Looks for the end of the gap, and closes it.
    fn find_on<S: Source>(&mut self, file: &mut Stretch<'_, S>) -> Stepped<S> {
        if !self.can_search(file) {
            return Ok(());
        }
        let found = self.find(file, self.lost)?;
        if !matches!(found, Found::Entry | Found::Ask) {
            return Ok(());
        }
        let is_good = found == Found::Entry || self.search.begins_chain(file, self.at)?;
        if !is_good || !self.search.is_placed(file, self.at, self.lost)? {
            self.at += 1;
            return Ok(());
        }
        let prev = self.search.prev_at(file, self.at)?;
        let Searcher { last, shift, .. } = self.search;
        let is_single = prev == self.lost || prev == self.lost.wrapping_sub(shift);
        let is_inserted = last != NO_OFFSET && (prev == last || prev == self.search.expected());
        let kind = if is_single { SINGLE } else { 0 } + if is_inserted { INSERTED } else { 0 };
        self.gaps.push(Gap { start: self.lost, stop: self.at, kind });
        self.lost = NO_OFFSET;
        self.expected = NO_OFFSET;
        self.phase = Phase::Walk;
        Ok(())
    }

    /// Walks as far as the chain can be trusted.
    fn walk_on<S: Source>(
        &mut self,
        file: &mut Stretch<'_, S>,
        columns: &mut HeaderColumns<'_>,
    ) -> Result<Option<Event>, S::Error> {
        if self.at < file.loaded.base || self.at >= file.stop() {
            // An entry at or after the limit is not loaded.
            if self.at < self.range.stop {
                self.load(self.at, false);
                return Ok(None);
            }
            self.phase = Phase::Done;
            return Ok(None);
        }
        let before = self.n;
        let (after, stop) = self.walk(file, columns)?;
        let has_grown = self.n > before;
        self.lost = self.lost_from(file, columns, before, after, stop)?;
        // If none was added, the last row may not be the entry that the next must point back to.
        if has_grown && self.n > 0 {
            self.search.last = columns.offset[self.n - 1].into();
            self.search.last_is_right = is_right(columns.checksum[self.n - 1]);
            self.expected = self.search.expected();
        }
        if self.lost != NO_OFFSET {
            self.at = self.lost + 1;
            self.begin_search(file)?;
            return Ok(None);
        }
        self.at = after;
        match stop {
            Stop::Limit => self.phase = Phase::Done,
            Stop::Chain => self.break_chain(file)?,
            Stop::NeedMore => {
                let whole = self.search.size_at(file, after)?;
                let size = whole.saturating_add(self.range.window);
                self.pending = Some(Load { at: after, size, whole, searches: false });
            }
            Stop::BadHeader | Stop::Rows => return Ok(Some(Event::Rows(self.n))),
        }
        Ok(None)
    }

    /// Fills free rows with entries, and sums these; returns the offset where it stopped, and why.
    fn walk<S: Source>(
        &mut self,
        file: &mut Stretch<'_, S>,
        columns: &mut HeaderColumns<'_>,
    ) -> Result<(i64, Stop), S::Error> {
        let rules = self.search.rules;
        let limit = u64::try_from(self.range.stop).unwrap_or(0);
        let at = u64::try_from(self.at).unwrap_or(0);
        let mut walk = Walk::new(at, self.expected, self.search.shift, self.n);
        let base = u64::try_from(file.loaded.base).unwrap_or(0);
        let stop = loop {
            let window = Window { bytes: file.filled(), base };
            let stop = walk.run(window, limit, &rules, columns, self.range.check);
            if stop != Stop::NeedMore {
                break stop;
            }
            let wanted = window.needed(walk.at, &rules);
            if wanted > file.loaded.size || !file.has_more() {
                break stop;
            }
            file.fill(wanted)?;
        };
        let after = i64::try_from(walk.at).unwrap_or(i64::MAX);
        if walk.row > self.n {
            self.n = walk.row;
            // `is_confirmed` sums an entry to which the one after it does not point back, on a
            // budget: its size may be garbage.
            if self.range.check {
                self.sum_last(file, columns, after)?;
            }
        }
        Ok((after, stop))
    }

    fn sum_last<S: Source>(
        &mut self,
        file: &mut Stretch<'_, S>,
        columns: &mut HeaderColumns<'_>,
        after: i64,
    ) -> Stepped<S> {
        let row = self.n - 1;
        let at = i64::from(columns.offset[row]);
        if self.search.leads_on(file, at, after)? {
            let base = file.loaded.base;
            let bounds = usize::try_from(at - base).ok().zip(usize::try_from(after - base).ok());
            let entry = bounds.and_then(|(start, stop)| file.filled().get(start..stop));
            columns.checksum[row] =
                checksum_of_entry(entry.unwrap_or_default(), &self.search.rules) as u8;
        }
        Ok(())
    }

    /// Returns the offset where the trusted chain ends, or [`NO_OFFSET`] if it continues at
    /// `after`.
    ///
    /// Removes the last new row if it is not good and the entry after it does not point back to it.
    fn lost_from<S: Source>(
        &mut self,
        file: &mut Stretch<'_, S>,
        columns: &mut HeaderColumns<'_>,
        before: usize,
        after: i64,
        stop: Stop,
    ) -> Result<i64, S::Error> {
        if self.n > before && !self.is_confirmed(file, columns, after)? {
            self.n -= 1;
            return Ok(columns.offset[self.n].into());
        }
        let is_lost = match stop {
            Stop::BadHeader => true,
            Stop::NeedMore => {
                after.saturating_add(HEADER) > self.range.size
                    || !self.is_worth_loading(file, after)?
            }
            Stop::Chain => {
                let last = match self.n {
                    0 => self.search.last,
                    n => columns.offset[n - 1].into(),
                };
                self.search.prev_at(file, after)? != last
                    && !self.search.sum_is_right(file, after)?
            }
            Stop::Limit | Stop::Rows => false,
        };
        Ok(if is_lost { after } else { NO_OFFSET })
    }

    /// Returns true if the checksum of the last row, or the entry after it, confirms it as an
    /// entry.
    fn is_confirmed<S: Source>(
        &mut self,
        file: &mut Stretch<'_, S>,
        columns: &mut HeaderColumns<'_>,
        after: i64,
    ) -> Result<bool, S::Error> {
        let row = self.n - 1;
        let state = columns.checksum[row];
        if state == Checksum::Ok as u8 || state == Checksum::None as u8 {
            return Ok(true);
        }
        let at = columns.offset[row].into();
        if self.search.leads_on(file, at, after)? {
            return Ok(true);
        }
        if !self.search.sum_is_right(file, at)? {
            return Ok(false);
        }
        if self.range.check {
            let is_erased = self.search.rules.erased_type == Some(columns.type_no[row]);
            let state = if is_erased { Checksum::None } else { Checksum::Ok };
            columns.checksum[row] = state as u8;
        }
        Ok(true)
    }

    /// Returns true if an entry that ends after the loaded bytes looks sound: a garbage size must
    /// not cause a load.
    fn is_worth_loading<S: Source>(
        &mut self,
        file: &mut Stretch<'_, S>,
        at: i64,
    ) -> Result<bool, S::Error> {
        let end = self.search.end_of(file, at)?;
        Ok(end <= file.stop()
            || self.search.leads_on(file, at, end)?
            || self.search.sum_is_right(file, at)?)
    }

    /// Records a break at the good entry here, unless it points back to the last entry after all.
    fn break_chain<S: Source>(&mut self, file: &mut Stretch<'_, S>) -> Stepped<S> {
        let prev = self.search.prev_at(file, self.at)?;
        let after = self.search.end_of(file, self.at)?;
        let last = self.search.last;
        self.search.shift = last.wrapping_sub(prev);
        if prev != last {
            // Whole entries may be missing, so only the entry after it shows the shift.
            if self.search.sum_is_right(file, after)? {
                self.search.shift = self.at - self.search.prev_at(file, after)?;
            }
            let shift = self.search.shift;
            self.breaks.push(ChainBreak { offset: self.at, expected: last, found: prev, shift });
        }
        self.expected = NO_OFFSET;
        Ok(())
    }
}

/// Returns whether a checksum was found right; `None` if it was not verified.
fn is_right(checksum: u8) -> Option<bool> {
    (checksum != Checksum::Unchecked as u8).then_some(checksum != Checksum::Bad as u8)
}

/// Returns true if the first entry looks like a file header, or if the file is too short for one.
fn begins_file<S: Source>(file: &mut Stretch<'_, S>) -> Result<bool, S::Error> {
    let Some(header) = file.header(0)? else { return Ok(true) };
    let size = HEADER.saturating_add(header.item_size.into());
    Ok(header.type_no == FILE_HEADER_TYPE && size == FILE_HEADER_SIZE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::je::testing::{self, FLAGS, Owned, RULES, random_log};
    use crate::testing::Memory;
    use proptest::prelude::*;

    /// Result of reading a range.
    #[derive(Debug, PartialEq, Eq)]
    struct Read {
        /// Start, stop and checksum of each row.
        rows: Vec<(i64, i64, u8)>,
        gaps: Vec<Gap>,
        breaks: Vec<ChainBreak>,
        place: Place,
        counts: Vec<i64>,
        bad: i64,
    }

    const AT_START: Place =
        Place { at: 0, last: NO_OFFSET, shift: 0, lost_from: NO_OFFSET, relaxed: false };

    fn range_of(log: &[u8], window: i64, slack: i64) -> Range {
        let size = log.len() as i64;
        Range {
            start: 0,
            stop: size,
            size,
            place: Some(AT_START),
            check: true,
            window,
            budget: 16 * window + size,
            slack,
        }
    }

    fn read(log: &[u8], range: Range, rows: usize, asked: Option<WantedEntries>) -> Read {
        read_by(Rules { file_size: log.len() as u64, ..RULES }, log, range, rows, asked)
    }

    fn read_by(
        rules: Rules,
        log: &[u8],
        range: Range,
        rows: usize,
        asked: Option<WantedEntries>,
    ) -> Read {
        let mut reader = Reader::new(range, rules, asked, None);
        let (mut source, mut columns) = (Memory(log), Owned::new(rows));
        let (mut buffer, mut found, mut survey) = (Vec::new(), Vec::new(), RangeSummary::default());
        loop {
            match reader.step(&mut source, &mut buffer, &mut columns.lend()) {
                Ok(Event::Grow(size)) => buffer.resize(size.max(buffer.len() + 1), 0xa5),
                Ok(Event::Rows(n)) => {
                    let lent = columns.lend();
                    for row in 0..n {
                        let start = i64::from(lent.offset[row]);
                        let size =
                            i64::from(lent.item_size[row]) + i64::from(lent.header_size[row]);
                        found.push((start, start + size, lent.checksum[row]));
                    }
                    survey.add(&reader.survey);
                }
                Ok(Event::Done) | Err(()) => break,
            }
        }
        survey.add(&reader.quiet.survey);
        Read {
            rows: found,
            gaps: reader.gaps.clone(),
            breaks: reader.breaks.clone(),
            place: reader.place(),
            counts: survey.counts.to_vec(),
            bad: survey.bad,
        }
    }

    /// Asserts that every byte lies in one row, one gap, or the tail.
    fn assert_covered(log: &[u8], read: &Read) {
        let mut spans: Vec<_> = read.rows.iter().map(|&(start, stop, _)| (start, stop)).collect();
        spans.extend(read.gaps.iter().map(|gap| (gap.start, gap.stop)));
        spans.sort_unstable();
        let mut at = 0;
        for (start, stop) in spans {
            assert_eq!(start, at);
            assert!(stop > start);
            at = stop;
        }
        let Place { at: next, lost_from, .. } = read.place;
        let tail = if lost_from == NO_OFFSET { next } else { lost_from };
        assert_eq!(tail, at);
        assert!(at <= log.len() as i64);
    }

    #[test]
    fn a_log_without_damage_is_rows() {
        let log = random_log(40, 7);
        let found = read(&log, range_of(&log, 1 << 20, 65536), 100, None);
        assert_eq!((found.rows.len(), found.gaps.len(), found.breaks.len()), (41, 0, 0));
        assert!(found.rows.iter().all(|row| row.2 != 0));
        assert_covered(&log, &found);
    }

    #[test]
    fn a_lost_header_is_a_gap_of_one_entry() {
        let mut log = random_log(40, 7);
        let whole = read(&log, range_of(&log, 1 << 20, 65536), 100, None);
        let (start, stop, _) = whole.rows[20];
        log[usize::try_from(start).unwrap() + 4] = 0;
        let found = read(&log, range_of(&log, 1 << 20, 65536), 100, None);
        assert_eq!(found.gaps, [Gap { start, stop, kind: SINGLE }]);
        assert_eq!(found.rows.len(), 40);
        assert_covered(&log, &found);
    }

    #[test]
    fn a_wrong_size_that_leads_to_bytes_that_point_back_hides_no_entry() {
        let mut log = random_log(40, 7);
        let whole = read(&log, range_of(&log, 1 << 20, 65536), 100, None);
        let is_roomy = |&&(start, stop, _): &&(i64, i64, u8)| start > 0 && stop - start > 60;
        let &(start, stop, _) = whole.rows.iter().find(is_roomy).unwrap();
        let at = usize::try_from(start).unwrap();
        log[at + 5] = 0;
        log[at + 10..at + 14].copy_from_slice(&8_i32.to_le_bytes());
        let behind = at + MIN_SIZE + 8;
        log[behind + 4..behind + 6].copy_from_slice(&[1, 0]);
        log[behind + 6..behind + 10].copy_from_slice(&u32::try_from(start).unwrap().to_le_bytes());
        log[behind + 10..behind + 14].copy_from_slice(&0_i32.to_le_bytes());
        let found = read(&log, range_of(&log, 1 << 20, 65536), 100, None);
        assert_eq!(found.gaps, [Gap { start: start + 22, stop, kind: INSERTED }]);
        assert_eq!((found.rows.len(), found.bad), (41, 1));
        assert_covered(&log, &found);
    }

    #[test]
    fn inserted_bytes_are_a_gap_and_move_what_follows() {
        let log = random_log(40, 7);
        let whole = read(&log, range_of(&log, 1 << 20, 65536), 100, None);
        let at = whole.rows[20].0;
        let (front, rest) = log.split_at(usize::try_from(at).unwrap());
        let log = [front, &[0x55; 9], rest].concat();
        // No entry after the gap fits its place, so weaker evidence is needed.
        let range = range_of(&log, 1 << 20, 65536);
        assert_eq!(read(&log, range, 100, None).place.lost_from, at);
        let place = Some(Place { relaxed: true, ..AT_START });
        let found = read(&log, Range { place, ..range }, 100, None);
        assert_eq!(found.gaps, [Gap { start: at, stop: at + 9, kind: INSERTED }]);
        assert_eq!(found.breaks.len(), 1);
        assert_eq!((found.breaks[0].shift, found.place.shift), (9, 9));
        assert_covered(&log, &found);
    }

    #[test]
    fn a_range_that_stands_alone_begins_at_a_certain_entry() {
        let log = random_log(40, 7);
        let whole = read(&log, range_of(&log, 1 << 20, 65536), 100, None);
        let range = Range { start: whole.rows[20].0 + 1, place: None, ..range_of(&log, 100, 22) };
        assert_eq!(read(&log, range, 100, None).rows, whole.rows[21..]);
    }

    proptest! {
        #[test]
        fn any_damage_leaves_every_byte_in_one_place(
            entries in 0_usize..30,
            seed in any::<u32>(),
            changes in proptest::collection::vec((any::<u16>(), any::<u8>()), 0..8),
            (window, slack) in (64_i64..2000, 22_i64..3000),
            rows in 1_usize..40,
            check in any::<bool>(),
            relaxed in any::<bool>(),
        ) {
            let mut log = random_log(entries, seed);
            let size = log.len();
            for (at, byte) in changes {
                log[usize::from(at) % size] = byte;
            }
            let place = Some(Place { relaxed, ..AT_START });
            let range = Range { check, place, ..range_of(&log, window, slack) };
            let found = read(&log, range, rows, None);
            assert_covered(&log, &found);
            prop_assert_eq!(found.counts.iter().sum::<i64>(), found.rows.len() as i64);
            let types = testing::no_types();
            let asked = WantedEntries { types, flags: FLAGS, is_tallied: true, programs: Some(testing::programs()) };
            let some = read(&log, range, rows, Some(asked));
            prop_assert_eq!((some.counts, some.bad), (found.counts, found.bad));
            prop_assert_eq!((some.gaps, some.place), (found.gaps, found.place));
        }

        #[test]
        fn any_bytes_from_any_place(
            log in proptest::collection::vec(any::<u8>(), 0..600),
            (start, stop) in (0_i64..700, 0_i64..700),
            (at, last, lost_from) in (-1_i64..700, -1_i64..700, -1_i64..700),
            shift in -(1_i64 << 40)..1 << 40,
            (alone, relaxed, check) in any::<(bool, bool, bool)>(),
            (window, slack, rows) in (1_i64..300, 22_i64..300, 1_usize..9),
            wild in any::<[bool; 3]>(),
            budget in prop_oneof![0_i64..2_000, Just(i64::MAX)],
            (vlsn_mask, summed_flags, erased_type) in any::<(u8, u8, Option<u8>)>(),
            file_size in prop_oneof![0_u64..700, any::<u64>()],
        ) {
            let place = Place { at, last, shift, lost_from, relaxed };
            let place = (!alone).then_some(place);
            let range = Range { start, stop, place, check, ..range_of(&log, window, slack) };
            read(&log, range, rows, None);
            let [window, slack, stop] = [(window, 0), (slack, 1), (stop, 2)]
                .map(|(number, is_wild)| if wild[is_wild] { i64::MAX } else { number });
            let range = Range { window, slack, stop, budget, ..range };
            let rules = Rules { vlsn_mask, summed_flags, erased_type, file_size };
            read_by(rules, &log, range, rows, None);
        }
    }
}
