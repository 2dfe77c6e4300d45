//! Counts and sizes of entries by type, and of the keys and values of user records.

use crate::bytes::i32_at;
use crate::je::header::PROVISIONAL_YES;
use crate::je::walk::{Checksum, Window};
use crate::packed;

/// Number of columns of a line: count, bytes, smallest, largest, number of provisional entries.
pub const WIDTH: usize = 5;

/// One line of [`WIDTH`] numbers.
pub type Line = [i64; WIDTH];

/// Smallest size of a line that counts nothing.
pub const NO_MINIMUM: i64 = 1 << 62;

/// Index of the line of keys in a tally of sizes.
pub const KEY: usize = 0;
/// Index of the line of values.
pub const DATA: usize = 1;
/// Index of the line of records that end inside a field.
pub const BROKEN: usize = 2;

/// Line that counts nothing.
pub const EMPTY: Line = [0, 0, NO_MINIMUM, 0, 0];

/// Action of a step over a field.
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Another byte of flags, shifted by the operand.
    Flags = 0,
    /// As many bytes as the operand.
    Fixed = 1,
    /// A packed number.
    Packed = 2,
    /// A packed size, then bytes.
    Bytes = 3,
    /// All remaining bytes.
    Rest = 4,
    /// A four-byte size, then bytes.
    BytesI32 = 5,
}

impl Action {
    fn of(number: i64) -> Option<Self> {
        let all = [Self::Flags, Self::Fixed, Self::Packed, Self::Bytes, Self::Rest, Self::BytesI32];
        all.into_iter().find(|&each| each as i64 == number)
    }
}

/// A step over one field of a record.
#[derive(Clone, Copy, Debug)]
struct Step {
    action: Action,
    operand: u32,
    /// Flags of which one must be set; 0 for a field that is always present.
    mask: u64,
}

/// Steps of each type up to key and value; none for types that are not user records.
#[derive(Clone, Debug)]
pub struct Programs(Vec<Vec<Step>>);

impl Programs {
    /// Returns the programs that Python declares; `None` if the numbers are not programs.
    ///
    /// `firsts` and `lasts` have the index of the first step of each type, and the index after its
    /// last; `steps` has an action, an operand and a mask for each step.
    pub fn new(firsts: &[i64], lasts: &[i64], steps: &[i64]) -> Option<Self> {
        let parsed: Option<Vec<Step>> = steps
            .chunks(3)
            .map(|step| {
                let &[action, operand, mask] = step else { return None };
                Some(Step {
                    action: Action::of(action)?,
                    operand: u32::try_from(operand).ok()?,
                    mask: u64::try_from(mask).ok()?,
                })
            })
            .collect();
        let parsed = parsed?;
        let of_type = |(&first, &last): (&i64, &i64)| {
            let bounds = usize::try_from(first).ok()?..usize::try_from(last).ok()?;
            parsed.get(bounds).map(<[Step]>::to_vec)
        };
        let all: Option<Vec<_>> = firsts.iter().zip(lasts).map(of_type).collect();
        all.filter(|all| all.len() == 256).map(Self)
    }
}

/// Entries in columns of one length; see `walk::HeaderColumns`.
#[derive(Clone, Copy, Debug)]
pub struct Columns<'a> {
    /// Offset of the entry in its file.
    pub offset: &'a [u32],
    /// Number of bytes after the header.
    pub item_size: &'a [i32],
    /// Type number.
    pub type_no: &'a [u8],
    /// Flags.
    pub flags: &'a [u8],
    /// Number of bytes of the header.
    pub header_size: &'a [u8],
    /// A [`Checksum`].
    pub checksum: &'a [u8],
}

impl Columns<'_> {
    /// Returns the number of rows; `None` if the columns differ in length.
    pub fn rows(&self) -> Option<usize> {
        let n = self.offset.len();
        let lengths = [
            self.item_size.len(),
            self.type_no.len(),
            self.flags.len(),
            self.header_size.len(),
            self.checksum.len(),
        ];
        lengths.iter().all(|&length| length == n).then_some(n)
    }

    pub(crate) fn is_bad(&self, row: usize) -> bool {
        self.checksum[row] == Checksum::Bad as u8
    }
}

