//! B-tree nodes in columns: whole keys, deltas merged with their full versions, slots in bounds.
//!
//! The slots of node i are `first[i]..first[i + 1]` everywhere here.
//!
//! Source: IN.readFromLog, BIN.applyDelta, JE 7.5.11 and 25.3.17.

use crate::je::keys::{Keys, compare, compare_bytes, range_of, rows_of, search_near};
use std::cmp::Ordering;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ops::Range;

/// Byte strings, one after the other.
#[derive(Debug, Default)]
pub struct Joined {
    /// The bytes.
    pub data: Vec<u8>,
    /// Offset of each string.
    pub starts: Vec<i64>,
    /// Size of each string.
    pub sizes: Vec<i64>,
}

impl Joined {
    /// Returns an empty column with room for `rows` strings of `size` bytes in total.
    pub fn with_capacity(rows: usize, size: usize) -> Self {
        Self {
            data: Vec::with_capacity(size),
            starts: Vec::with_capacity(rows),
            sizes: Vec::with_capacity(rows),
        }
    }

    /// Ends a byte string, which was appended from `start` on.
    pub fn end_row(&mut self, start: usize) {
        self.starts.push(start as i64);
        self.sizes.push((self.data.len() - start) as i64);
    }
}

/// Returns the whole keys of slots, one after the other: the node's prefix and the slot's rest.
///
/// Slots outside all nodes are left out.
pub fn join_keys(first: &[i64], prefixes: Keys<'_>, rests: Keys<'_>) -> Joined {
    let nodes = || (0..prefixes.len()).map(|node| (node, rows_of(first, node, rests.len())));
    let size = nodes()
        .map(|(node, slots)| {
            let prefix = prefixes.get(node).len() * slots.len();
            prefix + slots.map(|slot| rests.get(slot).len()).sum::<usize>()
        })
        .sum();
    let mut out = Joined::with_capacity(rests.len(), size);
    for (node, slots) in nodes() {
        let prefix = prefixes.get(node);
        for slot in slots {
            let start = out.data.len();
            out.data.extend_from_slice(prefix);
            out.data.extend_from_slice(rests.get(slot));
            out.end_row(start);
        }
    }
    out
}

/// Slots of nodes, and those of the full version of each node.
#[derive(Clone, Copy, Debug)]
pub struct Deltas<'a> {
    /// Keys of all slots.
    pub keys: Keys<'a>,
    /// Bounds of the slots of each node.
    pub first: &'a [i64],
    /// First slot of each full version.
    pub full_first: &'a [i64],
    /// Slot after the last one of each full version.
    pub full_last: &'a [i64],
}

impl Deltas<'_> {
    fn nodes(&self) -> impl Iterator<Item = (Range<usize>, Range<usize>)> {
        let fulls = self.full_first.iter().zip(self.full_last);
        fulls.enumerate().map(|(node, (&start, &stop))| {
            let limit = self.keys.len();
            (rows_of(self.first, node, limit), range_of(start, stop, limit))
        })
    }
}

/// Slots of merged nodes.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Merged {
    /// The slots, in order.
    pub slots: Vec<i64>,
    /// Number of slots of each node.
    pub counts: Vec<i64>,
}

/// Returns the slots of nodes and of their full versions in key order; of equal keys, the node's
/// own.
pub fn merge(deltas: Deltas<'_>, two_part: bool) -> Merged {
    let mut out = Merged::default();
    for (mut own, mut full) in deltas.nodes() {
        let begin = out.slots.len();
        while !own.is_empty() && !full.is_empty() {
            let (one, other) = (deltas.keys.get(own.start), deltas.keys.get(full.start));
            let way = compare(one, other, two_part);
            let taken = if way == Ordering::Greater { &mut full } else { &mut own };
            out.slots.extend(taken.next().map(|slot| slot as i64));
            if way == Ordering::Equal {
                full.next();
            }
        }
        out.slots.extend(own.chain(full).map(|slot| slot as i64));
        out.counts.push((out.slots.len() - begin) as i64);
    }
    out
}

/// Merges nodes like [`merge`], for keys whose order is not known.
///
/// A slot of a delta replaces the first one with the same bytes, or follows the delta's slot before
/// it.
pub fn merge_by_bytes(deltas: Deltas<'_>) -> Merged {
    let mut out = Merged::default();
    let mut place_of: HashMap<&[u8], usize> = HashMap::new();
    // A linked list: the slot in each place, and the next place, 0 for none. Place 0 is its head.
    let (mut held, mut after) = (vec![0], vec![0]);
    for (own, full) in deltas.nodes() {
        let begin = out.slots.len();
        place_of.clear();
        held.truncate(1);
        after.truncate(1);
        after[0] = 0;
        for slot in full {
            after[held.len() - 1] = held.len();
            place_of.entry(deltas.keys.get(slot)).or_insert(held.len());
            held.push(slot);
            after.push(0);
        }
        let mut place = 0;
        for slot in own {
            place = match place_of.entry(deltas.keys.get(slot)) {
                Entry::Occupied(found) => {
                    held[*found.get()] = slot;
                    *found.get()
                }
                Entry::Vacant(free) => {
                    let at = *free.insert(held.len());
                    held.push(slot);
                    after.push(after[place]);
                    after[place] = at;
                    at
                }
            };
        }
        let mut at = after[0];
        while at != 0 {
            out.slots.push(held[at] as i64);
            at = after[at];
        }
        out.counts.push((out.slots.len() - begin) as i64);
    }
    out
}

