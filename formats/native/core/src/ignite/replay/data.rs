//! Rows of data pages: the directory of items, and the entries that they point to.
//!
//! Entries are packed from the end of the page. An item below the direct count is the offset of an
//! entry. After a removal, the ids of other rows are found through indirect items. Each is an id
//! and the index of a direct item, and they are in the order of the ids.
//!
//! Source: AbstractDataPageIO, Ignite 2.18.0.

use crate::ignite::page_layout::data::{
    DIRECT_AT, FIRST_ENTRY_AT, FRAGMENT_BIT, FREE_AT, INDIRECT_AT, ITEM_SIZE, ITEMS_AT,
    LENGTH_SIZE, LINK_SIZE, LIST_AT,
};
use crate::ignite::replay::page::Page;

const FRAGMENT: usize = FRAGMENT_BIT as usize;
const ITEMS_MAX: usize = 0xff;

/// Place of an item: its index in the directory, and the direct item that it stands for.
struct Found {
    indirect: Option<usize>,
    direct: usize,
    offset: usize,
}

/// Makes a page without rows.
pub fn clear(page: &mut Page<'_>) -> Option<()> {
    page.put_u8(DIRECT_AT, 0)?;
    page.put_u8(INDIRECT_AT, 0)?;
    page.put_u16(FIRST_ENTRY_AT, page.bytes.len())?;
    page.put_u16(FREE_AT, page.bytes.len().checked_sub(ITEMS_AT)?)
}

/// Writes the content of a new page after its header.
pub fn format(page: &mut Page<'_>) -> Option<()> {
    clear(page)?;
    set_free_list(page, 0)
}

/// Sets the page of the list that names this page.
pub fn set_free_list(page: &mut Page<'_>, id: i64) -> Option<()> {
    page.put_i64(LIST_AT, id)
}

/// Adds a row, or a fragment of one with the link to the fragment after it.
pub fn add(page: &mut Page<'_>, payload: &[u8], link: Option<i64>) -> Option<()> {
    let (direct, indirect) = counts(page)?;
    if direct >= ITEMS_MAX || payload.len() >= FRAGMENT {
        return None;
    }
    let prefix = LENGTH_SIZE + if link.is_some() { LINK_SIZE } else { 0 };
    let needed = prefix + payload.len();
    let end = item_at(direct + indirect) + ITEM_SIZE;
    let is_enough = |first: usize| first.checked_sub(needed).is_some_and(|left| end <= left);
    let mut first = page.u16(FIRST_ENTRY_AT)?;
    if !is_enough(first) {
        first = compact(page, direct)?;
        if !is_enough(first) {
            return None;
        }
    }
    let free = page.u16(FREE_AT)?.checked_sub(needed + ITEM_SIZE)?;
    let offset = first - needed;
    page.put_u16(offset, payload.len() | if link.is_some() { FRAGMENT } else { 0 })?;
    if let Some(link) = link {
        page.put_i64(offset + LENGTH_SIZE, link)?;
    }
    page.put(offset + prefix, payload)?;
    page.put_u16(FIRST_ENTRY_AT, offset)?;
    let is_reused = insert_item(page, offset, direct, indirect)?;
    page.put_u16(FREE_AT, free + if is_reused { ITEM_SIZE } else { 0 })
}

/// Overwrites a row with one of the same size; a fragment stays as it is.
pub fn update(page: &mut Page<'_>, id: usize, payload: &[u8]) -> Option<()> {
    let (direct, indirect) = counts(page)?;
    let offset = find(page, id, direct, indirect)?.offset;
    let length = page.u16(offset)?;
    if length & FRAGMENT != 0 {
        return Some(());
    }
    if length != payload.len() {
        return None;
    }
    page.put(offset + LENGTH_SIZE, payload)
}

