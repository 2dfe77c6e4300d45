//! Lists of pages, and the pages that track changes for snapshots.
//!
//! Source: PagesListNodeIO, PagesListMetaIO, TrackingPageIO, Ignite 2.18.0.

use crate::ignite::page_layout::list_meta;
use crate::ignite::page_layout::list_node::{COUNT_AT, ID_SIZE, IDS_AT, NEXT_AT, PREVIOUS_AT};
use crate::ignite::page_layout::tracking::{COUNT_SIZE, HALVES_AT, TAG_AT};
use crate::ignite::replay::page::Page;

/// Bits of an id that are not compared when it is removed.
const PARTITION: i64 = 0xffff_0000_0000;

/// Bit of the tag that says that the bits of the page cannot be trusted.
const CORRUPT: i64 = i64::MIN;

/// Writes the content of a new node after its header.
pub fn format_node(page: &mut Page<'_>) -> Option<()> {
    page.put_u16(COUNT_AT, 0)?;
    page.put_i64(PREVIOUS_AT, 0)?;
    page.put_i64(NEXT_AT, 0)
}

/// Writes the content of a new page of lists after its header.
pub fn format_meta(page: &mut Page<'_>) -> Option<()> {
    reset_meta(page)?;
    page.put_i64(list_meta::NEXT_AT, 0)
}

/// Removes all lists.
pub fn reset_meta(page: &mut Page<'_>) -> Option<()> {
    page.put_u16(list_meta::COUNT_AT, 0)
}

/// Sets the node after this one.
pub fn set_next(page: &mut Page<'_>, id: i64) -> Option<()> {
    page.put_i64(NEXT_AT, id)
}

/// Sets the node before this one.
pub fn set_previous(page: &mut Page<'_>, id: i64) -> Option<()> {
    page.put_i64(PREVIOUS_AT, id)
}

/// Appends a page.
pub fn add(page: &mut Page<'_>, id: i64) -> Option<()> {
    let count = page.u16(COUNT_AT)?;
    page.put_i64(IDS_AT + count * ID_SIZE, id)?;
    page.put_u16(COUNT_AT, count + 1)
}

/// Removes a page.
pub fn remove(page: &mut Page<'_>, id: i64) -> Option<()> {
    let count = page.u16(COUNT_AT)?;
    let at = |index: usize| IDS_AT + index * ID_SIZE;
    let is_it = |found: i64| (found ^ id) & !PARTITION == 0;
    let index = (0..count).find(|&index| page.i64(at(index)).is_some_and(is_it))?;
    page.shift(at(index + 1), (count - index - 1) * ID_SIZE, at(index))?;
    page.put_u16(COUNT_AT, count - 1)
}

/// Marks a page as changed since the snapshot before `next`.
///
/// The half of a tag holds the changes since that snapshot. Marks of the other half are kept, and
/// merged if two snapshots have failed.
pub fn mark(page: &mut Page<'_>, id: i64, next: i64, last: i64) -> Option<()> {
    let bitmap = (page.bytes.len().checked_sub(HALVES_AT)? / 2).checked_sub(COUNT_SIZE)?;
    turn(page, next, last, bitmap)?;
    let half = half_at(next, bitmap);
    let bits = bitmap.checked_mul(8).filter(|&bits| bits > 0)?;
    let bit = usize::try_from(id as u32).ok()?.checked_sub(1)? % bits;
    let at = half + COUNT_SIZE + bit / 8;
    let old = page.u8(at)?;
    let new = old | 1 << (bit % 8);
    if new == old {
        return Some(());
    }
    page.put_u8(at, new)?;
    let size = page.u16(half)?;
    page.put_u16(half, size + 1)
}

/// Removes the sign that the marks of a page cannot be trusted.
pub fn repair(page: &mut Page<'_>) -> Option<()> {
    let tag = page.i64(TAG_AT)?;
    page.put_i64(TAG_AT, tag & !CORRUPT)
}

fn half_at(tag: i64, bitmap: usize) -> usize {
    HALVES_AT + if tag & 1 == 0 { 0 } else { COUNT_SIZE + bitmap }
}

/// Prepares the halves of a page for the tag of a new snapshot.
fn turn(page: &mut Page<'_>, next: i64, last: i64, bitmap: usize) -> Option<()> {
    let stored = page.i64(TAG_AT)?;
    let tag = stored & !CORRUPT;
    if next == last || tag > next {
        return None;
    }
    if tag == next {
        return Some(());
    }
    let size = COUNT_SIZE + bitmap;
    let half = half_at(next, bitmap);
    if tag <= last {
        page.zero(HALVES_AT, page.bytes.len() - HALVES_AT)?;
    } else {
        let other = half_at(next ^ 1, bitmap);
        if tag.checked_sub(last)? == 1 {
            if next.checked_sub(tag)? % 2 == 0 {
                page.shift(half, size, other)?;
            }
        } else {
            merge(page, half + COUNT_SIZE, other, bitmap)?;
        }
        page.zero(half, size)?;
    }
    page.put_i64(TAG_AT, next | stored & CORRUPT)
}

/// Adds the marks at `from` to those of the half at `to`.
fn merge(page: &mut Page<'_>, from: usize, to: usize, bitmap: usize) -> Option<()> {
    let mut count = 0;
    for at in 0..bitmap {
        let byte = page.u8(from + at)? | page.u8(to + COUNT_SIZE + at)?;
        count += byte.count_ones() as usize;
        page.put_u8(to + COUNT_SIZE + at, byte)?;
    }
    page.put_u16(to, count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ignite::order::Order;

    fn page(bytes: &mut [u8]) -> Page<'_> {
        Page { bytes, order: Order::Little }
    }

    #[test]
    fn a_node_keeps_the_order_of_its_pages() {
        let mut bytes = [0; IDS_AT + 3 * ID_SIZE];
        let page = &mut page(&mut bytes);
        for id in [0x1_0001_0000_0007, 8, 9] {
            add(page, id).unwrap();
        }
        assert_eq!(add(page, 10), None, "the node is full");
        remove(page, 0x1_0003_0000_0007).unwrap();
        assert_eq!(remove(page, 7), None);
        assert_eq!((page.u16(COUNT_AT), page.i64(IDS_AT)), (Some(2), Some(8)));
    }

    #[test]
    fn marks_of_two_snapshots() {
        let mut bytes = [0; HALVES_AT + 2 * (COUNT_SIZE + 4)];
        let page = &mut page(&mut bytes);
        mark(page, 3, 1, 0).unwrap();
        mark(page, 3, 1, 0).unwrap();
        let right = HALVES_AT + COUNT_SIZE + 4;
        assert_eq!((page.u16(right), page.u8(right + 2)), (Some(1), Some(1 << 2)));
        mark(page, 4, 2, 0).unwrap();
        assert_eq!((page.u16(HALVES_AT), page.u16(right)), (Some(1), Some(1)));
        mark(page, 5, 4, 0).unwrap();
        assert_eq!((page.u16(HALVES_AT), page.u16(right)), (Some(1), Some(2)), "merged");
        mark(page, 5, 6, 5).unwrap();
        assert_eq!((page.u16(HALVES_AT), page.u16(right)), (Some(1), Some(0)), "dropped");
        assert_eq!(mark(page, 5, 5, 4), None, "an older snapshot");
        repair(page).unwrap();
    }
}
