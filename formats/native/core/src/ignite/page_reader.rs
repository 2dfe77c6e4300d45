//! Pages of an image at any place, each checked once.

use std::collections::BTreeSet;

use crate::ignite::order::Order;
use crate::ignite::page_image::{PageFault, PageImage};

const UNCHECKED: u8 = u8::MAX;

/// Number of unpacked pages that are kept.
const KEPT: usize = 1024;

/// Number of missing pages that are kept.
const MISSING_KEPT: usize = 1 << 16;

/// Reader of the pages of an image: checks each page once, and keeps the last ones unpacked.
///
/// Needs a byte for each page of the image, and some megabytes if pages are compressed.
#[derive(Debug, Default)]
pub struct PageReader {
    /// A `PageFault` or 0 for each page that was read.
    verdicts: Vec<u8>,
    unpacked: Vec<Option<(u32, Vec<u8>)>>,
    /// Pages that were asked for, and are zeros or after the end of the file: the first of them.
    pub missing: BTreeSet<u32>,
    /// Number of calls of `page`, by which tests measure work.
    #[cfg(test)]
    pub(crate) reads: usize,
}

impl PageReader {
    /// Returns a reader of an image.
    pub fn new(image: &PageImage<'_>) -> Self {
        let count = image.place_count();
        Self { verdicts: vec![UNCHECKED; count], ..Self::default() }
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
        #[cfg(test)]
        {
            self.reads += 1;
        }
        let place = self.place(image, index).inspect_err(|fault| {
            let is_missing = matches!(fault, PageFault::Absent | PageFault::Zero);
            if is_missing && self.missing.len() < MISSING_KEPT {
                self.missing.insert(index);
            }
        })?;
        match image.plain(index) {
            Some(page) => Ok(page),
            None => self.unpack(image, index, place),
        }
    }

    /// Returns the place of a page, which is checked unless it was changed.
    fn place(&mut self, image: &PageImage<'_>, index: u32) -> Result<usize, PageFault> {
        let place = image.place_of(index).ok_or(PageFault::Absent)?;
        if image.changed(index).is_none() {
            let verdict = self.verdicts.get_mut(place).ok_or(PageFault::Absent)?;
            if *verdict == UNCHECKED {
                *verdict = image.check(index).err().map_or(0, |fault| fault as u8);
            }
            if let Some(fault) = PageFault::of(*verdict) {
                return Err(fault);
            }
        }
        Ok(place)
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::ignite::hostile::{KINDS, Lies, SIZE};
    use crate::ignite::page_packing::pack;

    proptest! {
        #[test]
        fn pages_are_those_of_the_image(
            seed: u64,
            edits in prop::collection::vec((0..20 * SIZE, any::<u8>()), 0..9),
            packings in prop::collection::vec(0u8..6, 20),
            order in prop::collection::vec(0u32..24, 0..60),
        ) {
            let mut lies = Lies::new(seed, 19, &KINDS, false);
            for (page, packing) in lies.bytes.chunks_mut(SIZE).zip(packings) {
                page[17] = packing;
                page[19] = 2;
                page[20] = 60;
            }
            for (at, byte) in edits {
                lies.bytes[at] = byte;
            }
            let changed = [vec![5; SIZE], pack(&[6; SIZE]).unwrap(), vec![7; 3]];
            let starts = [0, SIZE, SIZE + changed[1].len(), SIZE + changed[1].len() + 3];
            let image = PageImage {
                changed_indexes: &[2, 4, 22],
                changed_starts: &starts.map(|start| start as i64),
                changed_pages: &changed.concat(),
                ..lies.image()
            };
            let mut reader = PageReader::new(&image);
            for index in order {
                let page = reader.page(&image, index).map(<[u8]>::to_vec);
                prop_assert_eq!(page, image.page(index).map(|page| page.into_owned()));
            }
        }

        #[test]
        fn a_number_is_added_once(count in 0usize..200, numbers in prop::collection::vec(0usize..300, 0..99)) {
            let mut marks = Marks::new(count);
            let mut all = BTreeSet::new();
            for number in numbers {
                let is_inside = number < count.next_multiple_of(64);
                prop_assert_eq!(marks.add(number), is_inside && all.insert(number));
                prop_assert_eq!(marks.has(number), is_inside);
            }
        }
    }
}
