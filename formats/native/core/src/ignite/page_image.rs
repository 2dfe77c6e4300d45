//! Pages of one file as they are, or as physical recovery would leave them.

use std::borrow::Cow;

use crate::bytes::are_zero;
use crate::ignite::order::Order;
use crate::ignite::page_packing::{Packing, unpack, unpack_packed};
use crate::ignite::pages::{COMPRESSION_AT, Header, is_encrypted, sum_of};

/// Reason why a page cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum PageFault {
    /// The file ends before the page.
    Absent = 1,
    /// All bytes are zero.
    Zero = 2,
    /// The file ends inside the page.
    Cut = 3,
    /// The checksum is wrong.
    Checksum = 4,
    /// The id is that of another place.
    Misplaced = 5,
    /// The page is encrypted.
    Encrypted = 6,
    /// The page does not unpack.
    Packed = 7,
}

/// The pages of one file, of which some were changed in memory.
#[derive(Clone, Copy, Debug)]
pub struct PageImage<'a> {
    /// Bytes of the file; empty for a file that exists only in memory.
    pub base: &'a [u8],
    /// Bytes before the first page.
    pub header_size: usize,
    /// Bytes of a page.
    pub page_size: usize,
    /// Byte order of the numbers.
    pub order: Order,
    /// Partition in the ids of the pages.
    pub partition: u16,
    /// Indexes of changed pages, ascending.
    pub changed_indexes: &'a [i64],
    /// Start of each changed page in `changed_pages`, and the end of the last one.
    pub changed_starts: &'a [i64],
    /// Changed pages one after the other: plain, or packed if they have fewer bytes than a page.
    pub changed_pages: &'a [u8],
}

impl<'a> PageImage<'a> {
    /// Returns the number of pages; all indexes are below it.
    pub fn page_count(&self) -> u32 {
        let stored = self.stored_count();
        let last = self.changed_indexes.last().map_or(0, |&last| last.saturating_add(1));
        let count = usize::try_from(last).unwrap_or(0).max(stored);
        u32::try_from(count).unwrap_or(u32::MAX)
    }

    fn stored_count(&self) -> usize {
        let bytes = self.base.len().saturating_sub(self.header_size);
        bytes.div_ceil(self.page_size.max(1))
    }

    /// Returns a number above the places of all pages, as the size of tables.
    ///
    /// `page_count` may be far larger, because the index of a changed page comes from the log.
    pub fn place_count(&self) -> usize {
        self.stored_count().saturating_add(self.changed_indexes.len())
    }

    /// Returns the place of a page in tables; `None` if it is neither in the file nor changed.
    pub fn place_of(&self, index: u32) -> Option<usize> {
        let stored = self.stored_count();
        match usize::try_from(index) {
            Ok(place) if place < stored => Some(place),
            _ => Some(stored + self.changed_indexes.binary_search(&index.into()).ok()?),
        }
    }

