//! B-tree nodes from columns: prefixes, and the bytes that slots hold for their keys.
//!
//! Source: IN.computeKeyPrefix, DupKeyData.combine, JE 7.5.11.

use crate::je::keys::{Keys, rows_of};
use crate::je::nodes::Joined;
use crate::packed;

/// Returns the size of the prefix that the keys of each node share; -1 for fewer than two keys.
pub fn prefix_sizes(keys: Keys<'_>, first: &[i64]) -> Vec<i64> {
    let of_node = |node| {
        let mut slots = rows_of(first, node, keys.len());
        if slots.len() < 2 {
            return -1;
        }
        let common = keys.get(slots.next().unwrap_or_default());
        let shared = |size: usize, slot| {
            let same = common[..size].iter().zip(keys.get(slot));
            same.take_while(|(one, other)| one == other).count()
        };
        slots.fold(common.len(), shared) as i64
    };
    (0..first.len().saturating_sub(1)).map(of_node).collect()
}

/// Returns the bytes that slots hold: the key after the prefix, and the data embedded with it.
///
/// Data is followed by the length of the key before it, a packed number whose bytes run backwards.
pub fn join_rests(keys: Keys<'_>, data: Keys<'_>, first: &[i64], prefixes: &[i64]) -> Joined {
    let mut out = Joined::with_capacity(keys.len(), 0);
    for (node, &prefix) in prefixes.iter().enumerate() {
        let prefix = usize::try_from(prefix).unwrap_or(0);
        for slot in rows_of(first, node, keys.len()) {
            let start = out.data.len();
            let rest = keys.get(slot).get(prefix..).unwrap_or_default();
            out.data.extend_from_slice(rest);
            if let Some(data) = data.find(slot) {
                out.data.extend_from_slice(data);
                let (length, size) = packed::encode(rest.len() as i64);
                out.data.extend(length[..size].iter().rev());
            }
            out.end_row(start);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::je::keys::split_parts;
    use crate::je::keys::tests::Owned;
    use crate::testing::{bytes, numbers, places};
    use proptest::prelude::*;

    #[test]
    fn prefixes_of_nodes() {
        let keys = Owned::new(&["abc", "abd", "ab", "x", "", "y", "pq", "pq"]);
        let sizes = prefix_sizes(keys.lend(), &[0, 3, 4, 6, 6, 8]);
        assert_eq!(sizes, [2, -1, 0, -1, 2]);
    }

    #[test]
    fn rests_and_data() {
        let (keys, data) = (Owned::new(&["abc", "abd", "e"]), Owned::new(&["12", "", "3"]));
        let data = Keys { sizes: &[2, -1, 1], ..data.lend() };
        let found = join_rests(keys.lend(), data, &[0, 2, 3], &[2, -1]);
        assert_eq!(found.data, b"c12\x01de3\x01");
        assert_eq!((found.starts, found.sizes), (vec![0, 4, 5], vec![4, 1, 3]));
    }

    proptest! {
        #[test]
        fn what_is_joined_is_split_again(
            keys in proptest::collection::vec(proptest::collection::vec(b'a'..b'c', 0..400), 1..5),
            data in proptest::collection::vec(any::<u8>(), 0..5),
        ) {
            let (owned, all) = (Owned::new(&keys), Owned::new(&vec![data.clone(); keys.len()]));
            let first = [0, keys.len() as i64];
            let prefixes = prefix_sizes(owned.lend(), &first);
            let prefix = usize::try_from(prefixes[0]).unwrap_or(0);
            let found = join_rests(owned.lend(), all.lend(), &first, &prefixes);
            let rests = Keys { data: &found.data, starts: &found.starts, sizes: &found.sizes };
            for (row, key) in keys.iter().enumerate() {
                let (main, stored) = split_parts(rests.get(row));
                prop_assert_eq!([&key[..prefix], main].concat(), key.clone());
                prop_assert_eq!(stored, Some(&data[..]));
            }
        }

        #[test]
        fn any_numbers_are_read_inside_the_columns(
            bytes in bytes(20),
            (starts, sizes) in places(0..9),
            first in numbers(0..6),
            prefixes in numbers(0..6),
        ) {
            let keys = Keys { data: &bytes, starts: &starts, sizes: &sizes };
            let wild = Keys { data: &bytes, starts: &sizes, sizes: &starts };
            prop_assert_eq!(prefix_sizes(keys, &first).len(), first.len().saturating_sub(1));
            let found = join_rests(keys, wild, &first, &prefixes);
            prop_assert_eq!(found.starts.len(), found.sizes.len());
        }
    }
}
