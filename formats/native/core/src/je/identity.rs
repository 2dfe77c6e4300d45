//! Identity of records: keyed digests of (database, key), and the newest row of each.
//!
//! Source: SipHash: a fast short-input PRF, Aumasson and Bernstein, 2012; HalfSipHash-1-3.

use crate::spans::{Outside, Spans};

/// Number of words of a seed.
pub const SEED_SIZE: usize = 8;

/// State of HalfSipHash.
struct State([u32; 4]);

impl State {
    fn new(key: [u32; 2]) -> Self {
        Self([key[0], key[1], 0x6c79_6765 ^ key[0], 0x7465_6462 ^ key[1]])
    }

    #[inline]
    fn round(&mut self) {
        let [v0, v1, v2, v3] = &mut self.0;
        *v0 = v0.wrapping_add(*v1);
        *v1 = v1.rotate_left(5) ^ *v0;
        *v0 = v0.rotate_left(16);
        *v2 = v2.wrapping_add(*v3);
        *v3 = v3.rotate_left(8) ^ *v2;
        *v0 = v0.wrapping_add(*v3);
        *v3 = v3.rotate_left(7) ^ *v0;
        *v2 = v2.wrapping_add(*v1);
        *v1 = v1.rotate_left(13) ^ *v2;
        *v2 = v2.rotate_left(16);
    }

    #[inline]
    fn add(&mut self, word: u32) {
        self.0[3] ^= word;
        self.round();
        self.0[0] ^= word;
    }

    fn finish(&mut self, tweak: u32, place: usize) -> u32 {
        self.0[place] ^= tweak;
        for _ in 0..3 {
            self.round();
        }
        self.0[1] ^ self.0[3]
    }
}

/// Returns a digest of 63 bits of a database and a key.
fn digest(key: &[u8], db_id: i64, secret: [u32; 2]) -> i64 {
    let mut state = State::new(secret);
    let db_id = db_id as u64;
    state.add(db_id as u32);
    state.add((db_id >> 32) as u32);
    let words = key.chunks_exact(4);
    let mut last = [0; 4];
    for (place, &byte) in last.iter_mut().zip(words.remainder()) {
        *place = byte;
    }
    last[3] = key.len() as u8;
    for word in words {
        state.add(word.first_chunk().map_or(0, |four| u32::from_le_bytes(*four)));
    }
    state.add(u32::from_le_bytes(last));
    let high = state.finish(0xff, 2) & 0x7fff_ffff;
    let low = state.finish(0xdd, 1);
    i64::from(high) << 32 | i64::from(low)
}

/// Returns two digests of each key; 0 for null.
pub fn identify(
    keys: &Spans<'_>,
    db_ids: &[i64],
    seed: &[u32; SEED_SIZE],
) -> Result<(Vec<i64>, Vec<i64>), Outside> {
    if db_ids.len() != keys.len() {
        return Err(Outside);
    }
    let mut first = vec![0; keys.len()];
    let mut second = vec![0; keys.len()];
    for (row, &db_id) in db_ids.iter().enumerate() {
        if let Some(key) = keys.get(row)? {
            first[row] = digest(key, db_id, [seed[0], seed[1]]);
            second[row] = digest(key, db_id, [seed[2], seed[3]]);
        }
    }
    Ok((first, second))
}

/// Returns a mask of the wanted rows that are the last of their identity; columns have one length.
///
/// Splits the identities among `threads` threads, rounded up to a power of two, at most 64.
pub fn newest(first: &[i64], second: &[i64], wanted: &[bool], threads: usize) -> Vec<bool> {
    let parts = threads.clamp(1, 64).next_power_of_two();
    let work = |part| newest_of_part(first, second, wanted, part, parts);
    let tables: Vec<Vec<u32>> = if parts == 1 {
        vec![work(0)]
    } else {
        std::thread::scope(|scope| {
            let running: Vec<_> = (0..parts).map(|part| scope.spawn(move || work(part))).collect();
            let join = |thread: std::thread::ScopedJoinHandle<'_, _>| {
                thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            };
            running.into_iter().map(join).collect()
        })
    };
    let mut newest = vec![false; first.len()];
    for row in tables.into_iter().flatten() {
        // `NO_ROW` is not a row of the mask.
        if let Some(place) = newest.get_mut(row as usize) {
            *place = true;
        }
    }
    newest
}

const NO_ROW: u32 = u32::MAX;