/// Full nodes, with keys as prefixes and rests.
#[derive(Clone, Copy, Debug)]
pub struct Fulls<'a> {
    /// Bounds of the slots of each node.
    pub first: &'a [i64],
    /// Prefix of the keys of each node.
    pub prefix: Keys<'a>,
    /// Rest of the key of each slot.
    pub rest: Keys<'a>,
    /// True for slots to count.
    pub alive: &'a [bool],
}

/// Returns the number of slots of full nodes that are alive and replaced by one of their deltas.
///
/// `rows` has the index in `fulls` of the full version of each delta. If keys are `ascending`, few
/// slots are compared.
pub fn count_replaced(
    keys: Keys<'_>,
    first: &[i64],
    fulls: Fulls<'_>,
    rows: &[i64],
    ascending: bool,
) -> u64 {
    let mut total = 0;
    for (node, &row) in rows.iter().enumerate() {
        let Ok(row) = usize::try_from(row) else { continue };
        let prefix = fulls.prefix.get(row);
        let mut left = rows_of(fulls.first, row, fulls.rest.len());
        for slot in rows_of(first, node, keys.len()) {
            let Some(key) = keys.get(slot).strip_prefix(prefix) else { continue };
            let is_same = |&row: &usize| fulls.rest.get(row) == key;
            let found = if ascending {
                let is_less = |row| compare_bytes(fulls.rest.get(row), key) == Ordering::Less;
                left.start = search_near(left.clone(), is_less);
                left.clone().next().filter(is_same)
            } else {
                left.clone().find(is_same)
            };
            if let Some(same) = found {
                total += u64::from(fulls.alive.get(same) == Some(&true));
                if ascending {
                    left.start = same + 1;
                }
            }
        }
    }
    total
}

