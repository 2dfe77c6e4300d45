//! Keys in columns: comparison, sorting and search.
//!
//! Bytes compare as unsigned numbers, and a key sorts before longer keys that start with it. Keys
//! of a database with duplicates are two-part arrays: key parts compare first, then data. An array
//! to search by has no data and sorts before all data of its key. Bytes that are not a two-part
//! array count as a key without data.
//!
//! Source: Key.compareUnsignedBytes, DupKeyData.compareMainKey, JE 7.5.11.

use crate::packed::SINGLE_BYTE_MAX;
use std::cmp::Ordering;
use std::ops::Range;

/// Byte strings as a column; `starts` and `sizes` have one length.
#[derive(Clone, Copy, Debug)]
pub struct Keys<'a> {
    /// Bytes that hold the strings.
    pub data: &'a [u8],
    /// Offset of each string.
    pub starts: &'a [i64],
    /// Size of each string; negative for null.
    pub sizes: &'a [i64],
}

impl<'a> Keys<'a> {
    /// Returns the number of keys.
    #[inline]
    pub fn len(&self) -> usize {
        self.starts.len()
    }

    /// Returns true if there are no keys.
    pub fn is_empty(&self) -> bool {
        self.starts.is_empty()
    }

    /// Returns the key in `row`; `None` if it is null or outside the bytes.
    #[inline]
    pub fn find(&self, row: usize) -> Option<&'a [u8]> {
        let start = usize::try_from(*self.starts.get(row)?).ok()?;
        let size = usize::try_from(*self.sizes.get(row)?).ok()?;
        self.data.get(start..start.checked_add(size)?)
    }

    /// Returns the key in `row`; empty if it is null or outside the bytes.
    #[inline]
    pub fn get(&self, row: usize) -> &'a [u8] {
        self.find(row).unwrap_or_default()
    }
}

/// Returns the rows `first[group]..first[group + 1]`, cut to `limit`.
#[inline]
pub fn rows_of(first: &[i64], group: usize, limit: usize) -> Range<usize> {
    match first.get(group..group.saturating_add(2)) {
        Some(&[start, stop]) => range_of(start, stop, limit),
        _ => 0..0,
    }
}

/// Returns the rows from `start` to `stop`, both cut to 0 and `limit`.
#[inline]
pub fn range_of(start: i64, stop: i64, limit: usize) -> Range<usize> {
    let stop = usize::try_from(stop).unwrap_or(0).min(limit);
    usize::try_from(start).unwrap_or(0).min(stop)..stop
}

/// Largest number of bytes of a key part's length, after the first.
const LENGTH_MAX: usize = 4;

/// Last byte of a two-part key without data.
const NO_DATA: u8 = 0xff;

/// Returns the key part and the data of a two-part key; `None` if it has no data.
#[inline]
pub fn split_parts(key: &[u8]) -> (&[u8], Option<&[u8]>) {
    match split_two_part(key) {
        Some((main, data)) => (main, Some(data)),
        None if key.last() == Some(&NO_DATA) => (&key[..key.len() - 1], None),
        None => (key, None),
    }
}

/// Splits a two-part key by the length at its end: a packed number whose bytes run backwards.
#[inline]
fn split_two_part(key: &[u8]) -> Option<(&[u8], &[u8])> {
    const SINGLE: u8 = SINGLE_BYTE_MAX as u8;
    let (&last, mut rest) = key.split_last()?;
    let mut length = u64::from(last.min(SINGLE));
    if last > SINGLE {
        let more = usize::from(last - SINGLE);
        if more > LENGTH_MAX {
            return None;
        }
        let tail;
        (rest, tail) = rest.split_at(rest.len().checked_sub(more)?);
        length += tail.iter().fold(0, |number, &byte| number << 8 | u64::from(byte));
    }
    rest.split_at_checked(usize::try_from(length).ok()?)
}

/// Returns the ordering of `one` relative to `other`.
#[inline]
pub fn compare(one: &[u8], other: &[u8], two_part: bool) -> Ordering {
    if !two_part {
        return compare_bytes(one, other);
    }
    let ((key, data), (other_key, other_data)) = (split_parts(one), split_parts(other));
    compare_bytes(key, other_key).then_with(|| data.cmp(&other_data))
}

