//! Items of tree pages, and the levels in the meta pages of trees.
//!
//! Source: BPlusIO, BPlusInnerIO, BPlusLeafIO, BPlusMetaIO, Ignite 2.18.0.

use crate::ignite::page_layout::TreePage;
use crate::ignite::page_layout::tree::{CHILD_SIZE, COUNT_AT, FORWARD_AT, ITEMS_AT, REMOVE_AT};
use crate::ignite::page_layout::tree_meta::{
    CREATED_AT, FLAGS_AT, INLINE_SIZE_AT, LEVELS_AT, REF_SIZE, refs_at,
};
use crate::ignite::replay::page::Page;

/// Bytes of the hash in the version of the engine that made a tree.
const HASH_SIZE: usize = 20;

/// Layout of a tree page whose items are changed.
#[derive(Clone, Copy, Debug)]
pub struct Items(pub TreePage);

impl Items {
    fn at(self, index: usize) -> usize {
        self.0.items_at() + index * self.0.step()
    }

    fn count(self, page: &Page<'_>) -> Option<usize> {
        page.u16(COUNT_AT).filter(|&count| self.at(count) <= page.bytes.len())
    }

    /// Writes the item at an index, which is not checked against the number of items.
    fn put(self, page: &mut Page<'_>, index: usize, row: &[u8]) -> Option<()> {
        if row.len() != self.0.kind.item_size() {
            return None;
        }
        page.put(self.at(index), row)
    }

    /// Inserts an item; in an inner page with the child right of it.
    pub fn insert(self, page: &mut Page<'_>, index: usize, row: &[u8], right: i64) -> Option<()> {
        let count = self.count(page)?;
        let moved = count.checked_sub(index)? * self.0.step();
        page.shift(self.at(index), moved, self.at(index + 1))?;
        self.put(page, index, row)?;
        if !self.0.is_leaf {
            page.put_i64(self.at(index + 1) - CHILD_SIZE, right)?;
        }
        page.put_u16(COUNT_AT, count + 1)
    }

    /// Overwrites an item.
    pub fn replace(self, page: &mut Page<'_>, index: usize, row: &[u8]) -> Option<()> {
        if index >= self.count(page)? {
            return None;
        }
        self.put(page, index, row)
    }

    /// Removes an item of a page that has `count` items.
    pub fn remove(self, page: &mut Page<'_>, index: usize, count: usize) -> Option<()> {
        if self.count(page)? != count {
            return None;
        }
        let moved = count.checked_sub(index + 1)? * self.0.step();
        page.shift(self.at(index + 1), moved, self.at(index))?;
        page.put_u16(COUNT_AT, count - 1)
    }

    /// Sets the child left of all items.
    pub fn set_leftmost(self, page: &mut Page<'_>, id: i64) -> Option<()> {
        if self.0.is_leaf {
            return None;
        }
        page.put_i64(ITEMS_AT, id)
    }

    /// Writes the only item of a new root and its children.
    pub fn init_root(self, page: &mut Page<'_>, row: &[u8], left: i64, right: i64) -> Option<()> {
        format(page)?;
        self.set_leftmost(page, left)?;
        self.insert(page, 0, row, right)
    }

    /// Cuts a page that was split; the items after the first `count` are in the page after it.
    pub fn split(self, page: &mut Page<'_>, count: usize, forward: i64) -> Option<()> {
        self.set_count(page, count)?;
        page.put_i64(FORWARD_AT, forward)
    }

    /// Sets the number of items.
    pub fn set_count(self, page: &mut Page<'_>, count: usize) -> Option<()> {
        if self.at(count) > page.bytes.len() {
            return None;
        }
        page.put_u16(COUNT_AT, count)
    }

    /// Sets the number of the last removal from the page.
    pub fn set_remove_id(self, page: &mut Page<'_>, id: i64) -> Option<()> {
        page.put_i64(REMOVE_AT, id)
    }
}

/// Writes the content of a new page after its header.
pub fn format(page: &mut Page<'_>) -> Option<()> {
    page.put_u16(COUNT_AT, 0)?;
    page.put_i64(FORWARD_AT, 0)?;
    page.put_i64(REMOVE_AT, 0)
}

fn ref_at(page: &Page<'_>, level: usize) -> Option<usize> {
    Some(refs_at(page.version()?)? + level * REF_SIZE)
}

