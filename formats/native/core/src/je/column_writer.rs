//! Payloads from columns, by the programs that `formats/je/entry/programs.py` makes of the layout.

use crate::je::nodes::Joined;
use crate::packed;

/// Coding of one byte.
pub const U8: i64 = 0;
/// Coding of a 64-bit number.
pub const I64: i64 = 3;
/// Coding of a packed number.
pub const PACKED: i64 = 4;
/// Coding of a packed size, -1 for null, and then bytes.
pub const BYTES: i64 = 5;
/// Coding of an LSN as a difference from the node's base file number, and an offset.
pub const COMPACT_LSN: i64 = 10;
/// Offset of a null compact LSN.
pub const COMPACT_NULL_OFFSET: i64 = 0xff_ffff;

/// Test that any bit of the operand is set.
pub const SET: i64 = 0;
/// Test that no bit of the operand is set.
pub const CLEAR: i64 = 1;

/// Numbers of an operation before its tests: coding, column, size, base, number of tests,
/// repetitions.
pub const OP_HEAD: usize = 6;
/// Numbers per test: column, flag for a column of the parent, kind, operand.
pub const TEST_WIDTH: usize = 4;
/// Numbers per operation.
pub const OP_WIDTH: usize = OP_HEAD + 2 * TEST_WIDTH;

/// Columns of one length, one after the other.
#[derive(Clone, Copy, Debug)]
pub struct Table<'a> {
    /// Numbers of all columns.
    pub numbers: &'a [i64],
    /// Number of rows of each column.
    pub rows: usize,
}

impl Table<'_> {
    #[inline]
    fn get(&self, column: i64, row: usize) -> Option<i64> {
        let start = usize::try_from(column).ok()?.checked_mul(self.rows)?;
        if row >= self.rows {
            return None;
        }
        self.numbers.get(start.checked_add(row)?).copied()
    }
}

/// Fields of entries: those before the slots, those of the slots, or those after them.
#[derive(Clone, Copy, Debug)]
pub struct Part<'a> {
    /// Index in `ops` of the first number of each type.
    pub op_start: &'a [i64],
    /// Index in `ops` after the last number of each type.
    pub op_stop: &'a [i64],
    /// Operations of [`OP_WIDTH`] numbers each.
    pub ops: &'a [i64],
    /// Bytes of the byte strings.
    pub data: &'a [u8],
    /// Numbers, and offsets in `data` of byte strings.
    pub values: Table<'a>,
    /// Sizes of byte strings; -1 for null.
    pub sizes: Table<'a>,
    /// Number of items of each entry.
    pub counts: &'a [i64],
    /// Row of the first item of each entry.
    pub firsts: &'a [i64],
}

impl<'a> Part<'a> {
    fn ops_of(&self, type_no: u8) -> Option<&'a [i64]> {
        let place = |of: &[i64]| usize::try_from(*of.get(usize::from(type_no))?).ok();
        self.ops.get(place(self.op_start)?..place(self.op_stop)?)
    }

    /// Appends the items of an entry to `out`.
    #[inline]
    fn write(&self, row: usize, type_no: u8, parents: &Table<'_>, out: &mut Vec<u8>) -> Option<()> {
        let ops = self.ops_of(type_no)?;
        let first = usize::try_from(*self.firsts.get(row)?).ok()?;
        let stop = first.checked_add(usize::try_from(*self.counts.get(row)?).ok()?)?;
        if stop > self.values.rows {
            return None;
        }
        for place in first..stop {
            let item = Item { part: self, parents, row, place };
            for op in ops.chunks_exact(OP_WIDTH) {
                if item.is_wanted(op)? {
                    item.write(op, out)?;
                }
            }
        }
        Some(())
    }
}

/// One item of an entry.
struct Item<'a> {
    part: &'a Part<'a>,
    parents: &'a Table<'a>,
    row: usize,
    place: usize,
}