/// Returns the ordering of `one` relative to `other`, as bytes.
///
/// Keys are short: a call of the standard library's comparison takes longer than this.
#[inline]
pub fn compare_bytes(one: &[u8], other: &[u8]) -> Ordering {
    let same = one.len().min(other.len());
    let (a, b) = (&one[..same], &other[..same]);
    let mut left = (a, b);
    while let (Some((x, rest_a)), Some((y, rest_b))) =
        (left.0.split_first_chunk(), left.1.split_first_chunk())
    {
        let way = u64::from_be_bytes(*x).cmp(&u64::from_be_bytes(*y));
        if way != Ordering::Equal {
            return way;
        }
        left = (rest_a, rest_b);
    }
    // The last words overlap the ones before, which are equal.
    if let (Some(x), Some(y)) = (a.last_chunk(), b.last_chunk()) {
        return u64::from_be_bytes(*x)
            .cmp(&u64::from_be_bytes(*y))
            .then(one.len().cmp(&other.len()));
    }
    a.iter().cmp(b).then(one.len().cmp(&other.len()))
}

/// Number of bytes of a key that are compared together.
const WORD: usize = 15;

/// Largest number of keys to sort by whole comparisons: words do not pay off for so few.
const FEW: usize = 12;

/// Number of keys to try for a common prefix, before all keys are tried.
const SAMPLE: usize = 32;

/// A key to sort: its next bytes as a number, and its row.
struct Item {
    word: u128,
    row: usize,
}

/// Keys of equal words so far.
struct Run {
    items: Range<usize>,
    /// Number of bytes of the compared part that all keys share.
    known: usize,
    /// True if that part is the data.
    in_data: bool,
}

/// Ascending order of keys.
#[derive(Debug)]
pub struct Groups {
    /// Rows in that order; rows of equal keys stay in order.
    pub order: Vec<i64>,
    /// True at places in the order whose bytes differ from those before.
    pub is_new: Vec<bool>,
}

/// Returns the ascending order of keys.
///
/// The time depends on the number of keys and on the bytes that tell them apart, not on the length
/// of common prefixes: the prefix of a run of keys is skipped, the next bytes are compared as
/// numbers, and runs of equal numbers are sorted by the bytes after them.
pub fn group(keys: Keys<'_>, two_part: bool) -> Groups {
    let mut items: Vec<Item> = (0..keys.len()).map(|row| Item { word: 0, row }).collect();
    let mut is_new = vec![true; items.len()];
    let mut runs = vec![Run { items: 0..items.len(), known: 0, in_data: false }];
    while let Some(run) = runs.pop() {
        let some = &mut items[run.items.clone()];
        let is_new = &mut is_new[run.items.clone()];
        if some.len() <= FEW {
            some.sort_by(|one, other| compare(keys.get(one.row), keys.get(other.row), two_part));
            mark_new(keys, some, is_new);
            continue;
        }
        let known = load_words(keys, two_part, &run, some);
        some.sort_unstable_by_key(|item| (item.word, item.row));
        let mut at = 0;
        for same in some.chunk_by(|one, other| one.word == other.word) {
            let marks = &mut is_new[at..at + same.len()];
            let items = run.items.start + at..run.items.start + at + same.len();
            at += same.len();
            if same.len() == 1 {
                continue;
            }
            let goes_on = same[0].word & 0xff > WORD as u128;
            if goes_on {
                runs.push(Run { items, known: known + WORD, in_data: run.in_data });
            } else if !two_part {
                marks[1..].fill(false);
            } else if run.in_data {
                // Equal parts may be encoded in two ways.
                mark_new(keys, same, marks);
            } else {
                runs.push(Run { items, known: 0, in_data: true });
            }
        }
    }
    Groups { order: items.iter().map(|item| item.row as i64).collect(), is_new }
}

/// Marks keys whose bytes differ from the one before in the order; the first mark stays as it is.
fn mark_new(keys: Keys<'_>, items: &[Item], is_new: &mut [bool]) {
    for (pair, is_new) in items.windows(2).zip(is_new.iter_mut().skip(1)) {
        *is_new = keys.get(pair[0].row) != keys.get(pair[1].row);
    }
}

/// Returns the part of a key that is compared; `None` if the key has no data.
#[inline]
fn part_of(key: &[u8], two_part: bool, in_data: bool) -> Option<&[u8]> {
    if !two_part {
        return Some(key);
    }
    let (main, data) = split_parts(key);
    if in_data { data } else { Some(main) }
}

/// Loads the words of a run; returns the length of the prefix that all its keys share.
///
/// The prefix of a sample is tried first: keys lie anywhere, and reading each of them twice takes
/// longer than the rest.
fn load_words(keys: Keys<'_>, two_part: bool, run: &Run, items: &mut [Item]) -> usize {
    let part = |item: &Item| part_of(keys.get(item.row), two_part, run.in_data);
    let sample = items.iter().step_by(items.len().div_ceil(SAMPLE));
    let common = common_part(sample.map(part), run.known);
    if !try_words(items, part, common) {
        let common = common_part(items.iter().map(part), run.known);
        try_words(items, part, common);
        return common.len();
    }
    common.len()
}

