//! Logs and columns for tests.

use crate::adler;
use crate::je::header::{MAX_SIZE, MIN_SIZE, Rules};
use crate::je::tally::Programs;
use crate::je::walk::HeaderColumns;

/// Flags that announce a VLSN.
pub const FLAGS: u8 = 0x28;

/// Rules of log version 17.
pub const RULES: Rules =
    Rules { vlsn_mask: FLAGS, summed_flags: 0xef, erased_type: Some(43), file_size: 1 << 32 };

/// Owned columns, as Python has them.
#[derive(Debug)]
pub struct Owned {
    words: [Vec<u32>; 3],
    item_size: Vec<i32>,
    vlsn: Vec<i64>,
    small: [Vec<u8>; 4],
}

impl Owned {
    pub fn new(rows: usize) -> Self {
        Self {
            words: std::array::from_fn(|_| vec![0; rows]),
            item_size: vec![0; rows],
            vlsn: vec![0; rows],
            small: std::array::from_fn(|_| vec![9; rows]),
        }
    }

    pub fn lend(&mut self) -> HeaderColumns<'_> {
        let [offset, prev_offset, stored_checksum] = &mut self.words;
        let [type_no, flags, header_size, checksum] = &mut self.small;
        HeaderColumns {
            offset,
            prev_offset,
            stored_checksum,
            item_size: &mut self.item_size,
            vlsn: &mut self.vlsn,
            type_no,
            flags,
            header_size,
            checksum,
        }
    }
}

/// Appends an entry whose item repeats `fill`.
pub fn push(log: &mut Vec<u8>, prev: u32, type_no: u8, flags: u8, size: usize, fill: u8) {
    let start = log.len();
    let vlsn = if flags & FLAGS != 0 { MAX_SIZE - MIN_SIZE } else { 0 };
    log.extend([0, 0, 0, 0, type_no, flags]);
    log.extend(prev.to_le_bytes());
    log.extend((size as u32).to_le_bytes());
    log.resize(log.len() + vlsn + size, fill);
    let sum = adler::of_masked(&log[start + 4..], 0xef);
    log[start..start + 4].copy_from_slice(&sum.to_le_bytes());
}

/// Returns a file header and `entries` entries of some types and sizes.
pub fn random_log(entries: usize, seed: u32) -> Vec<u8> {
    let mut log = Vec::new();
    push(&mut log, 0, 25, 0, 24, 0);
    let (mut prev, mut state) = (0, seed);
    for _ in 0..entries {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let [_, small, flags, fill] = state.to_le_bytes();
        let start = log.len() as u32;
        let (type_no, size) = ([1, 2, 24, 43][usize::from(fill & 3)], usize::from(small));
        push(&mut log, prev, type_no, flags & (FLAGS | 0x10), size, fill);
        prev = start;
    }
    log
}

/// Returns a selection of no types.
pub fn no_types() -> [bool; 256] {
    [false; 256]
}

/// Returns programs in which type 1 has flags, a packed number, a key, and the rest as value.
pub fn programs() -> Programs {
    let (firsts, mut lasts) = ([0; 256], [0; 256]);
    lasts[1] = 4;
    let steps = [0, 0, 0, 2, 3, 0, 3, 0, 0, 4, 1, 0];
    Programs::new(&firsts, &lasts, &steps).unwrap()
}
