//! A page that is changed: reads and writes that are checked against its bounds.

use crate::ignite::order::{Order, put};
use crate::ignite::page_layout::{TreePage, is_data, types};
use crate::ignite::pages::{ID_AT, PAGE_HEADER_SIZE, TYPE_AT, VERSION_AT};

/// Content of a page, as far as records change it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageKind {
    /// Content that no record changes.
    Other,
    /// Rows.
    Data,
    /// A page of a tree.
    Tree(TreePage),
    /// Levels of a tree.
    TreeMeta,
    /// First page of an index file.
    Meta,
    /// First page of a partition.
    PartitionMeta,
    /// Lists of pages by free space.
    ListMeta,
    /// A node of a list of pages.
    ListNode,
    /// Bits of the pages that changed since a snapshot.
    Tracking,
    /// Number of rows of the caches of a group.
    CacheSizes,
}

impl PageKind {
    /// Returns the kind of a type in a version of its layout.
    pub fn of(type_no: u16, version: u16) -> Self {
        match type_no {
            _ if is_data(type_no) => Self::Data,
            types::TREE_META => Self::TreeMeta,
            types::INDEX_META => Self::Meta,
            types::PARTITION_META => Self::PartitionMeta,
            types::LIST_META => Self::ListMeta,
            types::LIST_NODE => Self::ListNode,
            types::TRACKING => Self::Tracking,
            types::CACHE_SIZES => Self::CacheSizes,
            _ => TreePage::of(type_no, version).map_or(Self::Other, Self::Tree),
        }
    }
}

/// The bytes of a page.
#[derive(Debug)]
pub struct Page<'a> {
    /// All bytes.
    pub bytes: &'a mut [u8],
    /// Byte order of the numbers.
    pub order: Order,
}

impl Page<'_> {
    /// Returns the kind of the page.
    pub fn kind(&self) -> Option<PageKind> {
        Some(PageKind::of(self.order.u16_at(self.bytes, TYPE_AT)?, self.version()?))
    }

    /// Returns the version of the type's layout.
    pub fn version(&self) -> Option<u16> {
        self.order.u16_at(self.bytes, VERSION_AT)
    }

    /// Returns the byte at `at`.
    pub fn u8(&self, at: usize) -> Option<usize> {
        self.bytes.get(at).copied().map(usize::from)
    }

    /// Writes a byte; `None` if it lies outside, or the number does not fit.
    pub fn put_u8(&mut self, at: usize, number: usize) -> Option<()> {
        *self.bytes.get_mut(at)? = u8::try_from(number).ok()?;
        Some(())
    }

    /// Returns the unsigned 16-bit number at `at`.
    pub fn u16(&self, at: usize) -> Option<usize> {
        self.order.u16_at(self.bytes, at).map(usize::from)
    }

    /// Writes an unsigned 16-bit number; `None` if it lies outside, or the number does not fit.
    pub fn put_u16(&mut self, at: usize, number: usize) -> Option<()> {
        self.order.put_u16(self.bytes, at, u16::try_from(number).ok()?)
    }

    /// Writes the low 32 bits of a number.
    pub fn put_i32(&mut self, at: usize, number: i64) -> Option<()> {
        self.order.put_u32(self.bytes, at, number as u32)
    }

    /// Returns the signed 64-bit number at `at`.
    pub fn i64(&self, at: usize) -> Option<i64> {
        self.order.i64_at(self.bytes, at)
    }

    /// Writes a signed 64-bit number.
    pub fn put_i64(&mut self, at: usize, number: i64) -> Option<()> {
        self.order.put_i64(self.bytes, at, number)
    }

    /// Writes bytes.
    pub fn put(&mut self, at: usize, bytes: &[u8]) -> Option<()> {
        put(self.bytes, at, bytes)
    }

    /// Writes zeros.
    pub fn zero(&mut self, at: usize, size: usize) -> Option<()> {
        self.bytes.get_mut(at..at.checked_add(size)?)?.fill(0);
        Some(())
    }

    /// Copies `size` bytes from one place to another, which may overlap.
    pub fn shift(&mut self, from: usize, size: usize, to: usize) -> Option<()> {
        let end = from.checked_add(size)?;
        if end > self.bytes.len() || to.checked_add(size)? > self.bytes.len() {
            return None;
        }
        self.bytes.copy_within(from..end, to);
        Some(())
    }

    /// Writes the header of an empty page; its content stays.
    ///
    /// Source: PageIO.initNewPage, Ignite 2.18.0.
    pub fn put_header(&mut self, type_no: u16, version: u16, id: i64) -> Option<()> {
        self.zero(0, PAGE_HEADER_SIZE)?;
        self.put_u16(TYPE_AT, type_no.into())?;
        self.put_u16(VERSION_AT, version.into())?;
        self.put_i64(ID_AT, id)
    }
}
