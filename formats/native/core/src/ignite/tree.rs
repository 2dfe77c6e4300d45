//! Levels of B+trees: the pages of one in order, also past pages that are damaged.
//!
//! Source: BPlusTree, BPlusMetaIO, BPlusIO, BPlusInnerIO, Ignite 2.18.0.

use std::collections::{BTreeSet, HashMap, HashSet};

use crate::ignite::order::Order;
use crate::ignite::page_image::{PageFault, PageImage};
use crate::ignite::page_layout::{TreePage, tree, tree_meta, types};
use crate::ignite::page_reader::{Marks, PageReader, index_of, kind_of, partition_of};

/// Number of faults that are kept.
pub const FAULTS_KEPT: usize = 1000;

/// Fault of a page of a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TreeFault {
    /// The page cannot be read.
    Page(PageFault),
    /// The page has a type that does not belong there.
    Type,
    /// The page states more items than it has room for.
    Count,
    /// A second link leads to the page.
    Loop,
    /// The pages after it are not known.
    Lost,
}

impl TreeFault {
    /// Returns the number of the fault: that of a `PageFault`, or one above them.
    pub fn number(self) -> u8 {
        match self {
            Self::Page(fault) => fault as u8,
            Self::Type => 32,
            Self::Count => 33,
            Self::Loop => 34,
            Self::Lost => 35,
        }
    }
}

/// First pages of the levels of a tree, the leaves first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TreeMeta {
    /// Ids of the first pages.
    pub refs: Vec<i64>,
}

impl TreeMeta {
    /// Reads the page that names the levels.
    pub fn read(page: &[u8], order: Order) -> Result<Self, TreeFault> {
        let (type_no, version) = kind_of(page, order).ok_or(TreeFault::Type)?;
        let at = tree_meta::refs_at(version).filter(|_| type_no == types::TREE_META);
        let at = at.ok_or(TreeFault::Type)?;
        let levels = usize::from(*page.get(tree_meta::LEVELS_AT).ok_or(TreeFault::Count)?);
        let refs: Option<Vec<i64>> =
            (0..levels).map(|n| order.i64_at(page, at + n * tree_meta::REF_SIZE)).collect();
        let refs = refs.ok_or(TreeFault::Count)?;
        // A page has one level. Hundreds of levels with the same pages would take hours.
        let pages: BTreeSet<u32> = refs.iter().map(|&id| index_of(id)).collect();
        if pages.len() < refs.len() { Err(TreeFault::Count) } else { Ok(Self { refs }) }
    }
}

/// A page of a tree that was read.
#[derive(Clone, Copy, Debug)]
pub struct Node<'a> {
    /// The page.
    pub page: &'a [u8],
    /// Its layout.
    pub layout: TreePage,
    /// Number of items.
    pub count: usize,
    /// Id of the next page of the level; 0 for none.
    pub forward: i64,
}

impl<'a> Node<'a> {
    /// Reads a page as one of a tree.
    pub fn read(page: &'a [u8], order: Order) -> Result<Self, TreeFault> {
        let layout = kind_of(page, order).and_then(|(no, version)| TreePage::of(no, version));
        let layout = layout.ok_or(TreeFault::Type)?;
        let count = order.u16_at(page, tree::COUNT_AT).ok_or(TreeFault::Count)?;
        let forward = order.i64_at(page, tree::FORWARD_AT).ok_or(TreeFault::Count)?;
        let count = usize::from(count);
        if count > layout.capacity(page.len()) {
            return Err(TreeFault::Count);
        }
        Ok(Self { page, layout, count, forward })
    }

    /// Returns an item.
    pub fn item(&self, n: usize) -> Option<&'a [u8]> {
        let at = self.layout.items_at() + n * self.layout.step();
        self.page.get(at..at + self.layout.kind.item_size())
    }

    /// Returns the ids of the children of an inner page.
    pub fn children(&self, order: Order) -> Vec<i64> {
        let step = if self.layout.is_leaf { return Vec::new() } else { self.layout.step() };
        (0..=self.count)
            .filter_map(|n| order.i64_at(self.page, tree::ITEMS_AT + n * step))
            .collect()
    }
}

/// Pages that a level names, in order, and how far they were used.
#[derive(Debug)]
struct Named {
    pages: Vec<u32>,
    /// Number of pages up to the first place of each; made after the first fault.
    places: Option<HashMap<u32, usize>>,
    /// Number of pages that were used. Only grows, so that each is used once.
    used: usize,
}

impl Named {
    fn new(pages: Vec<u32>) -> Self {
        Self { pages, places: None, used: 0 }
    }

    /// Returns the first page after `index` that was not seen.
    fn after(&mut self, index: u32, seen: &HashSet<u32>) -> Option<u32> {
        let pages = &self.pages;
        let places = self.places.get_or_insert_with(|| {
            pages.iter().enumerate().rev().map(|(n, &page)| (page, n + 1)).collect()
        });
        self.used = self.used.max(places.get(&index).copied().unwrap_or(0));
        while let Some(&page) = self.pages.get(self.used) {
            self.used += 1;
            if !seen.contains(&page) {
                return Some(page);
            }
        }
        None
    }
}

