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
    /// Number of rows of each cache of a group.
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

/// Fields of the page that names the levels of a tree.
pub mod tree_meta {
    /// Number of levels, u8.
    pub const LEVELS_AT: usize = 40;
    /// Bytes of a key in an item of an index, u16; from version 2.
    pub const INLINE_SIZE_AT: usize = 41;
    /// Flags, i64; from version 4.
    pub const FLAGS_AT: usize = 43;
    /// Version of the engine that made the tree: three bytes, i64, 20 bytes; from version 4.
    pub const CREATED_AT: usize = 51;
    /// Bytes of the id of a level's first page; level 0 has the leaves.
    pub const REF_SIZE: usize = 8;

    /// Returns the offset of the first level's id in a version of the layout.
    pub fn refs_at(version: u16) -> Option<usize> {
        match version {
            1 => Some(41),
            2 | 3 => Some(43),
            4 => Some(82),
            _ => None,
        }
    }
}

/// Fields of the pages of trees.
pub mod tree {
    /// Number of items, u16.
    pub const COUNT_AT: usize = 40;
    /// Id of the next page of the level; 0 for none.
    pub const FORWARD_AT: usize = 42;
    /// Id of the last removal that emptied a page of the tree.
    pub const REMOVE_AT: usize = 50;
    /// Items of a leaf; the leftmost child of an inner page.
    pub const ITEMS_AT: usize = 58;
    /// Bytes of the id of a child, which precedes the first item and follows each.
    pub const CHILD_SIZE: usize = 8;
    /// Bytes of a link to a row.
    pub const LINK_SIZE: usize = 8;
    /// Bytes of a name in an item of a tree of names, without the byte of its length.
    pub const NAME_SIZE: usize = 768;
    /// Bytes of a key in an item of the metastorage; a longer one is a row of its own.
    pub const KEY_SIZE: usize = 64;
}

/// Fields of the first page of a partition or an index.
pub mod meta {
    /// Id of the page that names the levels of the tree.
    pub const TREE_AT: usize = 48;
    /// Id of the first page of the free list; in an index, of the list of reusable pages.
    pub const LIST_AT: usize = 56;
    /// Id of the last snapshot.
    pub const SNAPSHOT_AT: usize = 64;
    /// Id of the last full snapshot.
    pub const FULL_SNAPSHOT_AT: usize = 72;
    /// Tag of the next snapshot.
    pub const NEXT_TAG_AT: usize = 80;
    /// Tag of the last snapshot.
    pub const SNAPSHOT_TAG_AT: usize = 88;
    /// Number of pages of the file at the last checkpoint, i32.
    pub const PAGE_COUNT_AT: usize = 96;
    /// Number of pages of the file when the meta page was written, i32.
    pub const CANDIDATE_AT: usize = 100;
    /// End of the fields of the first version of an index.
    pub const END: usize = 104;
    /// Page up to which an index is encrypted anew, and number of pages, i32; from version 2.
    pub const ENCRYPTED_AT: usize = 104;
    /// Number of rows of a partition, i64.
    pub const SIZE_AT: usize = 104;
    /// Update counter of a partition, i64.
    pub const COUNTER_AT: usize = 112;
    /// Number of the last removal from a partition.
    pub const REMOVE_AT: usize = 120;
    /// State of a partition, u8.
    pub const STATE_AT: usize = 128;
    /// Id of the first page with the number of rows of each cache; 0 for none.
    pub const CACHE_SIZES_AT: usize = 129;
    /// Id of the page that names the levels of the expiry tree; from version 2.
    pub const PENDING_AT: usize = 137;
    /// Id of the first page of the partition's own free list; from version 2.
    pub const OWN_LIST_AT: usize = 145;
    /// Link of the row with gaps of counters; 0 for none; from version 2.
    pub const GAPS_AT: usize = 153;
    /// Page up to which a partition is encrypted anew, and number of pages, i32; from version 3.
    pub const PARTITION_ENCRYPTED_AT: usize = 161;

