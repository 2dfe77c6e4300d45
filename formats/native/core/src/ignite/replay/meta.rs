//! First pages of partitions and of index files.
//!
//! Source: PageMetaIO, PageMetaIOV2, PagePartitionMetaIO and its versions 2 and 3, Ignite 2.18.0.

use crate::ignite::page_layout::cache_sizes;
use crate::ignite::page_layout::meta::{
    CACHE_SIZES_AT, CANDIDATE_AT, COUNTER_AT, ENCRYPTED_AT, END, FULL_SNAPSHOT_AT, GAPS_AT,
    LIST_AT, NEXT_TAG_AT, PAGE_COUNT_AT, PARTITION_ENCRYPTED_AT, REMOVE_AT, SIZE_AT, SNAPSHOT_AT,
    SNAPSHOT_TAG_AT, STATE_AT, TREE_AT, partition_end,
};
use crate::ignite::replay::page::{Page, PageKind};

const UNKNOWN_STATE: usize = 0xff;
/// Bytes of the page up to which pages are encrypted anew, and of the number of pages.
const ENCRYPTED_SIZE: usize = 8;

/// Writes the content of a new page after its header.
pub fn format(page: &mut Page<'_>, kind: PageKind) -> Option<()> {
    let version = page.version()?;
    let end = if kind == PageKind::PartitionMeta {
        partition_end(version)?
    } else if version > 1 {
        ENCRYPTED_AT + ENCRYPTED_SIZE
    } else {
        END
    };
    page.zero(TREE_AT, end - TREE_AT)?;
    page.put_i64(NEXT_TAG_AT, 1)?;
    if kind == PageKind::PartitionMeta {
        page.put_u8(STATE_AT, UNKNOWN_STATE)?;
    }
    Some(())
}

/// Writes the content of a new page of the sizes of caches after its header.
///
/// Source: PagePartitionCountersIO.initNewPage, Ignite 2.18.0.
pub fn format_sizes(page: &mut Page<'_>) -> Option<()> {
    page.put_u16(cache_sizes::COUNT_AT, 0)?;
    page.put_i64(cache_sizes::NEXT_AT, 0)
}

/// Sets the roots of the tree and of the list of free pages.
pub fn set_roots(page: &mut Page<'_>, tree: i64, list: i64) -> Option<()> {
    page.put_i64(TREE_AT, tree)?;
    page.put_i64(LIST_AT, list)
}

/// Sets the counters of a partition: update counter, remove id, size, page of the sizes of caches,
/// state, candidate for the number of pages; then, if the record has them, the link of the gaps,
/// the page up to which it is encrypted anew, and the number of pages.
pub fn set_counters(page: &mut Page<'_>, fields: &[i64]) -> Option<()> {
    let [counter, remove_id, size, counters_page, state, candidate, ref more @ ..] = *fields else {
        return None;
    };
    page.put_i64(COUNTER_AT, counter)?;
    page.put_i64(REMOVE_AT, remove_id)?;
    page.put_i64(SIZE_AT, size)?;
    page.put_i64(CACHE_SIZES_AT, counters_page)?;
    page.put_u8(STATE_AT, usize::try_from(state).ok()?)?;
    page.put_i32(CANDIDATE_AT, candidate)?;
    let version = page.version()?;
    let [gaps, ref encrypted @ ..] = *more else { return Some(()) };
    if version < 2 {
        return None;
    }
    page.put_i64(GAPS_AT, gaps)?;
    match *encrypted {
        [] => Some(()),
        [index, count] if version > 2 => {
            set_encrypted_at(page, PARTITION_ENCRYPTED_AT, index, count)
        }
        _ => None,
    }
}

/// Sets the page up to which an index is encrypted anew, and the number of pages.
pub fn set_encrypted(page: &mut Page<'_>, index: i64, count: i64) -> Option<()> {
    if page.version()? < 2 {
        return None;
    }
    set_encrypted_at(page, ENCRYPTED_AT, index, count)
}

/// Sets both at an offset. The engine writes a changed index as 8 bytes, which clears the number
/// after it.
fn set_encrypted_at(page: &mut Page<'_>, at: usize, index: i64, count: i64) -> Option<()> {
    let old = page.order.i32_at(page.bytes, at)?;
    if i64::from(old) != index {
        page.put_i64(at, index)?;
    }
    page.put_i32(at + 4, count)
}

/// Sets the last snapshot, and its tag.
pub fn set_snapshot(page: &mut Page<'_>, id: i64, tag: i64) -> Option<()> {
    page.put_i64(SNAPSHOT_AT, id)?;
    page.put_i64(SNAPSHOT_TAG_AT, tag)
}

/// Sets the last full snapshot.
pub fn set_full_snapshot(page: &mut Page<'_>, id: i64) -> Option<()> {
    page.put_i64(FULL_SNAPSHOT_AT, id)
}

/// Sets the tag of the next snapshot.
pub fn set_next_tag(page: &mut Page<'_>, tag: i64) -> Option<()> {
    page.put_i64(NEXT_TAG_AT, tag)
}

/// Sets the number of pages of the file at the last checkpoint.
pub fn set_page_count(page: &mut Page<'_>, count: i64) -> Option<()> {
    page.put_i32(PAGE_COUNT_AT, count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ignite::order::Order;

    fn page(bytes: &mut [u8]) -> Page<'_> {
        Page { bytes, order: Order::Little }
    }

    #[test]
    fn a_new_partition_has_no_state() {
        for (version, end) in [(1, 137), (2, 161), (3, 169)] {
            let mut bytes = [9; 200];
            let page = &mut page(&mut bytes);
            page.put_header(14, version, 1).unwrap();
            format(page, PageKind::PartitionMeta).unwrap();
            assert_eq!(page.u8(STATE_AT), Some(UNKNOWN_STATE));
            assert_eq!((page.u8(40), page.u8(end - 1), page.u8(end)), (Some(9), Some(0), Some(9)));
        }
    }

    #[test]
    fn counters_by_version() {
        let mut bytes = [0; 200];
        let page = &mut page(&mut bytes);
        let fields = [7, 8, 9, 10, 1, 11, 12, 13, 14];
        page.put_header(14, 1, 1).unwrap();
        set_counters(page, &fields[..6]).unwrap();
        assert_eq!(set_counters(page, &fields[..7]), None);
        page.put_header(14, 3, 1).unwrap();
        set_counters(page, &fields).unwrap();
        assert_eq!((page.i64(SIZE_AT), page.i64(GAPS_AT)), (Some(9), Some(12)));
        assert_eq!(page.i64(PARTITION_ENCRYPTED_AT), Some(14 << 32 | 13));
    }
}
