//! Payloads in columns: programs of declared fields, run over many entries.
//!
//! Python declares the fields and builds the tables of numbers that a [`Program`] is parsed from
//! (`formats/je/entry/programs.py`). Parsing checks the numbers, so that a program cannot leave its
//! columns when it runs.

use crate::{bytes, packed};

/// Numbers per operation.
pub const OP_WIDTH: usize = 14;
/// Index of the coding in the numbers of an operation.
pub const OP_CODING: usize = 0;
/// Index of its column, which may be -1.
pub const OP_COLUMN: usize = 1;
/// Index of its column of sizes, which may be -1.
pub const OP_SIZE: usize = 2;
/// Index of the parent's column that has the base of compact LSNs.
pub const OP_BASE: usize = 3;
/// Index of the number of tests.
pub const OP_TESTS: usize = 4;
/// Index of the column with the number of repetitions, which may be -1 for a single field.
pub const OP_REPEAT: usize = 5;
/// Numbers of an operation before its tests.
pub const OP_HEAD: usize = 6;

/// Index of the column in the numbers of a test.
pub const TEST_COLUMN: usize = 0;
/// Index of the flag for a column of the parent.
pub const TEST_PARENT: usize = 1;
/// Index of the operation of a test.
pub const TEST_OP: usize = 2;
/// Index of the operand of a test.
pub const TEST_OPERAND: usize = 3;
/// Numbers per test.
pub const TEST_WIDTH: usize = 4;

/// Offset of a null compact LSN.
pub const COMPACT_NULL_OFFSET: u32 = 0x00ff_ffff;

/// Largest number of columns of a program: each has a presence bit.
const COLUMNS_MAX: usize = 63;

/// Encoding of a field; members are those of `layout.Coding`.
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coding {
    /// One byte.
    U8 = 0,
    /// Four bytes, signed.
    I32 = 1,
    /// Eight bytes, signed.
    I64 = 3,
    /// A packed integer.
    Packed = 4,
    /// A packed size, then bytes; size -1 is null.
    Bytes = 5,
    /// All bytes up to the end.
    Rest = 7,
    /// A four-byte size, then bytes.
    BytesI32 = 9,
    /// A byte to add to the base file number, and three bytes of offset.
    CompactLsn = 10,
}

impl Coding {
    const ALL: [Self; 8] = [
        Self::U8,
        Self::I32,
        Self::I64,
        Self::Packed,
        Self::Bytes,
        Self::Rest,
        Self::BytesI32,
        Self::CompactLsn,
    ];

    fn has_size(self) -> bool {
        matches!(self, Self::Bytes | Self::Rest | Self::BytesI32)
    }
}

/// Operation of a test; members are those of `layout.Op`.
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    /// Any bit of the operand is set.
    Set = 0,
    /// No bit of the operand is set.
    Clear = 1,
    /// The value differs from the operand.
    Not = 2,
}

/// A condition on the value of a column.
#[derive(Clone, Copy, Debug)]
struct Test {
    column: usize,
    ask: Ask,
    operand: i64,
}

impl Test {
    #[inline]
    fn holds(&self, value: i64) -> bool {
        match self.ask {
            Ask::Set => value & self.operand != 0,
            Ask::Clear => value & self.operand == 0,
            Ask::Not => value != self.operand,
        }
    }
}

/// A field to read.
#[derive(Clone, Debug)]
struct Op {
    coding: Coding,
    column: Option<usize>,
    size: Option<usize>,
    base: usize,
    /// Column with the number of repetitions; `None` for a single field.
    repeat: Option<usize>,
    /// Tests of columns of the same item.
    own: Vec<Test>,
    /// Tests of columns of the parent.
    of_parent: Vec<Test>,
}

/// Error for numbers that are not a program: a bug in the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotAProgram(pub &'static str);

/// Fields of each type of a family in one log version.
#[derive(Debug)]
pub struct Program {
    ops: Vec<Op>,
    of_type: Vec<(usize, usize)>,
    columns: usize,
    sized: usize,
    parents: usize,
}

