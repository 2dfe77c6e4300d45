//! Items of pages one by one: rows and fragments, items of trees, ids in lists.
//!
//! Source: AbstractDataPageIO, BPlusIO, PagesListMetaIO, PagesListNodeIO,
//! PagePartitionCountersIO, Ignite 2.18.0.

use crate::ignite::data_page::Directory;
use crate::ignite::order::Order;
use crate::ignite::page_layout::{
    TreeKind, cache_sizes, is_data, list_meta, list_node, tree, types,
};
use crate::ignite::page_reader::kind_of;
use crate::ignite::pages::ID_AT;
use crate::ignite::rows::{ROW_COLUMNS, RowFault, decode_payload};
use crate::ignite::tree::Node;

/// Columns of an item: those of a row, the id or link that follows it, and a number of rows.
pub const ITEM_COLUMNS: usize = ROW_COLUMNS + 2;

const NONE: i64 = -1;
const CACHE: usize = 2;
const LINK: usize = 3;
const HASH: usize = 4;
const KEY: usize = 6;
const VALUE: usize = 9;
const EXPIRE: usize = 14;
const FAULT: usize = 15;
const NEXT: usize = 16;
const ROWS: usize = 17;

type Columns = [i64; ITEM_COLUMNS];

/// Items in columns, and the bytes of their keys and values.
#[derive(Debug, Default)]
pub struct Items {
    /// The items; the first two numbers are the place of the page among those given, and the item.
    pub items: Vec<Columns>,
    /// Bytes of keys and values.
    pub data: Vec<u8>,
}

impl Items {
    /// Returns the columns one after the other.
    pub fn columns(&self) -> Vec<i64> {
        (0..ITEM_COLUMNS).flat_map(|i| self.items.iter().map(move |item| item[i])).collect()
    }

    fn span(&mut self, bytes: &[u8]) -> [i64; 2] {
        let start = self.data.len() as i64;
        self.data.extend_from_slice(bytes);
        [start, bytes.len() as i64]
    }
}

/// Returns the items of plain pages that lie one after the other.
pub fn read(pages: &[u8], page_size: usize, order: Order) -> Items {
    let mut found = Items::default();
    for (n, page) in pages.chunks_exact(page_size.max(1)).enumerate() {
        let first = found.items.len();
        let (type_no, _) = kind_of(page, order).unwrap_or_default();
        // Entries outside the page have no item; `pages verify` reports them.
        let _whole = match type_no {
            types::LIST_META => list_tails(page, order, &mut found),
            types::LIST_NODE => list_ids(page, order, &mut found),
            types::CACHE_SIZES => sizes(page, order, &mut found),
            _ if is_data(type_no) => rows(page, order, type_no, &mut found),
            _ => tree_items(page, order, &mut found),
        };
        for item in found.items.iter_mut().skip(first) {
            item[0] = n as i64;
        }
    }
    found
}

fn empty(item: i64) -> Columns {
    let mut columns = [NONE; ITEM_COLUMNS];
    (columns[1], columns[HASH], columns[EXPIRE], columns[FAULT]) = (item, 0, 0, 0);
    (columns[LINK], columns[NEXT]) = (0, 0);
    columns
}

fn rows(page: &[u8], order: Order, type_no: u16, found: &mut Items) -> Option<()> {
    let id = order.i64_at(page, ID_AT)? & ((1 << 56) - 1);
    let directory = Directory::read(page)?;
    let mut taken = 0;
    for (item, direct) in directory.ids(page, order) {
        let mut columns = empty(item.into());
        columns[LINK] = id | i64::from(item) << 56;
        match directory.entry(page, order, direct) {
            // The rows of a page have no more bytes than the page.
            Some(entry) if taken + entry.payload.len() > page.len() => {
                columns[FAULT] = RowFault::Shared as i64;
            }
            Some(entry) => {
                taken += entry.payload.len();
                let span = found.span(page.get(entry.payload)?);
                match entry.next {
                    Some(next) => {
                        columns[NEXT] = next;
                        (columns[VALUE], columns[VALUE + 1]) = (span[0], span[1]);
                    }
                    None => {
                        let row = decode_payload(&found.data, span, type_no, order);
                        columns[KEY - 1..ROW_COLUMNS].copy_from_slice(&row.numbers());
                    }
                }
            }
            None => columns[FAULT] = RowFault::NoItem as i64,
        }
        found.items.push(columns);
    }
    Some(())
}

