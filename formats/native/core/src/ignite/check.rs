//! Structure of the pages of one file: those that its first page leads to, and unreachable ones.
//!
//! Source: PagePartitionMetaIO, PageMetaIO, BPlusTree.validateTree, PagesList, AbstractDataPageIO,
//! Ignite 2.18.0.

use std::collections::{BTreeMap, BTreeSet};

use crate::ignite::data_page::Directory;
use crate::ignite::list_check::Lists;
use crate::ignite::page_image::PageImage;
use crate::ignite::page_layout::{cache_sizes, data, is_data, meta, tracking, types};
use crate::ignite::page_reader::{Marks, PageReader, index_of, kind_of, partition_of};
use crate::ignite::rows::{UsedItems, read_bytes};
use crate::ignite::tree_check::TreeCheck;

/// Number of defects of each kind that are kept.
pub const DEFECTS_KEPT: u64 = 100;

/// Number of kinds of defects.
pub const DEFECT_KINDS: usize = 19;

/// Number of caches of a file whose rows are counted apart.
pub const CACHES_KEPT: usize = 1 << 16;

/// Number of powers of two that are tried as the number of partitions.
pub const POWERS: usize = 17;

/// Kind of a defect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum DefectKind {
    /// A page that is needed cannot be read; the value is its `PageFault`.
    Page = 0,
    /// A page has a type that does not belong there; the value is the type.
    Type = 1,
    /// A page states more items than it has room for.
    Count = 2,
    /// Two links lead to a page.
    Twice = 3,
    /// A link leads to another partition.
    Elsewhere = 4,
    /// A page links to another page than the level above names; the value is the one named there.
    Chain = 5,
    /// The pages after this one in its level are not known.
    Lost = 6,
    /// The items of a page are not in order; the value is the place of the first.
    Order = 7,
    /// The items of a page are not between those beside its link.
    Bounds = 8,
    /// The link of an item does not lead to a row; the value is the fault.
    Row = 9,
    /// The items of a data page overlap, or lie outside of it.
    Items = 10,
    /// A data page states a wrong number of free bytes; the value is the right one.
    Free = 11,
    /// No tree leads to an item of a data page; the value is the item.
    Unnamed = 12,
    /// An item of an expiry tree has no row.
    Expiry = 13,
    /// A list and its pages do not name each other.
    List = 14,
    /// The meta page states a wrong number of rows; the value is that number.
    Rows = 15,
    /// The stated number of rows of a cache is wrong; the page is the cache, the value the number.
    CacheRows = 16,
    /// Nothing leads to a page that was written.
    Orphan = 17,
    /// There are more caches than are counted; the value is the number of those that are.
    Caches = 18,
}

/// A defect: kind, page, value.
pub type Defect = (u8, u32, i64);

/// Result of the check of one file.
#[derive(Debug, Default)]
pub struct Report {
    /// The first defects of each kind.
    pub defects: Vec<Defect>,
    /// Number of defects of each kind.
    pub counts: [u64; DEFECT_KINDS],
    /// Number of trees.
    pub trees: u64,
    /// Number of rows that were read.
    pub rows: u64,
    /// Number of rows that the meta page states; -1 for a file without.
    pub expected_rows: i64,
    /// By cache: the number of rows, and for each n, of those whose key belongs to the partition if
    /// there are 2^n partitions.
    pub places: BTreeMap<i64, [u64; POWERS + 1]>,
    /// Pages that something leads to, and that are zeros or after the end of the file.
    pub missing: BTreeSet<u32>,
}

impl Report {
    /// Adds a defect.
    pub fn note(&mut self, kind: DefectKind, page: u32, value: i64) {
        if let Some(count) = self.counts.get_mut(kind as usize) {
            *count += 1;
            if *count <= DEFECTS_KEPT {
                self.defects.push((kind as u8, page, value));
            }
        }
    }

    /// Returns false if no more caches are counted, and notes that.
    fn has_room(&mut self, caches: usize) -> bool {
        let is_known = self.counts.get(DefectKind::Caches as usize).is_some_and(|&count| count > 0);
        if caches >= CACHES_KEPT && !is_known {
            self.note(DefectKind::Caches, 0, CACHES_KEPT as i64);
        }
        caches < CACHES_KEPT
    }