impl Program {
    /// Parses and checks a program.
    ///
    /// `starts` and `stops` have an element for each of the 256 types: the bounds of its operations
    /// in `numbers`. The program fills `columns` columns of numbers and `sized` columns of sizes.
    pub fn parse(
        starts: &[i64],
        stops: &[i64],
        numbers: &[i64],
        columns: usize,
        sized: usize,
    ) -> Result<Self, NotAProgram> {
        if columns > COLUMNS_MAX || sized > columns {
            return Err(NotAProgram("too many columns"));
        }
        if starts.len() != 256 || stops.len() != 256 || numbers.len() % OP_WIDTH != 0 {
            return Err(NotAProgram("tables of wrong lengths"));
        }
        let mut program = Self { ops: Vec::new(), of_type: Vec::new(), columns, sized, parents: 0 };
        for numbers in numbers.chunks_exact(OP_WIDTH) {
            let op = program.op(numbers)?;
            program.ops.push(op);
        }
        for (&start, &stop) in starts.iter().zip(stops) {
            let (Ok(start), Ok(stop)) = (usize::try_from(start), usize::try_from(stop)) else {
                return Err(NotAProgram("negative place of an operation"));
            };
            let range = (start / OP_WIDTH, stop / OP_WIDTH);
            if start % OP_WIDTH != 0 || stop % OP_WIDTH != 0 || start > stop {
                return Err(NotAProgram("operations that overlap"));
            }
            if program.ops.get(range.0..range.1).is_none() {
                return Err(NotAProgram("operations that are not there"));
            }
            program.of_type.push(range);
        }
        Ok(program)
    }

    fn op(&mut self, numbers: &[i64]) -> Result<Op, NotAProgram> {
        let coding = Coding::ALL.into_iter().find(|&coding| coding as i64 == numbers[OP_CODING]);
        let coding = coding.ok_or(NotAProgram("unknown coding"))?;
        let column = below(numbers[OP_COLUMN], self.columns)?;
        let size = below(numbers[OP_SIZE], self.sized)?;
        if size.is_some() && !coding.has_size() {
            return Err(NotAProgram("sizes of numbers"));
        }
        let base = below(numbers[OP_BASE], COLUMNS_MAX)?.ok_or(NotAProgram("no base"))?;
        if coding == Coding::CompactLsn {
            self.parents = self.parents.max(base + 1);
        }
        let repeat = below(numbers[OP_REPEAT], self.columns)?;
        if repeat.is_some() && (coding == Coding::Rest || column.is_some()) {
            return Err(NotAProgram("a column of repeated fields"));
        }
        let count = below(numbers[OP_TESTS], (OP_WIDTH - OP_HEAD) / TEST_WIDTH + 1)?;
        let (own, of_parent) = (Vec::new(), Vec::new());
        let mut op = Op { coding, column, size, base, repeat, own, of_parent };
        for numbers in numbers[OP_HEAD..].chunks_exact(TEST_WIDTH).take(count.unwrap_or(0)) {
            let of_parent = numbers[TEST_PARENT] != 0;
            let test = self.test(numbers, of_parent)?;
            if of_parent { op.of_parent.push(test) } else { op.own.push(test) }
        }
        Ok(op)
    }

    fn test(&mut self, numbers: &[i64], of_parent: bool) -> Result<Test, NotAProgram> {
        let asks = [Ask::Set, Ask::Clear, Ask::Not];
        let ask = asks.into_iter().find(|&ask| ask as i64 == numbers[TEST_OP]);
        let most = if of_parent { COLUMNS_MAX } else { self.columns };
        let column = below(numbers[TEST_COLUMN], most)?.ok_or(NotAProgram("test of no column"))?;
        if of_parent {
            self.parents = self.parents.max(column + 1);
        }
        let ask = ask.ok_or(NotAProgram("unknown test"))?;
        Ok(Test { column, ask, operand: numbers[TEST_OPERAND] })
    }

    /// Returns the number of columns of numbers that the program fills.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Reads one payload of an entry into `values`, a number per column; returns presence bits.
    ///
    /// The values of absent fields stay as they are. Returns `None` if the payload ends inside a
    /// field.
    #[inline]
    pub fn read_one(&self, type_no: u8, payload: &[u8], values: &mut [i64]) -> Option<i64> {
        let mut cursor = Cursor { bytes: payload, at: 0, is_cut: false };
        let mut present = [0];
        let mut run = Run {
            program: self,
            rows: 1,
            values,
            sizes: &mut [],
            present: &mut present,
            present_shift: 0,
        };
        run.item(&mut cursor, 0, self.of_type(type_no).iter(), |_| 0);
        (!cursor.is_cut).then_some(present[0])
    }