/// Returns the common prefix of parts, of which `known` bytes are known to be equal.
fn common_part<'a>(parts: impl Iterator<Item = Option<&'a [u8]>>, known: usize) -> &'a [u8] {
    let mut common: Option<&[u8]> = None;
    for part in parts {
        // A missing part shares no bytes.
        let Some(part) = part else { return &[] };
        let before = *common.get_or_insert(part);
        let same = if part.starts_with(before) {
            before.len()
        } else {
            before.iter().zip(part).take_while(|(one, other)| one == other).count()
        };
        common = Some(&before[..same]);
        if same <= known {
            break;
        }
    }
    common.unwrap_or_default()
}

/// Loads the bytes of each key after `common`, as a number that sorts like the key.
///
/// Its last byte is 0 if the part is missing, else one more than the number of bytes loaded.
/// Returns false if a key does not start with `common`.
fn try_words<'a>(
    items: &mut [Item],
    part: impl Fn(&Item) -> Option<&'a [u8]>,
    common: &[u8],
) -> bool {
    for item in items {
        let Some(part) = part(item) else {
            if !common.is_empty() {
                return false;
            }
            item.word = 0;
            continue;
        };
        let Some(rest) = part.strip_prefix(common) else { return false };
        let mut word = [0; WORD + 1];
        let size = rest.len().min(WORD);
        if let Some(first) = rest.first_chunk() {
            // A copy whose size is known at compile time is faster.
            word = *first;
        } else {
            word[..size].copy_from_slice(&rest[..size]);
        }
        word[WORD] = 1 + size as u8;
        item.word = u128::from_be_bytes(word);
    }
    true
}

/// Returns a mask of the rows where both columns have the same bytes; null equals only null.
pub fn equal(ones: Keys<'_>, others: Keys<'_>) -> Vec<bool> {
    (0..ones.len().min(others.len())).map(|row| ones.find(row) == others.find(row)).collect()
}

/// Returns for each needle the number of ascending `keys` that are less.
///
/// Each search starts from the previous result, in steps that double: this is fastest if the
/// needles ascend too.
pub fn search(keys: Keys<'_>, needles: Keys<'_>, two_part: bool) -> Vec<i64> {
    let mut at = 0;
    let of_needle = |row| {
        let needle = needles.get(row);
        at = search_from(keys.len(), at, |row| {
            compare(keys.get(row), needle, two_part) == Ordering::Less
        });
        at as i64
    };
    (0..needles.len()).map(of_needle).collect()
}

/// Returns the first of `n` rows that is not less, looking near `at` first.
fn search_from(n: usize, at: usize, is_less: impl Fn(usize) -> bool) -> usize {
    match at.checked_sub(1) {
        Some(before) if is_less(before) => search_near(at..n, is_less),
        Some(before) => search_all(0..before, is_less),
        None => search_all(0..n, is_less),
    }
}

/// Returns the first of some rows that is not less, or their end; the nearer, the faster.
pub fn search_near(rows: Range<usize>, is_less: impl Fn(usize) -> bool) -> usize {
    let (mut low, mut step) = (rows.start, 1);
    while let Some(other) = low.checked_add(step - 1).filter(|&other| other < rows.end) {
        if !is_less(other) {
            return search_all(low..other, is_less);
        }
        low = other + 1;
        step *= 2;
    }
    search_all(low..rows.end, is_less)
}

