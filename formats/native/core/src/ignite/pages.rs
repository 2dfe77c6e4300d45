//! Pages of a page store file: their headers and states in columns.
//!
//! Source: PageIO, PageIdUtils, FilePageStore.readInternal, EncryptedFileIO, Ignite 2.18.0.

use std::ops::Range;

use crate::bytes::{are_zero, array_at};
use crate::file::{PIECE, Source};
use crate::ignite::order::Order;
use crate::ignite::walk::checksum;

/// Number of bytes of a page's header.
pub const PAGE_HEADER_SIZE: usize = 40;

/// Number of bytes at the end of an encrypted page that its checksum does not cover.
pub const ENCRYPTED_TAIL_SIZE: usize = 16;

/// Partition of the pages in an index file.
pub const INDEX_PARTITION: u16 = u16::MAX;

pub(crate) const TYPE_AT: usize = 0;
pub(crate) const VERSION_AT: usize = 2;
pub(crate) const CRC_AT: usize = 4;
pub(crate) const ID_AT: usize = 8;
pub(crate) const ROTATED_AT: usize = 16;
pub(crate) const COMPRESSION_AT: usize = 17;
pub(crate) const COMPRESSED_SIZE_AT: usize = 18;
pub(crate) const COMPACTED_SIZE_AT: usize = 20;
const LAST_COMPRESSION: u8 = 4;
/// Last method that does not pack the bytes after the header: none, or only free bytes left out.
const LAST_PLAIN: u8 = 1;
const NONE: i32 = -1;

/// State of a page, as its bytes show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum PageState {
    /// Checksum, place, type and version are right.
    Good = 0,
    /// All bytes are zero.
    Zero = 1,
    /// The checksum of an encrypted page is right; nothing else can be judged.
    Encrypted = 2,
    /// The checksum is zero, and place, type and version are right.
    Unsummed = 3,
    /// The checksum is wrong.
    Checksum = 4,
    /// The file ends inside the page.
    Cut = 5,
    /// The checksum is right, and the page's id is that of another place.
    Misplaced = 6,
    /// The checksum is right, and no engine writes this type, version or compression.
    Unknown = 7,
    /// The device did not deliver the bytes; set by the reader of the file.
    Unreadable = 8,
}

/// Facts of a file that its pages are judged by.
#[derive(Clone, Copy, Debug)]
pub struct PageRules<'a> {
    /// Number of bytes of a page.
    pub page_size: usize,
    /// Byte order of the numbers.
    pub order: Order,
    /// Partition that the ids name.
    pub partition: u16,
    /// Newest known version of each type's layout, by type; 0 for an unknown type.
    pub versions: &'a [u8],
    /// Offset of each type's number of items, by type; 0 for none.
    pub items_at: &'a [u8],
    /// Bytes of that number, by type.
    pub items_size: &'a [u8],
    /// Offset of each type's free bytes, by type; 0 for none.
    pub free_at: &'a [u8],
}

/// Headers of pages in columns, one element each.
#[derive(Debug, Default)]
pub struct Pages {
    /// A `PageState`.
    pub state: Vec<u8>,
    /// Number of the type.
    pub type_no: Vec<u16>,
    /// Version of the type's layout.
    pub version: Vec<u16>,
    /// Page id with flag and rotation.
    pub id: Vec<i64>,
    /// Rotation of an id that changed its kind.
    pub rotated: Vec<u8>,
    /// Method of compression.
    pub compression: Vec<u8>,
    /// Bytes with content in the file; 0 for all.
    pub compressed_size: Vec<u16>,
    /// Bytes after decompression; 0 for all.
    pub compacted_size: Vec<u16>,
    /// Stored checksum.
    pub stored: Vec<u32>,
    /// Checksum of the bytes.
    pub computed: Vec<u32>,
    /// Number of items; -1 for none, and if the content cannot be trusted or read.
    pub items: Vec<i32>,
    /// Number of free bytes; -1 as for `items`.
    pub free: Vec<i32>,
}

/// Reads the pages in consecutive bytes of a file; the last may be cut.
///
/// `first` is the index of the first page.
pub fn read(bytes: &[u8], rules: PageRules<'_>, first: u64) -> Pages {
    let mut pages = Pages::default();
    pages.extend(bytes, rules, first);
    pages
}