    /// Returns true if entries of the type have a field to read.
    #[inline]
    pub fn reads(&self, type_no: u8) -> bool {
        !self.of_type(type_no).is_empty()
    }

    fn of_type(&self, type_no: u8) -> &[Op] {
        let range = self.of_type.get(usize::from(type_no)).copied();
        range.and_then(|(start, stop)| self.ops.get(start..stop)).unwrap_or_default()
    }
}

/// Returns a number below `most` as an index; `None` for -1.
fn below(number: i64, most: usize) -> Result<Option<usize>, NotAProgram> {
    match usize::try_from(number) {
        Ok(index) if index < most => Ok(Some(index)),
        Err(_) if number == -1 => Ok(None),
        _ => Err(NotAProgram("column out of range")),
    }
}

/// Programs of a family of entries: the fields before a list, its items, and the fields after it.
#[derive(Clone, Copy, Debug)]
pub struct Family<'a> {
    head: &'a Program,
    list: Option<List<'a>>,
}

/// List of a [`Family`].
#[derive(Clone, Copy, Debug)]
struct List<'a> {
    item: &'a Program,
    tail: &'a Program,
    count: usize,
    most: usize,
}

impl<'a> Family<'a> {
    /// Returns a family without a list.
    pub fn new(head: &'a Program) -> Result<Self, NotAProgram> {
        if head.parents > 0 {
            return Err(NotAProgram("a head has no parent"));
        }
        Ok(Self { head, list: None })
    }

    /// Returns the family with a list of at most `most` items, whose number is in column `count`.
    pub fn with_list(
        self,
        item: &'a Program,
        tail: &'a Program,
        count: usize,
        most: usize,
    ) -> Result<Self, NotAProgram> {
        let columns = self.head.columns;
        if count >= columns || item.parents > columns || tail.parents > columns {
            return Err(NotAProgram("a column of the head that is not there"));
        }
        if columns + tail.columns > COLUMNS_MAX {
            return Err(NotAProgram("too many columns"));
        }
        Ok(Self { list: Some(List { item, tail, count, most }), ..self })
    }
}

/// Payloads of entries; the columns have one length.
#[derive(Clone, Copy, Debug)]
pub struct Payloads<'a> {
    /// Bytes that hold the payloads.
    pub bytes: &'a [u8],
    /// Type of each entry.
    pub types: &'a [u8],
    /// Start of each payload.
    pub starts: &'a [i64],
    /// End of each payload.
    pub stops: &'a [i64],
}

/// Columns of `rows` numbers each, one after the other.
#[derive(Debug)]
pub struct Table {
    /// Number of rows of each column.
    pub rows: usize,
    /// Number of columns in `values`.
    pub columns: usize,
    /// Number of columns in `sizes`.
    pub sized: usize,
    /// Numbers, and offsets of byte strings.
    pub values: Vec<i64>,
    /// Sizes of byte strings; -1 for null.
    pub sizes: Vec<i64>,
    /// Presence bits of each row, one per column.
    pub present: Vec<i64>,
}

impl Table {
    fn new(rows: usize, columns: usize, sized: usize) -> Self {
        Self {
            rows,
            columns,
            sized,
            values: vec![0; columns * rows],
            sizes: vec![0; sized * rows],
            present: vec![0; rows],
        }
    }
}

/// Result of [`decode`].
#[derive(Debug)]
pub struct Decoded {
    /// One row per entry: the columns of the head, then those of the tail.
    pub fields: Table,
    /// One row per item of the lists, if the family has any.
    pub items: Option<Table>,
    /// Row of the first item of each entry, and the number of all items.
    pub first: Vec<i64>,
    /// True for entries that end inside a field, or have bytes left over.
    pub bad: Vec<bool>,
}

/// Read position in the payload of an entry.
struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
    is_cut: bool,
}

impl<'a> Cursor<'a> {
    fn new(bytes: &'a [u8], start: i64, stop: i64) -> Self {
        let (Ok(at), Ok(stop)) = (usize::try_from(start), usize::try_from(stop)) else {
            return Self { bytes: &[], at: 0, is_cut: true };
        };
        match bytes.get(..stop) {
            Some(bytes) if at <= stop => Self { bytes, at, is_cut: false },
            _ => Self { bytes: &[], at: 0, is_cut: true },
        }
    }

    fn left(&self) -> usize {
        self.bytes.len().saturating_sub(self.at)
    }

