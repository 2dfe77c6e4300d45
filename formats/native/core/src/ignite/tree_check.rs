//! Structure of B+trees: levels, order, links to rows.
//!
//! Source: BPlusTree.validateTree, CacheDataTree.compare, PendingEntriesTree.compare,
//! MetastorageTree.compare, IndexStorageImpl.MetaTree.compare, InlineIndexTree.compare, Ignite 2.18.0.

use std::cell::Cell;
use std::cmp::Ordering;

use crate::ignite::check::{Check, DefectKind};
use crate::ignite::order::Order;
use crate::ignite::page_layout::{TreeKind, tree, types};
use crate::ignite::page_reader::{index_of, kind_of};
use crate::ignite::rows::{RowItem, Rows, items_of, read_row};
use crate::ignite::tree::{LevelWalk, Node, TreeFault, TreeMeta};

/// Key of an item as far as its order is known: numbers, or bytes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    Numbers(i64, i64, i64),
    Bytes(Vec<u8>),
}

/// Smallest and largest key of a page; `None` for an empty one, and where no order is known.
type Range = Option<(Key, Key)>;

/// An inner page: its index, its children and the keys between them.
struct Inner {
    page: u32,
    children: Vec<u32>,
    keys: Vec<Option<Key>>,
}

/// Direction of an index, which no page states: it may be descending.
#[derive(Clone, Copy, Default)]
enum Direction {
    #[default]
    Unknown,
    Ascending,
    Descending,
}

impl Direction {
    /// Returns the keys of a page so that they ascend; none while the direction is unknown.
    ///
    /// The first page with two different keys shows it.
    fn of_index(&mut self, keys: Vec<Option<Key>>) -> Vec<Option<Key>> {
        let mut known = keys.iter().flatten();
        if let (Self::Unknown, Some(first), Some(last)) = (*self, known.next(), known.last()) {
            *self = match first.cmp(last) {
                Ordering::Less => Self::Ascending,
                Ordering::Greater => Self::Descending,
                Ordering::Equal => Self::Unknown,
            };
        }
        match self {
            Self::Unknown => vec![None; keys.len()],
            Self::Ascending => keys,
            Self::Descending => keys.into_iter().map(|key| key.map(Key::reversed)).collect(),
        }
    }
}

impl Key {
    /// Returns a key that is before others if this is after them; bytes stay as they are.
    fn reversed(self) -> Self {
        match self {
            Self::Numbers(a, b, c) => Self::Numbers(!a, !b, !c),
            bytes @ Self::Bytes(_) => bytes,
        }
    }
}

/// Pages of a level in their order.
#[derive(Default)]
struct Level {
    pages: Vec<(u32, Range)>,
    inner: Vec<Inner>,
    is_whole: bool,
}

/// Check of the trees of one file.
#[derive(Debug)]
pub struct TreeCheck<'c, 'a> {
    check: &'c mut Check<'a>,
}

/// Items of a leaf that are checked for more than their order.
enum Leaf {
    Rows(Vec<RowItem>),
    Links(Vec<i64>),
    Roots(Vec<i64>),
}

impl<'c, 'a> TreeCheck<'c, 'a> {
    /// Starts a check.
    pub fn new(check: &'c mut Check<'a>) -> Self {
        Self { check }
    }

    /// Checks a tree of rows, and reads the rows; returns true if it is that of the metastorage.
    pub fn rows(&mut self, root: i64) -> bool {
        let mut rows = Rows::default();
        let is_metastorage = Cell::new(false);
        let is_right = |kind| {
            is_metastorage.set(is_metastorage.get() || kind == TreeKind::Metastorage);
            is_of_rows(kind)
        };
        self.walk(root, is_right, |check, page, leaf| {
            let Leaf::Rows(mut items) = leaf else { return };
            items.sort_unstable_by_key(|item| item.link);
            for item in &items {
                let row =
                    read_row(&check.image, &mut check.reader, &mut check.used, item, &mut rows);
                if row.fault == 0 {
                    check.report.rows += 1;
                    check.report.count_row(item.cache, item.hash, check.image.partition);
                } else {
                    check.report.note(DefectKind::Row, page, row.fault.into());
                }
                rows.data.clear();
            }
        });
        is_metastorage.get()
    }