/// Reads the pages in a span of a file, piece by piece; see [`read`].
///
/// # Errors
///
/// Returns the error of a failed read.
pub fn read_file<S: Source>(
    source: &mut S,
    span: Range<u64>,
    rules: PageRules<'_>,
    first: u64,
) -> Result<Pages, S::Error> {
    let page_size = rules.page_size.max(PAGE_HEADER_SIZE);
    let pages_at_once = (PIECE / page_size).max(1);
    let mut buffer = vec![0; pages_at_once * page_size];
    let mut pages = Pages::default();
    let (mut at, mut index) = (span.start, first);
    while at < span.end {
        let left = usize::try_from(span.end - at).unwrap_or(usize::MAX);
        let size = left.min(buffer.len());
        let Some(piece) = buffer.get_mut(..size) else { break };
        source.read(piece, at)?;
        pages.extend(piece, rules, index);
        at = at.saturating_add(size as u64);
        index = index.saturating_add(pages_at_once as u64);
    }
    Ok(pages)
}

impl Pages {
    fn extend(&mut self, bytes: &[u8], rules: PageRules<'_>, first: u64) {
        let page_size = rules.page_size.max(PAGE_HEADER_SIZE);
        for (index, page) in (first..).zip(bytes.chunks(page_size)) {
            self.push(page, rules, index);
        }
    }

    fn push(&mut self, page: &[u8], rules: PageRules<'_>, index: u64) {
        let header = Header::read(page, rules.order).unwrap_or_default();
        let (state, computed) = judge(page, &header, rules, index);
        self.state.push(state as u8);
        self.type_no.push(header.type_no);
        self.version.push(header.version);
        self.id.push(header.id);
        self.rotated.push(header.rotated);
        self.compression.push(header.compression);
        self.compressed_size.push(header.compressed_size);
        self.compacted_size.push(header.compacted_size);
        self.stored.push(header.stored);
        self.computed.push(computed);
        let is_plain = matches!(state, PageState::Good | PageState::Unsummed)
            && header.compression <= LAST_PLAIN;
        let (items, free) = if is_plain { counts(page, &header, rules) } else { (NONE, NONE) };
        self.items.push(items);
        self.free.push(free);
    }
}

/// Header of a page.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Header {
    pub(crate) type_no: u16,
    pub(crate) version: u16,
    pub(crate) stored: u32,
    pub(crate) id: i64,
    rotated: u8,
    pub(crate) compression: u8,
    pub(crate) compressed_size: u16,
    pub(crate) compacted_size: u16,
}

impl Header {
    pub(crate) fn read(page: &[u8], order: Order) -> Option<Self> {
        array_at::<PAGE_HEADER_SIZE>(page, 0)?;
        Some(Self {
            type_no: order.u16_at(page, TYPE_AT)?,
            version: order.u16_at(page, VERSION_AT)?,
            stored: order.u32_at(page, CRC_AT)?,
            id: order.i64_at(page, ID_AT)?,
            rotated: *page.get(ROTATED_AT)?,
            compression: *page.get(COMPRESSION_AT)?,
            compressed_size: order.u16_at(page, COMPRESSED_SIZE_AT)?,
            compacted_size: order.u16_at(page, COMPACTED_SIZE_AT)?,
        })
    }

    pub(crate) fn is_in_place(&self, partition: u16, index: u64) -> bool {
        let flags: &[u8] = if partition == INDEX_PARTITION { &[2] } else { &[1, 4] };
        let flag = (self.id >> 48) as u8;
        self.id as u32 == index as u32
            && u64::from(self.id as u32) == index
            && (self.id >> 32) as u16 == partition
            && flags.contains(&flag)
    }

    fn is_known(&self, versions: &[u8]) -> bool {
        let newest = versions.get(usize::from(self.type_no)).copied().unwrap_or(0);
        (1..=u16::from(newest)).contains(&self.version) && self.compression <= LAST_COMPRESSION
    }
}

/// Returns the state of a page, and the checksum of its bytes.
fn judge(page: &[u8], header: &Header, rules: PageRules<'_>, index: u64) -> (PageState, u32) {
    if are_zero(page) {
        return (PageState::Zero, 0);
    }
    let Some(computed) = sum_of(page, header, rules.page_size) else { return (PageState::Cut, 0) };
    if computed != header.stored {
        if is_encrypted(page, rules.page_size) {
            return (PageState::Encrypted, computed);
        }
        let is_unsummed = header.stored == 0
            && header.is_in_place(rules.partition, index)
            && header.is_known(rules.versions);
        return (if is_unsummed { PageState::Unsummed } else { PageState::Checksum }, computed);
    }
    if !header.is_in_place(rules.partition, index) {
        return (PageState::Misplaced, computed);
    }
    let is_known = header.is_known(rules.versions);
    (if is_known { PageState::Good } else { PageState::Unknown }, computed)
}

