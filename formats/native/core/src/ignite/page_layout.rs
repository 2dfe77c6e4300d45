//! Places of fields in pages of each kind: the one declaration of their layouts.
//!
//! Source: AbstractDataPageIO, BPlusIO, BPlusMetaIO, PageMetaIO, PagePartitionMetaIO,
//! PagesListMetaIO, PagesListNodeIO, PagePartitionCountersIO, TrackingPageIO, Ignite 2.18.0.

/// Types of pages that are read for more than their header.
pub mod types {
    /// Rows of caches.
    pub const DATA: u16 = 1;
    /// Roots of a tree.
    pub const TREE_META: u16 = 2;
    /// First page of an index file.
    pub const INDEX_META: u16 = 11;
    /// Tails of the buckets of a list.
    pub const LIST_META: u16 = 12;
    /// Ids of pages in a bucket.
    pub const LIST_NODE: u16 = 13;
    /// First page of a partition.
    pub const PARTITION_META: u16 = 14;
    /// Bits of changed pages.
    pub const TRACKING: u16 = 15;
    /// Rows of each cache of a group.
    pub const CACHE_SIZES: u16 = 20;
    /// Rows of the metastorage.
    pub const METASTORAGE_DATA: u16 = 21;
    /// Rows that belong to a partition itself.
    pub const PARTITION_DATA: u16 = 32;
}

/// Fields of data pages.
pub mod data {
    /// Id of the list node that names the page; 0 for none.
    pub const LIST_AT: usize = 40;
    /// Free bytes, u16.
    pub const FREE_AT: usize = 48;
    /// Number of direct items, u8.
    pub const DIRECT_AT: usize = 50;
    /// Number of indirect items, u8.
    pub const INDIRECT_AT: usize = 51;
    /// Offset of the first entry, u16.
    pub const FIRST_ENTRY_AT: usize = 52;
    /// Items of two bytes: direct ones, then indirect ones.
    pub const ITEMS_AT: usize = 54;
    /// Bytes of an item.
    pub const ITEM_SIZE: usize = 2;
    /// Bit of an entry's length that says that a link follows.
    pub const FRAGMENT_BIT: u16 = 1 << 15;
    /// Bytes of the length of an entry.
    pub const LENGTH_SIZE: usize = 2;
    /// Bytes of the link of a fragment.
    pub const LINK_SIZE: usize = 8;
}

/// Returns true for a type of pages that hold rows.
pub fn is_data(type_no: u16) -> bool {
    matches!(type_no, types::DATA | types::METASTORAGE_DATA | types::PARTITION_DATA)
}
