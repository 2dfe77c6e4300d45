//! Checks of the slots of a node.
//!
//! Source: BtreeVerifier.verifyOrderedKeys, verifyIdentifierKey, JE 25.3.17.

use crate::je::keys::{Keys, compare, rows_of};
use std::cmp::Ordering;

/// Returns a mask of the slots whose key is not greater than the one before it in the node.
///
/// The slots of node i are `first[i]..first[i + 1]`.
pub fn descents(keys: Keys<'_>, first: &[i64], two_part: bool) -> Vec<bool> {
    let mut out = vec![false; keys.len()];
    for node in 0..first.len().saturating_sub(1) {
        let mut slots = rows_of(first, node, keys.len());
        let Some(mut before) = slots.next() else { continue };
        for slot in slots {
            let way = compare(keys.get(before), keys.get(slot), two_part);
            out[slot] = way != Ordering::Less;
            before = slot;
        }
    }
    out
}

/// Returns a mask of the nodes with a slot that has the bytes of the node's wanted key.
pub fn holders(keys: Keys<'_>, first: &[i64], wanted: Keys<'_>) -> Vec<bool> {
    let holds = |node| {
        wanted.find(node).is_some_and(|key| {
            rows_of(first, node, keys.len()).any(|slot| keys.find(slot) == Some(key))
        })
    };
    (0..wanted.len()).map(holds).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::je::keys::tests::Owned;
    use crate::testing::{bytes, numbers, places};
    use proptest::prelude::*;

    #[test]
    fn slots_that_do_not_ascend() {
        let keys = Owned::new(&["a", "b", "b", "a", "a", "c", "b"]);
        let descents = descents(keys.lend(), &[0, 4, 4, 7], false);
        assert_eq!(descents, [false, false, true, true, false, false, true]);
    }

    #[test]
    fn nodes_that_hold_a_key() {
        let keys = Owned::new(&["a", "b", "c"]);
        let wanted = Owned::new(&["b", "a", "ab"]);
        assert_eq!(holders(keys.lend(), &[0, 2, 3, 3], wanted.lend()), [true, false, false]);
        let null = Keys { sizes: &[-1, 1, 1], ..wanted.lend() };
        let also_null = Keys { sizes: &[-1, 1, 1], ..keys.lend() };
        assert_eq!(holders(also_null, &[0, 2, 3, 3], null), [false; 3]);
    }

    #[test]
    fn wild_places_of_slots_are_cut() {
        let keys = Owned::new(&["b", "a"]);
        let first = [i64::MIN, i64::MAX, 1, -1];
        assert_eq!(descents(keys.lend(), &first, false), [false, true]);
        assert_eq!(holders(keys.lend(), &first, keys.lend()), [true, false]);
    }

    proptest! {
        #[test]
        fn any_columns_are_read_inside_the_bytes(
            data in bytes(20),
            (starts, sizes) in places(0..9),
            (other_starts, other_sizes) in places(0..9),
            first in numbers(0..6),
            two_part: bool,
        ) {
            let keys = Keys { data: &data, starts: &starts, sizes: &sizes };
            let wanted = Keys { data: &data, starts: &other_starts, sizes: &other_sizes };
            prop_assert_eq!(descents(keys, &first, two_part).len(), keys.len());
            let found = holders(keys, &first, wanted);
            prop_assert_eq!(found.len(), wanted.len());
            for (node, _) in found.iter().enumerate().filter(|(_, holds)| **holds) {
                let key = wanted.find(node);
                prop_assert!(key.is_some() && (0..keys.len()).any(|slot| keys.find(slot) == key));
            }
        }
    }
}