    /// Returns the indexes of all pages that have a place, ascending.
    pub fn indexes(&self) -> impl Iterator<Item = u32> + use<'a> {
        let stored = u32::try_from(self.stored_count()).unwrap_or(u32::MAX);
        let changed = self.changed_indexes.iter().filter_map(|&index| u32::try_from(index).ok());
        (0..stored).chain(changed.filter(move |&index| index >= stored))
    }

    /// Returns a page that was changed in memory; it is packed if it has fewer bytes than a page.
    pub fn changed(&self, index: u32) -> Option<&'a [u8]> {
        let row = self.changed_indexes.binary_search(&index.into()).ok()?;
        let place = |n: usize| usize::try_from(*self.changed_starts.get(n)?).ok();
        self.changed_pages.get(place(row)?..place(row.checked_add(1)?)?)
    }

    /// Returns the bytes of a page in the file, as they are; fewer than a page at its end.
    pub fn stored(&self, index: u32) -> Option<&'a [u8]> {
        let start = usize::try_from(index).ok()?.checked_mul(self.page_size)?;
        let start = start.checked_add(self.header_size)?;
        let stop = start.checked_add(self.page_size)?.min(self.base.len());
        self.base.get(start..stop).filter(|page| !page.is_empty())
    }

    /// Returns a page, whole and plain, and checked unless it was changed.
    pub fn page(&self, index: u32) -> Result<Cow<'a, [u8]>, PageFault> {
        if self.changed(index).is_none() {
            self.check(index)?;
        }
        match self.plain(index) {
            Some(page) => Ok(Cow::Borrowed(page)),
            None => self.unpacked(index).map(Cow::Owned).ok_or(PageFault::Packed),
        }
    }

    /// Checks a page in the file, without unpacking it.
    pub fn check(&self, index: u32) -> Result<(), PageFault> {
        let page = self.stored(index).ok_or(PageFault::Absent)?;
        if are_zero(page) {
            return Err(PageFault::Zero);
        }
        let header = Header::read(page, self.order).ok_or(PageFault::Cut)?;
        let computed = sum_of(page, &header, self.page_size).ok_or(PageFault::Cut)?;
        let is_in_place = header.is_in_place(self.partition, index.into());
        // The engine can be told not to compute checksums.
        if computed != header.stored && !(header.stored == 0 && is_in_place) {
            let is_encrypted = is_encrypted(page, self.page_size);
            return Err(if is_encrypted { PageFault::Encrypted } else { PageFault::Checksum });
        }
        let is_packed = header.compression != Packing::None as u8;
        match is_in_place {
            true if is_packed || page.len() == self.page_size => Ok(()),
            true => Err(PageFault::Cut),
            false => Err(PageFault::Misplaced),
        }
    }

    /// Returns a page that is not compressed, unchecked; `None` if it is.
    pub fn plain(&self, index: u32) -> Option<&'a [u8]> {
        let is_whole = |page: &&[u8]| page.len() == self.page_size;
        if let Some(page) = self.changed(index) {
            return Some(page).filter(is_whole);
        }
        let page = self.stored(index)?;
        let is_plain = page.get(COMPRESSION_AT) == Some(&(Packing::None as u8));
        Some(page).filter(is_whole).filter(|_| is_plain)
    }

    /// Returns a page as it is in memory, unchecked; `None` if it does not unpack.
    pub fn unpacked(&self, index: u32) -> Option<Vec<u8>> {
        match self.changed(index) {
            Some(page) => unpack_packed(page, self.page_size),
            None => unpack(self.stored(index)?, self.page_size, self.order),
        }
    }
}

impl PageFault {
    /// Returns the fault with a number.
    pub fn of(number: u8) -> Option<Self> {
        const ALL: [PageFault; 7] = [
            PageFault::Absent,
            PageFault::Zero,
            PageFault::Cut,
            PageFault::Checksum,
            PageFault::Misplaced,
            PageFault::Encrypted,
            PageFault::Packed,
        ];
        ALL.get(usize::from(number).checked_sub(1)?).copied()
    }
}

/// Pages of an image, whole and plain.
#[derive(Debug, Default)]
pub struct PlainPages {
    /// The pages one after the other; zeros in place of those with a fault.
    pub pages: Vec<u8>,
    /// A `PageFault` for each, or 0.
    pub faults: Vec<u8>,
}

