//! A range of a log file as rows, and the way on after damage.
//!
//! Entries are trusted in this order: the checksum is right; else the entry after it names this
//! one as the one before it (a damaged entry, still a row); else what follows is a gap, up to an
//! entry with a plausible header, a right checksum, a prevOffset that leads into the gap, and an
//! entry after it that names it. Where bytes were inserted or are missing, prevOffsets are wrong
//! by the same number from there on (`shift`), which is one break of the chain and not one an
//! entry.

use crate::je::file::{Loaded, Source, Stretch};
use crate::je::header::{FILE_HEADER_TYPE, MIN_SIZE, Rules};
use crate::je::resync::{Bytes, Found, Wanted, find_entry};
use crate::je::search::Searcher;
use crate::je::tally::{Programs, Tally, tally_sizes, tally_types};
use crate::je::walk::{
    Checksum, HeaderColumns, NO_OFFSET, Stop, Survey, Walk, Window, checksum_of_entry,
};

/// Bytes of the entry at the start of a file.
pub const FILE_HEADER_SIZE: i64 = 38;

/// How many candidates are weighed where nothing is known of the bytes before a range.
const LONE_TRIES: u32 = 256;

/// How many ranges of damaged rows are told.
pub const BAD_KEPT: usize = 1000;

const HEADER: i64 = MIN_SIZE as i64;

/// Where reading a file stands between two entries; `reader.Place` says more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Where the next entry begins; [`NO_OFFSET`] when that is lost.
    pub at: i64,
    /// Offset of the last entry taken; [`NO_OFFSET`] before the first.
    pub last: i64,
    /// By how much entries name the ones before them too low.
    pub shift: i64,
    /// Where the entry should begin after which nothing was found; else [`NO_OFFSET`].
    pub lost_from: i64,
    /// Any good entry is taken that has a good one after it.
    pub relaxed: bool,
}

/// What is read of a file, and how.
#[derive(Clone, Copy, Debug)]
pub struct Range {
    /// Where entries may begin.
    pub start: i64,
    /// Where they no longer may.
    pub stop: i64,
    /// Bytes of the file that are log.
    pub size: i64,
    /// What is known of the bytes before; `None` to begin at the first certain entry.
    pub place: Option<Place>,
    /// Whether entries are summed.
    pub check: bool,
    /// Bytes to load at once.
    pub window: i64,
    /// Bytes that may be summed in vain.
    pub budget: i64,
    /// Bytes to load besides, and what a look at a header elsewhere takes from the budget.
    pub slack: i64,
}

/// Bytes [start, stop) that hold no entry that can be trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    /// Where an entry should begin.
    pub start: i64,
    /// Where the next one does.
    pub stop: i64,
    /// [`SINGLE`], [`INSERTED`], both or neither.
    pub kind: i64,
}

/// The gap is one entry: the entry after it names its start as the one before it.
pub const SINGLE: i64 = 1;

/// The gap never was an entry: the entry after it names the one in front of the gap.
pub const INSERTED: i64 = 2;

/// A good entry that does not name the one before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChainBreak {
    /// Where it begins.
    pub offset: i64,
    /// What it should name.
    pub expected: i64,
    /// What it names.
    pub found: i64,
    /// By how much the entries after it name those before them too low.
    pub shift: i64,
}

/// Why [`Reader::step`] returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The first rows of the columns are filled; their bytes are in the buffer.
    Rows(usize),
    /// The buffer must have so many bytes.
    Grow(usize),
    /// The range has been read.
    Done,
}

#[derive(Clone, Copy, Debug)]
enum Phase {
    Start,
    Begun,
    /// Looking for the first certain entry, for so many tries.
    Alone(u32),
    Find,
    Walk,
    Done,
}

/// Bytes that are to be loaded before reading goes on.
#[derive(Clone, Copy, Debug)]
struct Load {
    at: i64,
    size: i64,
    /// Bytes of an entry at `at` that are wanted in any case.
    whole: i64,
    /// Whether a search goes on there, after bytes that are all zero.
    searches: bool,
}

