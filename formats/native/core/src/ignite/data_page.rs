//! Items of data pages: rows, and fragments of rows that are longer than a page.
//!
//! Source: AbstractDataPageIO.getDataOffset, getPageEntrySize, Ignite 2.18.0.

use std::ops::Range;

use crate::ignite::order::Order;
use crate::ignite::page_layout::data;

/// An item: its bytes in the page, and the link to the rest of its row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Bytes of the row or of the fragment.
    pub payload: Range<usize>,
    /// Link to the next fragment, 0 in the last one; `None` for a row that has no fragments.
    pub next: Option<i64>,
    /// Offset of the entry.
    pub at: usize,
}

impl Entry {
    /// Returns the bytes of the entry, its length and its link included.
    pub fn span(&self) -> Range<usize> {
        self.at..self.payload.end
    }
}

/// Directory of a data page.
#[derive(Clone, Copy, Debug)]
pub struct Directory {
    /// Number of items that are offsets.
    pub direct: usize,
    /// Number of items that stand for another one.
    pub indirect: usize,
}

impl Directory {
    /// Returns the directory of a page; `None` if it does not end inside of the page.
    pub fn read(page: &[u8]) -> Option<Self> {
        let (direct, indirect) = (*page.get(data::DIRECT_AT)?, *page.get(data::INDIRECT_AT)?);
        let found = Self { direct: direct.into(), indirect: indirect.into() };
        (found.stop() <= page.len()).then_some(found)
    }

    /// Returns the offset after the last item.
    pub fn stop(&self) -> usize {
        data::ITEMS_AT + data::ITEM_SIZE * (self.direct + self.indirect)
    }

    /// Returns the item ids by which rows of the page are linked, and their direct items.
    ///
    /// The direct item of an indirect one does not have an id of its own.
    pub fn ids(&self, page: &[u8], order: Order) -> Vec<(u8, usize)> {
        let others: Vec<(u8, usize)> = (0..self.indirect)
            .filter_map(|n| self.item(page, order, self.direct + n))
            .map(|item| ((item >> 8) as u8, usize::from(item & 0xff)))
            .collect();
        let mut is_other = [false; 256];
        for (_, found) in &others {
            if let Some(is_other) = is_other.get_mut(*found) {
                *is_other = true;
            }
        }
        let direct = (0..self.direct).filter(|&n| !is_other.get(n).is_some_and(|&is| is));
        let mut ids: Vec<_> = direct.map(|n| (n as u8, n)).collect();
        ids.extend(others);
        ids
    }

    fn item(&self, page: &[u8], order: Order, n: usize) -> Option<u16> {
        order.u16_at(page, data::ITEMS_AT + data::ITEM_SIZE * n)
    }

    fn direct_of(&self, page: &[u8], order: Order, id: u8) -> Option<usize> {
        let n = usize::from(id);
        if n < self.direct {
            return Some(n);
        }
        (0..self.indirect)
            .filter_map(|n| self.item(page, order, self.direct + n))
            .find(|item| item >> 8 == u16::from(id))
            .map(|item| usize::from(item & 0xff))
    }

    /// Returns the entry of a direct item; `None` if it does not lie inside of the page.
    pub fn entry(&self, page: &[u8], order: Order, direct: usize) -> Option<Entry> {
        let at = usize::from(self.item(page, order, (direct < self.direct).then_some(direct)?)?);
        let length = order.u16_at(page, at)?;
        let mut start = at + data::LENGTH_SIZE;
        let mut next = None;
        if length & data::FRAGMENT_BIT != 0 {
            next = Some(order.i64_at(page, start)?);
            start += data::LINK_SIZE;
        }
        let stop = start.checked_add(usize::from(length & !data::FRAGMENT_BIT))?;
        (at >= self.stop() && stop <= page.len()).then_some(Entry {
            payload: start..stop,
            next,
            at,
        })
    }
}

/// Returns the entry with the item id of a link.
pub fn find(page: &[u8], order: Order, id: u8) -> Option<Entry> {
    let directory = Directory::read(page)?;
    directory.entry(page, order, directory.direct_of(page, order, id)?)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::ignite::hostile::{Lies, SIZE};

    #[test]
    fn an_item_that_points_to_the_directory_is_none() {
        let mut page = vec![0; 128];
        page[data::DIRECT_AT] = 2;
        page[data::ITEMS_AT] = data::ITEMS_AT as u8;
        page[data::ITEMS_AT + 2] = data::ITEMS_AT as u8 + 4;
        assert_eq!(find(&page, Order::Little, 0), None);
        assert_eq!(find(&page, Order::Little, 1).map(|entry| entry.span()), Some(58..60));
        page[data::INDIRECT_AT] = 40;
        assert!(Directory::read(&page).is_none());
    }

    proptest! {
        #[test]
        fn entries_of_any_page_lie_inside(seed: u64, size in 0..=SIZE, big: bool) {
            let lies = Lies::new(seed, 2, &[1], false);
            let page = &lies.bytes[2 * SIZE..][..size];
            let order = if big { Order::Big } else { Order::Little };
            for id in 0..=u8::MAX {
                if let Some(entry) = find(page, order, id) {
                    prop_assert!(entry.at >= data::ITEMS_AT && entry.payload.end <= size);
                    prop_assert!(entry.at < entry.payload.start);
                    prop_assert!(entry.payload.start <= entry.payload.end);
                }
            }
            if let Some(directory) = Directory::read(page) {
                prop_assert!(directory.stop() <= size);
                prop_assert!(directory.ids(page, order).len() <= 2 * usize::from(u8::MAX));
            }
        }
    }
}
