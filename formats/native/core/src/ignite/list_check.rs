//! Lists of pages with free bytes, and of pages that may be used again.
//!
//! Source: PagesList, PagesListMetaIO, PagesListNodeIO, AbstractFreeList, Ignite 2.18.0.

use crate::ignite::check::{Check, DefectKind};
use crate::ignite::page_layout::{data, is_data, list_meta, list_node, types};
use crate::ignite::page_reader::{index_of, kind_of, partition_of};

/// Bucket of pages without content in a list of pages with free bytes.
const REUSABLE: u16 = 255;

/// Bits of an id that name the page.
const PAGE_BITS: i64 = (1 << 48) - 1;

/// Check of the lists of one file.
#[derive(Debug)]
pub struct Lists<'c, 'a> {
    check: &'c mut Check<'a>,
}

/// Ids of a node that was read, and the node before it.
struct Found {
    previous: i64,
    next: i64,
    ids: Vec<i64>,
}

impl<'c, 'a> Lists<'c, 'a> {
    /// Starts a check.
    pub fn new(check: &'c mut Check<'a>) -> Self {
        Self { check }
    }

    /// Checks a list of pages with free bytes, by its first page.
    pub fn free(&mut self, root: i64) {
        self.walk(root, |bucket| bucket == REUSABLE);
    }

    /// Checks a list of reusable pages.
    pub fn reusable(&mut self, root: i64) {
        self.walk(root, |_| true);
    }

    fn walk(&mut self, root: i64, is_reusable: impl Fn(u16) -> bool) {
        let (mut from, mut next) = (0, root);
        while next != 0 {
            let Some(index) = self.check.follow(from, next) else { return };
            let order = self.check.image.order;
            let Some(page) = self.check.page_of(index, types::LIST_META) else { return };
            let count = order.u16_at(page, list_meta::COUNT_AT).map_or(0, usize::from);
            let tails: Option<Vec<(u16, i64)>> = (0..count)
                .map(|n| {
                    let at = list_meta::ITEMS_AT + n * list_meta::ITEM_SIZE;
                    Some((order.u16_at(page, at)?, order.i64_at(page, at + 2)?))
                })
                .collect();
            next = order.i64_at(page, list_meta::NEXT_AT).unwrap_or(0);
            match tails {
                Some(tails) => {
                    for (bucket, tail) in tails {
                        self.bucket(index, tail, is_reusable(bucket));
                    }
                }
                None => self.check.report.note(DefectKind::Count, index, count as i64),
            }
            from = index;
        }
    }

    /// Follows the nodes of a bucket from the last one back to the first.
    fn bucket(&mut self, from: u32, tail: i64, is_reusable: bool) {
        let (mut from, mut id, mut after) = (from, tail, 0);
        while id != 0 {
            let Some(index) = self.check.follow(from, id) else { return };
            let Some(found) = self.node(index) else { return };
            let is_same = found.next & PAGE_BITS == after & PAGE_BITS;
            if !is_same {
                self.check.report.note(DefectKind::List, index, found.next);
            }
            for named in found.ids {
                self.named(index, named, is_reusable);
            }
            (from, after, id) = (index, id, found.previous);
        }
    }

    fn node(&mut self, index: u32) -> Option<Found> {
        let order = self.check.image.order;
        let page = self.check.page_of(index, types::LIST_NODE)?;
        let count = order.u16_at(page, list_node::COUNT_AT).map_or(0, usize::from);
        let ids: Option<Vec<i64>> = (0..count)
            .map(|n| order.i64_at(page, list_node::IDS_AT + n * list_node::ID_SIZE))
            .collect();
        let previous = order.i64_at(page, list_node::PREVIOUS_AT)?;
        let next = order.i64_at(page, list_node::NEXT_AT)?;
        if ids.is_none() {
            self.check.report.note(DefectKind::Count, index, count as i64);
        }
        Some(Found { previous, next, ids: ids? })
    }

    /// Checks a page that a node names.
    fn named(&mut self, node: u32, id: i64, is_reusable: bool) {
        if partition_of(id) != self.check.image.partition {
            return self.check.report.note(DefectKind::Elsewhere, node, id);
        }
        let index = index_of(id);
        if is_reusable && self.check.follow(node, id).is_none() {
            return;
        }
        let order = self.check.image.order;
        match self.check.reader.page(&self.check.image, index) {
            Ok(_) if is_reusable => {}
            Ok(page) => {
                let (type_no, _) = kind_of(page, order).unwrap_or_default();
                let back = order.i64_at(page, data::LIST_AT).unwrap_or(0);
                if !is_data(type_no) || index_of(back) != node || back == 0 {
                    self.check.report.note(DefectKind::List, node, id);
                }
            }
            Err(fault) => {
                self.check.report.note(DefectKind::Page, index, i64::from(fault as u8));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::ignite::hostile::{Lies, SIZE};

    const KINDS: [u16; 5] = [types::LIST_META, types::LIST_NODE, types::LIST_NODE, types::DATA, 6];

    #[test]
    fn lists_that_lead_to_each_other_end() {
        let mut lies = Lies::new(1, 5, &[types::LIST_NODE], false);
        let id = |index: i64| (1 << 48 | 3 << 32 | index).to_le_bytes();
        for (index, previous) in [(2, 3), (3, 4), (4, 2)] {
            let page = &mut lies.bytes[SIZE * (index + 1)..][..SIZE];
            page[40..].fill(0);
            page[40..48].copy_from_slice(&id(previous));
        }
        let page = &mut lies.bytes[2 * SIZE..3 * SIZE];
        page[..2].copy_from_slice(&types::LIST_META.to_le_bytes());
        page[40..].fill(0);
        page[40] = 2;
        page[42..50].copy_from_slice(&id(1));
        page[52..60].copy_from_slice(&id(2));
        page[62..70].copy_from_slice(&id(3));
        let mut check = Check::new(lies.image(), &[]);
        Lists::new(&mut check).free(i64::from_le_bytes(id(1)));
        let twice = (DefectKind::Twice as u8, 2, 4);
        assert!(check.report.defects.contains(&twice), "{:?}", check.report.defects);
        assert_eq!(check.report.counts[DefectKind::Twice as usize], 3);
        assert_eq!(check.reader.reads, 4);
    }

    proptest! {
        #[test]
        fn any_lists_are_checked_in_linear_time(seed: u64, pages in 2u32..60, is_free: bool) {
            let lies = Lies::new(seed, pages, &KINDS, false);
            let mut check = Check::new(lies.image(), &[]);
            for index in 1..i64::from(pages) {
                let root = 1 << 48 | 3 << 32 | index;
                match is_free {
                    true => Lists::new(&mut check).free(root),
                    false => Lists::new(&mut check).reusable(root),
                }
            }
            prop_assert!(check.reader.reads <= lies.reads_max(), "{} reads", check.reader.reads);
        }
    }
}
