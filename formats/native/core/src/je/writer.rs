//! The tail of a growing log: entries one after the other, placed as the engine places them.
//!
//! Source: LogManager.serialLogWork, FileManager.shouldFlipFile and advanceLsn, JE 7.5.11.

use crate::adler;
use crate::je::header::{MIN_SIZE, SUMMED_FROM};
use crate::je::keys::Keys;

/// Number of bytes of the entry at the start of every file.
pub const FILE_HEADER_SIZE: u64 = 38;

/// Entries of one type, without VLSNs.
#[derive(Clone, Copy, Debug)]
pub struct Items<'a> {
    /// Bytes after the header of each entry.
    pub items: Keys<'a>,
    /// Flags of each entry.
    pub flags: &'a [i64],
    /// Type number of all entries.
    pub type_no: u8,
}

/// End of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tail {
    /// Number of its last file.
    pub file_no: u32,
    /// Offset of the next entry in that file.
    pub next_offset: u64,
    /// Offset of the last entry in that file.
    pub last_offset: u64,
}

/// Buffer for entries.
#[derive(Debug)]
pub struct Piece<'a> {
    /// The bytes.
    pub bytes: &'a mut [u8],
    /// Number of bytes in use.
    pub used: usize,
}

/// Appends entries from `row` on while they fit into their file and the piece; returns the next
/// row.
///
/// Fills `lsns` with their LSNs. A file has at most `file_max` bytes, unless it has only one entry.
/// `summed_flags` are the flags that the checksum covers.
pub fn append(
    items: Items<'_>,
    mut row: usize,
    tail: &mut Tail,
    file_max: u64,
    summed_flags: u8,
    piece: &mut Piece<'_>,
    lsns: &mut [i64],
) -> usize {
    while let (Some(item), Some(&flags), Some(lsn)) =
        (items.items.find(row), items.flags.get(row), lsns.get_mut(row))
    {
        let size = MIN_SIZE.saturating_add(item.len());
        let after = tail.next_offset.saturating_add(size as u64);
        if after > file_max && tail.next_offset > FILE_HEADER_SIZE {
            break;
        }
        let free = piece.bytes.get_mut(piece.used..).unwrap_or_default();
        let Some(entry) = free.get_mut(..size) else { break };
        entry[4] = items.type_no;
        entry[5] = flags.to_le_bytes()[0];
        entry[6..10].copy_from_slice(&tail.last_offset.to_le_bytes()[..4]);
        entry[10..14].copy_from_slice(&(item.len() as u64).to_le_bytes()[..4]);
        entry[MIN_SIZE..].copy_from_slice(item);
        let sum = adler::of_masked(&entry[SUMMED_FROM..], summed_flags);
        entry[..4].copy_from_slice(&sum.to_le_bytes());
        *lsn = i64::from(tail.file_no) << 32 | (tail.next_offset & 0xffff_ffff) as i64;
        tail.last_offset = tail.next_offset;
        tail.next_offset = after;
        piece.used += size;
        row += 1;
    }
    row
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::je::header::Rules;
    use crate::je::keys::tests::Owned;
    use crate::je::walk::{Checksum, checksum_of_entry};
    use crate::testing::{bytes, numbers, places};
    use proptest::prelude::*;

    const TAIL: Tail = Tail { file_no: 3, next_offset: 38, last_offset: 0 };

    fn appended(items: &[Vec<u8>], file_max: u64, size: usize) -> (usize, Tail, Vec<u8>, Vec<i64>) {
        let (owned, flags) = (Owned::new(items), vec![0x90; items.len()]);
        let mut bytes = vec![0; size];
        let mut lsns = vec![-1; items.len()];
        let mut tail = TAIL;
        let mut piece = Piece { bytes: &mut bytes, used: 0 };
        let items = Items { items: owned.lend(), flags: &flags, type_no: 13 };
        let row = append(items, 0, &mut tail, file_max, 0xef, &mut piece, &mut lsns);
        let used = piece.used;
        bytes.truncate(used);
        (row, tail, bytes, lsns)
    }

    #[test]
    fn entries_follow_each_other() {
        let items = [vec![1; 6], vec![], vec![2; 100]];
        let (row, tail, bytes, lsns) = appended(&items, 1_000, 1_000);
        assert_eq!((row, tail.next_offset, tail.last_offset), (3, 38 + 148, 72));
        assert_eq!(lsns, [3 << 32 | 38, 3 << 32 | 58, 3 << 32 | 72]);
        let rules =
            Rules { vlsn_mask: 0x28, summed_flags: 0xef, erased_type: None, file_size: 1_000 };
        for entry in [&bytes[..20], &bytes[20..34], &bytes[34..148]] {
            assert!(matches!(checksum_of_entry(entry, &rules), Checksum::Ok));
        }
        assert_eq!(bytes[20..34][4..], [13, 0x90, 38, 0, 0, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn what_does_not_fit_is_left() {
        let items = [vec![1; 6], vec![2; 6]];
        assert_eq!(appended(&items, 77, 100).0, 1);
        assert_eq!(appended(&items, 78, 100).0, 2);
        assert_eq!(appended(&items, 10, 100).0, 1);
        assert_eq!(appended(&items, 100, 39).0, 1);
        assert_eq!(appended(&items, 100, 19).0, 0);
    }

    proptest! {
        #[test]
        fn no_piece_is_overrun(
            items in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..50), 0..9),
            file_max in prop_oneof![0_u64..300, Just(u64::MAX)],
            size in 0_usize..300,
        ) {
            let (row, tail, bytes, lsns) = appended(&items, file_max, size);
            prop_assert!(row <= items.len() && bytes.len() <= size);
            prop_assert_eq!(tail.next_offset, 38 + bytes.len() as u64);
            prop_assert!(lsns[..row].iter().all(|&lsn| lsn >= 3 << 32));
            prop_assert!(lsns[row..].iter().all(|&lsn| lsn == -1));
        }

        #[test]
        fn any_items_are_put_inside_the_piece(
            data in bytes(20),
            (starts, sizes) in places(0..6),
            flags in numbers(0..6),
            (type_no, summed_flags, file_no) in any::<(u8, u8, u32)>(),
            row in prop_oneof![4 => 0_usize..6, 1 => Just(usize::MAX)],
            offsets in any::<(u64, u64)>(),
            is_near: bool,
            file_max in prop_oneof![0_u64..300, any::<u64>()],
            size in 0_usize..120,
            used in prop_oneof![4 => 0_usize..130, 1 => Just(usize::MAX)],
            rows in 0_usize..6,
        ) {
            let (next_offset, last_offset) =
                if is_near { (offsets.0 % 300, offsets.1 % 300) } else { offsets };
            let items = Items {
                items: Keys { data: &data, starts: &starts, sizes: &sizes }, flags: &flags, type_no
            };
            let (mut piece, mut lsns) = (vec![7; size], vec![-1; rows]);
            let mut piece = Piece { bytes: &mut piece, used };
            let mut tail = Tail { file_no, next_offset, last_offset };
            let after =
                append(items, row, &mut tail, file_max, summed_flags, &mut piece, &mut lsns);
            prop_assert!(after >= row && (after == row || after <= rows));
            prop_assert!(piece.used == used || piece.used <= size);
            prop_assert!(tail.next_offset >= next_offset);
        }
    }
}