impl Item<'_> {
    #[inline]
    fn is_wanted(&self, op: &[i64]) -> Option<bool> {
        let tests = usize::try_from(op[4]).ok()?;
        for test in op[OP_HEAD..].chunks_exact(TEST_WIDTH).take(tests) {
            let &[column, of_parent, kind, operand] = test else { return None };
            let value = if of_parent != 0 {
                self.parents.get(column, self.row)?
            } else {
                self.part.values.get(column, self.place)?
            };
            let holds = match kind {
                SET => value & operand != 0,
                CLEAR => value & operand == 0,
                _ => value != operand,
            };
            if !holds {
                return Some(false);
            }
        }
        Some(true)
    }

    #[inline]
    fn write(&self, op: &[i64], out: &mut Vec<u8>) -> Option<()> {
        let &[coding, column, size, base, ..] = op else { return None };
        let number = self.part.values.get(column, self.place)?;
        match coding {
            PACKED => push_packed(out, number),
            BYTES => {
                let size = self.part.sizes.get(size, self.place)?;
                push_packed(out, size);
                if let Ok(size) = usize::try_from(size) {
                    let start = usize::try_from(number).ok()?;
                    out.extend_from_slice(self.part.data.get(start..start.checked_add(size)?)?);
                }
            }
            U8 => out.push(number.to_le_bytes()[0]),
            I64 => out.extend(number.to_le_bytes()),
            COMPACT_LSN if number == -1 => {
                out.extend(&(COMPACT_NULL_OFFSET << 8).to_le_bytes()[..4]);
            }
            COMPACT_LSN => {
                let step = (number >> 32).wrapping_sub(self.parents.get(base, self.row)?);
                let word = (number & COMPACT_NULL_OFFSET) << 8 | (step & 0xff);
                out.extend(&word.to_le_bytes()[..4]);
            }
            _ => out.extend(&number.to_le_bytes()[..4]),
        }
        Some(())
    }
}

#[inline]
fn push_packed(out: &mut Vec<u8>, number: i64) {
    let (bytes, size) = packed::encode(number);
    out.extend_from_slice(&bytes[..size]);
}

