//! Images of pages in the log and in recovery files, which may be compacted.
//!
//! Source: PageSnapshot, CompressionProcessor.decompressPage, CheckpointRecoveryFile, Ignite 2.18.0.

use crate::bytes::array_at;
use crate::ignite::order::Order;
use crate::ignite::page_packing::{Packing, unpack};
use crate::ignite::pages::{COMPRESSION_AT, PAGE_HEADER_SIZE};
use crate::ignite::walk::checksum;

/// Writes an image over a page; `None` if it does not unpack to a page.
///
/// Unused bytes that a compacted image does not have are zero.
pub fn restore(page: &mut [u8], image: &[u8], order: Order) -> Option<()> {
    if *image.get(COMPRESSION_AT)? == Packing::None as u8 {
        return (image.len() == page.len()).then(|| page.copy_from_slice(image));
    }
    page.copy_from_slice(&unpack(image, page.len(), order)?);
    Some(())
}

/// A page in a recovery file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recovered<'a> {
    /// Group of the page.
    pub group: i32,
    /// Id of the page.
    pub page_id: i64,
    /// Its image.
    pub image: &'a [u8],
    /// True if the image is encrypted.
    pub is_encrypted: bool,
    /// Bytes of the record.
    pub size: usize,
}

/// Result of reading a record of a recovery file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Read<'a> {
    /// A record with a right checksum.
    Page(Recovered<'a>),
    /// The bytes end inside the record, which has this many.
    Short(usize),
    /// No record stands there.
    Damaged,
}

/// Bytes before the image in a record of a recovery file.
pub const RECOVERY_HEADER_SIZE: usize = 22;

/// Reads the record at the start of bytes of a recovery file.
pub fn read_recovered(bytes: &[u8], page_size: usize, order: Order) -> Read<'_> {
    let Some(header) = array_at::<RECOVERY_HEADER_SIZE>(bytes, 0) else {
        return Read::Short(RECOVERY_HEADER_SIZE);
    };
    let (page_id, group) = (order.i64_at(header, 0), order.i32_at(header, 8));
    let (size, stored) = (order.u32_at(header, 12), order.u32_at(header, 16));
    let (Some(page_id), Some(group), Some(size)) = (page_id, group, size) else {
        return Read::Damaged;
    };
    let size = usize::try_from(size).unwrap_or(usize::MAX);
    if !(PAGE_HEADER_SIZE..=page_size).contains(&size) {
        return Read::Damaged;
    }
    let end = RECOVERY_HEADER_SIZE + size;
    let Some(image) = bytes.get(RECOVERY_HEADER_SIZE..end) else { return Read::Short(end) };
    if Some(checksum(image)) != stored {
        return Read::Damaged;
    }
    Read::Page(Recovered { group, page_id, image, is_encrypted: header[20] != 0, size: end })
}