/// Removes a row.
pub fn remove(page: &mut Page<'_>, id: usize) -> Option<()> {
    let (direct, indirect) = counts(page)?;
    let found = find(page, id, direct, indirect)?;
    if direct == 1 {
        return clear(page);
    }
    let size = entry_size(page, found.offset)?;
    let mut drops_last = true;
    if found.direct + 1 < direct {
        drops_last = move_last(page, found.direct, direct, indirect)?;
    }
    let mut left = indirect;
    match found.indirect {
        None if drops_last => move_items(page, direct, indirect, direct - 1)?,
        None => left += 1,
        Some(index) => {
            let after = index + 1;
            let behind = direct + indirect - after;
            if drops_last {
                move_items(page, direct, index - direct, direct - 1)?;
                move_items(page, after, behind, after - 2)?;
                left = left.checked_sub(1)?;
            } else {
                move_items(page, after, behind, after - 1)?;
            }
        }
    }
    let saved = (1 + indirect).checked_sub(left)?;
    let free = page.u16(FREE_AT)? + size + ITEM_SIZE * saved;
    page.put_u8(INDIRECT_AT, left)?;
    page.put_u8(DIRECT_AT, direct - 1)?;
    if left > direct - 1 || free > page.bytes.len() {
        return None;
    }
    page.put_u16(FREE_AT, free)
}

fn counts(page: &Page<'_>) -> Option<(usize, usize)> {
    Some((page.u8(DIRECT_AT)?, page.u8(INDIRECT_AT)?))
}

fn item_at(index: usize) -> usize {
    ITEMS_AT + ITEM_SIZE * index
}

fn entry_size(page: &Page<'_>, offset: usize) -> Option<usize> {
    let length = page.u16(offset)?;
    let prefix = LENGTH_SIZE + if length & FRAGMENT == 0 { 0 } else { LINK_SIZE };
    let size = prefix + (length & !FRAGMENT);
    (offset + size <= page.bytes.len()).then_some(size)
}

fn find(page: &Page<'_>, id: usize, direct: usize, indirect: usize) -> Option<Found> {
    let mut found = Found { indirect: None, direct: id, offset: 0 };
    if id >= direct {
        let index = (direct..direct + indirect)
            .find(|&index| page.u16(item_at(index)).is_some_and(|item| item >> 8 == id))?;
        found.direct = page.u16(item_at(index))? & 0xff;
        found.indirect = Some(index);
    }
    if found.direct >= direct {
        return None;
    }
    found.offset = page.u16(item_at(found.direct))?;
    Some(found)
}

/// Writes the item of a new entry; returns true if it took the place of an indirect item.
fn insert_item(page: &mut Page<'_>, offset: usize, direct: usize, indirect: usize) -> Option<bool> {
    if indirect > 0 {
        let item = page.u16(item_at(direct))?;
        let target = item & 0xff;
        if item >> 8 == direct {
            if target >= direct {
                return None;
            }
            let moved = page.u16(item_at(target))?;
            page.put_u16(item_at(direct), moved)?;
            page.put_u16(item_at(target), offset)?;
            page.put_u8(DIRECT_AT, direct + 1)?;
            page.put_u8(INDIRECT_AT, indirect - 1)?;
            return Some(true);
        }
    }
    move_items(page, direct, indirect, direct + 1)?;
    page.put_u16(item_at(direct), offset)?;
    page.put_u8(DIRECT_AT, direct + 1)?;
    Some(false)
}

/// Moves the last direct item into a hole; returns true if an indirect item pointed to it.
fn move_last(page: &mut Page<'_>, hole: usize, direct: usize, indirect: usize) -> Option<bool> {
    let last = direct - 1;
    let pointing = (direct..direct + indirect)
        .find(|&index| page.u16(item_at(index)).is_some_and(|item| item & 0xff == last));
    let moved = page.u16(item_at(last))?;
    page.put_u16(item_at(hole), moved)?;
    page.put_u16(item_at(last), last << 8 | hole)?;
    let Some(index) = pointing else { return Some(false) };
    let id = page.u16(item_at(index))? & 0xff00;
    page.put_u16(item_at(index), id | hole)?;
    Some(true)
}

fn move_items(page: &mut Page<'_>, from: usize, count: usize, to: usize) -> Option<()> {
    page.shift(item_at(from), count * ITEM_SIZE, item_at(to))
}