/// Returns the payloads of entries, one after the other: head, slots and tail of each.
///
/// Returns `None` if the columns lack a number that the programs need, or have fewer rows than items.
pub fn encode(types: &[u8], head: Part<'_>, slots: Part<'_>, tail: Part<'_>) -> Option<Joined> {
    let mut out = Joined::with_capacity(types.len(), 0);
    for (row, &type_no) in types.iter().enumerate() {
        let start = out.data.len();
        for part in [&head, &slots, &tail] {
            part.write(row, type_no, &head.values, &mut out.data)?;
        }
        out.end_row(start);
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{bytes, mostly, numbers};
    use proptest::collection::vec;
    use proptest::prelude::*;

    const NONE: Part<'_> = Part {
        op_start: &[0, 0],
        op_stop: &[0, 0],
        ops: &[],
        data: &[],
        values: Table { numbers: &[], rows: 0 },
        sizes: Table { numbers: &[], rows: 0 },
        counts: &[0, 0],
        firsts: &[0, 0],
    };

    fn op(coding: i64, column: i64, size: i64, tests: &[[i64; TEST_WIDTH]]) -> Vec<i64> {
        let mut op = vec![coding, column, size, 1, tests.len() as i64, -1];
        op.extend(tests.concat());
        op.resize(OP_WIDTH, 0);
        op
    }

    #[test]
    fn fields_of_every_coding() {
        let head = [op(U8, 0, -1, &[]), op(1, 1, -1, &[]), op(I64, 0, -1, &[[0, 0, SET, 4]])];
        let head = head.concat();
        let slots = [
            op(PACKED, 0, -1, &[]),
            op(BYTES, 1, 0, &[[0, 1, CLEAR, 0x200]]),
            op(COMPACT_LSN, 2, -1, &[[0, 0, 2, 300]]),
        ]
        .concat();
        let size = head.len() as i64;
        let head = Part {
            op_stop: &[0, size],
            ops: &head,
            values: Table { numbers: &[0x1ff, 4, -2, 7], rows: 2 },
            counts: &[1, 1],
            firsts: &[0, 1],
            ..NONE
        };
        let values = [300, -1, 5, 0, 1, 1, 8 << 32 | 0x123, 9, -1];
        let size = slots.len() as i64;
        let slots = Part {
            op_stop: &[0, size],
            ops: &slots,
            data: b"xyz",
            values: Table { numbers: &values, rows: 3 },
            sizes: Table { numbers: &[0, 2, -1], rows: 3 },
            counts: &[1, 2],
            firsts: &[0, 1],
            ..NONE
        };
        let found = encode(&[1, 1], head, slots, NONE).unwrap();
        // The first item has no LSN, because its number is 300.
        let first = [&[0xff, 0xfe, 0xff, 0xff, 0xff][..], &0x1ff_i64.to_le_bytes(), b"\x78\xb5\0"];
        let second = [4, 7, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0];
        let rows = [&[0xff, 2, b'y', b'z', 0xf9, 9, 0, 0][..], &[5, 0xff, 0, 0xff, 0xff, 0xff]];
        assert_eq!(found.data, [first.concat(), second.to_vec(), rows.concat()].concat());
        assert_eq!((found.starts, found.sizes), (vec![0, 16], vec![16, 27]));
    }

    #[test]
    fn columns_that_are_missing_are_none() {
        let ops = op(U8, 1, -1, &[]);
        let head = Part { op_stop: &[13, 13], ops: &ops, counts: &[1], ..NONE };
        assert!(encode(&[0], head, NONE, NONE).is_none());
        assert!(encode(&[7], NONE, NONE, NONE).is_none());
    }

    proptest! {
        #[test]
        fn any_program_ends(
            ops in vec(-1_i64..12, 0..3 * OP_WIDTH),
            numbers in vec(any::<i64>(), 6),
            counts in vec(-1_i64..4, 2),
        ) {
            let size = ops.len() as i64;
            let values = Table { numbers: &numbers, rows: 2 };
            let stops = [size, size];
            let part = Part {
                op_stop: &stops, ops: &ops, data: b"abc", values, sizes: values, counts: &counts,
                firsts: &[0, 1], ..NONE
            };
            if let Some(found) = encode(&[0, 1], part, part, NONE) {
                prop_assert_eq!(found.sizes.iter().sum::<i64>(), found.data.len() as i64);
            }
        }

        #[test]
        fn any_columns_are_written_or_refused(
            types in vec(0_u8..2, 0..4),
            (op_start, op_stop) in (vec(mostly(0..1), 0..3), vec(mostly(0..2), 0..3)),
            ops in vec((-1_i64..12, vec(mostly(0..3), OP_WIDTH - 1)), 0..4),
            data in bytes(12),
            (values, sizes) in (numbers(0..16), numbers(0..16)),
            (value_rows, size_rows) in (0_usize..5, 0_usize..5),
            (counts, firsts) in (vec(mostly(0..3), 0..4), vec(mostly(0..3), 0..4)),
            wild_rows: bool,
        ) {
            let op_stop: Vec<i64> =
                op_stop.iter().map(|stop| stop.saturating_mul(OP_WIDTH as i64)).collect();
            let ops: Vec<i64> =
                ops.into_iter().flat_map(|(coding, rest)| [vec![coding], rest].concat()).collect();
            let part = Part {
                op_start: &op_start,
                op_stop: &op_stop,
                ops: &ops,
                data: &data,
                values: Table {
                    numbers: &values,
                    // Columns of no bytes may have any number of rows.
                    rows: if wild_rows && values.is_empty() { 999 } else { value_rows },
                },
                sizes: Table { numbers: &sizes, rows: size_rows },
                counts: &counts,
                firsts: &firsts,
            };
            if let Some(found) = encode(&types, part, part, part) {
                prop_assert_eq!(found.sizes.len(), types.len());
                prop_assert_eq!(found.sizes.iter().sum::<i64>(), found.data.len() as i64);
            }
        }
    }
}