/// Reads the entries that begin in a range of one file.
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
    /// Offset of the first entry and its prevOffset; [`NO_OFFSET`] where the range begins none.
    pub first: (i64, i64),
    /// The gaps that were closed inside the range.
    pub gaps: Vec<Gap>,
    /// Where the chain of prevOffsets was broken.
    pub breaks: Vec<ChainBreak>,
    /// Half-open ranges of rows whose checksum is wrong, the first [`BAD_KEPT`] of them.
    pub bad: Vec<(i64, i64)>,
    /// Whether nothing but zeros was seen from the start of the range.
    pub blank: bool,
    /// What the rows are that were returned last.
    pub survey: Survey,
    /// What the rows are that were not returned, as nobody asked for them.
    pub quiet: Box<Quiet>,
    asked: Option<Asked>,
}

/// Which rows are wanted; of others, some megabytes of log at a time, only the survey is.
#[derive(Clone, Debug)]
pub struct Asked {
    /// The types of which a single entry makes the rows around it wanted.
    pub types: [bool; 256],
    /// Flags of which any does.
    pub flags: u8,
    /// How keys and values are found, to tally rows that are not wanted.
    pub programs: Option<Programs>,
}

impl Asked {
    fn wants(&self, survey: &Survey) -> bool {
        let of_types = survey.counts.iter().zip(&self.types).any(|(&n, &asked)| asked && n > 0);
        survey.bad > 0 || survey.flags & self.flags != 0 || of_types
    }
}

/// Rows that are not wanted, all taken together.
#[derive(Clone, Debug, Default)]
pub struct Quiet {
    /// What they are.
    pub survey: Survey,
    /// Their bytes, if these are asked for.
    pub tally: Tally,
}

type Stepped<S> = Result<(), <S as Source>::Error>;