/// Returns the number of items of a page, and of its free bytes; -1 for none.
fn counts(page: &[u8], header: &Header, rules: PageRules<'_>) -> (i32, i32) {
    let of = |table: &[u8]| table.get(usize::from(header.type_no)).copied().unwrap_or(0);
    let at = |place: u8| (place > 0).then_some(usize::from(place));
    let number = |at: usize| rules.order.u16_at(page, at).map(i32::from);
    let items = at(of(rules.items_at)).and_then(|at| match of(rules.items_size) {
        1 => page.get(at).copied().map(i32::from),
        _ => number(at),
    });
    let most = i32::try_from(rules.page_size).unwrap_or(i32::MAX);
    let free = at(of(rules.free_at)).and_then(number).filter(|&free| free <= most);
    (items.unwrap_or(NONE), free.unwrap_or(NONE))
}

/// Returns the checksum of a page, whose own field counts as zeros; `None` if the page is cut.
pub(crate) fn sum_of(page: &[u8], header: &Header, page_size: usize) -> Option<u32> {
    // No writer leaves less than a header.
    let size = match usize::from(header.compressed_size) {
        0..PAGE_HEADER_SIZE => page_size,
        size => size.min(page_size),
    };
    let (start, rest) = (page.get(..CRC_AT)?, page.get(ID_AT..size)?);
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(start);
    hasher.update(&[0; ID_AT - CRC_AT]);
    hasher.update(rest);
    Some(!hasher.finalize())
}

/// Writes the checksum of an uncompressed page; a page without a header stays as it is.
pub fn seal(page: &mut [u8], order: Order) {
    let computed = Header::read(page, order).and_then(|header| sum_of(page, &header, page.len()));
    if let Some(computed) = computed {
        order.put_u32(page, CRC_AT, computed);
    }
}