    /// Reads a field; returns its number and size, or `None` if the entry ends inside it.
    #[inline]
    fn read(&mut self, coding: Coding, base: i64) -> Option<(i64, i64)> {
        let (at, stop) = (self.at, self.bytes.len());
        match coding {
            Coding::Packed => self.read_packed().map(|number| (number, 0)),
            Coding::Bytes => {
                let size = self.read_packed().filter(|&size| size >= -1)?;
                self.take(size.max(0)).map(|start| (start, size))
            }
            Coding::U8 => {
                let number = i64::from(*self.bytes.get(at)?);
                self.at = at + 1;
                Some((number, 0))
            }
            Coding::I32 => {
                let number = i64::from(bytes::i32_at(self.bytes, at)?);
                self.at = at + 4;
                Some((number, 0))
            }
            Coding::I64 => {
                let number = bytes::i64_at(self.bytes, at)?;
                self.at = at + 8;
                Some((number, 0))
            }
            Coding::Rest => {
                self.at = stop;
                Some((at as i64, (stop - at) as i64))
            }
            Coding::CompactLsn => {
                let word = bytes::u32_at(self.bytes, at)?;
                self.at = at + 4;
                Some((compact_lsn(word, base), 0))
            }
            Coding::BytesI32 => {
                let size = i64::from(bytes::i32_at(self.bytes, at)?);
                if size < 0 {
                    return None;
                }
                self.at = at + 4;
                self.take(size).map(|start| (start, size))
            }
        }
    }

    /// Skips a field that is repeated; returns `None` if the entry ends before the last one.
    fn pass(&mut self, coding: Coding, times: i64) -> Option<(i64, i64)> {
        for _ in 0..u64::try_from(times).ok()? {
            self.read(coding, 0)?;
        }
        Some((0, 0))
    }

    #[inline]
    fn read_packed(&mut self) -> Option<i64> {
        let first = i64::from(*self.bytes.get(self.at)?);
        if first <= packed::SINGLE_BYTE_MAX {
            self.at += 1;
            return Some(first);
        }
        let (number, after) = packed::read(self.bytes, self.at, self.bytes.len())?;
        self.at = after;
        Some(number)
    }

    /// Skips `size` bytes; returns the offset of the first.
    #[inline]
    fn take(&mut self, size: i64) -> Option<i64> {
        let start = self.at;
        let size = usize::try_from(size).ok().filter(|&size| size <= self.bytes.len() - start)?;
        self.at = start + size;
        Some(start as i64)
    }
}

#[inline]
fn compact_lsn(word: u32, base: i64) -> i64 {
    let offset = word >> 8;
    if offset == COMPACT_NULL_OFFSET {
        return -1;
    }
    let step = i64::from((word & 0xff) as u8 as i8);
    // A garbage base must not lead beyond 32 bits.
    let file_no = base.wrapping_add(step) as i32;
    i64::from(file_no) << 32 | i64::from(offset)
}

/// A program, and the columns of a [`Table`] that it fills.
struct Run<'a> {
    program: &'a Program,
    rows: usize,
    values: &'a mut [i64],
    sizes: &'a mut [i64],
    present: &'a mut [i64],
    present_shift: usize,
}

impl Run<'_> {
    /// Reads one item into `row`, by the operations whose parent tests hold.
    #[inline]
    fn item<'o>(
        &mut self,
        cursor: &mut Cursor<'_>,
        row: usize,
        ops: impl Iterator<Item = &'o Op>,
        base: impl Fn(&Op) -> i64,
    ) {
        let mut bits = 0_u64;
        for op in ops {
            let wanted = |test: &Test| {
                let value = self.values.get(test.column * self.rows + row);
                value.is_some_and(|&value| test.holds(value))
            };
            if !op.own.iter().all(wanted) {
                continue;
            }
            let read = match op.repeat {
                None => cursor.read(op.coding, base(op)),
                Some(column) => {
                    let times = self.values.get(column * self.rows + row);
                    cursor.pass(op.coding, times.copied().unwrap_or(0))
                }
            };
            let Some((number, size)) = read else {
                cursor.is_cut = true;
                break;
            };
            let Some(column) = op.column else { continue };
            if let Some(place) = self.values.get_mut(column * self.rows + row) {
                *place = number;
            }
            bits |= 1 << column;
            let place = op.size.and_then(|column| self.sizes.get_mut(column * self.rows + row));
            if let Some(place) = place {
                *place = size;
            }
        }
        if let Some(place) = self.present.get_mut(row) {
            *place |= (bits << self.present_shift) as i64;
        }
    }
}