/// Returns a mask of the slots whose key is in the bounds [low, high) of their node.
///
/// A null bound is open.
pub fn within(
    keys: Keys<'_>,
    first: &[i64],
    low: Keys<'_>,
    high: Keys<'_>,
    two_part: bool,
) -> Vec<bool> {
    let mut out = vec![false; keys.len()];
    for node in 0..low.len() {
        let (low, high) = (low.find(node), high.find(node));
        for slot in rows_of(first, node, keys.len()) {
            let key = keys.get(slot);
            out[slot] = low.is_none_or(|low| compare(key, low, two_part) != Ordering::Less)
                && high.is_none_or(|high| compare(key, high, two_part) == Ordering::Less);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::je::keys::tests::Owned;
    use crate::testing::{bytes, numbers, places};
    use proptest::prelude::*;

    #[test]
    fn keys_are_joined_with_their_prefix() {
        let (prefixes, rests) = (Owned::new(&["a", "", "xy"]), Owned::new(&["b", "", "c", "d"]));
        let found = join_keys(&[0, 2, 3, 4], prefixes.lend(), rests.lend());
        assert_eq!(found.data, b"abacxyd");
        assert_eq!((found.starts, found.sizes), (vec![0, 2, 3, 4], vec![2, 1, 1, 3]));
    }

    #[test]
    fn slots_within_bounds() {
        let keys = Owned::new(&["a", "b", "c", "a"]);
        let (low, high) = (Owned::new(&["b", "x"]), Owned::new(&["c", "b"]));
        let found = within(keys.lend(), &[0, 3, 4], low.lend(), high.lend(), false);
        assert_eq!(found, [false, true, false, false]);
        let open = Keys { sizes: &[-1, -1], ..low.lend() };
        let found = within(keys.lend(), &[0, 3, 4], open, high.lend(), false);
        assert_eq!(found, [true, true, false, true]);
        assert_eq!(within(keys.lend(), &[0, 3, 4], open, open, false), [true; 4]);
    }

    #[test]
    fn replaced_slots_are_counted() {
        let keys = Owned::new(&["pb", "pc", "q", "pd", "b"]);
        let (prefix, rest) = (Owned::new(&["p", ""]), Owned::new(&["a", "b", "d", "b", "c"]));
        let (prefix, rest) = (prefix.lend(), rest.lend());
        let alive = &[true, true, false, true, true];
        let fulls = Fulls { first: &[0, 3, 5], prefix, rest, alive };
        for ascending in [false, true] {
            let count = |rows| count_replaced(keys.lend(), &[0, 4, 5], fulls, rows, ascending);
            assert_eq!(count(&[0, 1]), 2);
            assert_eq!(count(&[0, 0]), 1);
            assert_eq!(count(&[-1, 9]), 0);
        }
    }

    /// Merges the slots of a delta one after the other, with a search of all slots for each.
    fn one_by_one(full: Range<usize>, delta: Range<usize>, keys: &[Vec<u8>]) -> Vec<i64> {
        let mut found: Vec<usize> = full.collect();
        let mut place = 0;
        for slot in delta {
            match found.iter().position(|&other| keys[other] == keys[slot]) {
                Some(same) => {
                    place = same;
                    found[place] = slot;
                }
                None => found.insert(place, slot),
            }
            place += 1;
        }
        found.into_iter().map(|slot| slot as i64).collect()
    }

    proptest! {
        #[test]
        fn slots_of_ascending_keys_are_found(
            full in proptest::collection::btree_set(proptest::collection::vec(0_u8..4, 0..4), 0..40),
            delta in proptest::collection::btree_set(proptest::collection::vec(0_u8..4, 0..4), 0..40),
        ) {
            let same = full.intersection(&delta).count() as u64;
            let (full, delta): (Vec<_>, Vec<_>) =
                (full.into_iter().collect(), delta.into_iter().collect());
            let (rest, keys, prefix) = (Owned::new(&full), Owned::new(&delta), Owned::new(&[""]));
            let (bounds, alive) = ([0, full.len() as i64], vec![true; full.len()]);
            let fulls =
                Fulls { first: &bounds, prefix: prefix.lend(), rest: rest.lend(), alive: &alive };
            for ascending in [false, true] {
                let first = [0, delta.len() as i64];
                prop_assert_eq!(count_replaced(keys.lend(), &first, fulls, &[0], ascending), same);
            }
        }

        #[test]
        fn merges_are_as_one_by_one(
            mut keys in proptest::collection::vec(proptest::collection::vec(0_u8..4, 0..2), 0..40),
            ends in proptest::collection::vec(0_usize..40, 6),
        ) {
            let mut ends: Vec<usize> = ends.iter().map(|&end| end.min(keys.len())).collect();
            ends.sort_unstable();
            let first: Vec<i64> = ends[..4].iter().map(|&end| end as i64).collect();
            let full_first = [ends[3], ends[4], ends[3]].map(|end| end as i64);
            let full_last = [ends[4], ends[5], ends[3]].map(|end| end as i64);
            let check = |keys: &[Vec<u8>], found: Merged, ordered: bool| {
                let mut expected = Merged::default();
                for node in 0..3 {
                    let own = first[node] as usize..first[node + 1] as usize;
                    let full = full_first[node] as usize..full_last[node] as usize;
                    let mut slots = one_by_one(full, own, keys);
                    if ordered {
                        slots.sort_by_key(|&slot| &keys[slot as usize]);
                    }
                    expected.counts.push(slots.len() as i64);
                    expected.slots.extend(slots);
                }
                assert_eq!(found, expected);
            };
            let owned = Owned::new(&keys);
            let of = |keys| {
                let (first, full_first, full_last) = (&first, &full_first, &full_last);
                Deltas { keys, first, full_first, full_last }
            };
            check(&keys, merge_by_bytes(of(owned.lend())), false);
            for range in ends.windows(2) {
                // Keys of one node differ.
                let mut some: Vec<Vec<u8>> = keys[range[0]..range[1]].to_vec();
                some.sort();
                for (i, key) in some.iter_mut().enumerate() {
                    key.insert(0, i as u8);
                }
                keys.splice(range[0]..range[1], some);
            }
            let owned = Owned::new(&keys);
            check(&keys, merge(of(owned.lend()), false), true);
        }

        #[test]
        fn any_numbers_are_read_inside_the_columns(
            data in bytes(20),
            (starts, sizes) in places(0..9),
            (other_starts, other_sizes) in places(0..6),
            first in numbers(0..6),
            (full_first, full_last) in places(0..6),
            alive in proptest::collection::vec(any::<bool>(), 0..6),
            two_part: bool,
        ) {
            let keys = Keys { data: &data, starts: &starts, sizes: &sizes };
            let others = Keys { data: &data, starts: &other_starts, sizes: &other_sizes };
            let (full_first, full_last) = (&full_first[..], &full_last[..]);
            let deltas = Deltas { keys, first: &first, full_first, full_last };
            for found in [merge(deltas, two_part), merge_by_bytes(deltas)] {
                prop_assert_eq!(found.counts.len(), full_first.len());
                prop_assert_eq!(found.counts.iter().sum::<i64>(), found.slots.len() as i64);
            }
            let fulls = Fulls { first: full_first, prefix: others, rest: keys, alive: &alive };
            for ascending in [false, true] {
                let count = count_replaced(keys, &first, fulls, full_last, ascending);
                prop_assert!(count <= (keys.len() * full_last.len()) as u64);
            }
            let found = join_keys(&first, others, keys);
            prop_assert_eq!(found.sizes.iter().sum::<i64>(), found.data.len() as i64);
            prop_assert_eq!(within(keys, &first, others, others, two_part).len(), keys.len());
        }
    }
}