    /// Adds a row.
    pub fn count_row(&mut self, cache: i64, hash: i64, partition: u16) {
        if !self.places.contains_key(&cache) && !self.has_room(self.places.len()) {
            return;
        }
        let place = self.places.entry(cache).or_insert([0; POWERS + 1]);
        let hash = hash as u32;
        let mixed = hash ^ (hash >> 16);
        for (n, count) in place.iter_mut().enumerate() {
            let is_here = n == 0 || mixed & ((1u32 << (n - 1)) - 1) == u32::from(partition);
            *count += u64::from(is_here);
        }
    }
}

/// State of a check.
#[derive(Debug)]
pub struct Check<'a> {
    /// The pages.
    pub image: PageImage<'a>,
    /// Their reader.
    pub reader: PageReader,
    /// Pages that something leads to.
    pub reached: Marks,
    /// Items of data pages that belong to a row.
    pub used: UsedItems,
    /// Result so far.
    pub report: Report,
}

impl<'a> Check<'a> {
    pub(crate) fn new(image: PageImage<'a>, verdicts: &[u8]) -> Self {
        let count = image.place_count();
        Self {
            reader: PageReader::checked(&image, verdicts),
            reached: Marks::new(count),
            used: UsedItems::new(&image),
            report: Report { expected_rows: -1, ..Report::default() },
            image,
        }
    }

    /// Marks a page that a link leads to; `None` if it cannot be followed.
    pub fn follow(&mut self, from: u32, id: i64) -> Option<u32> {
        if partition_of(id) != self.image.partition {
            self.report.note(DefectKind::Elsewhere, from, id);
            return None;
        }
        let index = index_of(id);
        if self.image.place_of(index).is_some_and(|place| !self.reached.add(place)) {
            self.report.note(DefectKind::Twice, index, i64::from(from));
            return None;
        }
        Some(index)
    }

    /// Marks the items of the row that holds the gaps of the counters.
    fn use_gaps(&mut self, link: i64) {
        let found = read_bytes(&self.image, &mut self.reader, &mut self.used, link);
        if let Err(fault) = found {
            self.report.note(DefectKind::Row, 0, fault.into());
        }
    }

    /// Returns a page of a type, or notes why there is none.
    pub fn page_of(&mut self, index: u32, type_no: u16) -> Option<&[u8]> {
        let order = self.image.order;
        match self.reader.page(&self.image, index) {
            Ok(page) => {
                let found = kind_of(page, order).map_or(0, |(no, _)| no);
                if found == type_no {
                    return Some(page);
                }
                self.report.note(DefectKind::Type, index, found.into());
            }
            Err(fault) => self.report.note(DefectKind::Page, index, i64::from(fault as u8)),
        }
        None
    }
}

/// Checks the structure of a file; `verdicts` has a `PageFault` or 0 for each page.
pub fn check(image: PageImage<'_>, verdicts: &[u8]) -> Report {
    checked(image, verdicts).report
}

pub(crate) fn checked<'a>(image: PageImage<'a>, verdicts: &[u8]) -> Check<'a> {
    let mut check = Check::new(image, verdicts);
    if image.page_count() > 0 {
        check.reached.add(0);
        check_top(&mut check);
        // The next checks read all pages, also those that nothing leads to.
        check.report.missing = std::mem::take(&mut check.reader.missing);
        mark_tracking(&mut check);
        check_data_pages(&mut check);
        check_orphans(&mut check);
    }
    check
}

fn check_top(check: &mut Check<'_>) {
    let is_index = check.image.partition == u16::MAX;
    let type_no = if is_index { types::INDEX_META } else { types::PARTITION_META };
    let order = check.image.order;
    let Some(page) = check.page_of(0, type_no) else { return };
    let version = kind_of(page, order).map_or(0, |(_, version)| version);
    let at = |at: usize, since: u16| {
        if version >= since { order.i64_at(page, at).unwrap_or(0) } else { 0 }
    };
    let (tree, list) = (at(meta::TREE_AT, 1), at(meta::LIST_AT, 1));
    if is_index {
        TreeCheck::new(check).names(tree);
        Lists::new(check).reusable(list);
        return;
    }
    let (size, sizes) = (at(meta::SIZE_AT, 1), at(meta::CACHE_SIZES_AT, 1));
    let (pending, own) = (at(meta::PENDING_AT, 2), at(meta::OWN_LIST_AT, 2));
    let gaps = at(meta::GAPS_AT, 2);
    // The engine does not count the rows of the metastorage.
    if !TreeCheck::new(check).rows(tree) {
        check.report.expected_rows = size;
    }
    if pending != 0 {
        TreeCheck::new(check).expiry(pending);
    }
    if gaps != 0 {
        check.use_gaps(gaps);
    }
    Lists::new(check).free(list);
    if own != 0 {
        Lists::new(check).free(own);
    }
    if check.report.expected_rows >= 0 {
        check_rows(check, size, sizes);
    }
}

