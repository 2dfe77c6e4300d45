//! Utilization summaries of files: totals, and offsets of obsolete entries.
//!
//! Source: FileSummaryLN, FileSummary, PackedOffsets, JE 7.5.11.

use crate::bytes;
use crate::packed;

/// Largest number of shorts of one difference of offsets.
const GROUPS_MAX: usize = 4;
/// Number of bytes of a key; the first four are the file number.
const KEY_SIZE: usize = 8;

/// Format of the summaries of one log version.
#[derive(Clone, Copy, Debug)]
pub struct Form {
    /// Number of packed numbers before the totals.
    pub skipped: usize,
    /// Number of totals.
    pub width: usize,
}

/// Decoded summaries; invalid ones, and those with more fields, are left out.
#[derive(Debug, Default)]
pub struct Summaries {
    /// Index of each summary among those given.
    pub rows: Vec<i64>,
    /// File number of each summary.
    pub file_nos: Vec<i64>,
    /// Totals of each summary, one after the other.
    pub totals: Vec<i64>,
    /// LSNs of the obsolete entries of all summaries.
    pub obsolete: Vec<i64>,
}

/// Reads summaries that begin at `starts` and whose entries end at `stops`.
///
/// Their keys are at `keys`; if `None`, a key is the last bytes of its entry.
pub fn read(
    data: &[u8],
    starts: &[i64],
    stops: &[i64],
    keys: Option<&[i64]>,
    form: Form,
) -> Summaries {
    let mut found = Summaries::default();
    for (row, (&start, &stop)) in starts.iter().zip(stops).enumerate() {
        let key = keys.map(|keys| keys.get(row).copied().unwrap_or(-1));
        let summary = read_one(data, start, stop, key, form, &mut found.totals);
        let Some((file_no, shorts)) = summary else {
            found.totals.truncate(found.rows.len() * form.width);
            continue;
        };
        found.rows.push(row as i64);
        found.file_nos.push(file_no);
        unpack(file_no, shorts, &mut found.obsolete);
    }
    found
}

/// Appends the totals of one summary; returns its file number and its packed offsets.
fn read_one<'a>(
    data: &'a [u8],
    start: i64,
    stop: i64,
    key: Option<i64>,
    form: Form,
    totals: &mut Vec<i64>,
) -> Option<(i64, &'a [u8])> {
    let (mut at, stop) = (usize::try_from(start).ok()?, usize::try_from(stop).ok()?);
    let entry = data.get(..stop)?;
    for _ in 0..form.skipped {
        (_, at) = packed::read(entry, at, stop)?;
    }
    for _ in 0..form.width {
        totals.push(bytes::i32_at(entry, at)?.into());
        at += 4;
    }
    let (count, at) = packed::read(entry, at, stop)?;
    let (size, at) = packed::read(entry, at, stop)?;
    let size = usize::try_from(size).ok()?.checked_mul(2)?;
    let (shorts, rest) = entry.get(at..)?.split_at_checked(size)?;
    if lengths_of(shorts)? != count {
        return None;
    }
    let key = match key {
        Some(_) if !rest.is_empty() => return None,
        Some(key) => data.get(usize::try_from(key).ok()?..)?.first_chunk::<4>()?,
        None => rest.first_chunk::<4>().filter(|_| rest.len() == KEY_SIZE)?,
    };
    Some((u32::from_be_bytes(*key).into(), shorts))
}

/// Returns the number of offsets; `None` if one is truncated or has too many shorts.
fn lengths_of(shorts: &[u8]) -> Option<i64> {
    let mut found = 0;
    let mut groups = 0;
    for short in shorts.chunks_exact(2) {
        groups += 1;
        if groups > GROUPS_MAX {
            return None;
        }
        if short[1] < 128 {
            found += 1;
            groups = 0;
        }
    }
    (groups == 0).then_some(found)
}