/// Pages of one level of a tree, from the first to the last.
///
/// Follows the link of each page to the next. After a page that cannot be read, continues with the
/// page that the level above names next. Its memory grows with the pages that it visits, not with
/// the file, which may have as many trees as pages.
#[derive(Debug)]
pub struct LevelWalk {
    level: usize,
    next: Option<u32>,
    seen: HashSet<u32>,
    /// Pages of this level as the level above names them; if not given, read at the first fault.
    named: Option<Named>,
    /// Damage on the way: page and fault.
    pub faults: Vec<(u32, TreeFault)>,
}

impl LevelWalk {
    /// Starts at the first page of a level; level 0 has the leaves.
    pub fn new(meta: &TreeMeta, level: usize) -> Self {
        let next = meta.refs.get(level).map(|&id| index_of(id));
        Self { level, next, seen: HashSet::new(), named: None, faults: Vec::new() }
    }

    /// Starts at the first page of a level whose pages the level above names in this order.
    ///
    /// Without them, each level reads those above it, and a walk of all levels reads pages
    /// hundreds of times.
    pub fn below(meta: &TreeMeta, level: usize, named: Vec<u32>) -> Self {
        Self { named: Some(Named::new(named)), ..Self::new(meta, level) }
    }

    /// Calls `use_node` with the next page that can be read; returns its result, `None` at the end.
    ///
    /// Pages that are `taken`, by their places, belong to other levels or trees, and are not read.
    pub fn step<T>(
        &mut self,
        image: &PageImage<'_>,
        reader: &mut PageReader,
        meta: &TreeMeta,
        taken: &Marks,
        mut use_node: impl FnMut(u32, &Node<'_>) -> T,
    ) -> Option<T> {
        loop {
            let index = self.next?;
            let is_taken = image.place_of(index).is_some_and(|place| taken.has(place));
            let found = if is_taken || !self.seen.insert(index) {
                Err(TreeFault::Loop)
            } else {
                reader.page(image, index).map_err(TreeFault::Page).and_then(|page| {
                    let node = Node::read(page, image.order)?;
                    let is_right = node.layout.is_leaf == (self.level == 0);
                    if is_right { Ok(node) } else { Err(TreeFault::Type) }
                })
            };
            match found {
                Ok(node) => {
                    let forward = node.forward;
                    let result = use_node(index, &node);
                    self.next = (forward != 0).then(|| index_of(forward));
                    let is_here = partition_of(forward) == image.partition;
                    if forward != 0 && !is_here {
                        self.note(index, TreeFault::Lost);
                        self.next = self.after(image, reader, meta, taken, index);
                    }
                    return Some(result);
                }
                Err(fault) => {
                    self.note(index, fault);
                    self.next = self.after(image, reader, meta, taken, index);
                }
            }
        }
    }

    fn note(&mut self, index: u32, fault: TreeFault) {
        if self.faults.len() < FAULTS_KEPT {
            self.faults.push((index, fault));
        }
    }

    /// Returns the first page after `index` that was not seen, in the order of the level above.
    fn after(
        &mut self,
        image: &PageImage<'_>,
        reader: &mut PageReader,
        meta: &TreeMeta,
        taken: &Marks,
        index: u32,
    ) -> Option<u32> {
        if self.named.is_none() {
            let mut above = Self::new(meta, self.level + 1);
            let is_inner = self.level > 0;
            if is_inner {
                // Inner pages belong to one level only, so all levels above are one walk.
                above.seen = std::mem::take(&mut self.seen);
            }
            let pages = above.children(image, reader, meta, taken);
            if is_inner {
                self.seen = above.seen;
            }
            self.named = Some(Named::new(pages));
        }
        let named = self.named.as_mut()?;
        let next = named.after(index, &self.seen);
        if next.is_none() && named.pages.is_empty() {
            self.note(index, TreeFault::Lost);
        }
        next
    }

    /// Returns the pages that the inner pages of the level name, in order.
    fn children(
        &mut self,
        image: &PageImage<'_>,
        reader: &mut PageReader,
        meta: &TreeMeta,
        taken: &Marks,
    ) -> Vec<u32> {
        let mut found = Vec::new();
        while self
            .step(image, reader, meta, taken, |_, node| {
                found.extend(node.children(image.order).into_iter().map(index_of));
            })
            .is_some()
        {}
        found
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::ignite::hostile::{KINDS, Lies};

    proptest! {
        #[test]
        fn levels_of_any_tree_are_walked_in_linear_time(seed: u64, pages in 1u32..60) {
            let lies = Lies::new(seed, pages, &KINDS, false);
            let image = lies.image();
            let none = Marks::default();
            for index in 0..pages {
                let mut reader = PageReader::new(&image);
                let Ok(page) = reader.page(&image, index) else { continue };
                let Ok(meta) = TreeMeta::read(page, image.order) else { continue };
                for level in 0..meta.refs.len().min(3) {
                    let mut walk = LevelWalk::new(&meta, level);
                    let mut found = BTreeSet::new();
                    reader.reads = 0;
                    while let Some((page, is_leaf)) =
                        walk.step(&image, &mut reader, &meta, &none, |page, node| {
                            (page, node.layout.is_leaf)
                        })
                    {
                        prop_assert_eq!(is_leaf, level == 0);
                        prop_assert!(found.insert(page), "page {} twice", page);
                    }
                    prop_assert!(reader.reads <= lies.reads_max(), "{} reads", reader.reads);
                    prop_assert!(walk.faults.len() <= FAULTS_KEPT);
                }
            }
        }
    }
}