/// Returns true if the checksum at the end of an encrypted page is right.
pub(crate) fn is_encrypted(page: &[u8], page_size: usize) -> bool {
    let Some(end) = page_size.checked_sub(ENCRYPTED_TAIL_SIZE) else { return false };
    let stored = array_at(page, end).map(|four| u32::from_be_bytes(*four));
    page.len() == page_size && page.get(..end).map(checksum) == stored
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::testing::Memory;

    const SIZE: usize = 1024;
    const VERSIONS: &[u8] = &[0, 2];
    const TABLES: [&[u8]; 3] = [&[0, 50], &[0, 1], &[0, 48]];

    fn rules(order: Order) -> PageRules<'static> {
        let [items_at, items_size, free_at] = TABLES;
        let versions = VERSIONS;
        PageRules { page_size: SIZE, order, partition: 3, versions, items_at, items_size, free_at }
    }

    fn put(page: &mut [u8], at: usize, mut number: Vec<u8>, order: Order) {
        if order == Order::Big {
            number.reverse();
        }
        page[at..at + number.len()].copy_from_slice(&number);
    }

    /// Returns a page at `index` of a compressed size, with its checksum.
    fn page(index: u32, compressed: u16, fill: u8, order: Order) -> Vec<u8> {
        let mut page = vec![fill; SIZE];
        page[..PAGE_HEADER_SIZE].fill(0);
        put(&mut page, 0, 1u16.to_le_bytes().into(), order);
        put(&mut page, VERSION_AT, 2u16.to_le_bytes().into(), order);
        let id = 1 << 48 | 3 << 32 | u64::from(index);
        put(&mut page, ID_AT, id.to_le_bytes().into(), order);
        put(&mut page, COMPRESSED_SIZE_AT, compressed.to_le_bytes().into(), order);
        sum(&mut page, compressed, order);
        page
    }

    fn sum(page: &mut [u8], compressed: u16, order: Order) {
        page[CRC_AT..ID_AT].fill(0);
        let size = if compressed == 0 { SIZE } else { usize::from(compressed) };
        let crc = checksum(&page[..size]);
        put(page, CRC_AT, crc.to_le_bytes().into(), order);
    }

    fn state(page: &[u8], index: u64, order: Order) -> u8 {
        read(page, rules(order), index).state[0]
    }

    #[test]
    fn each_state() {
        for order in [Order::Little, Order::Big] {
            let good = page(7, 0, 9, order);
            assert_eq!(state(&good, 7, order), PageState::Good as u8);
            assert_eq!(state(&good, 8, order), PageState::Misplaced as u8);
            assert_eq!(state(&good, 7 + (1 << 32), order), PageState::Misplaced as u8);
            assert_eq!(state(&good[..SIZE - 1], 7, order), PageState::Cut as u8);
            assert_eq!(state(&good[..5], 7, order), PageState::Cut as u8);
            assert_eq!(state(&[0; SIZE], 7, order), PageState::Zero as u8);
            let mut other = good.clone();
            other[CRC_AT..ID_AT].fill(0);
            assert_eq!(state(&other, 7, order), PageState::Unsummed as u8);
            put(&mut other, VERSION_AT, 3u16.to_le_bytes().into(), order);
            assert_eq!(state(&other, 7, order), PageState::Checksum as u8);
            sum(&mut other, 0, order);
            assert_eq!(state(&other, 7, order), PageState::Unknown as u8);
        }
    }

    #[test]
    fn a_page_of_another_partition_is_misplaced() {
        let page = page(7, 0, 9, Order::Little);
        let rules = PageRules { partition: 4, ..rules(Order::Little) };
        assert_eq!(read(&page, rules, 7).state, [PageState::Misplaced as u8]);
    }

    #[test]
    fn a_compressed_page_may_be_cut_after_its_content() {
        let compressed = page(7, 60, 9, Order::Little);
        assert_eq!(state(&compressed[..60], 7, Order::Little), PageState::Good as u8);
        assert_eq!(state(&compressed[..59], 7, Order::Little), PageState::Cut as u8);
    }

    #[test]
    fn counts_of_pages_that_can_be_trusted() {
        for order in [Order::Little, Order::Big] {
            let mut whole = page(7, 0, 9, order);
            put(&mut whole, 48, 300u16.to_le_bytes().into(), order);
            assert_eq!(read(&whole, rules(order), 7).free, [NONE]);
            sum(&mut whole, 0, order);
            let pages = read(&whole, rules(order), 7);
            assert_eq!((&pages.items[..], &pages.free[..]), (&[9][..], &[300][..]));
            put(&mut whole, 48, 1025u16.to_le_bytes().into(), order);
            sum(&mut whole, 0, order);
            assert_eq!(read(&whole, rules(order), 7).free, [NONE]);
            whole[COMPRESSION_AT] = 2;
            sum(&mut whole, 0, order);
            assert_eq!(read(&whole, rules(order), 7).items, [NONE]);
            let two = PageRules { items_size: &[], ..rules(order) };
            whole[COMPRESSION_AT] = 1;
            sum(&mut whole, 0, order);
            assert_eq!(read(&whole, two, 7).items, [0x0909]);
        }
    }

    #[test]
    fn an_encrypted_page() {
        let mut page = vec![5; SIZE];
        let crc = checksum(&page[..SIZE - ENCRYPTED_TAIL_SIZE]);
        page[SIZE - 16..SIZE - 12].copy_from_slice(&crc.to_be_bytes());
        assert_eq!(state(&page, 0, Order::Little), PageState::Encrypted as u8);
        page[100] ^= 1;
        assert_eq!(state(&page, 0, Order::Little), PageState::Checksum as u8);
    }

    #[test]
    fn a_file_is_read_in_pieces() {
        let pages: Vec<_> = (5..600).map(|index| page(index, 0, index as u8, Order::Big)).collect();
        let mut bytes = pages.concat();
        bytes.truncate(bytes.len() - 1);
        let found = |from: usize, to: usize, first: u64| {
            let span = from as u64..to as u64;
            read_file(&mut Memory(&bytes), span, rules(Order::Big), first).map(|found| found.state)
        };
        let whole = read(&bytes, rules(Order::Big), 5).state;
        assert_eq!(whole.last(), Some(&(PageState::Cut as u8)));
        assert_eq!(found(0, bytes.len(), 5).as_ref(), Ok(&whole));
        assert_eq!(found(SIZE, bytes.len(), 6).as_deref(), Ok(&whole[1..]));
        assert_eq!(found(0, 0, 5), Ok(vec![]));
        assert_eq!(found(0, bytes.len() + 1, 5), Err(()));
    }

    proptest! {
        #[test]
        fn any_bytes_give_a_row_for_each_page(
            bytes in prop::collection::vec(any::<u8>(), 0..4 * SIZE),
            first in any::<u64>(),
            page_size in 0usize..2 * SIZE,
        ) {
            let rules = PageRules { page_size, ..rules(Order::Little) };
            let rows = bytes.len().div_ceil(page_size.max(PAGE_HEADER_SIZE));
            let first = first.min(u64::MAX - 1000);
            let pages = read(&bytes, rules, first);
            prop_assert_eq!(pages.state.len(), rows);
            prop_assert_eq!(pages.computed.len(), rows);
        }

        #[test]
        fn every_flipped_bit_is_found(at in 0..SIZE * 8, fill in any::<u8>()) {
            let mut damaged = page(7, 0, fill, Order::Little);
            damaged[at / 8] ^= 1 << (at % 8);
            prop_assert!(state(&damaged, 7, Order::Little) >= PageState::Checksum as u8);
        }
    }
}
