//! Hostile pages for tests: links in circles, out of the file and to pages of other kinds, subtrees
//! with many parents, and counts, levels and sizes that do not fit.

use crate::ignite::order::Order;
use crate::ignite::page_image::PageImage;
use crate::ignite::page_layout::{
    TreeKind, TreePage, cache_sizes, data, is_data, list_meta, list_node, meta, tree, tree_meta,
    types,
};
use crate::ignite::pages::INDEX_PARTITION;

/// Bytes of a page.
pub(crate) const SIZE: usize = 1024;

/// Types of pages that lead to others, those of a partition first.
pub(crate) const KINDS: [u16; 17] = [1, 2, 2, 5, 5, 6, 6, 9, 10, 12, 13, 13, 16, 17, 20, 22, 23];

/// Types of pages of an index.
pub(crate) const INDEX_KINDS: [u16; 9] = [2, 2, 3, 4, 4, 7, 8, 12, 13];

/// A file of hostile pages.
pub(crate) struct Lies {
    /// Bytes of the file.
    pub bytes: Vec<u8>,
    /// Number of pages.
    pub pages: usize,
    /// Number of links that a reader may follow, or more.
    pub links: usize,
    partition: u16,
}

impl Lies {
    /// Returns a file whose pages after the first have some of these types.
    pub(crate) fn new(seed: u64, pages: u32, kinds: &[u16], is_index: bool) -> Self {
        let partition = if is_index { INDEX_PARTITION } else { 3 };
        let mut liar = Liar { dice: Dice(seed), pages, partition, links: 0 };
        let mut bytes = vec![0; SIZE];
        for index in 0..pages {
            let type_no = match index {
                0 if is_index => types::INDEX_META,
                0 => types::PARTITION_META,
                _ => kinds[liar.dice.below(kinds.len())],
            };
            bytes.extend(liar.page(index, type_no));
        }
        Self { bytes, pages: pages as usize, links: liar.links, partition }
    }

    /// Returns the pages.
    pub(crate) fn image(&self) -> PageImage<'_> {
        PageImage {
            base: &self.bytes,
            header_size: SIZE,
            page_size: SIZE,
            order: Order::Little,
            partition: self.partition,
            changed_indexes: &[],
            changed_starts: &[],
            changed_pages: &[],
        }
    }

    /// Returns a bound of the number of page reads: it is linear in the size of the file.
    pub(crate) fn reads_max(&self) -> usize {
        2 * self.links + 5 * self.pages
    }
}

/// Numbers from a seed.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb) >> 8
    }

    fn below(&mut self, limit: usize) -> usize {
        self.next() as usize % limit.max(1)
    }

    fn is(&mut self, one_in: usize) -> bool {
        self.below(one_in) == 0
    }
}

struct Liar {
    dice: Dice,
    pages: u32,
    partition: u16,
    links: usize,
}

fn put(page: &mut [u8], at: usize, bytes: &[u8]) {
    if let Some(place) = page.get_mut(at..at + bytes.len()) {
        place.copy_from_slice(bytes);
    }
}

impl Liar {
    fn page(&mut self, index: u32, type_no: u16) -> Vec<u8> {
        let mut page = vec![0; SIZE];
        let version: u8 = match type_no {
            types::PARTITION_META => 3,
            22 | 23 => 2,
            _ => 1,
        };
        put(&mut page, 0, &type_no.to_le_bytes());
        page[2] = version;
        let flag = if self.partition == INDEX_PARTITION { 2 } else { 1 };
        let id = flag << 48 | i64::from(self.partition) << 32 | i64::from(index);
        put(&mut page, 8, &id.to_le_bytes());
        match type_no {
            types::PARTITION_META | types::INDEX_META => self.meta(&mut page, type_no),
            types::TREE_META => {
                let levels = self.count(100);
                page[tree_meta::LEVELS_AT] = levels as u8;
                self.fill(&mut page, index, 41, 8, levels);
            }
            types::LIST_META => {
                let count = self.count(97);
                put(&mut page, list_meta::COUNT_AT, &(count as u16).to_le_bytes());
                self.fill(&mut page, index, list_meta::NEXT_AT, 8, 1);
                self.fill(&mut page, index, list_meta::ITEMS_AT + 2, 10, count);
            }
            types::LIST_NODE => {
                let count = self.count(120);
                put(&mut page, list_node::COUNT_AT, &(count as u16).to_le_bytes());
                self.fill(&mut page, index, list_node::PREVIOUS_AT, 8, 2);
                self.fill(&mut page, index, list_node::IDS_AT, 8, count);
            }
            types::CACHE_SIZES => {
                let count = self.count(81);
                put(&mut page, cache_sizes::COUNT_AT, &(count as u16).to_le_bytes());
                self.fill(&mut page, index, cache_sizes::NEXT_AT, 8, 1);
            }
            _ if is_data(type_no) => self.data(&mut page, index),
            _ => self.tree(&mut page, index, TreePage::of(type_no, version.into()).unwrap()),
        }
        page
    }

