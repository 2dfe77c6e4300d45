//! Physical recovery: images and deltas of pages in the log, applied in their order.
//!
//! A page begins with a record that gives it its whole content: an image, or an empty page of a
//! type. A delta that does not fit its page is noted, and makes the page broken until the next
//! such record.
//!
//! Source: GridCacheDatabaseSharedManager.performBinaryMemoryRestore, the classes of
//! internal.pagemem.wal.record.delta, Ignite 2.18.0.

pub mod data;
pub mod delta;
pub mod image;
pub mod kept;
pub mod lists;
pub mod meta;
pub mod page;
pub mod tree;

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use crate::ignite::fields::Coding;
use crate::ignite::order::Order;
use crate::ignite::page_packing::unpack_packed;
use crate::ignite::pages;
use crate::ignite::replay::delta::Delta;
use crate::ignite::replay::image::{Read, read_recovered, restore};
use crate::ignite::replay::kept::{Kept, KeptPages};
use crate::ignite::replay::page::Page;
use crate::ignite::walk::{HEADER_SIZE, MIN_SIZE, TYPE_COUNT};

/// Largest number of misfits to keep; the others are counted.
pub const MISFITS_KEPT: usize = 1000;

const PAGE_RECORD: u8 = 1;
const UPDATE_STATE: u8 = 38;
const DESTROY: u8 = 43;
const EVICTED: i64 = 3;
const UNKNOWN_STATE: i64 = 0xff;

/// Reason why a record could not be applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Reason {
    /// No record before it gives the page its content.
    NoBase = 0,
    /// The page is broken by a record before it.
    Broken = 1,
    /// The fields do not decode.
    Fields = 2,
    /// The record changes pages of another type.
    Type = 3,
    /// The change does not fit the content of the page.
    Content = 4,
    /// The engine's recovery has no such change.
    Unsupported = 5,
    /// The record is encrypted.
    Encrypted = 6,
    /// There are more pages than may be kept.
    Full = 7,
}

/// A record that could not be applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Misfit {
    /// Segment of the record.
    pub segment: i64,
    /// Offset of the record.
    pub offset: u32,
    /// Type of the record.
    pub type_no: u8,
    /// Reason why it could not be applied.
    pub reason: Reason,
    /// Group of the page; 0 if unknown.
    pub group: i32,
    /// Id of the page; 0 if unknown.
    pub page_id: i64,
}

/// Identity of a page: its group, partition and index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// Cache group.
    pub group: i32,
    /// Partition.
    pub partition: u16,
    /// Index in the file.
    pub index: u32,
}

impl Place {
    /// Returns the place of a page; flag and rotation do not belong to it.
    pub fn of(group: i32, page_id: i64) -> Self {
        Self { group, partition: (page_id >> 32) as u16, index: page_id as u32 }
    }

    /// Returns the places of all pages of a partition.
    pub fn all_of(group: i32, partition: u16) -> RangeInclusive<Self> {
        let first = Self { group, partition, index: 0 };
        first..=Self { index: u32::MAX, ..first }
    }
}

/// Facts that a replay needs.
#[derive(Clone, Debug)]
pub struct ReplayRules {
    /// Bytes of a page.
    pub page_size: usize,
    /// Largest number of pages to keep.
    pub pages_max: usize,
    /// Codings of the fields of each record type.
    pub codings: Vec<Vec<Coding>>,
}

/// Records of a window of a segment, in columns of one length.
#[derive(Clone, Copy, Debug)]
pub struct Records<'a> {
    /// Bytes of the window.
    pub bytes: &'a [u8],
    /// Offset of the first byte.
    pub base: u64,
    /// Offset of each record.
    pub at: &'a [u32],
    /// Offset that each record names.
    pub offset: &'a [u32],
    /// Bytes of each record.
    pub length: &'a [u32],
    /// Type of each record.
    pub type_no: &'a [u8],
    /// Segment of all of them.
    pub segment: i64,
    /// Byte order of the numbers.
    pub order: Order,
}

/// A replay: the pages that it has changed, and the records that it could not apply.
#[derive(Debug)]
pub struct Replay {
    rules: ReplayRules,
    order: Order,
    pages: KeptPages,
    /// Partitions that are to be destroyed.
    pub destroyed: BTreeSet<(i32, u16)>,
    /// Number of records that were applied, by type.
    pub applied: Vec<u64>,
    /// Records that could not be applied, the first [`MISFITS_KEPT`] of them.
    pub misfits: Vec<Misfit>,
    /// Number of all records that could not be applied.
    pub misfit_count: u64,
}

