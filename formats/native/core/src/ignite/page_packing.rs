//! Compressed pages: without the free bytes in their middle, and packed by a general method.
//!
//! Source: CompressionProcessor.decompressPage, CompressionProcessorImpl.doDecompressPage,
//! CompactablePageIO.restorePage, Ignite 2.18.0.

use std::ops::Range;

use crate::ignite::order::Order;
use crate::ignite::page_layout::{data, is_data};
use crate::ignite::pages::{CRC_AT, Header, ID_AT, PAGE_HEADER_SIZE};

/// Compression, and the two sizes: zero in pages that are plain.
const COMPRESSION: Range<usize> = 17..22;

/// Method of compression, as the header of a page names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Packing {
    /// As in memory.
    None = 0,
    /// Free bytes are left out.
    Compacted = 1,
    /// Free bytes are left out, and the rest is packed with ZSTD.
    Zstd = 2,
    /// The same with LZ4.
    Lz4 = 3,
    /// The same with SNAPPY.
    Snappy = 4,
}

impl Packing {
    /// Returns the method with a number.
    pub fn of(number: u8) -> Option<Self> {
        const ALL: [Packing; 5] =
            [Packing::None, Packing::Compacted, Packing::Zstd, Packing::Lz4, Packing::Snappy];
        ALL.get(usize::from(number)).copied()
    }
}

/// Returns a page as it is in memory: whole, plain, with zeros in place of its checksum.
///
/// `stored` may be longer than the page's content. `None` if it does not unpack to `page_size`
/// bytes at most.
pub fn unpack(stored: &[u8], page_size: usize, order: Order) -> Option<Vec<u8>> {
    let header = Header::read(stored, order)?;
    let stored = stored.get(..page_size.min(stored.len()))?;
    let packing = Packing::of(header.compression)?;
    let mut page = stored.get(..PAGE_HEADER_SIZE)?.to_vec();
    page.reserve_exact(page_size.checked_sub(PAGE_HEADER_SIZE)?);
    let compacted = match packing {
        Packing::None => stored.len(),
        _ => usize::from(header.compacted_size),
    };
    let size = match packing {
        Packing::None => stored.len(),
        _ => usize::from(header.compressed_size),
    };
    if compacted > page_size {
        return None;
    }
    page.resize(compacted.max(PAGE_HEADER_SIZE), 0);
    let (packed, rest) = (stored.get(PAGE_HEADER_SIZE..size)?, page.get_mut(PAGE_HEADER_SIZE..)?);
    match packing {
        Packing::None | Packing::Compacted => rest.copy_from_slice(packed.get(..rest.len())?),
        Packing::Zstd => unpack_zstd(packed, rest)?,
        Packing::Lz4 => {
            let count = lz4_flex::block::decompress_into(packed, rest).ok()?;
            (count == rest.len()).then_some(())?;
        }
        Packing::Snappy => unpack_snappy(packed, rest)?,
    }
    page.resize(page_size, 0);
    page.get_mut(CRC_AT..ID_AT)?.fill(0);
    if packing != Packing::None {
        page.get_mut(COMPRESSION)?.fill(0);
        if is_data(header.type_no) {
            spread(&mut page, order)?;
        }
    }
    Some(page)
}

/// Moves the entries of a data page to its end, the free bytes before them.
fn spread(page: &mut [u8], order: Order) -> Option<()> {
    let free = usize::from(order.u16_at(page, data::FREE_AT)?);
    let first = usize::from(order.u16_at(page, data::FIRST_ENTRY_AT)?);
    if free == 0 || *page.get(data::DIRECT_AT)? == 0 {
        return Some(());
    }
    let (start, stop) = (first.checked_sub(free)?, page.len().checked_sub(free)?);
    if start < data::ITEMS_AT || start > stop {
        return None;
    }
    page.copy_within(start..stop, first);
    page.get_mut(start..first)?.fill(0);
    Some(())
}

/// Returns a page packed with LZ4, without a header; `None` if that saves less than half of it.
pub fn pack(page: &[u8]) -> Option<Vec<u8>> {
    let packed = lz4_flex::block::compress(page);
    (packed.len() <= page.len() / 2).then_some(packed)
}

/// Returns a page that was packed by [`pack`]; `None` if it was not.
pub fn unpack_packed(packed: &[u8], page_size: usize) -> Option<Vec<u8>> {
    let mut page = vec![0; page_size];
    let count = lz4_flex::block::decompress_into(packed, &mut page).ok()?;
    (count == page_size).then_some(page)
}

