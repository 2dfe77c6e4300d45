//! Pages of an image at any place, each checked once.

use crate::ignite::order::Order;
use crate::ignite::page_image::{PageFault, PageImage};

const UNCHECKED: u8 = u8::MAX;

/// Number of unpacked pages that are kept.
const KEPT: usize = 1024;

/// What is known of the pages of an image, and the last ones that were unpacked.
///
/// Takes a byte for each page of the image, and some megabytes if pages are compressed.
#[derive(Debug, Default)]
pub struct PageReader {
    /// A `PageFault` or 0 for each page that was read.
    verdicts: Vec<u8>,
    unpacked: Vec<Option<(u32, Vec<u8>)>>,
}

impl PageReader {
    /// Returns a reader of an image.
    pub fn new(image: &PageImage<'_>) -> Self {
        let count = image.place_count();
        Self { verdicts: vec![UNCHECKED; count], unpacked: Vec::new() }
    }

    /// Returns a reader of an image whose pages were checked: a `PageFault` or 0 for each.
    pub fn checked(image: &PageImage<'_>, verdicts: &[u8]) -> Self {
        let mut reader = Self::new(image);
        for (verdict, known) in reader.verdicts.iter_mut().zip(verdicts) {
            *verdict = *known;
        }
        reader
    }

    /// Returns a page, whole and plain; `image` is that of `new`.
    pub fn page<'s>(
        &'s mut self,
        image: &PageImage<'s>,
        index: u32,
    ) -> Result<&'s [u8], PageFault> {
        if let Some(page) = image.changed(index) {
            return Ok(page);
        }
        let place = image.place_of(index).ok_or(PageFault::Absent)?;
        let verdict = self.verdicts.get_mut(place).ok_or(PageFault::Absent)?;
        if *verdict == UNCHECKED {
            *verdict = image.check(index).err().map_or(0, |fault| fault as u8);
        }
        if let Some(fault) = PageFault::of(*verdict) {
            return Err(fault);
        }
        match image.plain(index) {
            Some(page) => Ok(page),
            None => self.unpack(image, index, place),
        }
    }

    fn unpack<'s>(
        &'s mut self,
        image: &PageImage<'s>,
        index: u32,
        place: usize,
    ) -> Result<&'s [u8], PageFault> {
        self.unpacked.resize_with(KEPT, || None);
        let Some(slot) = self.unpacked.get_mut(place % KEPT) else { return Err(PageFault::Packed) };
        if slot.as_ref().is_none_or(|(kept, _)| *kept != index) {
            match image.unpacked(index) {
                Some(page) => *slot = Some((index, page)),
                None => {
                    if let Some(verdict) = self.verdicts.get_mut(place) {
                        *verdict = PageFault::Packed as u8;
                    }
                    return Err(PageFault::Packed);
                }
            }
        }
        slot.as_ref().map(|(_, page)| &page[..]).ok_or(PageFault::Packed)
    }
}

/// Set of numbers below a limit, one bit each.
#[derive(Clone, Debug, Default)]
pub struct Marks(Vec<u64>);

impl Marks {
    /// Returns an empty set of numbers below `count`.
    pub fn new(count: usize) -> Self {
        Self(vec![0; count.div_ceil(64)])
    }

    /// Adds a number; returns false if it is in the set, or not below the limit.
    pub fn add(&mut self, number: usize) -> bool {
        let bit = 1 << (number % 64);
        self.0.get_mut(number / 64).is_some_and(|word| {
            let is_new = *word & bit == 0;
            *word |= bit;
            is_new
        })
    }

    /// Returns true if a number is in the set.
    pub fn has(&self, number: usize) -> bool {
        self.0.get(number / 64).is_some_and(|word| word & 1 << (number % 64) != 0)
    }
}

/// Returns the page index of an id or a link.
pub fn index_of(id: i64) -> u32 {
    id as u32
}

/// Returns the partition of an id or a link.
pub fn partition_of(id: i64) -> u16 {
    (id >> 32) as u16
}

/// Returns the item of a link.
pub fn item_of(link: i64) -> u8 {
    (link >> 56) as u8
}

/// Returns the type and the version of a page.
pub fn kind_of(page: &[u8], order: Order) -> Option<(u16, u16)> {
    Some((order.u16_at(page, 0)?, order.u16_at(page, 2)?))
}
