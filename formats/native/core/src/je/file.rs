//! The bytes of one file as a reader sees them: a loaded stretch, and single reads outside it.
//!
//! Loading a stretch sets its bounds. It is then read in pieces, so that bytes are summed while
//! they are in the CPU cache.

use crate::adler;
use crate::bytes::are_zero;
use crate::file::{PIECE, Source};
use crate::je::header::{Header, MIN_SIZE, SUMMED_FROM};

/// Number of bytes to sum at once of an entry outside the stretch.
const SUM_PIECE: i64 = 1 << 20;

/// Bounds of the bytes of a file that are loaded.
#[derive(Clone, Copy, Debug, Default)]
pub struct Loaded {
    /// File offset of the first byte.
    pub base: i64,
    /// Number of bytes.
    pub size: usize,
    /// Number of bytes read so far.
    filled: usize,
}

/// A file, and the stretch of it that is in a buffer.
#[derive(Debug)]
pub struct Stretch<'a, S> {
    /// The file.
    pub source: &'a mut S,
    /// Buffer that bytes are read into; at least as long as the stretch.
    pub buffer: &'a mut [u8],
    /// The stretch.
    pub loaded: &'a mut Loaded,
    /// Number of bytes of the file that are log.
    pub file_size: i64,
}

impl Loaded {
    /// Returns the bounds, cut to a buffer of `size` bytes so that indexes stay inside it.
    pub fn within(self, size: usize) -> Self {
        let size = self.size.min(size);
        Self { size, filled: self.filled.min(size), ..self }
    }
}

impl<S: Source> Stretch<'_, S> {
    /// Loads [`at`, `stop`) in place of the current stretch; the buffer must be long enough.
    pub fn load(&mut self, at: i64, stop: i64) {
        let wanted = usize::try_from(stop.saturating_sub(at)).unwrap_or(0);
        *self.loaded = Loaded { base: at, size: wanted.min(self.buffer.len()), filled: 0 };
    }

    /// Returns the offset after the last loaded byte.
    pub fn stop(&self) -> i64 {
        // An i64 holds the length of any buffer.
        self.loaded.base.saturating_add(self.loaded.size as i64)
    }

    /// Returns the bytes read so far.
    pub fn filled(&self) -> &[u8] {
        &self.buffer[..self.loaded.filled]
    }

    /// Returns true if some loaded bytes have not been read yet.
    pub fn has_more(&self) -> bool {
        self.loaded.filled < self.loaded.size
    }

    /// Reads the next piece, or up to `wanted` bytes if that is more.
    ///
    /// # Errors
    ///
    /// Returns the error of a failed read.
    pub fn fill(&mut self, wanted: usize) -> Result<(), S::Error> {
        let Loaded { base, size, filled } = *self.loaded;
        let stop = wanted.max(filled.saturating_add(PIECE)).min(size);
        if let (Some(into), Ok(at)) = (self.buffer.get_mut(filled..stop), u64::try_from(base)) {
            self.source.read(into, at.saturating_add(filled as u64))?;
            self.loaded.filled = stop;
        }
        Ok(())
    }

    /// Returns the index in the buffer of a header at `at`, if it is loaded.
    pub fn index_of(&self, at: i64) -> Option<usize> {
        let index = usize::try_from(at.checked_sub(self.loaded.base)?).ok()?;
        (index.checked_add(MIN_SIZE)? <= self.loaded.size).then_some(index)
    }

    /// Returns the fixed fields of the header at `at`; `None` if the file ends inside them.
    ///
    /// # Errors
    ///
    /// Returns the error of a failed read.
    pub fn header(&mut self, at: i64) -> Result<Option<Header>, S::Error> {
        if let Some(index) = self.index_of(at) {
            if index + MIN_SIZE > self.loaded.filled {
                self.fill(index + MIN_SIZE)?;
            }
            return Ok(Header::read(self.filled(), index));
        }
        let Ok(from) = u64::try_from(at) else { return Ok(None) };
        if at.saturating_add(MIN_SIZE as i64) > self.file_size {
            return Ok(None);
        }
        let mut raw = [0; MIN_SIZE];
        self.source.read(&mut raw, from)?;
        Ok(Header::read(&raw, 0))
    }

    /// Returns the checksum of the entry [`at`, `stop`), which must lie in the file.
    ///
    /// # Errors
    ///
    /// Returns the error of a failed read.
    pub fn sum(&mut self, at: i64, stop: i64, summed_flags: u8) -> Result<u32, S::Error> {
        let index = usize::try_from(at.saturating_sub(self.loaded.base)).ok();
        if let (Some(index), true) = (index, stop <= self.stop()) {
            let end = index.saturating_add(usize::try_from(stop.saturating_sub(at)).unwrap_or(0));
            if end > self.loaded.filled {
                self.fill(end)?;
            }
            let summed = self.filled().get(index.saturating_add(SUMMED_FROM)..end);
            return Ok(adler::of_masked(summed.unwrap_or_default(), summed_flags));
        }
        self.sum_outside(at, stop, summed_flags)
    }

    fn sum_outside(&mut self, at: i64, stop: i64, summed_flags: u8) -> Result<u32, S::Error> {
        let mut piece = Vec::new();
        let mut state = None;
        let mut start = at.saturating_add(SUMMED_FROM as i64);
        while start < stop {
            let end = start.saturating_add(SUM_PIECE).min(stop);
            piece.resize(usize::try_from(end - start).unwrap_or(0), 0);
            self.source.read(&mut piece, u64::try_from(start).unwrap_or(0))?;
            state = Some(match state {
                None => adler::of_masked(&piece, summed_flags),
                Some(before) => adler::of(before, &piece),
            });
            start = end;
        }
        Ok(state.unwrap_or(1))
    }

    /// Returns true if all loaded bytes are zero.
    ///
    /// # Errors
    ///
    /// Returns the error of a failed read.
    pub fn is_blank(&mut self) -> Result<bool, S::Error> {
        let mut seen = 0;
        loop {
            if !are_zero(&self.filled()[seen..]) {
                return Ok(false);
            }
            seen = self.loaded.filled;
            if !self.has_more() {
                return Ok(true);
            }
            self.fill(0)?;
        }
    }
}