    /// Checks a tree of rows that expire; the tree of rows was checked before.
    pub fn expiry(&mut self, root: i64) {
        let is_right = |kind| matches!(kind, TreeKind::Pending | TreeKind::GroupPending);
        self.walk(root, is_right, |check, page, leaf| {
            let Leaf::Links(links) = leaf else { return };
            for link in links {
                if !check.used.has(&check.image, link) {
                    check.report.note(DefectKind::Expiry, page, link);
                }
            }
        });
    }

    /// Checks the tree of the names of indexes, and each index.
    pub fn names(&mut self, root: i64) {
        let mut roots = Vec::new();
        self.walk(
            root,
            |kind| kind == TreeKind::Names,
            |_, page, leaf| {
                if let Leaf::Roots(found) = leaf {
                    roots.extend(found.into_iter().map(|id| (page, id)));
                }
            },
        );
        let is_index = |kind| matches!(kind, TreeKind::Index | TreeKind::Inline(_));
        for (_, id) in roots {
            self.walk(id, is_index, |_, _, _| {});
        }
    }

    fn walk(
        &mut self,
        root: i64,
        is_right: impl Fn(TreeKind) -> bool,
        mut use_leaf: impl FnMut(&mut Check<'a>, u32, Leaf),
    ) {
        if root == 0 {
            return;
        }
        self.check.report.trees += 1;
        let Some(index) = self.check.follow(0, root) else { return };
        let order = self.check.image.order;
        let Some(page) = self.check.page_of(index, types::TREE_META) else { return };
        let meta = match TreeMeta::read(page, order) {
            Ok(meta) => meta,
            Err(_) => return self.check.report.note(DefectKind::Count, index, 0),
        };
        let mut direction = Direction::default();
        let mut above: Option<Level> = None;
        for level in (0..meta.refs.len()).rev() {
            let inner = above.iter().flat_map(|above| &above.inner);
            let named = inner.flat_map(|inner| &inner.children).copied().collect();
            let walk = LevelWalk::below(&meta, level, named);
            let found = self.level(&meta, walk, &mut direction, &is_right, &mut use_leaf);
            if let Some(above) = above {
                self.compare(&above, &found);
            } else if found.pages.len() > 1 {
                self.check.report.note(DefectKind::Chain, found.pages[1].0, 0);
            }
            above = Some(found);
        }
    }

    /// Reads the pages of a level, and checks the order of their items.
    fn level(
        &mut self,
        meta: &TreeMeta,
        mut walk: LevelWalk,
        direction: &mut Direction,
        is_right: &impl Fn(TreeKind) -> bool,
        use_leaf: &mut impl FnMut(&mut Check<'a>, u32, Leaf),
    ) -> Level {
        let order = self.check.image.order;
        let mut found = Level { is_whole: true, ..Level::default() };
        let mut last: Option<Key> = None;
        loop {
            let check = &mut *self.check;
            let (reader, reached) = (&mut check.reader, &check.reached);
            let step = walk.step(&check.image, reader, meta, reached, |page, node| {
                let read = || (node.layout, read_node(node, order), leaf_of(node, order));
                // Each of many trees may name a page of another kind: nothing in it is read.
                (page, is_right(node.layout.kind).then(read))
            });
            let Some((page, node)) = step else { break };
            let Some((layout, (keys, children), leaf)) = node else {
                note_type(check, page);
                found.is_whole = false;
                continue;
            };
            if let Some(place) = check.image.place_of(page) {
                check.reached.add(place);
            }
            let is_inlined = matches!(layout.kind, TreeKind::Inline(_));
            let keys = if is_inlined { direction.of_index(keys) } else { keys };
            let first_wrong = first_wrong(&keys, last.as_ref());
            if let Some(n) = first_wrong {
                check.report.note(DefectKind::Order, page, n as i64);
            }
            let range = keys.first().cloned().flatten().zip(keys.last().cloned().flatten());
            last = keys.last().cloned().flatten().or(last);
            found.pages.push((page, range));
            if layout.is_leaf {
                use_leaf(check, page, leaf);
            } else {
                let children = children.into_iter().map(index_of).collect();
                found.inner.push(Inner { page, children, keys });
            }
        }
        for &(page, fault) in &walk.faults {
            self.fault(page, fault);
            found.is_whole = false;
        }
        found
    }

    fn fault(&mut self, page: u32, fault: TreeFault) {
        let (kind, value) = match fault {
            TreeFault::Page(fault) => (DefectKind::Page, i64::from(fault as u8)),
            TreeFault::Type => return note_type(self.check, page),
            TreeFault::Count => (DefectKind::Count, 0),
            TreeFault::Loop => (DefectKind::Twice, 0),
            TreeFault::Lost => (DefectKind::Lost, 0),
        };
        self.check.report.note(kind, page, value);
    }

    /// Compares the pages of a level with those that the level above it names.
    fn compare(&mut self, above: &Level, level: &Level) {
        if !above.is_whole || !level.is_whole {
            return;
        }
        let mut pages = level.pages.iter();
        for inner in &above.inner {
            let mut before: Option<&Option<Key>> = None;
            for (n, &child) in inner.children.iter().enumerate() {
                let Some((page, range)) = pages.next() else {
                    return self.check.report.note(DefectKind::Chain, inner.page, child.into());
                };
                if *page != child {
                    return self.check.report.note(DefectKind::Chain, *page, child.into());
                }
                let after = inner.keys.get(n);
                if let Some((low, high)) = range {
                    let is_low = before.and_then(Option::as_ref).is_some_and(|key| low < key);
                    let is_high = after.and_then(Option::as_ref).is_some_and(|key| high > key);
                    if is_low || is_high {
                        self.check.report.note(DefectKind::Bounds, *page, inner.page.into());
                    }
                }
                before = after;
            }
        }
        if let Some((page, _)) = pages.next() {
            self.check.report.note(DefectKind::Chain, *page, 0);
        }
    }
}

fn note_type(check: &mut Check<'_>, page: u32) {
    let found = check.reader.page(&check.image, page).ok();
    let (type_no, _) = found.and_then(|page| kind_of(page, check.image.order)).unwrap_or_default();
    check.report.note(DefectKind::Type, page, type_no.into());
}

fn is_of_rows(kind: TreeKind) -> bool {
    matches!(kind, TreeKind::Data | TreeKind::GroupData | TreeKind::Metastorage)
}

/// Returns the first item that is smaller than the one before it.
fn first_wrong(keys: &[Option<Key>], last: Option<&Key>) -> Option<usize> {
    let mut before = last;
    for (n, key) in keys.iter().enumerate() {
        if let (Some(before), Some(key)) = (before, key) {
            if key < before {
                return Some(n);
            }
        }
        before = key.as_ref();
    }
    None
}

fn read_node(node: &Node<'_>, order: Order) -> (Vec<Option<Key>>, Vec<i64>) {
    let keys = (0..node.count).map(|n| key_of(node, n, order)).collect();
    (keys, node.children(order))
}

fn key_of(node: &Node<'_>, n: usize, order: Order) -> Option<Key> {
    let item = node.item(n)?;
    let kind = node.layout.kind;
    let cache = match kind.cache_at() {
        Some(at) => order.i32_at(item, at)?.into(),
        None => 0,
    };
    match kind {
        TreeKind::Data | TreeKind::GroupData => {
            let hash = order.i32_at(item, tree::LINK_SIZE)?;
            Some(Key::Numbers(cache, hash.into(), 0))
        }
        TreeKind::Pending | TreeKind::GroupPending => {
            let (time, link) = (order.i64_at(item, 0)?, order.i64_at(item, 8)?);
            Some(Key::Numbers(cache, time, link))
        }
        TreeKind::Metastorage => {
            let size = usize::from(order.u16_at(item, tree::LINK_SIZE)?);
            let key = item.get(tree::LINK_SIZE + 2..)?.get(..size)?;
            // Keys are compared as UTF-16, which differs from bytes outside of ASCII.
            key.is_ascii().then(|| Key::Bytes(key.to_vec()))
        }
        TreeKind::Names => {
            let size = usize::from(*item.first()?);
            // Bytes are compared with their sign.
            Some(Key::Bytes(item.get(1..)?.get(..size)?.iter().map(|byte| byte ^ 0x80).collect()))
        }
        TreeKind::Inline(size) => whole_number(item.get(..usize::from(size))?, order),
        TreeKind::Index => None,
    }
}

/// Returns the first inlined column of an index if it is a whole number.
///
/// Items are in its order first; that of texts depends on settings, and other types are rare.
fn whole_number(inlined: &[u8], order: Order) -> Option<Key> {
    const BYTE: u8 = 2;
    const SHORT: u8 = 3;
    const INT: u8 = 4;
    const LONG: u8 = 5;
    let number = match *inlined.first()? {
        BYTE => i64::from(i8::from_ne_bytes([*inlined.get(1)?])),
        SHORT => i64::from(i16::from_ne_bytes(order.u16_at(inlined, 1)?.to_ne_bytes())),
        INT => i64::from(order.i32_at(inlined, 1)?),
        LONG => order.i64_at(inlined, 1)?,
        _ => return None,
    };
    Some(Key::Numbers(0, number, 0))
}

fn leaf_of(node: &Node<'_>, order: Order) -> Leaf {
    let kind = node.layout.kind;
    if !node.layout.is_leaf {
        return Leaf::Links(Vec::new());
    }
    if is_of_rows(kind) {
        return Leaf::Rows(items_of(node, order));
    }
    let items = (0..node.count).filter_map(|n| node.item(n));
    if kind == TreeKind::Names {
        let root = |item: &[u8]| order.i64_at(item, 1 + usize::from(*item.first()?));
        return Leaf::Roots(items.filter_map(root).collect());
    }
    let link = |item: &[u8]| order.i64_at(item, kind.link_at()?);
    Leaf::Links(items.filter_map(link).collect())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use crate::ignite::check::{DefectKind, checked};
    use crate::ignite::hostile::{INDEX_KINDS, KINDS, Lies, SIZE};
    use crate::ignite::page_layout::{meta, tree_meta, types};

    fn put(page: &mut [u8], at: usize, id: i64) {
        page[at..at + 8].copy_from_slice(&id.to_le_bytes());
    }

    /// Makes page `index` one of `type_no` without content, and returns its id.
    fn make(bytes: &mut [u8], index: usize, type_no: u16) -> i64 {
        let id = 2 << 48 | 0xffff << 32 | index as i64;
        let page = &mut bytes[SIZE * (index + 1)..][..SIZE];
        page.fill(0);
        page[..2].copy_from_slice(&type_no.to_le_bytes());
        page[2] = 1;
        put(page, 8, id);
        id
    }

    #[test]
    fn many_trees_share_the_pages_of_their_levels() {
        const TREES: usize = 60;
        let mut lies = Lies::new(1, 3 * TREES as u32 + 3, &[3], true);
        let names = make(&mut lies.bytes, 1, types::TREE_META);
        make(&mut lies.bytes, 0, types::INDEX_META);
        put(&mut lies.bytes[SIZE..], meta::TREE_AT, names);
        // A chain of leaves with a name each, which lead to trees with the same levels.
        let leaf = |n: usize| 2 + n;
        let root = |n: usize| 2 + TREES + n;
        let shared = |n: usize| 2 + 2 * TREES + n;
        for n in 0..TREES {
            let id = make(&mut lies.bytes, root(n), types::TREE_META);
            let page = &mut lies.bytes[SIZE * (root(n) + 1)..];
            page[tree_meta::LEVELS_AT] = TREES as u8;
            for level in 0..TREES {
                put(page, 41 + 8 * level, 2 << 48 | 0xffff << 32 | shared(level) as i64);
            }
            let own = make(&mut lies.bytes, leaf(n), 8);
            if n == 0 {
                lies.bytes[SIZE * 2 + tree_meta::LEVELS_AT] = 1;
                put(&mut lies.bytes[SIZE * 2..], 41, own);
            }
            let page = &mut lies.bytes[SIZE * (leaf(n) + 1)..];
            page[40] = 1;
            put(page, 59, id);
            if n + 1 < TREES {
                put(page, 42, own + 1);
            }
            make(&mut lies.bytes, shared(n), if n == 0 { 3 } else { 4 });
        }
        let found = checked(lies.image(), &[]);
        assert_eq!(found.report.trees, TREES as u64 + 1);
        assert!(found.report.counts[DefectKind::Twice as usize] > 0);
        // Each tree reads none of the pages that another one has.
        assert!(found.reader.reads < 10 * lies.pages, "{} reads", found.reader.reads);
    }

    /// Returns the defects of order of an index with the keys of two leaves, inlined.
    fn disorder(leaves: [&[i64]; 2]) -> u64 {
        let mut lies = Lies::new(1, 6, &[3], true);
        make(&mut lies.bytes, 0, types::INDEX_META);
        let names = make(&mut lies.bytes, 1, types::TREE_META);
        put(&mut lies.bytes[SIZE..], meta::TREE_AT, names);
        let name = make(&mut lies.bytes, 2, 8);
        let root = make(&mut lies.bytes, 3, types::TREE_META);
        lies.bytes[SIZE * 2 + tree_meta::LEVELS_AT] = 1;
        put(&mut lies.bytes[SIZE * 2..], 41, name);
        lies.bytes[SIZE * 3 + 40] = 1;
        put(&mut lies.bytes[SIZE * 3..], 59, root);
        // Leaves of an inlined long of 9 bytes.
        let second = make(&mut lies.bytes, 5, 10_008);
        let first = make(&mut lies.bytes, 4, 10_008);
        lies.bytes[SIZE * 4 + tree_meta::LEVELS_AT] = 1;
        put(&mut lies.bytes[SIZE * 4..], 41, first);
        put(&mut lies.bytes[SIZE * 5..], 42, second);
        for (page, keys) in leaves.into_iter().enumerate() {
            let page = &mut lies.bytes[SIZE * (page + 5)..];
            page[40] = keys.len() as u8;
            for (n, &key) in keys.iter().enumerate() {
                page[58 + 17 * n] = 5;
                put(page, 59 + 17 * n, key);
            }
        }
        let found = checked(lies.image(), &[]);
        assert_eq!(found.report.trees, 2);
        found.report.counts[DefectKind::Order as usize]
    }

    #[test]
    fn items_of_an_index_are_in_one_direction() {
        assert_eq!(disorder([&[-3, 1, 1, 9], &[9, 11]]), 0);
        assert_eq!(disorder([&[9, 2, 2, -7], &[-7, i64::MIN]]), 0);
        assert_eq!(disorder([&[4, 4, 4], &[4, 7]]), 0);
        assert_eq!(disorder([&[4, 4, 4], &[4, 1]]), 0);
        assert_eq!(disorder([&[1, 3, 2, 9], &[10]]), 1);
        assert_eq!(disorder([&[9, 2, 3, 1], &[0]]), 1);
        assert_eq!(disorder([&[1, 2], &[1, 5]]), 1);
        assert_eq!(disorder([&[2, 1], &[3]]), 1);
    }

    proptest! {
        #[test]
        fn any_trees_are_checked_in_linear_time(seed: u64, pages in 1u32..60, is_index: bool) {
            let kinds = if is_index { &INDEX_KINDS[..] } else { &KINDS };
            let lies = Lies::new(seed, pages, kinds, is_index);
            let found = checked(lies.image(), &[]);
            prop_assert!(found.reader.reads <= lies.reads_max(), "{} reads", found.reader.reads);
            prop_assert!(found.report.rows <= lies.links as u64);
        }
    }
}
