//! The header before every entry; `formats/je/header.py` has the table of its fields.

use crate::bytes::{array_at, i32_at, i64_at, u32_at};

/// Bytes of a header without VLSN.
pub const MIN_SIZE: usize = 14;

/// Bytes of a header with VLSN.
pub const MAX_SIZE: usize = 22;

/// Type number of the entry at the start of every file.
pub const FILE_HEADER_TYPE: u8 = 25;

/// The flag of an entry that counts only once the node above it is written.
pub const PROVISIONAL_YES: u8 = 0x80;

/// Where in an entry the bytes begin that its checksum covers.
pub const SUMMED_FROM: usize = 4;

/// What decides how the headers of one file are read; Python derives it from the log version.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// Flags of which any means that a VLSN follows.
    pub vlsn_mask: u8,
    /// The flags that the checksum covers.
    pub summed_flags: u8,
    /// The type whose checksum means nothing, if the version has it.
    pub erased_type: Option<u8>,
    /// Bytes of the file: no entry ends after them.
    pub file_size: u64,
}

/// The fixed fields of a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Adler-32 of the entry.
    pub stored_checksum: u32,
    /// Number of the entry's type.
    pub type_no: u8,
    /// Flags.
    pub flags: u8,
    /// Offset in the file of the entry before it.
    pub prev_offset: u32,
    /// Bytes after the header, as stored: may be negative.
    pub item_size: i32,
}

impl Header {
    /// Read the header at `at`; `None` if its fixed fields do not end inside `bytes`.
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

    /// Return whether a VLSN follows the fixed fields.
    #[inline]
    pub fn has_vlsn(&self, rules: &Rules) -> bool {
        self.flags & rules.vlsn_mask != 0 && self.type_no != FILE_HEADER_TYPE
    }

    /// Return the number of bytes of the header.
    #[inline]
    pub fn size(&self, rules: &Rules) -> usize {
        if self.has_vlsn(rules) { MAX_SIZE } else { MIN_SIZE }
    }

    /// Return the number of bytes of the entry; `None` if no entry has such a header.
    #[inline]
    pub fn entry_size(&self, rules: &Rules) -> Option<usize> {
        let item_size = usize::try_from(self.item_size).ok()?;
        (self.type_no != 0).then(|| self.size(rules) + item_size)
    }
}

/// Return the VLSN of the entry at `at`, whose header has one.
#[inline]
pub fn vlsn_at(bytes: &[u8], at: usize) -> Option<i64> {
    i64_at(bytes.get(at..)?, MIN_SIZE)
}
