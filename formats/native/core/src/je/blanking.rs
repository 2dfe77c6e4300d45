//! Checksums of entries some of whose bytes are to be replaced with zeros.

use crate::adler;
use crate::je::keys::{Keys, rows_of};
use crate::spans::Outside;

/// Size of the checksum at the start of an entry, which it does not cover.
const CHECKSUM_SIZE: usize = 4;

/// Returns the checksum of each entry as it will be when `ranges` hold zeros.
///
/// The ranges of entry i are `first[i]..first[i + 1]`; they lie in the same bytes as the entries,
/// and an entry without ranges is summed as it is. `summed` are the flags that the checksum covers.
/// An entry that is too short for a checksum, or a range outside of its entry, is an error.
pub fn sums(
    entries: Keys<'_>,
    ranges: Keys<'_>,
    first: &[i64],
    summed: u8,
) -> Result<Vec<u32>, Outside> {
    let mut blank = Vec::new();
    let mut sum_of = |row| {
        let body = entries.find(row).and_then(|entry| entry.get(CHECKSUM_SIZE..)).ok_or(Outside)?;
        let ranges_of = rows_of(first, row, ranges.len());
        if ranges_of.is_empty() {
            return Ok(adler::of_masked(body, summed));
        }
        let begin = entries.starts[row].checked_add(CHECKSUM_SIZE as i64).ok_or(Outside)?;
        blank.clear();
        blank.extend_from_slice(body);
        for range in ranges_of {
            let start = ranges.starts[range].checked_sub(begin).ok_or(Outside)?;
            let start = usize::try_from(start).map_err(|_| Outside)?;
            let size = usize::try_from(ranges.sizes[range]).map_err(|_| Outside)?;
            let stop = start.checked_add(size).ok_or(Outside)?;
            blank.get_mut(start..stop).ok_or(Outside)?.fill(0);
        }
        Ok(adler::of_masked(&blank, summed))
    };
    (0..entries.len()).map(&mut sum_of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{bytes, numbers, places};
    use proptest::prelude::*;

    const DATA: &[u8] = b"....t\xffabcdefgh____t\xffabcd";

    fn of(first: &[i64], starts: &[i64], sizes: &[i64]) -> Result<Vec<u32>, Outside> {
        let entries = Keys { data: DATA, starts: &[0, 14], sizes: &[14, 10] };
        sums(entries, Keys { data: DATA, starts, sizes }, first, 0xef)
    }

    #[test]
    fn ranges_count_as_zeros() {
        let expected = [b"t\xffab\0\0\0fg\0".as_slice(), b"t\xffabcd"];
        let expected = expected.map(|body| adler::of_masked(body, 0xef));
        assert_eq!(of(&[0, 2, 2], &[8, 13], &[3, 1]), Ok(expected.to_vec()));
        let plain = [b"t\xffabcdefgh".as_slice(), b"t\xffabcd"];
        assert_eq!(
            of(&[0, 0, 0], &[], &[]),
            Ok(plain.map(|body| adler::of_masked(body, 0xef)).to_vec())
        );
    }

    #[test]
    fn a_range_outside_of_its_entry_is_an_error() {
        for (start, size) in [(3, 1), (13, 2), (14, 1), (8, -1), (i64::MIN, 1), (8, i64::MAX)] {
            assert_eq!(of(&[0, 1, 1], &[start], &[size]), Err(Outside), "{start} {size}");
        }
        let short = Keys { data: DATA, starts: &[0], sizes: &[3] };
        assert_eq!(sums(short, short, &[], 0xff), Err(Outside));
    }

    proptest! {
        #[test]
        fn any_columns_are_summed_or_refused(
            data in bytes(40),
            (starts, sizes) in places(0..6),
            (range_starts, range_sizes) in places(0..6),
            first in numbers(0..8),
        ) {
            let entries = Keys { data: &data, starts: &starts, sizes: &sizes };
            let ranges = Keys { data: &data, starts: &range_starts, sizes: &range_sizes };
            if let Ok(found) = sums(entries, ranges, &first, 0xff) {
                prop_assert_eq!(found.len(), starts.len());
            }
        }
    }
}