/// Pages of one partition, by index.
#[derive(Debug, Default)]
pub struct Pages {
    /// Index of each page.
    pub indexes: Vec<i64>,
    /// Bytes of the pages, one after the other, each with its checksum.
    pub bytes: Vec<u8>,
}

/// Pages of one partition, by index, of which some are packed.
#[derive(Debug, Default)]
pub struct PackedPages {
    /// Index of each page.
    pub indexes: Vec<i64>,
    /// Start of each page in `bytes`, and the end of the last one.
    pub starts: Vec<i64>,
    /// Bytes of the pages, one after the other, without checksums.
    pub bytes: Vec<u8>,
}

impl Replay {
    /// Returns a replay without pages.
    pub fn new(rules: ReplayRules) -> Self {
        Self {
            order: Order::Little,
            pages: KeptPages::new(rules.page_size),
            rules,
            destroyed: BTreeSet::new(),
            applied: vec![0; usize::from(TYPE_COUNT)],
            misfits: Vec::new(),
            misfit_count: 0,
        }
    }

    /// Applies records in their order; records that change no page are skipped.
    pub fn apply(&mut self, records: Records<'_>) {
        self.order = records.order;
        let places = records.at.iter().zip(records.offset);
        let facts = records.length.iter().zip(records.type_no);
        for ((&at, &offset), (&length, &type_no)) in places.zip(facts) {
            let start = u64::from(at).checked_sub(records.base);
            let Some(start) = start.and_then(|start| usize::try_from(start).ok()) else { continue };
            let end = start.saturating_add(length as usize).saturating_sub(MIN_SIZE - HEADER_SIZE);
            let Some(payload) = records.bytes.get(start.saturating_add(HEADER_SIZE)..end) else {
                continue;
            };
            self.pages.add_read(payload.len());
            let mut misfit = Misfit {
                segment: records.segment,
                offset,
                type_no,
                reason: Reason::Fields,
                group: 0,
                page_id: 0,
            };
            match self.apply_one(payload, &mut misfit) {
                Ok(true) => {
                    if let Some(count) = self.applied.get_mut(usize::from(type_no)) {
                        *count += 1;
                    }
                }
                Ok(false) => {}
                Err(reason) => self.note(Misfit { reason, ..misfit }),
            }
        }
    }

    fn note(&mut self, misfit: Misfit) {
        self.misfit_count += 1;
        if self.misfits.len() < MISFITS_KEPT {
            self.misfits.push(misfit);
        }
    }

    /// Applies a record; returns false if it does not belong to physical recovery.
    fn apply_one(&mut self, payload: &[u8], misfit: &mut Misfit) -> Result<bool, Reason> {
        if let Some(inner) = delta::encrypted_type(misfit.type_no, payload) {
            return if delta::is_physical(inner) { Err(Reason::Encrypted) } else { Ok(false) };
        }
        if !delta::is_physical(misfit.type_no) {
            return Ok(false);
        }
        let codings = self.rules.codings.get(usize::from(misfit.type_no)).ok_or(Reason::Fields)?;
        let delta = Delta::read(misfit.type_no, payload, codings, self.order);
        let delta = delta.ok_or(Reason::Fields)?;
        misfit.group = delta.group();
        if matches!(misfit.type_no, UPDATE_STATE | DESTROY) {
            return self.of_partition(&delta);
        }
        misfit.page_id = delta.page_id();
        let place = Place::of(misfit.group, misfit.page_id);
        if misfit.type_no == PAGE_RECORD {
            self.put_image(place, delta.rest(), false)?;
            return Ok(true);
        }
        self.change(place, &delta)?;
        Ok(true)
    }

    fn of_partition(&mut self, delta: &Delta<'_>) -> Result<bool, Reason> {
        let [_, partition, ref rest @ ..] = *delta.fields() else { return Err(Reason::Fields) };
        let partition = u16::try_from(partition).map_err(|_| Reason::Fields)?;
        let key = (delta.group(), partition);
        match rest.first() {
            Some(&state) if !matches!(state, EVICTED | UNKNOWN_STATE) => {
                self.destroyed.remove(&key);
            }
            state => {
                self.destroyed.insert(key);
                if state.is_none() {
                    self.pages.remove(Place::all_of(key.0, partition));
                }
            }
        }
        Ok(true)
    }