    /// Returns the end of the fields of a partition in a version of the layout.
    pub fn partition_end(version: u16) -> Option<usize> {
        match version {
            1 => Some(137),
            2 => Some(161),
            3 => Some(169),
            _ => None,
        }
    }
}

/// Fields of a node of a list of pages.
pub mod list_node {
    /// Id of the node before it; 0 for none.
    pub const PREVIOUS_AT: usize = 40;
    /// Id of the node after it; 0 for none.
    pub const NEXT_AT: usize = 48;
    /// Number of ids, u16.
    pub const COUNT_AT: usize = 56;
    /// Ids of pages.
    pub const IDS_AT: usize = 58;
    /// Bytes of an id.
    pub const ID_SIZE: usize = 8;
}

/// Fields of the page that names the tails of lists.
pub mod list_meta {
    /// Number of tails, u16.
    pub const COUNT_AT: usize = 40;
    /// Id of the next page; 0 for none.
    pub const NEXT_AT: usize = 42;
    /// Tails: the bucket, u16, and the id of its last node.
    pub const ITEMS_AT: usize = 50;
    /// Bytes of a tail.
    pub const ITEM_SIZE: usize = 10;
}

/// Fields of the page with the number of rows of each cache of a group.
pub mod cache_sizes {
    /// Number of caches, u16.
    pub const COUNT_AT: usize = 40;
    /// 1 in the last page, u8.
    pub const LAST_AT: usize = 42;
    /// Id of the next page; 0 for none.
    pub const NEXT_AT: usize = 43;
    /// Caches: the id, i32, and the number of rows, i64.
    pub const ITEMS_AT: usize = 51;
    /// Bytes of a cache.
    pub const ITEM_SIZE: usize = 12;
}

/// Fields of the page that has bits of changed pages, in two halves.
pub mod tracking {
    /// Tag of a snapshot; its highest bit says that the bits cannot be trusted.
    pub const TAG_AT: usize = 40;
    /// The halves: each a number of set bits, u16, and the bits.
    pub const HALVES_AT: usize = 48;
    /// Bytes of the number of set bits.
    pub const COUNT_SIZE: usize = 2;

    /// Returns the number of pages from one tracking page to the next; the first has index 1.
    pub fn step(page_size: usize) -> u32 {
        let half = page_size.saturating_sub(HALVES_AT) / 2;
        u32::try_from(half.saturating_sub(COUNT_SIZE) * 8).unwrap_or(u32::MAX).max(1)
    }
}

/// A field of a page: type of the page, first and last version of its layout that has the field,
/// name, offset, and kind: `page` for an id, or a number by its sign and bytes.
pub type PageField = (u16, u16, u16, &'static str, usize, &'static str);

const LAST: u16 = u16::MAX;

