//! The bytes of one file as a reader sees them: a stretch that is loaded, and single looks outside.
//!
//! A stretch is loaded at once by its bounds and read piece by piece, so that bytes are summed
//! while they are in the core's cache.

use crate::adler;
use crate::je::header::{Header, MIN_SIZE, SUMMED_FROM};

/// A file to read from.
pub trait Source {
    /// Why it cannot be read.
    type Error;

    /// Fill `into` with the bytes of the file from offset `at` on.
    ///
    /// # Errors
    ///
    /// The file cannot be read any more. A sector that the device does not deliver is no error, it
    /// reads as zeros.
    fn read(&mut self, into: &mut [u8], at: u64) -> Result<(), Self::Error>;
}

/// Bytes that are read at once: they stay in the core's second cache until they are summed.
const PIECE: usize = 256 << 10;

/// Bytes of an entry outside of what is loaded that are summed at once.
const SUM_PIECE: i64 = 1 << 20;

/// Which bytes of a file are loaded.
#[derive(Clone, Copy, Debug, Default)]
pub struct Loaded {
    /// Offset in the file of the first of them.
    pub base: i64,
    /// How many.
    pub size: usize,
    /// How many have been read.
    filled: usize,
}

/// A file, and the stretch of it that is in a buffer.
#[derive(Debug)]
pub struct Stretch<'a, S> {
    /// The file.
    pub source: &'a mut S,
    /// Where bytes are read to; longer than the stretch.
    pub buffer: &'a mut [u8],
    /// The stretch.
    pub loaded: &'a mut Loaded,
    /// Bytes of the file that are log.
    pub file_size: i64,
}

impl Loaded {
    /// Return the same for a buffer of so many bytes: they are not to be indexed outside of it.
    pub fn within(self, size: usize) -> Self {
        let size = self.size.min(size);
        Self { size, filled: self.filled.min(size), ..self }
    }
}

impl<S: Source> Stretch<'_, S> {
    /// Load [`at`, `stop`) in place of what is loaded; the buffer is long enough.
    pub fn load(&mut self, at: i64, stop: i64) {
        let wanted = usize::try_from(stop.saturating_sub(at)).unwrap_or(0);
        *self.loaded = Loaded { base: at, size: wanted.min(self.buffer.len()), filled: 0 };
    }

    /// Return the offset after the last byte that is loaded.
    pub fn stop(&self) -> i64 {
        // A buffer has fewer bytes than an i64 counts.
        self.loaded.base.saturating_add(self.loaded.size as i64)
    }

    /// Return the bytes that have been read.
    pub fn filled(&self) -> &[u8] {
        &self.buffer[..self.loaded.filled]
    }

    /// Return whether bytes that are loaded have not been read yet.
    pub fn has_more(&self) -> bool {
        self.loaded.filled < self.loaded.size
    }

    /// Read on for a piece, or as far as `wanted` bytes if that is more.
    ///
    /// # Errors
    ///
    /// Those of the source.
    pub fn fill(&mut self, wanted: usize) -> Result<(), S::Error> {
        let Loaded { base, size, filled } = *self.loaded;
        let stop = wanted.max(filled.saturating_add(PIECE)).min(size);
        if let (Some(into), Ok(at)) = (self.buffer.get_mut(filled..stop), u64::try_from(base)) {
            self.source.read(into, at.saturating_add(filled as u64))?;
            self.loaded.filled = stop;
        }
        Ok(())
    }

    /// Return the index in the buffer of a header at `at`, if it is loaded.
    pub fn index_of(&self, at: i64) -> Option<usize> {
        let index = usize::try_from(at.checked_sub(self.loaded.base)?).ok()?;
        (index.checked_add(MIN_SIZE)? <= self.loaded.size).then_some(index)
    }

    /// Return the fixed fields of the header at `at`; `None` if the file ends before their end.
    ///
    /// # Errors
    ///
    /// Those of the source.
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

    /// Return the checksum of the entry [`at`, `stop`), which lies in the file.
    ///
    /// # Errors
    ///
    /// Those of the source.
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

    /// Return whether all that is loaded is zero.
    ///
    /// # Errors
    ///
    /// Those of the source.
    pub fn is_blank(&mut self) -> Result<bool, S::Error> {
        let mut seen = 0;
        loop {
            if self.filled()[seen..].iter().any(|&byte| byte != 0) {
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