fn unpack_zstd(packed: &[u8], page: &mut [u8]) -> Option<()> {
    (zstd_safe::decompress(page, packed).ok()? == page.len()).then_some(())
}

fn unpack_snappy(packed: &[u8], page: &mut [u8]) -> Option<()> {
    let size = snap::raw::decompress_len(packed).ok()?;
    (size == page.len()).then_some(())?;
    let count = snap::raw::Decoder::new().decompress(packed, page).ok()?;
    (count == page.len()).then_some(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SIZE: usize = 1024;

    /// Returns a data page with entries of `entry` bytes at its end, and the same page compacted.
    fn data_page(count: u8, entry: usize) -> (Vec<u8>, Vec<u8>) {
        let mut page = vec![0; SIZE];
        page[0] = 1;
        page[2] = 1;
        let items = data::ITEMS_AT + 2 * usize::from(count);
        let first = SIZE - usize::from(count) * entry;
        page[data::FREE_AT..][..2].copy_from_slice(&((first - items) as u16).to_le_bytes());
        page[data::DIRECT_AT] = count;
        page[data::FIRST_ENTRY_AT..][..2].copy_from_slice(&(first as u16).to_le_bytes());
        page[data::ITEMS_AT..items].fill(7);
        page[first..].fill(9);
        let small = [&page[..items], &page[first..]].concat();
        (page, small)
    }

    fn packed(small: &[u8], method: Packing, body: &[u8]) -> Vec<u8> {
        let mut out = [&small[..PAGE_HEADER_SIZE], body].concat();
        let size = out.len() as u16;
        out[17] = method as u8;
        out[18..20].copy_from_slice(&size.to_le_bytes());
        out[20..22].copy_from_slice(&(small.len() as u16).to_le_bytes());
        out.resize(SIZE, 0xee);
        out
    }

    #[test]
    fn each_method_gives_the_page_again() {
        let (page, small) = data_page(5, 40);
        let body = &small[PAGE_HEADER_SIZE..];
        let snappy = snap::raw::Encoder::new().compress_vec(body).expect("it compresses");
        let mut zstd = vec![0; 2 * SIZE];
        let size = zstd_safe::compress(&mut zstd[..], body, 3).expect("it fits");
        zstd.truncate(size);
        let methods = [
            (Packing::Compacted, body.to_vec()),
            (Packing::Zstd, zstd),
            (Packing::Lz4, lz4_flex::block::compress(body)),
            (Packing::Snappy, snappy),
        ];
        for (method, body) in methods {
            let stored = packed(&small, method, &body);
            assert_eq!(unpack(&stored, SIZE, Order::Little).as_ref(), Some(&page), "{method:?}");
            let end = PAGE_HEADER_SIZE + body.len();
            assert_eq!(unpack(&stored[..end - 1], SIZE, Order::Little), None);
            let mut longer = stored;
            longer[20] += 1;
            assert_eq!(unpack(&longer, SIZE, Order::Little), None, "{method:?}");
        }
        assert_eq!(unpack(&page, SIZE, Order::Little), Some(page));
    }

    #[test]
    fn a_page_without_rows_is_padded() {
        let (mut page, mut small) = data_page(0, 0);
        assert_eq!(small.len(), data::ITEMS_AT);
        (page[0], small[0]) = (6, 6);
        let stored = packed(&small, Packing::Compacted, &small[PAGE_HEADER_SIZE..]);
        assert_eq!(unpack(&stored, SIZE, Order::Little), Some(page));
    }

    proptest! {
        #[test]
        fn a_packed_page_unpacks(
            bytes in prop::collection::vec(any::<u8>(), 0..SIZE),
            size in 0usize..2 * SIZE,
        ) {
            let mut page = bytes;
            page.resize(SIZE, 0);
            if let Some(packed) = pack(&page) {
                prop_assert!(packed.len() <= SIZE / 2);
                prop_assert_eq!(unpack_packed(&packed, SIZE), Some(page));
                prop_assert!(size == SIZE || unpack_packed(&packed, size).is_none());
            }
        }

        #[test]
        fn any_bytes_give_a_page_or_none(
            mut bytes in prop::collection::vec(any::<u8>(), 0..2 * SIZE),
            method in 0u8..6,
            sizes in any::<[u8; 4]>(),
        ) {
            if let Some(header) = bytes.get_mut(17..22) {
                header[0] = method;
                header[1..].copy_from_slice(&sizes);
                header[2] %= 5;
                header[4] %= 5;
            }
            let found = unpack(&bytes, SIZE, Order::Big);
            prop_assert!(found.is_none_or(|page| page.len() == SIZE));
        }
    }
}