fn search_all(rows: Range<usize>, is_less: impl Fn(usize) -> bool) -> usize {
    let (mut low, mut high) = (rows.start, rows.end);
    while low < high {
        let middle = low.midpoint(high);
        if is_less(middle) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Keys, one after the other, with a byte in front so that no offset is 0.
    pub(crate) struct Owned {
        data: Vec<u8>,
        starts: Vec<i64>,
        sizes: Vec<i64>,
    }

    impl Owned {
        pub(crate) fn new<K: AsRef<[u8]>>(keys: &[K]) -> Self {
            let mut owned = Self { data: vec![b'!'], starts: Vec::new(), sizes: Vec::new() };
            for key in keys {
                owned.starts.push(owned.data.len() as i64);
                owned.sizes.push(key.as_ref().len() as i64);
                owned.data.extend(key.as_ref());
            }
            owned
        }

        pub(crate) fn lend(&self) -> Keys<'_> {
            Keys { data: &self.data, starts: &self.starts, sizes: &self.sizes }
        }
    }

    fn key() -> impl Strategy<Value = Vec<u8>> {
        let alike = proptest::sample::select(vec![&b"a"[..], b"\0", b"\xff", b"aaaaaaa", b"\x01"]);
        prop_oneof![
            proptest::collection::vec(any::<u8>(), 0..12),
            proptest::collection::vec(alike, 0..30).prop_map(|parts| parts.concat()),
        ]
    }

    #[test]
    fn two_parts() {
        assert_eq!(split_parts(b""), (&b""[..], None));
        assert_eq!(split_parts(b"ab\xff"), (&b"ab"[..], None));
        assert_eq!(split_parts(b"abc\x02"), (&b"ab"[..], Some(&b"c"[..])));
        assert_eq!(split_parts(b"ab\x02"), (&b"ab"[..], Some(&b""[..])));
        assert_eq!(split_parts(b"a\x02"), (&b"a\x02"[..], None));
        assert_eq!(split_parts(b"ab\x80"), (&b"ab\x80"[..], None));
        let mut long = [b'k'; 300].to_vec();
        long.extend(b"data\x00\xb5\x79");
        assert_eq!(split_parts(&long), (&long[..300], Some(&b"data"[..])));
        assert_eq!(split_parts(b"\x01\x78"), (&b"\x01\x78"[..], None));
    }

    #[test]
    fn null_is_the_same_as_null_only() {
        let keys = Keys { data: b"ab", starts: &[0, 0, 0, 1, 9, -1], sizes: &[-1, -1, 0, 1, 0, 1] };
        let others = Keys { starts: &[1, 0, 0, 1, 0, 0], sizes: &[-1, 0, 0, 1, -1, -1], ..keys };
        assert_eq!(equal(keys, others), [true, false, true, true, true, true]);
    }

    proptest! {
        #[test]
        fn bytes_are_compared_as_by_the_standard_library(
            common in key(), one in key(), other in key(),
        ) {
            let (one, other) = ([&common[..], &one].concat(), [&common[..], &other].concat());
            prop_assert_eq!(compare_bytes(&one, &other), one.cmp(&other));
            prop_assert_eq!(compare_bytes(&one, &common), one.cmp(&common));
        }

        #[test]
        fn order_is_stable_and_ascending(
            mut keys in proptest::collection::vec(key(), 0..60),
            repeated in 0_usize..60,
            two_part: bool,
        ) {
            keys.extend_from_within(..repeated.min(keys.len()));
            let mut expected: Vec<usize> = (0..keys.len()).collect();
            expected.sort_by(|&a, &b| compare(&keys[a], &keys[b], two_part));
            let found = group(Owned::new(&keys).lend(), two_part);
            let order: Vec<usize> = found.order.iter().map(|&row| row as usize).collect();
            prop_assert_eq!(&order, &expected);
            for (at, &is_new) in found.is_new.iter().enumerate() {
                prop_assert_eq!(is_new, at == 0 || keys[order[at - 1]] != keys[order[at]]);
            }
        }

        #[test]
        fn keys_are_found_among_ascending_ones(
            mut keys in proptest::collection::vec(key(), 0..40),
            needles in proptest::collection::vec(key(), 0..20),
            two_part: bool,
        ) {
            keys.sort_by(|one, other| compare(one, other, two_part));
            let less = |needle: &Vec<u8>| {
                keys.iter().filter(|key| compare(key, needle, two_part) == Ordering::Less).count()
            };
            let expected: Vec<i64> = needles.iter().map(|needle| less(needle) as i64).collect();
            let (keys, needles) = (Owned::new(&keys), Owned::new(&needles));
            prop_assert_eq!(search(keys.lend(), needles.lend(), two_part), expected);
        }

        #[test]
        fn any_columns_are_read_inside_the_bytes(
            data in proptest::collection::vec(any::<u8>(), 0..20),
            (starts, sizes) in proptest::collection::vec((any::<i64>(), any::<i64>()), 0..30)
                .prop_map(|pairs| pairs.into_iter().unzip::<_, _, Vec<i64>, Vec<i64>>()),
            wild: bool,
            two_part: bool,
        ) {
            let near = |numbers: Vec<i64>| numbers.iter().map(|n| n % 20).collect::<Vec<_>>();
            let (starts, sizes) =
                if wild { (starts, sizes) } else { (near(starts), near(sizes)) };
            let keys = Keys { data: &data, starts: &starts, sizes: &sizes };
            prop_assert_eq!(group(keys, two_part).order.len(), starts.len());
            prop_assert_eq!(search(keys, keys, two_part).len(), starts.len());
            prop_assert_eq!(equal(keys, keys), vec![true; starts.len()]);
        }
    }
}