/// Compares the rows that were read with those of the meta page, and of each cache.
fn check_rows(check: &mut Check<'_>, size: i64, mut sizes: i64) {
    let rows = check.report.rows;
    if u64::try_from(size) != Ok(rows) {
        check.report.note(DefectKind::Rows, 0, size);
    }
    let order = check.image.order;
    let (mut from, mut counted) = (0, BTreeMap::new());
    if sizes == 0 {
        return;
    }
    while sizes != 0 {
        let Some(index) = check.follow(from, sizes) else { return };
        let has_room = check.report.has_room(counted.len());
        let Some(page) = check.page_of(index, types::CACHE_SIZES) else { return };
        let count = order.u16_at(page, cache_sizes::COUNT_AT).unwrap_or(0);
        for n in 0..usize::from(count) {
            let at = cache_sizes::ITEMS_AT + n * cache_sizes::ITEM_SIZE;
            let (cache, size) = (order.i32_at(page, at), order.i64_at(page, at + 4));
            if let (Some(cache), Some(size), true) = (cache, size, has_room) {
                counted.insert(i64::from(cache), size);
            }
        }
        let is_last = page.get(cache_sizes::LAST_AT).is_none_or(|&last| last != 0);
        sizes = if is_last { 0 } else { order.i64_at(page, cache_sizes::NEXT_AT).unwrap_or(0) };
        from = index;
    }
    if check.report.counts[DefectKind::Caches as usize] > 0 {
        // The counts of some caches, or their rows, are not known.
        return;
    }
    let found = &check.report.places;
    let rows_of = |cache: &i64| found.get(cache).map_or(0, |place| place[0]);
    let caches = counted.keys().chain(found.keys());
    let wrong: BTreeMap<i64, i64> = caches
        .map(|cache| (*cache, counted.get(cache).copied().unwrap_or(0)))
        .filter(|(cache, size)| u64::try_from(*size) != Ok(rows_of(cache)))
        .collect();
    for (cache, size) in wrong {
        check.report.note(DefectKind::CacheRows, cache as u32, size);
    }
}

/// Marks the tracking pages, whose places are fixed.
fn mark_tracking(check: &mut Check<'_>) {
    let step = tracking::step(check.image.page_size);
    for index in check.image.indexes().filter(|index| index % step == 1 % step) {
        let Some(place) = check.image.place_of(index) else { continue };
        let kind = check.reader.page(&check.image, index).ok();
        let kind = kind.and_then(|page| kind_of(page, check.image.order));
        if kind.is_some_and(|(no, _)| no == types::TRACKING) {
            check.reached.add(place);
        }
    }
}

fn check_data_pages(check: &mut Check<'_>) {
    let order = check.image.order;
    for index in check.image.indexes() {
        let Ok(page) = check.reader.page(&check.image, index) else { continue };
        if !kind_of(page, order).is_some_and(|(no, _)| is_data(no)) {
            continue;
        }
        if let Some(place) = check.image.place_of(index) {
            check.reached.add(place);
        }
        let Some(directory) = Directory::read(page) else {
            check.report.note(DefectKind::Items, index, 0);
            continue;
        };
        let entries: Option<Vec<_>> =
            (0..directory.direct).map(|n| directory.entry(page, order, n)).collect();
        let mut spans: Vec<_> = entries.iter().flatten().map(|entry| entry.span()).collect();
        spans.sort_unstable_by_key(|span| span.start);
        let is_apart = spans.windows(2).all(|two| two[0].end <= two[1].start);
        let first = order.u16_at(page, data::FIRST_ENTRY_AT).map_or(0, usize::from);
        let is_after = spans.first().is_none_or(|span| span.start >= first);
        if entries.is_none() || !is_apart || !is_after {
            check.report.note(DefectKind::Items, index, 0);
            continue;
        }
        let taken: usize = spans.iter().map(|span| span.len()).sum();
        let free = page.len().saturating_sub(directory.stop() + taken);
        if order.u16_at(page, data::FREE_AT).map(usize::from) != Some(free) {
            check.report.note(DefectKind::Free, index, free as i64);
        }
        for (id, _) in directory.ids(page, order) {
            let link = i64::from(index) | i64::from(id) << 56;
            if !check.used.has(&check.image, link) {
                check.report.note(DefectKind::Unnamed, index, id.into());
            }
        }
    }
}