/// Fields of all types that have some of their own, except trees and lists of items.
pub const FIELDS: &[PageField] = &[
    (types::TREE_META, 1, LAST, "levels", tree_meta::LEVELS_AT, "u1"),
    (types::TREE_META, 1, 1, "leaves", 41, "page"),
    (types::TREE_META, 2, LAST, "inline_size", tree_meta::INLINE_SIZE_AT, "u2"),
    (types::TREE_META, 2, 3, "leaves", 43, "page"),
    (types::TREE_META, 4, LAST, "flags", tree_meta::FLAGS_AT, "i8"),
    (types::TREE_META, 4, LAST, "leaves", 82, "page"),
    (types::INDEX_META, 1, LAST, "tree", meta::TREE_AT, "page"),
    (types::INDEX_META, 1, LAST, "list", meta::LIST_AT, "page"),
    (types::INDEX_META, 1, LAST, "snapshot_id", meta::SNAPSHOT_AT, "i8"),
    (types::INDEX_META, 1, LAST, "full_snapshot_id", meta::FULL_SNAPSHOT_AT, "i8"),
    (types::INDEX_META, 1, LAST, "next_snapshot_tag", meta::NEXT_TAG_AT, "i8"),
    (types::INDEX_META, 1, LAST, "snapshot_tag", meta::SNAPSHOT_TAG_AT, "i8"),
    (types::INDEX_META, 1, LAST, "page_count", meta::PAGE_COUNT_AT, "i4"),
    (types::INDEX_META, 1, LAST, "candidate_count", meta::CANDIDATE_AT, "i4"),
    (types::PARTITION_META, 1, LAST, "tree", meta::TREE_AT, "page"),
    (types::PARTITION_META, 1, LAST, "list", meta::LIST_AT, "page"),
    (types::PARTITION_META, 1, LAST, "snapshot_id", meta::SNAPSHOT_AT, "i8"),
    (types::PARTITION_META, 1, LAST, "full_snapshot_id", meta::FULL_SNAPSHOT_AT, "i8"),
    (types::PARTITION_META, 1, LAST, "next_snapshot_tag", meta::NEXT_TAG_AT, "i8"),
    (types::PARTITION_META, 1, LAST, "snapshot_tag", meta::SNAPSHOT_TAG_AT, "i8"),
    (types::PARTITION_META, 1, LAST, "page_count", meta::PAGE_COUNT_AT, "i4"),
    (types::PARTITION_META, 1, LAST, "candidate_count", meta::CANDIDATE_AT, "i4"),
    (types::PARTITION_META, 1, LAST, "size", meta::SIZE_AT, "i8"),
    (types::PARTITION_META, 1, LAST, "update_counter", meta::COUNTER_AT, "i8"),
    (types::PARTITION_META, 1, LAST, "global_remove_id", meta::REMOVE_AT, "i8"),
    (types::PARTITION_META, 1, LAST, "state", meta::STATE_AT, "u1"),
    (types::PARTITION_META, 1, LAST, "counters_page", meta::CACHE_SIZES_AT, "page"),
    (types::PARTITION_META, 2, LAST, "expiry_tree", meta::PENDING_AT, "page"),
    (types::PARTITION_META, 2, LAST, "own_list", meta::OWN_LIST_AT, "page"),
    (types::PARTITION_META, 2, LAST, "gaps", meta::GAPS_AT, "page"),
    (types::LIST_META, 1, LAST, "count", list_meta::COUNT_AT, "u2"),
    (types::LIST_META, 1, LAST, "next", list_meta::NEXT_AT, "page"),
    (types::LIST_NODE, 1, LAST, "previous", list_node::PREVIOUS_AT, "page"),
    (types::LIST_NODE, 1, LAST, "next", list_node::NEXT_AT, "page"),
    (types::LIST_NODE, 1, LAST, "count", list_node::COUNT_AT, "u2"),
    (types::CACHE_SIZES, 1, LAST, "count", cache_sizes::COUNT_AT, "u2"),
    (types::CACHE_SIZES, 1, LAST, "is_last", cache_sizes::LAST_AT, "u1"),
    (types::CACHE_SIZES, 1, LAST, "next", cache_sizes::NEXT_AT, "page"),
    (types::TRACKING, 1, LAST, "snapshot_tag", tracking::TAG_AT, "i8"),
];

/// Fields of data pages, for each of their types.
pub const DATA_FIELDS: &[(&str, usize, &str)] = &[
    ("list", data::LIST_AT, "page"),
    ("free", data::FREE_AT, "u2"),
    ("direct", data::DIRECT_AT, "u1"),
    ("indirect", data::INDIRECT_AT, "u1"),
    ("first_entry", data::FIRST_ENTRY_AT, "u2"),
];

/// Fields of the pages of trees, for each of their types.
pub const TREE_FIELDS: &[(&str, usize, &str)] = &[
    ("count", tree::COUNT_AT, "u2"),
    ("forward", tree::FORWARD_AT, "page"),
    ("remove_id", tree::REMOVE_AT, "i8"),
];