    /// Returns a number of items, mostly one that fits in a page with room for `most`.
    fn count(&mut self, most: usize) -> usize {
        match self.dice.below(10) {
            0 => self.dice.below(1 << 16),
            1 => most + self.dice.below(2),
            _ => self.dice.below(most.min(12)),
        }
    }

    fn link(&mut self, index: u32) -> i64 {
        let page = match self.dice.below(12) {
            0 => index,
            1 => index + 1,
            2 => self.pages + self.dice.below(3) as u32,
            3 => u32::MAX,
            _ => self.dice.below(self.pages as usize) as u32,
        };
        let partition = if self.dice.is(30) { 4 } else { self.partition };
        let item = self.dice.below(4) as i64;
        item << 56 | 1 << 48 | i64::from(partition) << 32 | i64::from(page)
    }

    fn fill(&mut self, page: &mut [u8], index: u32, at: usize, step: usize, count: usize) {
        self.links += count.min(SIZE / 8);
        for n in 0..count.min(SIZE / 8) {
            let link = self.link(index);
            put(page, at + n * step, &link.to_le_bytes());
        }
    }

    fn meta(&mut self, page: &mut [u8], type_no: u16) {
        let more = [meta::CACHE_SIZES_AT, meta::PENDING_AT, meta::OWN_LIST_AT, meta::GAPS_AT];
        let more = if type_no == types::PARTITION_META { &more[..] } else { &[] };
        for &at in [meta::TREE_AT, meta::LIST_AT].iter().chain(more) {
            self.fill(page, 1, at, 8, 1);
        }
    }

    fn tree(&mut self, page: &mut [u8], index: u32, layout: TreePage) {
        let count = self.count(layout.capacity(SIZE));
        put(page, tree::COUNT_AT, &(count as u16).to_le_bytes());
        if !self.dice.is(4) {
            self.fill(page, index, tree::FORWARD_AT, 8, 1);
        }
        let link_at = match layout.kind {
            TreeKind::Names => 1,
            kind => kind.link_at().unwrap_or(0),
        };
        self.fill(page, index, layout.items_at() + link_at, layout.step(), count);
        if !layout.is_leaf {
            self.fill(page, index, tree::ITEMS_AT, layout.step(), count + 1);
        }
    }

    fn data(&mut self, page: &mut [u8], index: u32) {
        page[data::DIRECT_AT] = self.count(40) as u8;
        page[data::INDIRECT_AT] = if self.dice.is(3) { self.count(40) as u8 } else { 0 };
        let items = usize::from(page[data::DIRECT_AT]) + usize::from(page[data::INDIRECT_AT]);
        for n in 0..items {
            // Few places, so that rows overlap.
            let at = SIZE - 32 * (1 + self.dice.below(20)) - self.dice.below(2);
            put(page, data::ITEMS_AT + 2 * n, &(at as u16).to_le_bytes());
            let most = if self.dice.is(5) { 1 << 16 } else { 40 };
            let size = self.dice.below(most);
            put(page, at, &(size as u16 | data::FRAGMENT_BIT).to_le_bytes());
            self.fill(page, index, at + data::LENGTH_SIZE, 8, 1);
        }
    }
}