/// Returns a hash table of the last wanted row of each identity whose second digest is in `part`.
///
/// Digests are spread evenly, so the low bits of the first one are the slot. Rows beyond 32 bits
/// are left out: their columns would not fit into memory.
fn newest_of_part(
    first: &[i64],
    second: &[i64],
    wanted: &[bool],
    part: usize,
    parts: usize,
) -> Vec<u32> {
    let rows = first.iter().zip(second).zip(wanted).enumerate().take(NO_ROW as usize);
    let mine = rows.filter(|(_, ((_, second), wanted))| {
        **wanted && (**second as u64 as usize) & (parts - 1) == part
    });
    let size = (2 * mine.clone().count() + 1).next_power_of_two();
    let mut table = vec![NO_ROW; size];
    for (row, ((&one, &other), _)) in mine.rev() {
        let mut slot = one as u64 as usize & (size - 1);
        loop {
            let known = table[slot];
            if known == NO_ROW {
                table[slot] = row as u32;
                break;
            }
            if first[known as usize] == one && second[known as usize] == other {
                break;
            }
            slot = (slot + 1) & (size - 1);
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{bytes, numbers, places};
    use proptest::prelude::*;
    use std::collections::{HashMap, HashSet};

    const SEED: [u32; SEED_SIZE] = [0x0302_0100, 0x0706_0504, 3, 4, 5, 6, 7, 8];

    #[test]
    fn keys_that_differ_have_digests_that_differ() {
        let zeros = [0; 300];
        let sizes: Vec<i64> = (0..300).collect();
        let keys = Spans::new(&zeros, &[0; 300], &sizes).unwrap();
        let mut found = HashSet::new();
        for db_id in [5, 6, -5, 5 << 32] {
            let (first, second) = identify(&keys, &[db_id; 300], &SEED).unwrap();
            assert!(first.iter().chain(&second).all(|&digest| digest >= 0));
            found.extend(first.into_iter().zip(second));
        }
        assert_eq!(found.len(), 1200);
    }

    #[test]
    fn a_null_key_has_none() {
        let keys = Spans::new(b"", &[0, 0], &[-1, 0]).unwrap();
        let (first, _) = identify(&keys, &[1, 1], &SEED).unwrap();
        assert!(first[0] == 0 && first[1] != 0);
        assert_eq!(identify(&keys, &[1], &SEED), Err(Outside));
    }

    proptest! {
        #[test]
        fn the_last_wanted_row_is_the_newest(
            rows in proptest::collection::vec((0_i64..6, 0_i64..3, any::<bool>()), 0..40),
            threads in 1_usize..5,
        ) {
            let first: Vec<_> = rows.iter().map(|row| row.0).collect();
            let second: Vec<_> = rows.iter().map(|row| row.1).collect();
            let wanted: Vec<_> = rows.iter().map(|row| row.2).collect();
            let mut last = HashMap::new();
            for (i, row) in rows.iter().enumerate().filter(|(_, row)| row.2) {
                last.insert((row.0, row.1), i);
            }
            let told: HashSet<_> = last.into_values().collect();
            let found = newest(&first, &second, &wanted, threads);
            let found: HashSet<_> = (0..rows.len()).filter(|&row| found[row]).collect();
            prop_assert_eq!(found, told);
        }

        #[test]
        fn any_keys_have_digests_or_are_refused(
            data in bytes(30),
            (starts, sizes) in places(0..8),
            db_ids in numbers(0..8),
            seed: [u32; SEED_SIZE],
        ) {
            let keys = Spans::new(&data, &starts, &sizes).unwrap();
            let found = identify(&keys, &db_ids, &seed);
            let is_inside = db_ids.len() == keys.len() && keys.iter().all(|key| key.is_ok());
            prop_assert_eq!(found.is_ok(), is_inside);
            let (first, second) = found.unwrap_or_default();
            prop_assert!(first.iter().chain(&second).all(|&digest| digest >= 0));
        }

        #[test]
        fn any_digests_have_a_newest(
            (first, second) in places(0..20),
            wanted in proptest::collection::vec(any::<bool>(), 0..20),
            threads in prop_oneof![8 => 0_usize..3, 1 => Just(usize::MAX)],
        ) {
            let found = newest(&first, &second, &wanted, threads);
            prop_assert_eq!(found.len(), first.len());
            for (row, _) in found.iter().enumerate().filter(|(_, is_newest)| **is_newest) {
                prop_assert!(wanted[row]);
            }
        }
    }
}
