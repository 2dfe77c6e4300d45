//! Pages that a replay keeps: as they are, or packed.
//!
//! A record of 45 bytes makes a page of 4,096 bytes or more, nearly all of them zeros. So the bytes
//! of plain pages are limited in proportion to those of the log, and all pages are packed before
//! the limit is exceeded.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use crate::ignite::page_packing::{pack, unpack_packed};
use crate::ignite::replay::Place;

/// Bytes of plain pages that are kept in any case.
const PLAIN_MIN: usize = 64 << 20;

/// Bytes of plain pages that are kept for each byte of the log.
const PLAIN_SHARE: usize = 2;

/// A page that is kept.
#[derive(Debug)]
pub struct Kept {
    /// Its bytes; fewer than a page if they are packed.
    bytes: Box<[u8]>,
    /// True if it was not opened since all pages were packed.
    is_closed: bool,
    /// True if its content is not known.
    pub is_broken: bool,
}

impl Kept {
    /// Returns the bytes of a page that is open.
    pub fn bytes(&mut self) -> &mut [u8] {
        &mut self.bytes
    }

    /// Makes a page plain; returns true if that is the first time since all were packed.
    fn open(&mut self, page_size: usize) -> bool {
        if self.bytes.len() < page_size {
            match unpack_packed(&self.bytes, page_size) {
                Some(page) => self.bytes = page.into_boxed_slice(),
                None => {
                    self.bytes = vec![0; page_size].into_boxed_slice();
                    self.is_broken = true;
                }
            }
        }
        std::mem::take(&mut self.is_closed)
    }

    fn close(&mut self) {
        if self.is_closed {
            return;
        }
        self.is_closed = true;
        if let Some(packed) = pack(&self.bytes) {
            self.bytes = packed.into_boxed_slice();
        }
    }
}

/// Pages by their places.
#[derive(Debug)]
pub struct KeptPages {
    page_size: usize,
    pages: BTreeMap<Place, Kept>,
    /// Number of pages that were opened since all were packed.
    opened: usize,
    /// Bytes of plain pages that may be opened before all are packed.
    room: usize,
}

impl KeptPages {
    /// Returns an empty set of pages of a size.
    pub fn new(page_size: usize) -> Self {
        Self { page_size, pages: BTreeMap::new(), opened: 0, room: PLAIN_MIN }
    }

    /// Adds bytes of the log that were read.
    pub fn add_read(&mut self, size: usize) {
        self.room = self.room.saturating_add(size.saturating_mul(PLAIN_SHARE));
    }

    /// Returns the number of pages.
    pub fn count(&self) -> usize {
        self.pages.len()
    }

    /// Returns true if there is a page at a place.
    pub fn has(&self, place: Place) -> bool {
        self.pages.contains_key(&place)
    }

    /// Returns a page to be changed; `None` if there is none at a place.
    pub fn open(&mut self, place: Place) -> Option<&mut Kept> {
        self.make_room();
        let kept = self.pages.get_mut(&place)?;
        self.opened += usize::from(kept.open(self.page_size));
        Some(kept)
    }

    /// Returns a page to be changed; a missing one is made of zeros, and is broken.
    pub fn open_or_make(&mut self, place: Place) -> &mut Kept {
        self.make_room();
        let bytes = || vec![0; self.page_size].into_boxed_slice();
        let made = || Kept { bytes: bytes(), is_closed: true, is_broken: true };
        let kept = self.pages.entry(place).or_insert_with(made);
        self.opened += usize::from(kept.open(self.page_size));
        kept
    }

    fn make_room(&mut self) {
        if self.opened.saturating_mul(self.page_size) < self.room {
            return;
        }
        for kept in self.pages.values_mut() {
            kept.close();
        }
        self.opened = 0;
    }

    /// Removes the pages at some places.
    pub fn remove(&mut self, places: RangeInclusive<Place>) {
        let gone: Vec<_> = self.pages.range(places).map(|(&place, _)| place).collect();
        for place in gone {
            self.pages.remove(&place);
        }
    }

    /// Returns the places of all pages in order, and whether each is broken.
    pub fn places(&self) -> impl Iterator<Item = (Place, bool)> + '_ {
        self.pages.iter().map(|(&place, kept)| (place, kept.is_broken))
    }

    /// Returns the whole pages at some places in order; those with fewer bytes are packed.
    pub fn whole(&self, places: RangeInclusive<Place>) -> impl Iterator<Item = (Place, &[u8])> {
        let pages = self.pages.range(places).filter(|(_, kept)| !kept.is_broken);
        pages.map(|(&place, kept)| (place, &kept.bytes[..]))
    }

    #[cfg(test)]
    pub(crate) fn size(&self) -> usize {
        self.pages.values().map(|kept| kept.bytes.len()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: usize = 4096;

    fn place(index: u32) -> Place {
        Place { group: 1, partition: 2, index }
    }

    #[test]
    fn many_nearly_empty_pages_take_little_memory() {
        let mut pages = KeptPages::new(SIZE);
        let count = 3 * (PLAIN_MIN / SIZE) as u32;
        for index in 0..count {
            let kept = pages.open_or_make(place(index));
            kept.bytes()[..4].copy_from_slice(&index.to_le_bytes());
            kept.is_broken = false;
        }
        assert!(pages.size() < PLAIN_MIN + count as usize * 64, "{}", pages.size());
        for index in [0, count / 2, count - 1] {
            let kept = pages.open(place(index)).unwrap();
            assert_eq!((kept.bytes().len(), &kept.bytes[..4]), (SIZE, &index.to_le_bytes()[..]));
        }
        assert_eq!(pages.whole(place(0)..=place(count)).count(), count as usize);
    }

    #[test]
    fn pages_of_a_large_log_stay_plain() {
        let mut pages = KeptPages::new(SIZE);
        let count = 2 * (PLAIN_MIN / SIZE) as u32;
        for index in 0..count {
            pages.add_read(SIZE);
            pages.open_or_make(place(index));
        }
        assert_eq!(pages.size(), count as usize * SIZE);
    }
}