impl Reader {
    /// Return a reader that has read nothing.
    pub fn new(range: Range, rules: Rules, asked: Option<Asked>) -> Self {
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
            survey: Survey::default(),
            quiet: Box::default(),
            asked,
        }
    }

    /// Return where reading goes on.
    pub fn place(&self) -> Place {
        Place {
            at: self.at,
            last: self.search.last,
            shift: self.search.shift,
            lost_from: self.lost,
            relaxed: self.search.relaxed,
        }
    }

    /// Return the offset of the first byte in the buffer, and how many bytes are there.
    pub fn window(&self) -> (i64, usize) {
        (self.loaded.base, self.loaded.size)
    }

    /// Read on until rows must be taken, a longer buffer is needed, or the range ends.
    ///
    /// The buffer keeps its bytes from call to call, the columns do not.
    ///
    /// # Errors
    ///
    /// Those of the source.
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

    /// Add rows to those of which only the survey is told; return false if they are asked for.
    fn keep_quiet<S: Source>(
        &mut self,
        file: &Stretch<'_, S>,
        columns: &HeaderColumns<'_>,
        n: usize,
    ) -> bool {
        let Some(asked) = self.asked.as_ref().filter(|asked| !asked.wants(&self.survey)) else {
            return false;
        };
        if let Some(programs) = &asked.programs {
            let base = u64::try_from(file.loaded.base).unwrap_or(0);
            let window = Window { bytes: file.filled(), base };
            let rows = columns.tallied(n);
            tally_types(rows, &mut self.quiet.tally.types);
            tally_sizes(window, rows, programs, &mut self.quiet.tally.sizes);
        }
        self.quiet.survey.add(&self.survey);
        true
    }

    /// Note what the rows show that are about to be returned.
    fn describe(&mut self, columns: &HeaderColumns<'_>, n: usize) {
        self.survey = Survey::of(columns, n);
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
            self.phase = Phase::Find;
        } else {
            self.phase = if self.at == NO_OFFSET { Phase::Done } else { Phase::Walk };
        }
        Ok(())
    }

    /// Go on with a search behind the bytes that are loaded, if these are all zero.
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

    /// Look at the next place where an entry may begin; return whether there is a good one.
    fn find<S: Source>(&mut self, file: &mut Stretch<'_, S>, lost: i64) -> Result<Found, S::Error> {
        let (low, high) = self.search.prev_bounds(lost);
        let wanted = Wanted { limit: self.range.stop, low, high };
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

    /// Return whether a search goes on in what is loaded; else load, or give up.
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

    /// Look for the first good entry where nothing is known of the bytes before it.
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
        // Its place is told at once, but its sum may take megabytes.
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

    /// Look for the end of the gap, and close it.
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

    /// Walk as far as the chain can be trusted.
    fn walk_on<S: Source>(
        &mut self,
        file: &mut Stretch<'_, S>,
        columns: &mut HeaderColumns<'_>,
    ) -> Result<Option<Event>, S::Error> {
        if self.at < file.loaded.base || self.at >= file.stop() {
            // What lies at the limit or after it is not loaded.
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
        // Where none was taken, the last one may not be what the next one has to name.
        if has_grown && self.n > 0 {
            self.search.last = columns.offset[self.n - 1].into();
            self.expected = self.search.expected();
        }
        if self.lost != NO_OFFSET {
            self.at = self.lost + 1;
            self.phase = Phase::Find;
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

    /// Walk into the free rows, and sum; return where it stopped, and why.
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
            // An entry that the one after it does not name is summed by `is_confirmed`, on a
            // budget: its size may be wild.
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

    /// Return where the trusted chain ends, or [`NO_OFFSET`] when `after` is a good place to go on.
    ///
    /// Of the new rows the last is taken back when it is not good and the entry after it does not
    /// name it.
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

    /// Return whether the last row is an entry: by its checksum, or by the entry after it.
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

    /// Return whether an entry that ends after what is loaded is sound: a wild size costs no
    /// reading.
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

    /// Note that the good entry here does not name the last one, unless it does again.
    fn break_chain<S: Source>(&mut self, file: &mut Stretch<'_, S>) -> Stepped<S> {
        let prev = self.search.prev_at(file, self.at)?;
        let after = self.search.end_of(file, self.at)?;
        let last = self.search.last;
        self.search.shift = last.wrapping_sub(prev);
        if prev != last {
            // Whole entries may be missing, so only the one after it tells by how much it is
            // moved.
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

/// Return whether the first entry looks like a file header, so that the next one is after it.
fn begins_file<S: Source>(file: &mut Stretch<'_, S>) -> Result<bool, S::Error> {
    let Some(header) = file.header(0)? else { return Ok(true) };
    let size = HEADER.saturating_add(header.item_size.into());
    Ok(header.type_no == FILE_HEADER_TYPE && size == FILE_HEADER_SIZE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::je::testing::{self, FLAGS, Memory, Owned, RULES, random_log};
    use proptest::prelude::*;

    /// What a range has shown.
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

    fn read(log: &[u8], range: Range, rows: usize, asked: Option<Asked>) -> Read {
        read_by(Rules { file_size: log.len() as u64, ..RULES }, log, range, rows, asked)
    }

    fn read_by(rules: Rules, log: &[u8], range: Range, rows: usize, asked: Option<Asked>) -> Read {
        let mut reader = Reader::new(range, rules, asked);
        let (mut source, mut columns) = (Memory(log), Owned::new(rows));
        let (mut buffer, mut found, mut survey) = (Vec::new(), Vec::new(), Survey::default());
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

    /// Assert that every byte lies in one row, one gap, or the tail.
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
    fn inserted_bytes_are_a_gap_and_move_what_follows() {
        let log = random_log(40, 7);
        let whole = read(&log, range_of(&log, 1 << 20, 65536), 100, None);
        let at = whole.rows[20].0;
        let (front, rest) = log.split_at(usize::try_from(at).unwrap());
        let log = [front, &[0x55; 9], rest].concat();
        // Nothing after the gap fits its place, so that it takes weaker evidence.
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
            let asked = Asked { types, flags: FLAGS, programs: Some(testing::programs()) };
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