/// Counts and sizes, by type and of keys and values.
#[derive(Clone, Debug)]
pub struct Tally {
    /// Lines by entry type.
    pub types: [Line; 256],
    /// Lines of keys, values and broken records.
    pub sizes: [Line; 3],
}

impl Default for Tally {
    fn default() -> Self {
        Self { types: [EMPTY; 256], sizes: [EMPTY; 3] }
    }
}

fn count(line: &mut Line, size: i64) {
    line[0] += 1;
    line[1] += size;
    line[2] = line[2].min(size);
    line[3] = line[3].max(size);
}

/// Adds entries by type; damaged entries do not count.
pub fn tally_types(columns: Columns<'_>, types: &mut [Line; 256]) {
    for row in 0..columns.rows().unwrap_or(0) {
        if columns.is_bad(row) {
            continue;
        }
        let line = &mut types[usize::from(columns.type_no[row])];
        count(line, i64::from(columns.header_size[row]) + i64::from(columns.item_size[row]));
        line[4] += i64::from(columns.flags[row] & PROVISIONAL_YES != 0);
    }
}

/// Adds the sizes of keys and values of entries in the window; damaged entries do not count.
pub fn tally_sizes(
    window: Window<'_>,
    columns: Columns<'_>,
    programs: &Programs,
    sizes: &mut [Line; 3],
) {
    for row in 0..columns.rows().unwrap_or(0) {
        let steps =
            programs.0.get(usize::from(columns.type_no[row])).map_or(&[][..], Vec::as_slice);
        if steps.is_empty() || columns.is_bad(row) {
            continue;
        }
        let item = item_of(window, columns, row);
        match item.and_then(|item| measure(item, steps)) {
            None => sizes[BROKEN][0] += 1,
            Some(found) => {
                for (line, size) in sizes.iter_mut().zip(found) {
                    if let Some(size) = size {
                        count(line, size);
                    }
                }
            }
        }
    }
}

/// Returns the bytes of an entry after its header; `None` if they are not in the window.
#[inline]
pub fn item_of<'a>(window: Window<'a>, columns: Columns<'_>, row: usize) -> Option<&'a [u8]> {
    let start = window.index_of(columns.offset[row].into())?;
    let start = start.checked_add(columns.header_size[row].into())?;
    let size = usize::try_from(columns.item_size[row]).ok()?;
    window.bytes.get(start..start.checked_add(size)?)
}