/// Number of rows that are loaded ahead, a byte each, so that cache misses overlap: entries in the
/// order of keys lie anywhere.
const ROWS_AHEAD: usize = 8;

/// Decodes entries that are all of one family.
///
/// With `is_whole`, or if the family has a list, bytes left over make an entry bad. Columns of
/// `payloads` that differ in length are cut to the shortest.
pub fn decode(payloads: &Payloads<'_>, family: &Family<'_>, is_whole: bool) -> Decoded {
    let n = payloads.types.len().min(payloads.starts.len()).min(payloads.stops.len());
    let (tail_columns, tail_sized) =
        family.list.map_or((0, 0), |list| (list.tail.columns, list.tail.sized));
    let head = family.head;
    let mut fields = Table::new(n, head.columns + tail_columns, head.sized + tail_sized);
    let mut cursors = Vec::with_capacity(n);
    let (head_values, _) = fields.values.split_at_mut(head.columns * n);
    let (head_sizes, _) = fields.sizes.split_at_mut(head.sized * n);
    let mut run = Run {
        program: head,
        rows: n,
        values: head_values,
        sizes: head_sizes,
        present: &mut fields.present,
        present_shift: 0,
    };
    for row in 0..n {
        if row % ROWS_AHEAD == 0 {
            touch(payloads.bytes, payloads.starts.get(row..).unwrap_or_default());
        }
        let mut cursor = Cursor::new(payloads.bytes, payloads.starts[row], payloads.stops[row]);
        if !cursor.is_cut {
            let ops = run.program.of_type(payloads.types[row]).iter();
            run.item(&mut cursor, row, ops, |_| 0);
        }
        cursors.push(cursor);
    }
    let (items, first) = match family.list {
        Some(list) => {
            let (items, first) =
                decode_lists(payloads.types, &list, head, &mut fields, &mut cursors);
            (Some(items), first)
        }
        None => (None, vec![0; n + 1]),
    };
    let is_read = is_whole || family.list.is_some();
    let bad = cursors.iter().map(|cursor| cursor.is_cut || is_read && cursor.left() > 0).collect();
    Decoded { fields, items, first, bad }
}

/// Loads a byte of each of the next entries.
#[inline]
fn touch(bytes: &[u8], starts: &[i64]) {
    let first = |&start: &i64| usize::try_from(start).ok().and_then(|at| bytes.get(at));
    let sum = starts.iter().take(ROWS_AHEAD).filter_map(first).fold(0_u8, |sum, byte| sum ^ byte);
    std::hint::black_box(sum);
}