    /// Returns the page that a record gives its whole content; makes it if there is none.
    ///
    /// The page is broken until the content is written.
    fn base(&mut self, place: Place) -> Result<&mut Kept, Reason> {
        if self.pages.count() >= self.rules.pages_max && !self.pages.has(place) {
            return Err(Reason::Full);
        }
        let kept = self.pages.open_or_make(place);
        kept.is_broken = true;
        Ok(kept)
    }

    fn put_image(&mut self, place: Place, image: &[u8], is_secret: bool) -> Result<(), Reason> {
        let order = self.order;
        let kept = self.base(place)?;
        if is_secret {
            return Err(Reason::Encrypted);
        }
        restore(kept.bytes(), image, order).ok_or(Reason::Content)?;
        kept.is_broken = false;
        Ok(())
    }

    fn change(&mut self, place: Place, delta: &Delta<'_>) -> Result<(), Reason> {
        let order = self.order;
        let kept = if delta.is_base() {
            self.base(place)?
        } else {
            let kept = self.pages.open(place).ok_or(Reason::NoBase)?;
            if kept.is_broken {
                return Err(Reason::Broken);
            }
            kept
        };
        let done = delta.apply(&mut Page { bytes: kept.bytes(), order });
        kept.is_broken = done.is_err();
        done
    }

    /// Applies the pages of a recovery file; returns the number of bytes read, and the number that
    /// the record after them needs: 0 if it is damaged.
    ///
    /// `segment` of the misfits is -1, and their offset is that in the file.
    pub fn take_recovered(&mut self, bytes: &[u8], base: u64, order: Order) -> (usize, usize) {
        self.order = order;
        let mut at = 0;
        while let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) {
            let found = match read_recovered(rest, self.rules.page_size, order) {
                Read::Page(found) => found,
                Read::Short(size) => return (at, size),
                Read::Damaged => return (at, 0),
            };
            self.pages.add_read(found.size);
            let place = Place::of(found.group, found.page_id);
            match self.put_image(place, found.image, found.is_encrypted) {
                Ok(()) => {
                    if let Some(count) = self.applied.get_mut(usize::from(PAGE_RECORD)) {
                        *count += 1;
                    }
                }
                Err(reason) => self.note(Misfit {
                    segment: -1,
                    offset: base.saturating_add(at as u64) as u32,
                    type_no: PAGE_RECORD,
                    reason,
                    group: found.group,
                    page_id: found.page_id,
                }),
            }
            at += found.size;
        }
        (at, image::RECOVERY_HEADER_SIZE)
    }

    /// Returns the places of all pages in order, and whether each is broken.
    pub fn places(&self) -> impl Iterator<Item = (Place, bool)> + '_ {
        self.pages.places()
    }

    /// Returns the whole pages at some places of one partition, with their checksums.
    pub fn plain_pages(&self, places: RangeInclusive<Place>) -> Pages {
        let size = self.rules.page_size;
        let mut found = Pages::default();
        for (place, page) in self.pages.whole(places) {
            let start = found.bytes.len();
            match page.len() == size {
                true => found.bytes.extend_from_slice(page),
                false => match unpack_packed(page, size) {
                    Some(page) => found.bytes.extend_from_slice(&page),
                    None => continue,
                },
            }
            found.indexes.push(place.index.into());
            if let Some(page) = found.bytes.get_mut(start..) {
                pages::seal(page, self.order);
            }
        }
        found
    }

    /// Returns the indexes of the whole pages of a partition, in order.
    pub fn whole_pages(&self, group: i32, partition: u16) -> impl Iterator<Item = u32> + '_ {
        self.pages.whole(Place::all_of(group, partition)).map(|(place, _)| place.index)
    }

    /// Returns the whole pages of a partition.
    pub fn packed_pages(&self, group: i32, partition: u16) -> PackedPages {
        let mut found = PackedPages { starts: vec![0], ..PackedPages::default() };
        for (place, page) in self.pages.whole(Place::all_of(group, partition)) {
            found.indexes.push(place.index.into());
            found.bytes.extend_from_slice(page);
            found.starts.push(found.bytes.len() as i64);
        }
        found
    }
}

#[cfg(test)]
mod tests;