fn tree_items(page: &[u8], order: Order, found: &mut Items) -> Option<()> {
    let node = Node::read(page, order).ok()?;
    let kind = node.layout.kind;
    let children = node.children(order);
    for n in 0..node.count {
        let bytes = node.item(n)?;
        let mut columns = empty(n as i64);
        if let Some(at) = kind.link_at() {
            columns[LINK] = order.i64_at(bytes, at)?;
        }
        if let Some(at) = kind.cache_at() {
            columns[CACHE] = order.i32_at(bytes, at)?.into();
        }
        columns[NEXT] = children.get(n + 1).copied().unwrap_or(0);
        let key = match kind {
            TreeKind::Data | TreeKind::GroupData => {
                columns[HASH] = order.i32_at(bytes, tree::LINK_SIZE)?.into();
                None
            }
            TreeKind::Pending | TreeKind::GroupPending => {
                columns[EXPIRE] = order.i64_at(bytes, 0)?;
                None
            }
            TreeKind::Names => {
                let size = usize::from(*bytes.first()?);
                columns[LINK] = order.i64_at(bytes, 1 + size)?;
                bytes.get(1..1 + size)
            }
            TreeKind::Metastorage => {
                let size = usize::from(order.u16_at(bytes, tree::LINK_SIZE)?);
                bytes.get(tree::LINK_SIZE + 2..)?.get(..size)
            }
            TreeKind::Inline(size) => bytes.get(..usize::from(size)),
            TreeKind::Index => None,
        };
        if let Some(key) = key {
            [columns[KEY], columns[KEY + 1]] = found.span(key);
        }
        found.items.push(columns);
    }
    Some(())
}

fn list_tails(page: &[u8], order: Order, found: &mut Items) -> Option<()> {
    for n in 0..usize::from(order.u16_at(page, list_meta::COUNT_AT)?) {
        let at = list_meta::ITEMS_AT + n * list_meta::ITEM_SIZE;
        let mut columns = empty(order.u16_at(page, at)?.into());
        columns[NEXT] = order.i64_at(page, at + 2)?;
        found.items.push(columns);
    }
    Some(())
}

fn list_ids(page: &[u8], order: Order, found: &mut Items) -> Option<()> {
    for n in 0..usize::from(order.u16_at(page, list_node::COUNT_AT)?) {
        let mut columns = empty(n as i64);
        columns[NEXT] = order.i64_at(page, list_node::IDS_AT + n * list_node::ID_SIZE)?;
        found.items.push(columns);
    }
    Some(())
}

fn sizes(page: &[u8], order: Order, found: &mut Items) -> Option<()> {
    for n in 0..usize::from(order.u16_at(page, cache_sizes::COUNT_AT)?) {
        let at = cache_sizes::ITEMS_AT + n * cache_sizes::ITEM_SIZE;
        let mut columns = empty(n as i64);
        columns[CACHE] = order.i32_at(page, at)?.into();
        columns[ROWS] = order.i64_at(page, at + 4)?;
        found.items.push(columns);
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::ignite::rows::tests::{SIZE, file, overlapping};

    #[test]
    fn items_of_each_kind_of_page() {
        let found = read(&file()[SIZE..], SIZE, Order::Little);
        let places: Vec<_> = found.items.iter().map(|item| (item[0], item[1])).collect();
        assert_eq!(places, [(2, 0), (2, 1), (3, 0), (4, 0), (5, 0), (5, 1), (6, 0), (6, 1)]);
        let row = found.items[4];
        assert_eq!((row[HASH], row[KEY + 1], row[VALUE + 1], row[EXPIRE]), (0, 1, 3, 99));
        let fragment = found.items[5];
        assert_eq!((fragment[NEXT], fragment[VALUE + 1]), (1 << 48 | 3 << 32 | 6, 600));
        assert_eq!(found.items[3][NEXT] as u32, 3);
    }

    #[test]
    fn items_that_overlap_have_no_more_bytes_than_the_page() {
        let found = read(&overlapping(), SIZE, Order::Little);
        assert_eq!((found.items.len(), found.data.len()), (200, 1000));
        let faults = found.items.iter().filter(|item| item[FAULT] == RowFault::Shared as i64);
        assert_eq!(faults.count(), 190);
    }

    proptest! {
        #[test]
        fn any_bytes_have_items_inside_of_them(
            mut pages in prop::collection::vec(any::<u8>(), 0..4 * SIZE),
            type_no in prop::sample::select(vec![1u8, 3, 5, 6, 8, 10, 12, 13, 17, 20, 21, 23]),
            page_size in 0usize..2 * SIZE,
        ) {
            if let Some(start) = pages.get_mut(..2) {
                start.copy_from_slice(&[type_no, 0]);
            }
            let found = read(&pages, page_size, Order::Little);
            for item in &found.items {
                for at in [KEY, VALUE] {
                    prop_assert!(item[at] + item[at + 1] <= found.data.len() as i64);
                }
            }
            prop_assert!(found.items.len() <= pages.len());
        }
    }
}
