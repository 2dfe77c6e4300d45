//! The header before every entry; `formats/je/header.py` has the table of its fields.

use crate::bytes::{array_at, i32_at, i64_at, u32_at};

/// Number of bytes of a header without VLSN.
pub const MIN_SIZE: usize = 14;

/// Number of bytes of a header with VLSN.
pub const MAX_SIZE: usize = 22;

/// Type number of the entry at the start of every file.
pub const FILE_HEADER_TYPE: u8 = 25;

/// Flag of an entry that counts only once the node above it is written.
pub const PROVISIONAL_YES: u8 = 0x80;

/// Offset in an entry of the first byte that its checksum covers.
pub const SUMMED_FROM: usize = 4;

/// Rules for reading the headers of one file; Python derives them from the log version.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// Flags of which any announces a VLSN.
    pub vlsn_mask: u8,
    /// Flags that the checksum covers.
    pub summed_flags: u8,
    /// Type of erased entries, whose checksum means nothing; `None` if the version has none.
    pub erased_type: Option<u8>,
    /// Number of bytes of the file: no entry ends after them.
    pub file_size: u64,
}

/// Fixed fields of a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Adler-32 of the entry, as stored.
    pub stored_checksum: u32,
    /// Type number.
    pub type_no: u8,
    /// Flags.
    pub flags: u8,
    /// Offset in the file of the entry before it.
    pub prev_offset: u32,
    /// Number of bytes after the header, as stored: may be negative.
    pub item_size: i32,
}

impl Header {
    /// Reads the header at `at`; returns `None` if its fixed fields do not end inside `bytes`.
    #[inline]
    pub fn read(bytes: &[u8], at: usize) -> Option<Self> {
        let raw: &[u8; MIN_SIZE] = array_at(bytes, at)?;
        Some(Self {
            stored_checksum: u32_at(raw, 0)?,
            type_no: raw[4],
            flags: raw[5],
            prev_offset: u32_at(raw, 6)?,
            item_size: i32_at(raw, 10)?,
        })
    }

    /// Returns true if a VLSN follows the fixed fields.
    #[inline]
    pub fn has_vlsn(&self, rules: &Rules) -> bool {
        self.flags & rules.vlsn_mask != 0 && self.type_no != FILE_HEADER_TYPE
    }

    /// Returns the number of bytes of the header.
    #[inline]
    pub fn size(&self, rules: &Rules) -> usize {
        if self.has_vlsn(rules) { MAX_SIZE } else { MIN_SIZE }
    }

    /// Returns the number of bytes of the entry; `None` if the type is 0 or the size is negative.
    #[inline]
    pub fn entry_size(&self, rules: &Rules) -> Option<usize> {
        let item_size = usize::try_from(self.item_size).ok()?;
        (self.type_no != 0).then(|| self.size(rules) + item_size)
    }
}

/// Returns the VLSN of the entry at `at`, whose header must have one.
#[inline]
pub fn vlsn_at(bytes: &[u8], at: usize) -> Option<i64> {
    i64_at(bytes.get(at..)?, MIN_SIZE)
}