/// Decodes the lists of entries, and the fields after them.
fn decode_lists(
    types: &[u8],
    list: &List<'_>,
    head: &Program,
    fields: &mut Table,
    cursors: &mut [Cursor<'_>],
) -> (Table, Vec<i64>) {
    let n = cursors.len();
    let counts = fields.values.get(list.count * n..(list.count + 1) * n).unwrap_or_default();
    let counts: Vec<usize> = counts
        .iter()
        .zip(cursors.iter_mut())
        .map(|(&count, cursor)| length_of(count, list.most, cursor))
        .collect();
    let mut first = Vec::with_capacity(n + 1);
    let mut total = 0;
    for &count in &counts {
        first.push(total as i64);
        total += count;
    }
    first.push(total as i64);
    let mut items = Table::new(total, list.item.columns, list.item.sized);
    let (parents, tail_values) = fields.values.split_at_mut(head.columns * n);
    let (_, tail_sizes) = fields.sizes.split_at_mut(head.sized * n);
    let mut item_run = Run {
        program: list.item,
        rows: total,
        values: &mut items.values,
        sizes: &mut items.sizes,
        present: &mut items.present,
        present_shift: 0,
    };
    let mut tail_run = Run {
        program: list.tail,
        rows: n,
        values: tail_values,
        sizes: tail_sizes,
        present: &mut fields.present,
        present_shift: head.columns,
    };
    let mut out = 0;
    for (row, (cursor, &count)) in cursors.iter_mut().zip(&counts).enumerate() {
        let parent = |column: usize| parents.get(column * n + row).copied().unwrap_or(0);
        let type_no = types.get(row).copied().unwrap_or(0);
        let active = active_ops(list.item, type_no, parent);
        for item in out..out + count {
            if cursor.is_cut {
                break;
            }
            item_run.item(cursor, item, active.iter().copied(), |op| parent(op.base));
        }
        out += count;
        if !cursor.is_cut {
            let active = active_ops(list.tail, type_no, parent);
            tail_run.item(cursor, row, active.into_iter(), |op| parent(op.base));
        }
    }
    (items, first)
}

/// Returns the number of items to read; 0, with the entry marked as cut, if it cannot hold them.
///
/// An item takes at least two bytes, so a garbage number cannot size an allocation by itself.
fn length_of(count: i64, most: usize, cursor: &mut Cursor<'_>) -> usize {
    let fits = usize::try_from(count).ok().filter(|&count| count <= most.min(cursor.left() / 2));
    cursor.is_cut |= fits.is_none();
    if cursor.is_cut { 0 } else { fits.unwrap_or(0) }
}

/// Returns the operations of a type whose parent tests hold; they are the same for all its items.
fn active_ops(program: &Program, type_no: u8, parent: impl Fn(usize) -> i64) -> Vec<&Op> {
    let holds = |op: &&Op| op.of_parent.iter().all(|test| test.holds(parent(test.column)));
    program.of_type(type_no).iter().filter(holds).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{bytes, number, numbers, places};
    use proptest::collection::vec;
    use proptest::prelude::*;

    const NO_TEST: [i64; TEST_WIDTH] = [0; TEST_WIDTH];

    fn op(coding: Coding, column: i64, size: i64, tests: &[[i64; TEST_WIDTH]]) -> Vec<i64> {
        let mut numbers = vec![coding as i64, column, size, 1, tests.len() as i64, -1];
        numbers.extend(tests.iter().chain([NO_TEST, NO_TEST].iter()).take(2).flatten());
        numbers
    }

    fn program(ops: &[Vec<i64>], columns: usize, sized: usize) -> Program {
        let numbers = ops.concat();
        let stops = [numbers.len() as i64; 256];
        Program::parse(&[0; 256], &stops, &numbers, columns, sized).unwrap()
    }

    /// Returns the steps of flags, a base, and a number of items.
    fn head_ops() -> [Vec<i64>; 3] {
        [op(Coding::U8, 0, -1, &[]), op(Coding::I32, 1, -1, &[]), op(Coding::Packed, 2, -1, &[])]
    }

    /// Returns the steps of a state, a key, an LSN if the state has bit 1, and a number if the
    /// state is not 9 and the parent's flags do not have bit 1.
    fn item_ops() -> [Vec<i64>; 4] {
        [
            op(Coding::U8, 0, -1, &[]),
            op(Coding::Bytes, 1, 0, &[]),
            op(Coding::CompactLsn, 2, -1, &[[0, 0, Ask::Set as i64, 1]]),
            op(Coding::I64, 3, -1, &[[0, 0, Ask::Not as i64, 9], [0, 1, Ask::Clear as i64, 1]]),
        ]
    }

    fn tail_ops() -> [Vec<i64>; 2] {
        [op(Coding::BytesI32, 0, 0, &[]), op(Coding::Rest, 1, 1, &[])]
    }

    fn head() -> Program {
        program(&head_ops(), 3, 0)
    }

    fn item() -> Program {
        program(&item_ops(), 4, 1)
    }

    fn tail() -> Program {
        program(&tail_ops(), 2, 2)
    }

    fn entry(flags: u8) -> Vec<u8> {
        let mut out = vec![flags, 5, 0, 0, 0, 2];
        out.extend([1, 2, b'a', b'b', 0xff, 1, 2, 3]);
        if flags & 1 == 0 {
            out.extend((-7_i64).to_le_bytes());
        }
        // A null key and a null LSN; an item of this state has no number.
        out.extend([9, 0xff, 0xff, 0xff, 0xff, 0xff]);
        out.extend([2, 0, 0, 0, b't', b't', b'r']);
        out
    }

    fn decode_all(entries: &[Vec<u8>], cut: i64) -> Decoded {
        let bytes = entries.concat();
        let mut at = 0;
        let (mut starts, mut stops) = (Vec::new(), Vec::new());
        for entry in entries {
            starts.push(at);
            at += entry.len() as i64;
            stops.push(at - cut);
        }
        let types = vec![1; entries.len()];
        let payloads = Payloads { bytes: &bytes, types: &types, starts: &starts, stops: &stops };
        let (head, item, tail) = (head(), item(), tail());
        let family = Family::new(&head).unwrap().with_list(&item, &tail, 2, 1000).unwrap();
        decode(&payloads, &family, true)
    }

    #[test]
    fn heads_items_and_tails() {
        let found = decode_all(&[entry(0), entry(1)], 0);
        assert_eq!(found.bad, [false, false]);
        assert_eq!(found.first, [0, 2, 4]);
        let fields = found.fields;
        assert_eq!((fields.rows, fields.columns, fields.sized), (2, 5, 2));
        assert_eq!(fields.values[..6], [0, 1, 5, 5, 2, 2]);
        assert_eq!(fields.sizes, [2, 2, 1, 1]);
        assert_eq!(fields.present, [0b11111; 2]);
        let items = found.items.unwrap();
        let states: Vec<_> = items.values.chunks(4).collect();
        assert_eq!(states[0], [1, 9, 1, 9]);
        assert_eq!(states[2], [4 << 32 | 0x03_02_01, -1, 4 << 32 | 0x03_02_01, -1]);
        assert_eq!(states[3], [-7, 0, 0, 0]);
        assert_eq!(items.sizes, [2, -1, 2, -1]);
        assert_eq!(items.present, [0b1111, 0b111, 0b111, 0b111]);
    }

    #[test]
    fn an_entry_that_is_cut_is_bad_and_leaves_the_others_alone() {
        for cut in 2..entry(0).len() as i64 {
            assert_eq!(decode_all(&[entry(0)], cut).bad, [true], "{cut}");
        }
        let mut wild = entry(0);
        wild[5] = 119;
        let found = decode_all(&[wild, entry(0)], 0);
        assert_eq!((found.bad, found.first), (vec![true, false], vec![0, 0, 2]));
    }

    #[test]
    fn bytes_left_over_are_bad_if_all_were_wanted() {
        let head = head();
        let family = Family::new(&head).unwrap();
        let bytes = [0, 5, 0, 0, 0, 2, 9];
        let payloads = Payloads { bytes: &bytes, types: &[1], starts: &[0], stops: &[7] };
        assert_eq!(decode(&payloads, &family, true).bad, [true]);
        assert_eq!(decode(&payloads, &family, false).bad, [false]);
        for (start, stop) in [(-1, 7), (0, 8), (5, 4), (i64::MAX, i64::MAX)] {
            let payloads = Payloads { starts: &[start], stops: &[stop], ..payloads };
            assert_eq!(decode(&payloads, &family, false).bad, [true]);
        }
    }

    #[test]
    fn a_wild_base_stays_in_32_bits() {
        assert_eq!(compact_lsn(0x0000_0101, i64::MAX), 1);
        assert_eq!(compact_lsn(0x0000_0101, i64::from(i32::MAX)), i64::MIN | 1);
        assert_eq!(compact_lsn(0xffff_ff00, 7), -1);
    }

    #[test]
    fn a_repeated_field_is_passed() {
        let mut list = op(Coding::Bytes, -1, -1, &[]);
        list[OP_REPEAT] = 0;
        let ops = [op(Coding::Packed, 0, -1, &[]), list.clone(), op(Coding::U8, 1, -1, &[])];
        let fields = program(&ops, 2, 0);
        let mut values = [0; 2];
        let mut read = |payload: &[u8]| fields.read_one(1, payload, &mut values).map(|_| values[1]);
        assert_eq!(read(&[0, 7]), Some(7));
        assert_eq!(read(&[2, 1, b'a', 0, 8]), Some(8));
        assert_eq!(read(&[2, 1, b'a', 0]), None);
        assert_eq!(read(&[0xff, 7]), None);
        list[OP_CODING] = Coding::Rest as i64;
        let stops = [list.len() as i64; 256];
        assert!(Program::parse(&[0; 256], &stops, &list, 2, 0).is_err());
    }

    #[test]
    fn programs_that_do_not_fit_are_refused() {
        let (head, item, tail) = (head(), item(), tail());
        assert!(Family::new(&item).is_err());
        let family = || Family::new(&head).unwrap();
        assert!(family().with_list(&item, &tail, 3, 10).is_err());
        let wide = program(&[op(Coding::U8, 60, -1, &[])], 61, 0);
        assert!(family().with_list(&item, &wide, 2, 10).is_err());
        let far = program(&[op(Coding::U8, 0, -1, &[[3, 1, 0, 1]])], 1, 0);
        assert!(family().with_list(&far, &tail, 2, 10).is_err());
    }

    proptest! {
        #[test]
        fn any_bytes_decode_inside_their_entry(
            bytes in vec(any::<u8>(), 0..80),
            changes in vec((0_usize..40, any::<u8>()), 0..4),
            (start, stop) in (-2_i64..90, -2_i64..90),
        ) {
            let mut whole = entry(0);
            for (at, byte) in changes {
                if let Some(place) = whole.get_mut(at) {
                    *place = byte;
                }
            }
            let (head, item, tail) = (head(), item(), tail());
            let family = Family::new(&head).unwrap().with_list(&item, &tail, 2, 20).unwrap();
            for bytes in [bytes, whole] {
                let payloads =
                    Payloads { bytes: &bytes, types: &[1], starts: &[start], stops: &[stop] };
                let found = decode(&payloads, &family, true);
                let items = found.items.unwrap();
                prop_assert!(items.rows <= 20 && found.first[1] == items.rows as i64);
                for row in 0..items.rows {
                    let (at, size) = (items.values[items.rows + row], items.sizes[row]);
                    prop_assert!(size < 0 || at >= 0 && at + size <= stop.max(0));
                }
            }
        }

        #[test]
        fn any_numbers_are_a_program_or_refused(
            numbers in vec(-2_i64..12, OP_WIDTH * 2),
            stop in 0_i64..40,
            bytes in vec(any::<u8>(), 0..40),
        ) {
            if let Ok(program) = Program::parse(&[0; 256], &[stop; 256], &numbers, 5, 3) {
                if let Ok(family) = Family::new(&program) {
                    let stops = [bytes.len() as i64];
                    let payloads =
                        Payloads { bytes: &bytes, types: &[1], starts: &[0], stops: &stops };
                    decode(&payloads, &family, true);
                }
            }
        }

        #[test]
        fn any_family_decodes_any_payloads(
            changes in vec((0..3_usize, 0..OP_WIDTH * 4, number()), 0..4),
            (count, most) in (0_usize..4, prop_oneof![0_usize..50, Just(usize::MAX)]),
            (flags, wild) in (0_u8..2, bytes(60)),
            types in vec(any::<u8>(), 0..5),
            (starts, stops) in places(0..5),
            is_whole: bool,
        ) {
            let mut numbers = [
                (head_ops().concat(), 3, 0),
                (item_ops().concat(), 4, 1),
                (tail_ops().concat(), 2, 2),
            ];
            for (program, at, number) in changes {
                if let Some(place) = numbers[program].0.get_mut(at) {
                    *place = number;
                }
            }
            let programs = numbers.map(|(numbers, columns, sized)| {
                Program::parse(&[0; 256], &[numbers.len() as i64; 256], &numbers, columns, sized)
            });
            let [Ok(head), Ok(item), Ok(tail)] = programs else { return Ok(()) };
            let whole = entry(flags);
            let stop = [whole.len() as i64];
            let payloads = [
                Payloads { bytes: &whole, types: &[1], starts: &[0], stops: &stop },
                Payloads { bytes: &wild, types: &types, starts: &starts, stops: &stops },
            ];
            for payloads in payloads {
                let Ok(family) = Family::new(&head) else { continue };
                prop_assert!(decode(&payloads, &family, is_whole).items.is_none());
                let Ok(family) = family.with_list(&item, &tail, count, most) else { continue };
                let found = decode(&payloads, &family, is_whole);
                let rows = found.items.map_or(0, |items| items.rows);
                prop_assert_eq!(found.first.last().copied(), Some(rows as i64));
            }
        }

        #[test]
        fn any_numbers_of_columns_are_a_program_or_refused(
            numbers in numbers(0..OP_WIDTH * 2 + 1),
            (columns, sized) in any::<(usize, usize)>(),
            (start, stop) in (number(), number()),
        ) {
            for (columns, sized) in [(columns, sized), (columns % 70, sized % 70)] {
                if let Ok(program) =
                    Program::parse(&[start; 256], &[stop; 256], &numbers, columns, sized)
                {
                    prop_assert!(program.columns() <= COLUMNS_MAX);
                }
            }
        }
    }
}