/// Content of a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TreeKind {
    /// Rows of a cache: link, hash of the key.
    Data,
    /// Rows of the caches of a group: link, hash of the key, cache.
    GroupData,
    /// Rows that expire: time, link.
    Pending,
    /// Rows that expire in a group: time, link, cache.
    GroupPending,
    /// Names of indexes: length and name, id of the index's first page.
    Names,
    /// Rows of the metastorage: link, length and key.
    Metastorage,
    /// An index without inlined keys: link.
    Index,
    /// An index with inlined keys of a size: key, link.
    Inline(u16),
}

/// Layout of a page of a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TreePage {
    /// Content of the tree.
    pub kind: TreeKind,
    /// True for a leaf, false for an inner page.
    pub is_leaf: bool,
}

impl TreeKind {
    /// Returns the bytes of an item.
    pub fn item_size(self) -> usize {
        match self {
            Self::Index => tree::LINK_SIZE,
            Self::Data => 12,
            Self::GroupData | Self::Pending => 16,
            Self::GroupPending => 20,
            Self::Names => 1 + tree::NAME_SIZE + 8,
            Self::Metastorage => tree::LINK_SIZE + 2 + tree::KEY_SIZE,
            Self::Inline(size) => usize::from(size) + tree::LINK_SIZE,
        }
    }

    /// Returns the offset of the link in an item; `None` for items without.
    pub fn link_at(self) -> Option<usize> {
        match self {
            Self::Data | Self::GroupData | Self::Metastorage | Self::Index => Some(0),
            Self::Pending | Self::GroupPending => Some(8),
            Self::Inline(size) => Some(size.into()),
            Self::Names => None,
        }
    }

    /// Returns the offset of the cache in an item of a group's tree.
    pub fn cache_at(self) -> Option<usize> {
        match self {
            Self::GroupData => Some(12),
            Self::GroupPending => Some(16),
            _ => None,
        }
    }
}

impl TreePage {
    /// Returns the layout of a type; `None` if it is no type of tree pages, or not read.
    pub fn of(type_no: u16, version: u16) -> Option<Self> {
        /// First type of leaves, and of inner pages, with inlined keys.
        const INLINE: [(u16, bool); 2] = [(10_000, true), (20_000, false)];
        const INLINE_COUNT: u16 = 2048;
        for (first, is_leaf) in INLINE {
            if let Some(size) = type_no.checked_sub(first).filter(|&n| n < INLINE_COUNT) {
                return Some(Self { kind: TreeKind::Inline(size + 1), is_leaf });
            }
        }
        let (kind, is_leaf) = match type_no {
            3 => (TreeKind::Index, true),
            4 => (TreeKind::Index, false),
            5 => (TreeKind::Data, false),
            6 => (TreeKind::Data, true),
            7 => (TreeKind::Names, false),
            8 => (TreeKind::Names, true),
            9 => (TreeKind::Pending, false),
            10 => (TreeKind::Pending, true),
            16 => (TreeKind::GroupData, false),
            17 => (TreeKind::GroupData, true),
            18 => (TreeKind::GroupPending, false),
            19 => (TreeKind::GroupPending, true),
            // The first version had keys of 10 bytes.
            22 if version > 1 => (TreeKind::Metastorage, false),
            23 if version > 1 => (TreeKind::Metastorage, true),
            _ => return None,
        };
        Some(Self { kind, is_leaf })
    }

    /// Returns the bytes from one item to the next.
    pub fn step(self) -> usize {
        self.kind.item_size() + if self.is_leaf { 0 } else { tree::CHILD_SIZE }
    }

    /// Returns the offset of the first item.
    pub fn items_at(self) -> usize {
        tree::ITEMS_AT + if self.is_leaf { 0 } else { tree::CHILD_SIZE }
    }

    /// Returns the largest number of items.
    pub fn capacity(self, page_size: usize) -> usize {
        page_size.saturating_sub(self.items_at()) / self.step()
    }
}