/// Returns pages of an image.
pub fn read(image: &PageImage<'_>, indexes: &[i64]) -> PlainPages {
    let mut found = PlainPages::default();
    for &index in indexes {
        let page = u32::try_from(index).map_err(|_| PageFault::Absent);
        match page.and_then(|index| image.page(index)) {
            Ok(page) => {
                found.pages.extend_from_slice(&page);
                found.faults.push(0);
            }
            Err(fault) => {
                found.pages.resize(found.pages.len() + image.page_size, 0);
                found.faults.push(fault as u8);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::ignite::pages::{CRC_AT, ID_AT};

    const SIZE: usize = 1024;

    fn page(index: u32) -> Vec<u8> {
        let mut page = vec![index as u8 + 1; SIZE];
        page[..40].fill(0);
        page[0] = 6;
        page[2] = 1;
        let id = 1 << 48 | 3 << 32 | u64::from(index);
        page[ID_AT..ID_AT + 8].copy_from_slice(&id.to_le_bytes());
        let sum = crate::ignite::walk::checksum(&page);
        page[CRC_AT..ID_AT].copy_from_slice(&sum.to_le_bytes());
        page
    }

    const STARTS: [i64; 5] = [0, 1024, 2048, 3000, 2999];

    fn image<'a>(base: &'a [u8], indexes: &'a [i64], pages: &'a [u8]) -> PageImage<'a> {
        PageImage {
            changed_starts: &STARTS,
            base,
            header_size: SIZE,
            page_size: SIZE,
            order: Order::Little,
            partition: 3,
            changed_indexes: indexes,
            changed_pages: pages,
        }
    }

    #[test]
    fn changed_pages_hide_those_of_the_file() {
        let base = [vec![0; SIZE], page(0), page(1), page(2)].concat();
        let changed = [page(9), page(8)].concat();
        let image = image(&base, &[1, 5], &changed);
        assert_eq!(image.page_count(), 6);
        assert_eq!(image.page(0).as_deref(), Ok(&page(0)[..]));
        assert_eq!(image.page(1).as_deref(), Ok(&page(9)[..]));
        assert_eq!(image.page(3), Err(PageFault::Absent));
        assert_eq!(image.page(5).as_deref(), Ok(&page(8)[..]));
        assert_eq!(read(&image, &[-1, 2, 1 << 40]).faults, [1, 0, 1]);
    }

    #[test]
    fn changed_pages_may_be_packed() {
        let packed = crate::ignite::page_packing::pack(&[7; SIZE]).unwrap();
        let changed = [page(9), packed].concat();
        let starts = [0, SIZE as i64, changed.len() as i64, changed.len() as i64];
        let image = PageImage { changed_starts: &starts, ..image(&[], &[1, 5, 6], &changed) };
        assert_eq!(image.page(1).as_deref(), Ok(&page(9)[..]));
        assert_eq!(image.page(5).as_deref(), Ok(&[7; SIZE][..]));
        assert_eq!(image.page(6), Err(PageFault::Packed));
        assert_eq!(image.page(7), Err(PageFault::Absent));
        let mut reader = crate::ignite::page_reader::PageReader::new(&image);
        let found: Vec<_> = [1, 5, 6, 7].map(|n| reader.page(&image, n).map(<[u8]>::to_vec)).into();
        assert_eq!(found[..2], [Ok(page(9)), Ok(vec![7; SIZE])]);
        assert_eq!(found[2..], [Err(PageFault::Packed), Err(PageFault::Absent)]);
    }

    #[test]
    fn each_fault() {
        let mut misplaced = page(0);
        misplaced.copy_from_slice(&page(2));
        let mut damaged = page(2);
        damaged[700] ^= 1;
        let base =
            [vec![0; SIZE], misplaced, vec![0; SIZE], damaged, page(3)[..900].to_vec()].concat();
        let image = image(&base, &[], &[]);
        let faults = read(&image, &[0, 1, 2, 3, 4]).faults;
        assert_eq!(faults, [5, 2, 4, 3, 1]);
    }

    proptest! {
        #[test]
        fn any_bytes_give_pages_or_faults(
            base in prop::collection::vec(any::<u8>(), 0..4 * SIZE),
            header_size in 0usize..2 * SIZE,
            page_size in 0usize..2 * SIZE,
            changed_indexes in prop::collection::vec(-2i64..9, 0..4),
            indexes in prop::collection::vec(-2i64..9, 0..9),
        ) {
            let changed_pages = vec![1; 3000];
            let image = PageImage {
                header_size,
                page_size,
                ..image(&base, &changed_indexes, &changed_pages)
            };
            let found = read(&image, &indexes);
            prop_assert_eq!(found.faults.len(), indexes.len());
            prop_assert_eq!(found.pages.len(), indexes.len() * page_size);
        }
    }
}