/// Returns the sizes of key and value; `None` for one that is null or missing.
///
/// Returns `None` for both if the item ends inside a field.
#[inline]
fn measure(item: &[u8], steps: &[Step]) -> Option<[Option<i64>; 2]> {
    let mut found = [None; 2];
    let mut at = 0_usize;
    let mut flags = 0_u64;
    for step in steps {
        if step.mask != 0 && flags & step.mask == 0 {
            continue;
        }
        let size = match step.action {
            Action::Flags => {
                flags |= u64::from(*item.get(at)?).checked_shl(step.operand).unwrap_or(0);
                at += 1;
                continue;
            }
            Action::Fixed => {
                item.get(at)?;
                at = at.checked_add(usize::try_from(step.operand).ok()?)?;
                continue;
            }
            Action::Packed => {
                at = at.checked_add(packed::size_by_first(*item.get(at)?))?;
                continue;
            }
            Action::Bytes => {
                let (size, after) = packed::read(item, at, item.len())?;
                at = after;
                if size < -1 {
                    return None;
                }
                size
            }
            Action::Rest => i64::try_from(item.len().checked_sub(at)?).ok()?,
            Action::BytesI32 => {
                let size = i32_at(item, at)?;
                at += 4;
                if size < 0 {
                    return None;
                }
                size.into()
            }
        };
        if let Ok(size) = usize::try_from(size) {
            at = at.checked_add(size)?;
            if at > item.len() {
                return None;
            }
        }
        if let Some(place) = found.get_mut(step.operand as usize) {
            *place = (size >= 0).then_some(size);
        }
    }
    (at <= item.len()).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn steps(all: &[[i64; 3]]) -> Vec<Step> {
        let (firsts, mut lasts) = ([0; 256], [0; 256]);
        lasts[0] = all.len() as i64;
        Programs::new(&firsts, &lasts, &all.concat()).unwrap().0.swap_remove(0)
    }

    #[test]
    fn sizes_of_keys_and_values() {
        let record = steps(&[[0, 0, 0], [1, 4, 1], [2, 3, 0], [3, 0, 0], [5, 1, 2]]);
        let bare = [0, 7, 2, 8, 8];
        assert_eq!(measure(&bare, &record), Some([Some(2), None]));
        let full = [3, 0, 0, 0, 0, 7, 2, 8, 8, 1, 0, 0, 0, 5];
        assert_eq!(measure(&full, &record), Some([Some(2), Some(1)]));
        assert_eq!(measure(&full[..12], &record), None);
        assert_eq!(measure(&full[..13], &record), None);
        assert_eq!(measure(&[2, 7, 2, 8, 8, 0xff, 0xff, 0xff, 0xff], &record), None);
    }

    #[test]
    fn a_value_that_is_null_has_no_size() {
        let record = steps(&[[3, 1, 0]]);
        assert_eq!(measure(&[0xff], &record), Some([None, None]));
        assert_eq!(measure(&[0xfe], &record), None);
        assert_eq!(measure(&[0], &record), Some([None, Some(0)]));
        assert_eq!(measure(&[], &record), None);
        assert_eq!(measure(&[], &steps(&[[4, 1, 0]])), Some([None, Some(0)]));
    }

    #[test]
    fn what_is_no_program_is_refused() {
        let (firsts, mut lasts) = ([0; 256], [0; 256]);
        assert!(Programs::new(&firsts, &lasts, &[]).is_some());
        assert!(Programs::new(&firsts[..3], &lasts, &[]).is_none());
        assert!(Programs::new(&firsts, &lasts, &[6, 0, 0]).is_none());
        assert!(Programs::new(&firsts, &lasts, &[0, 0]).is_none());
        assert!(Programs::new(&firsts, &lasts, &[0, -1, 0]).is_none());
        lasts[3] = 1;
        assert!(Programs::new(&firsts, &lasts, &[]).is_none());
    }

    proptest! {
        #[test]
        fn any_item_is_measured_inside_of_it(
            item in proptest::collection::vec(any::<u8>(), 0..40),
            all in proptest::collection::vec((0_i64..6, 0_i64..70, 0_i64..4), 0..9),
        ) {
            let all: Vec<_> = all.into_iter().map(|(a, b, c)| [a, b, c]).collect();
            for size in measure(&item, &steps(&all)).into_iter().flatten().flatten() {
                prop_assert!(size <= item.len() as i64);
            }
        }

        #[test]
        fn any_rows_are_tallied(
            bytes in proptest::collection::vec(any::<u8>(), 0..60),
            base in 0_u64..50,
            rows in proptest::collection::vec(any::<(u8, i32, u8, u8, u8)>(), 0..9),
        ) {
            let offset: Vec<_> = rows.iter().map(|row| row.0.into()).collect();
            let item_size: Vec<_> = rows.iter().map(|row| row.1).collect();
            let [a, b, c]: [Vec<u8>; 3] =
                std::array::from_fn(|i| rows.iter().map(|r| [r.2, r.3, r.4][i]).collect());
            let columns = Columns {
                offset: &offset,
                item_size: &item_size,
                type_no: &a,
                flags: &b,
                header_size: &c,
                checksum: &b,
            };
            let mut tally = Tally::default();
            tally_types(columns, &mut tally.types);
            let window = Window { bytes: &bytes, base };
            tally_sizes(window, columns, &crate::je::testing::programs(), &mut tally.sizes);
            let good = b.iter().filter(|&&state| state != Checksum::Bad as u8).count();
            prop_assert_eq!(tally.types.iter().map(|line| line[0]).sum::<i64>(), good as i64);
        }
    }
}