/// Makes a tree of one level.
pub fn init_levels(page: &mut Page<'_>, root: i64, inline_size: i64) -> Option<()> {
    page.put_u8(LEVELS_AT, 1)?;
    page.put_i64(ref_at(page, 0)?, root)?;
    if page.version()? > 1 {
        page.put_u16(INLINE_SIZE_AT, usize::from(inline_size as u16))?;
    }
    Some(())
}

/// Sets the flags of a tree, and the version of the engine that made it.
pub fn set_created(page: &mut Page<'_>, flags: i64, version: &[i64], hash: &[u8]) -> Option<()> {
    let [major, minor, maintenance, time] = *version else { return None };
    if page.version()? < 4 || hash.len() != HASH_SIZE {
        return None;
    }
    page.put_i64(FLAGS_AT, flags)?;
    page.put(CREATED_AT, &[major as u8, minor as u8, maintenance as u8])?;
    page.put_i64(CREATED_AT + 3, time)?;
    page.put(CREATED_AT + 11, hash)
}

/// Adds a level above the others.
pub fn add_level(page: &mut Page<'_>, root: i64) -> Option<()> {
    let levels = page.u8(LEVELS_AT)?;
    page.put_i64(ref_at(page, levels)?, root)?;
    page.put_u8(LEVELS_AT, levels + 1)
}

/// Removes the highest level.
pub fn cut_level(page: &mut Page<'_>) -> Option<()> {
    let levels = page.u8(LEVELS_AT)?.checked_sub(1)?;
    page.put_u8(LEVELS_AT, levels)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ignite::order::Order;
    use crate::ignite::page_layout::TreeKind;

    const SIZE: usize = 100;

    fn page(bytes: &mut [u8]) -> Page<'_> {
        Page { bytes, order: Order::Big }
    }

    #[test]
    fn items_of_a_leaf() {
        let mut bytes = [0; SIZE];
        let page = &mut page(&mut bytes);
        let leaf = Items(TreePage { kind: TreeKind::Data, is_leaf: true });
        leaf.insert(page, 0, &[1; 12], 0).unwrap();
        leaf.insert(page, 0, &[2; 12], 0).unwrap();
        leaf.insert(page, 2, &[3; 12], 0).unwrap();
        assert_eq!(leaf.insert(page, 0, &[4; 12], 0), None, "the page is full");
        assert_eq!(leaf.remove(page, 0, 2), None, "it has another number of items");
        leaf.remove(page, 1, 3).unwrap();
        leaf.replace(page, 0, &[5; 12]).unwrap();
        assert_eq!(page.bytes[ITEMS_AT..ITEMS_AT + 24], [[5; 12], [3; 12]].concat());
        assert_eq!(leaf.replace(page, 2, &[5; 12]), None);
        assert_eq!(leaf.insert(page, 1, &[6; 11], 0), None);
        assert_eq!(leaf.set_leftmost(page, 1), None);
    }

    #[test]
    fn items_of_an_inner_page() {
        let mut bytes = [0; SIZE];
        let page = &mut page(&mut bytes);
        let inner = Items(TreePage { kind: TreeKind::Index, is_leaf: false });
        inner.init_root(page, &[1; 8], 7, 8).unwrap();
        inner.insert(page, 0, &[2; 8], 9).unwrap();
        inner.set_leftmost(page, 6).unwrap();
        let ids: Vec<_> = [0, 16, 32].iter().map(|at| page.i64(ITEMS_AT + at)).collect();
        assert_eq!(ids, [Some(6), Some(9), Some(8)]);
        inner.split(page, 1, 5).unwrap();
        assert_eq!((page.u16(COUNT_AT), page.i64(FORWARD_AT)), (Some(1), Some(5)));
        inner.remove(page, 0, 1).unwrap();
        assert_eq!(inner.remove(page, 0, 0), None);
    }

    #[test]
    fn levels() {
        for (version, at) in [(1, 41), (2, 43), (3, 43), (4, 82)] {
            let mut bytes = [0; 256];
            let page = &mut page(&mut bytes);
            page.put_header(2, version, 1).unwrap();
            init_levels(page, 4, 0).unwrap();
            add_level(page, 5).unwrap();
            assert_eq!((page.i64(at), page.i64(at + 8)), (Some(4), Some(5)));
            cut_level(page).unwrap();
            cut_level(page).unwrap();
            assert_eq!(cut_level(page), None);
        }
    }
}