fn check_orphans(check: &mut Check<'_>) {
    for index in check.image.indexes() {
        let place = check.image.place_of(index);
        let is_reached = place.is_some_and(|place| check.reached.has(place));
        if !is_reached && check.reader.page(&check.image, index).is_ok() {
            check.report.note(DefectKind::Orphan, index, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::ignite::rows::RowWalk;
    use crate::ignite::rows::tests::{SIZE, file, image, levels};

    fn kinds(base: &[u8]) -> Vec<u8> {
        check(image(base), &[]).defects.into_iter().map(|(kind, _, _)| kind).collect()
    }

    #[test]
    fn pages_that_were_judged_are_not_read_again() {
        let base = file();
        let found = check(image(&base), &[]);
        assert_eq!((found.rows, found.expected_rows), (3, 0));
        let found = check(image(&base), &[0, 0, 4]);
        assert_eq!(found.rows, 1);
        assert!(found.defects.contains(&(DefectKind::Page as u8, 2, 4)));
    }

    #[test]
    fn missing_pages_are_those_that_something_leads_to() {
        let mut base = file();
        let whole = base.len() - SIZE;
        // The last page has the end of a row; nothing leads to the page after it.
        base[whole..].fill(0);
        base.extend([0; SIZE]);
        for stop in [base.len(), whole + SIZE, whole] {
            let found = check(image(&base[..stop]), &[]);
            assert_eq!(found.missing.into_iter().collect::<Vec<_>>(), [6]);
        }
        assert!(check(image(&file()), &[]).missing.is_empty());
    }

    #[test]
    fn levels_that_share_a_chain_read_it_once() {
        let base = levels(100);
        let found = checked(image(&base), &[]);
        assert!(found.report.counts[DefectKind::Twice as usize] > 49);
        let pages = base.len() / SIZE;
        assert!(found.reader.reads < 8 * pages, "{} reads of {pages} pages", found.reader.reads);
    }

    #[test]
    fn more_caches_than_are_counted() {
        let mut report = Report::default();
        for cache in 0..CACHES_KEPT as i64 + 3 {
            report.count_row(cache, 0, 0);
        }
        report.count_row(7, 0, 0);
        assert_eq!((report.places.len(), report.places[&7][0]), (CACHES_KEPT, 2));
        assert_eq!(report.defects, [(DefectKind::Caches as u8, 0, CACHES_KEPT as i64)]);
    }

    #[test]
    fn a_changed_page_of_any_index_takes_a_place() {
        let base = file();
        let far = i64::from(u32::MAX);
        let changed = vec![1; SIZE];
        let image = PageImage {
            changed_indexes: &[far],
            changed_starts: &[0, SIZE as i64],
            changed_pages: &changed,
            ..image(&base)
        };
        assert_eq!((image.page_count(), image.place_count()), (u32::MAX, 8));
        let found = check(image, &[]);
        assert_eq!(found.rows, 3);
        assert!(found.defects.contains(&(DefectKind::Orphan as u8, u32::MAX, 0)));
        let mut walk = RowWalk::new(&image);
        assert_eq!(walk.step(&image, 9, 9999).rows.len(), 3);
    }

    #[test]
    fn rows_that_the_meta_page_does_not_count() {
        assert!(kinds(&file()).contains(&(DefectKind::Rows as u8)));
        let mut base = file();
        base[SIZE + meta::SIZE_AT] = 3;
        assert!(!kinds(&base).contains(&(DefectKind::Rows as u8)));
    }

    proptest! {
        #[test]
        fn damage_is_found_in_bounded_time(
            edits in prop::collection::vec((0..8 * SIZE, any::<u8>()), 0..20),
            stop in 0..8 * SIZE,
        ) {
            let mut base = file();
            for (at, byte) in edits {
                base[at] = byte;
            }
            let most = DEFECT_KINDS * usize::try_from(DEFECTS_KEPT).unwrap_or(0);
            prop_assert!(check(image(&base), &[]).defects.len() <= most);
            prop_assert!(check(image(&base[..stop]), &[0; 9]).defects.len() <= most);
        }

        #[test]
        fn any_bytes_are_checked(
            base in prop::collection::vec(any::<u8>(), 0..8 * SIZE),
            verdicts in prop::collection::vec(any::<u8>(), 0..9),
        ) {
            check(image(&base), &verdicts);
        }
    }
}