/// Moves all entries to the end of the page; returns the offset of the first.
fn compact(page: &mut Page<'_>, direct: usize) -> Option<usize> {
    let mut entries = Vec::with_capacity(direct);
    for item in 0..direct {
        entries.push((page.u16(item_at(item))?, item));
    }
    entries.sort_unstable();
    let mut reached = page.bytes.len();
    for &(offset, item) in entries.iter().rev() {
        let size = entry_size(page, offset)?;
        let to = reached.checked_sub(size)?;
        // Entries that overlap would overwrite each other.
        if to < offset {
            return None;
        }
        if to > offset {
            page.shift(offset, size, to)?;
            page.put_u16(item_at(item), to)?;
        }
        reached = to;
    }
    Some(reached)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ignite::order::Order;

    const SIZE: usize = 128;

    fn with<T>(bytes: &mut [u8], work: impl FnOnce(&mut Page<'_>) -> T) -> T {
        work(&mut Page { bytes, order: Order::Little })
    }

    fn empty() -> Vec<u8> {
        let mut bytes = vec![0; SIZE];
        with(&mut bytes, format).unwrap();
        bytes
    }

    /// Returns the row of an id, its link first if it is a fragment.
    fn row(bytes: &mut [u8], id: usize) -> Option<Vec<u8>> {
        with(bytes, |page| {
            let (direct, indirect) = counts(page)?;
            let offset = find(page, id, direct, indirect)?.offset;
            let size = entry_size(page, offset)?;
            Some(page.bytes[offset + LENGTH_SIZE..offset + size].to_vec())
        })
    }

    fn free(bytes: &mut [u8]) -> usize {
        with(bytes, |page| page.u16(FREE_AT)).unwrap()
    }

    #[test]
    fn rows_keep_their_ids_while_others_are_removed() {
        let mut bytes = empty();
        for number in 0..5 {
            with(&mut bytes, |page| add(page, &[number; 4], None)).unwrap();
        }
        assert_eq!(free(&mut bytes), SIZE - ITEMS_AT - 5 * 8);
        with(&mut bytes, |page| remove(page, 1)).unwrap();
        assert_eq!(row(&mut bytes, 4), Some(vec![4; 4]));
        assert_eq!(row(&mut bytes, 1), Some(vec![4; 4]), "the slot is in use by row 4");
        with(&mut bytes, |page| remove(page, 0)).unwrap();
        with(&mut bytes, |page| remove(page, 4)).unwrap();
        assert_eq!(row(&mut bytes, 2), Some(vec![2; 4]));
        assert_eq!(row(&mut bytes, 3), Some(vec![3; 4]));
        with(&mut bytes, |page| remove(page, 2)).unwrap();
        with(&mut bytes, |page| remove(page, 3)).unwrap();
        assert_eq!(free(&mut bytes), SIZE - ITEMS_AT);
        assert_eq!(with(&mut bytes, |page| remove(page, 0)), None);
    }

    #[test]
    fn a_full_page_is_compacted() {
        let mut bytes = empty();
        for number in 0..3 {
            with(&mut bytes, |page| add(page, &[number; 18], None)).unwrap();
        }
        with(&mut bytes, |page| remove(page, 0)).unwrap();
        with(&mut bytes, |page| add(page, &[7; 10], Some(9))).unwrap();
        assert_eq!(row(&mut bytes, 1), Some(vec![1; 18]));
        assert_eq!(row(&mut bytes, 2), Some(vec![2; 18]));
        let mut fragment = 9_i64.to_le_bytes().to_vec();
        fragment.extend([7; 10]);
        assert_eq!(row(&mut bytes, 0), Some(fragment));
        assert_eq!(with(&mut bytes, |page| add(page, &[7; 18], None)), None);
    }

    #[test]
    fn an_update_keeps_the_size() {
        let mut bytes = empty();
        with(&mut bytes, |page| add(page, b"abc", None)).unwrap();
        with(&mut bytes, |page| update(page, 0, b"xyz")).unwrap();
        assert_eq!(row(&mut bytes, 0), Some(b"xyz".to_vec()));
        assert_eq!(with(&mut bytes, |page| update(page, 0, b"long")), None);
        assert_eq!(with(&mut bytes, |page| update(page, 1, b"xyz")), None);
    }
}