/// Appends the LSNs of packed offsets.
///
/// Offsets are stored as differences, in groups of 15 bits, the lowest first. A group that is
/// followed by another one is stored as -1 minus its value.
fn unpack(file_no: i64, shorts: &[u8], out: &mut Vec<i64>) {
    let mut offset = 0_i64;
    let mut shift = 0;
    for short in shorts.chunks_exact(2) {
        let short = i64::from(short[0]) | i64::from(short[1]) << 8;
        if short < 0x8000 {
            offset = offset.wrapping_add(short.wrapping_shl(shift));
            out.push(file_no << 32 | offset);
            shift = 0;
        } else {
            offset = offset.wrapping_add((0xffff - short).wrapping_shl(shift));
            shift += 15;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::numbers;
    use proptest::prelude::*;

    const FIRST: Form = Form { skipped: 1, width: 2 };
    const LAST: Form = Form { skipped: 0, width: 2 };
    const KEY: [u8; KEY_SIZE] = [0, 0, 0, 5, 9, 9, 9, 9];

    fn body(count: u8, shorts: &[u16]) -> Vec<u8> {
        let mut out = Vec::new();
        out.extend(7_i32.to_le_bytes());
        out.extend((-1_i32).to_le_bytes());
        out.extend([count, shorts.len() as u8]);
        out.extend(shorts.iter().flat_map(|short| short.to_le_bytes()));
        out
    }

    fn read_whole(entry: &[u8], form: Form) -> Summaries {
        let keys = (form.skipped > 0).then_some(&[0][..]);
        read(entry, &[8], &[entry.len() as i64], keys, form)
    }

    #[test]
    fn keys_come_first_or_last() {
        let shorts = [100, 0xffff - 3, 2];
        let entry = [&KEY[..], &[99], &body(2, &shorts)].concat();
        let found = read_whole(&entry, FIRST);
        assert_eq!((found.rows, found.file_nos), (vec![0], vec![5]));
        assert_eq!(found.totals, [7, -1]);
        assert_eq!(found.obsolete, [5 << 32 | 100, 5 << 32 | (103 + (2 << 15))]);
        let entry = [&[0; 8], &body(2, &shorts)[..], &KEY].concat();
        assert_eq!(read_whole(&entry, LAST).obsolete.len(), 2);
    }

    #[test]
    fn what_is_no_summary_is_left_out() {
        for (count, shorts) in [(2, &[1][..]), (1, &[0xffff]), (1, &[0xffff; 5])] {
            let entry = [&[0; 8], &body(count, shorts)[..], &KEY].concat();
            let found = read_whole(&entry, LAST);
            assert!(found.rows.is_empty() && found.totals.is_empty());
        }
        let entry = [&[0; 8], &body(1, &[1])[..], &KEY].concat();
        for size in 8..entry.len() {
            assert!(read_whole(&entry[..size], LAST).rows.is_empty());
        }
    }

    proptest! {
        #[test]
        fn any_bytes(
            data in proptest::collection::vec(any::<u8>(), 0..60),
            (start, stop, key) in (-1_i64..60, -1_i64..62, -1_i64..62),
        ) {
            for (form, keys) in [(FIRST, Some(&[key][..])), (LAST, None)] {
                let found = read(&data, &[start], &[stop], keys, form);
                prop_assert_eq!(found.totals.len(), found.rows.len() * form.width);
                prop_assert!(found.obsolete.len() <= data.len());
            }
        }

        #[test]
        fn any_summary_with_a_change(
            shorts in proptest::collection::vec(any::<u16>(), 0..9),
            count in 0_u8..9,
            changes in proptest::collection::vec((0_usize..50, any::<u8>()), 0..3),
            (starts, stops) in (numbers(0..4), numbers(0..4)),
            keys in proptest::option::of(numbers(0..4)),
            (skipped, width) in (0_usize..3, prop_oneof![0_usize..4, Just(usize::MAX)]),
        ) {
            let mut entry = [&KEY[..], &body(count, &shorts), &KEY].concat();
            for (at, byte) in changes {
                if let Some(place) = entry.get_mut(at) {
                    *place = byte;
                }
            }
            let found = read_whole(&entry, LAST);
            prop_assert_eq!(found.totals.len(), 2 * found.rows.len());
            prop_assert!(found.obsolete.len() <= shorts.len());
            let form = Form { skipped, width };
            let found = read(&entry, &starts, &stops, keys.as_deref(), form);
            prop_assert_eq!(found.file_nos.len(), found.rows.len());
        }
    }
}
