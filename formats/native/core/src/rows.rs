//! Rows of columns as lines of text: JSON lines, CSV and the text of DbDump.
//!
//! A row is its cells one after the other. A cell is a value between two fixed texts, or a third
//! text if the value is null. Each byte is written once.

use crate::spans::{Outside, Spans, Strings};
use crate::text;

/// Number of bytes after the rows that may be overwritten: short texts are copied as blocks.
pub const SLACK: usize = BLOCK;

const BLOCK: usize = 32;

/// A fixed text.
#[derive(Clone, Copy, Debug)]
pub struct Label<'a> {
    bytes: &'a [u8],
    block: [u8; BLOCK],
}

impl<'a> Label<'a> {
    /// Returns a label with this text.
    pub fn new(bytes: &'a [u8]) -> Self {
        let mut block = [0; BLOCK];
        for (place, &byte) in block.iter_mut().zip(bytes) {
            *place = byte;
        }
        Self { bytes, block }
    }
}

/// Values of a cell, one per row.
#[derive(Debug)]
pub enum Values<'a> {
    /// No values.
    Nothing,
    /// Byte strings, as two lower-case hexadecimal digits per byte.
    Hex(Spans<'a>),
    /// Byte strings, in the format of [`text::PRINTED`].
    Print(Spans<'a>),
    /// Byte strings, unchanged.
    Text(Spans<'a>),
    /// Decimal numbers.
    Decimal(&'a [i64]),
    /// LSNs, as `0x3/0x1a2f`.
    Lsn(&'a [i64]),
    /// Lists of rows of a table, joined by commas: list i runs from number i up to number i + 1.
    List(&'a [i64], Box<Table<'a>>),
    /// One row of one of several tables: index of the table, negative for null, and of its row.
    Choice(&'a [i64], &'a [i64], Vec<Table<'a>>),
}

impl Values<'_> {
    /// Returns true if there are values for `rows` rows.
    fn has_rows(&self, rows: usize) -> bool {
        match self {
            Values::Nothing => true,
            Values::Hex(spans) | Values::Print(spans) | Values::Text(spans) => spans.len() == rows,
            Values::Decimal(numbers) | Values::Lsn(numbers) => numbers.len() == rows,
            Values::List(first, _) => first.len().checked_sub(1) == Some(rows),
            Values::Choice(tables, places, _) => tables.len() == rows && places.len() == rows,
        }
    }

    /// Returns an upper bound of the size of all values.
    ///
    /// Returns `None` if it overflows, or if a value of `Print` is outside its buffer.
    fn bound(&self, rows: usize) -> Option<usize> {
        let size_of = |spans: &Spans<'_>, unit: usize| {
            spans.sizes().iter().try_fold(0_usize, |total, &size| {
                total.checked_add(usize::try_from(size).unwrap_or(0).checked_mul(unit)?)
            })
        };
        match self {
            Values::Nothing => Some(0),
            Values::Hex(spans) => size_of(spans, 2),
            Values::Text(spans) => size_of(spans, 1),
            Values::Print(spans) => spans.iter().try_fold(0_usize, |total, value| {
                total.checked_add(value.ok()?.map_or(0, text::printed_size))
            }),
            Values::Decimal(_) => rows.checked_mul(text::DECIMAL_MAX),
            Values::Lsn(_) => rows.checked_mul(text::LSN_MAX),
            Values::List(_, table) => table.bound()?.checked_add(table.rows),
            Values::Choice(_, _, tables) => {
                tables.iter().try_fold(0_usize, |total, table| total.checked_add(table.bound()?))
            }
        }
    }
}

/// One column of the rows.
#[derive(Debug)]
pub struct Cell<'a> {
    /// Text before a value; its leading comma is omitted right after a cell that opens.
    pub before: Label<'a>,
    /// Text after a value.
    pub after: Label<'a>,
    /// Text for a null value, in place of all three; its leading comma is treated alike.
    pub instead: Label<'a>,
    /// The values.
    pub values: Values<'a>,
    /// True for rows whose value is not null; `None` for all rows.
    pub valid: Option<&'a [bool]>,
    /// Bits of each row, and the index of the bit without which the cell is omitted.
    pub present: Option<(&'a [i64], u32)>,
    /// True if the leading comma of the next text is omitted.
    pub opens: bool,
}

/// Rows to write.
#[derive(Debug)]
pub struct Table<'a> {
    rows: usize,
    cells: Vec<Cell<'a>>,
}

/// Reason why rows were not written: a bug in the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// A span is outside its buffer, a row is outside its table, or `ends` has another length.
    Outside,
    /// The buffer is too short.
    Full,
}

impl From<Outside> for Failure {
    fn from(_: Outside) -> Self {
        Self::Outside
    }
}

impl<'a> Table<'a> {
    /// Returns a table of cells, whose columns must have `rows` elements.
    pub fn new(rows: usize, cells: Vec<Cell<'a>>) -> Result<Self, Outside> {
        let fits = |cell: &Cell<'_>| {
            cell.values.has_rows(rows)
                && cell.valid.is_none_or(|valid| valid.len() == rows)
                && cell.present.is_none_or(|(bits, bit)| bits.len() == rows && bit < 64)
        };
        if cells.iter().all(fits) { Ok(Self { rows, cells }) } else { Err(Outside) }
    }

    /// Returns an upper bound of the size of all rows, or `None` if it exceeds all memory.
    ///
    /// The bound requires that each row of a table inside is used at most once.
    pub fn bound(&self) -> Option<usize> {
        self.cells.iter().try_fold(0_usize, |total, cell| {
            let around = cell.before.bytes.len().checked_add(cell.after.bytes.len())?;
            let around = around.max(cell.instead.bytes.len()).checked_mul(self.rows)?;
            total.checked_add(around)?.checked_add(cell.values.bound(self.rows)?)
        })
    }

    /// Writes all rows to `out`, which has room for [`SLACK`] more bytes; returns the offset after
    /// them.
    ///
    /// Fills `ends` with the end of each row.
    pub fn write(&self, out: &mut [u8], ends: Option<&mut [i64]>) -> Result<usize, Failure> {
        let mut out = Out { bytes: out, at: 0 };
        match ends {
            Some(ends) if ends.len() != self.rows => return Err(Failure::Outside),
            Some(ends) => {
                for (row, end) in ends.iter_mut().enumerate() {
                    self.look_ahead(row);
                    self.write_row(&mut out, row)?;
                    *end = out.at as i64;
                }
            }
            None => {
                for row in 0..self.rows {
                    self.look_ahead(row);
                    self.write_row(&mut out, row)?;
                }
            }
        }
        Ok(out.at)
    }

    /// Returns the start of each row and the end of the last, and the bytes of the rows.
    ///
    /// Returns `None` if they might have more than `most` bytes.
    pub fn texts(&self, most: usize) -> Result<Option<Strings>, Failure> {
        let Some(bound) = self.bound().filter(|&bound| bound <= most) else { return Ok(None) };
        let mut bytes = vec![0; bound + SLACK];
        let mut ends = vec![0; self.rows];
        let size = self.write(&mut bytes, Some(&mut ends))?;
        // The bound may be several times as long.
        bytes.truncate(size);
        bytes.shrink_to_fit();
        let offsets = std::iter::once(0).chain(ends.into_iter().map(|end| end as i32));
        Ok(Some((offsets.collect(), bytes)))
    }

    /// Loads a byte of each of the next strings, so that cache misses overlap: they may lie
    /// anywhere.
    #[inline]
    fn look_ahead(&self, row: usize) {
        if row % ROWS_AHEAD != 0 {
            return;
        }
        let mut sum = 0;
        for cell in &self.cells {
            if let Values::Hex(spans) | Values::Print(spans) = &cell.values {
                for next in row..self.rows.min(row + ROWS_AHEAD) {
                    let value = spans.get(next).ok().flatten();
                    sum ^= value.and_then(|value| value.first()).copied().unwrap_or(0);
                }
            }
        }
        std::hint::black_box(sum);
    }

    fn write_row(&self, out: &mut Out<'_>, row: usize) -> Result<(), Failure> {
        let mut opened = usize::MAX;
        for cell in &self.cells {
            let is_there = |(bits, bit): (&[i64], u32)| bits[row] >> bit & 1 != 0;
            if !cell.present.is_none_or(is_there) {
                continue;
            }
            let is_known = cell.valid.is_none_or(|valid| valid[row]);
            if !(is_known && out.put_cell(cell, row, opened)?) {
                out.put_label(&cell.instead, opened)?;
            }
            if cell.opens {
                opened = out.at;
            }
        }
        Ok(())
    }
}

const ROWS_AHEAD: usize = 8;

/// An output buffer, and the number of bytes written.
struct Out<'a> {
    bytes: &'a mut [u8],
    at: usize,
}

impl Out<'_> {
    /// Writes a value and the texts around it; returns false, with nothing written, if it is null.
    #[inline]
    fn put_cell(&mut self, cell: &Cell<'_>, row: usize, opened: usize) -> Result<bool, Failure> {
        match &cell.values {
            Values::Nothing => self.put_label(&cell.before, opened)?,
            Values::Hex(spans) | Values::Print(spans) | Values::Text(spans) => {
                let Some(value) = spans.get(row)? else { return Ok(false) };
                self.put_label(&cell.before, opened)?;
                match cell.values {
                    Values::Hex(_) => self.put_hex(value)?,
                    Values::Print(_) => self.put_printed(value)?,
                    _ => self.put(value)?,
                }
            }
            Values::Decimal(numbers) => {
                self.put_label(&cell.before, opened)?;
                self.at += text::put_decimal(numbers[row], self.block()?);
            }
            Values::Lsn(lsns) => {
                self.put_label(&cell.before, opened)?;
                self.at += text::put_lsn(lsns[row], self.block()?);
            }
            Values::List(first, table) => {
                self.put_label(&cell.before, opened)?;
                self.put_list(first[row], first[row + 1], table)?;
            }
            Values::Choice(tables, places, of) => {
                let Ok(table) = usize::try_from(tables[row]) else { return Ok(false) };
                let table = of.get(table).ok_or(Failure::Outside)?;
                self.put_label(&cell.before, opened)?;
                table.write_row(self, row_of(table, places[row])?)?;
            }
        }
        self.put_label(&cell.after, usize::MAX)?;
        Ok(true)
    }

    fn put_list(&mut self, first: i64, stop: i64, table: &Table<'_>) -> Result<(), Failure> {
        for item in first..stop {
            if item > first {
                self.put(b",")?;
            }
            table.write_row(self, row_of(table, item)?)?;
        }
        Ok(())
    }

    #[inline]
    fn put(&mut self, piece: &[u8]) -> Result<(), Failure> {
        let after = self.at + piece.len();
        let place = self.bytes.get_mut(self.at..after).ok_or(Failure::Full)?;
        place.copy_from_slice(piece);
        self.at = after;
        Ok(())
    }

    /// Returns the next bytes to write to.
    #[inline]
    fn block<const N: usize>(&mut self) -> Result<&mut [u8; N], Failure> {
        let rest = self.bytes.get_mut(self.at..).ok_or(Failure::Full)?;
        rest.first_chunk_mut().ok_or(Failure::Full)
    }

    /// Writes the first `size` bytes of a block, whose size is known at compile time.
    #[inline]
    fn put_block<const N: usize>(&mut self, block: &[u8; N], size: usize) -> Result<(), Failure> {
        *self.block()? = *block;
        self.at += size;
        Ok(())
    }

    #[inline]
    fn put_label(&mut self, label: &Label<'_>, opened: usize) -> Result<(), Failure> {
        let bytes = label.bytes;
        if self.at == opened {
            return self.put(bytes.strip_prefix(b",").unwrap_or(bytes));
        }
        if bytes.is_empty() {
            Ok(())
        } else if bytes.len() <= BLOCK {
            self.put_block(&label.block, bytes.len())
        } else {
            self.put(bytes)
        }
    }

    #[inline]
    fn put_hex(&mut self, value: &[u8]) -> Result<(), Failure> {
        let size = value.len().checked_mul(2).ok_or(Failure::Full)?;
        let after = self.at.checked_add(size).ok_or(Failure::Full)?;
        text::put_hex(value, self.bytes.get_mut(self.at..after).ok_or(Failure::Full)?);
        self.at = after;
        Ok(())
    }

    fn put_printed(&mut self, value: &[u8]) -> Result<(), Failure> {
        for &byte in value {
            let printed = &text::PRINTED[usize::from(byte)];
            self.put_block(printed, usize::from(printed[3]))?;
        }
        Ok(())
    }
}

fn row_of(table: &Table<'_>, row: i64) -> Result<usize, Failure> {
    usize::try_from(row).ok().filter(|&row| row < table.rows).ok_or(Failure::Outside)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{bytes, numbers, places};
    use proptest::prelude::*;

    fn cell<'a>(before: &'a [u8], values: Values<'a>, after: &'a [u8]) -> Cell<'a> {
        let [before, after, instead] = [before, after, b"null"].map(Label::new);
        Cell { before, after, instead, values, valid: None, present: None, opens: false }
    }

    fn lines(table: &Table<'_>) -> String {
        let bound = table.bound().unwrap();
        let mut out = vec![b'?'; bound + SLACK];
        let mut ends = vec![0; table.rows];
        let end = table.write(&mut out, Some(&mut ends)).unwrap();
        assert!(end <= bound);
        assert_eq!(ends.last().map_or(0, |&end| end as usize), end);
        assert_eq!(table.write(&mut out, None), Ok(end));
        let (offsets, bytes) = table.texts(bound).unwrap().unwrap();
        assert_eq!(bytes, out[..end]);
        assert!(offsets.into_iter().skip(1).map(i64::from).eq(ends));
        assert_eq!(table.texts(bound.wrapping_sub(1)).unwrap().is_none(), bound > 0);
        String::from_utf8(out[..end].to_vec()).unwrap()
    }

    fn spans() -> Spans<'static> {
        Spans::new(b"a\\\n0123456789abcdefghi", &[0, 0, 0], &[3, -1, 22]).unwrap()
    }

    #[test]
    fn forms_of_values() {
        let numbers = [0, -1, i64::MIN];
        let long = b"a label that is longer than a block of bytes ";
        let cells = vec![
            cell(b"<", Values::Print(spans()), b">"),
            cell(b" ", Values::Decimal(&numbers), b""),
            cell(long, Values::Lsn(&numbers), b"\n"),
        ];
        let long = String::from_utf8_lossy(long);
        let told = format!(
            "<a\\\\\\0a> 0{long}0x0/0x0\nnull -1{long}0xffffffff/0xffffffff\n\
             <a\\\\\\0a0123456789abcdefghi> {}{long}0x80000000/0x0\n",
            i64::MIN
        );
        assert_eq!(lines(&Table::new(3, cells).unwrap()), told);
        let cells =
            vec![cell(b"", Values::Hex(spans()), b","), cell(b"", Values::Text(spans()), b"")];
        let told = "615c0a,a\\\nnullnull615c0a30313233343536373839616263646566676869,\
                    a\\\n0123456789abcdefghi";
        assert_eq!(lines(&Table::new(3, cells).unwrap()), told);
    }

    #[test]
    fn commas_after_what_opens() {
        let bits = [0, 1, 2, 3];
        let field = |label: &'static [u8], bit| Cell {
            present: Some((&bits, bit)),
            ..cell(label, Values::Decimal(&[7; 4]), b"")
        };
        let open = Cell { opens: true, ..cell(b"{", Values::Nothing, b"") };
        let close = cell(b"}\n", Values::Nothing, b"");
        let table = Table::new(4, vec![open, field(b",a:", 0), field(b",b:", 1), close]).unwrap();
        assert_eq!(lines(&table), "{}\n{a:7}\n{b:7}\n{a:7,b:7}\n");
    }

    #[test]
    fn tables_inside() {
        let item = || Table::new(3, vec![cell(b"(", Values::Decimal(&[1, 2, 3]), b")")]).unwrap();
        let list = Values::List(&[0, 2, 2, 3], Box::new(item()));
        let choice = Values::Choice(&[1, -1, 0], &[0, 9, 2], vec![item(), item()]);
        let cells = vec![cell(b"[", list, b"]"), cell(b" ", choice, b"\n")];
        assert_eq!(lines(&Table::new(3, cells).unwrap()), "[(1),(2)] (1)\n[]null[(3)] (3)\n");
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        assert!(Table::new(2, vec![cell(b"", Values::Decimal(&[1]), b"")]).is_err());
        let valid = Cell { valid: Some(&[true]), ..cell(b"", Values::Nothing, b"") };
        assert!(Table::new(2, vec![valid]).is_err());
        let item = Table::new(0, vec![]).unwrap();
        let list = Values::List(&[], Box::new(item));
        assert!(Table::new(usize::MAX, vec![cell(b"", list, b"")]).is_err());
        let wrong = Spans::new(b"abc", &[2], &[2]).unwrap();
        let table = Table::new(1, vec![cell(b"", Values::Text(wrong), b"")]).unwrap();
        assert_eq!(table.write(&mut [0; 99], None), Err(Failure::Outside));
        let table = Table::new(1, vec![cell(b"", Values::Decimal(&[12]), b"")]).unwrap();
        assert_eq!(table.write(&mut [0; 1], None), Err(Failure::Full));
        assert_eq!(table.write(&mut [0; 99], Some(&mut [])), Err(Failure::Outside));
        let item = Table::new(0, vec![]).unwrap();
        let table = Table::new(1, vec![cell(b"", Values::Choice(&[0], &[0], vec![item]), b"")]);
        assert_eq!(table.unwrap().write(&mut [0; 99], None), Err(Failure::Outside));
    }

    proptest! {
        #[test]
        fn any_values_stay_below_their_bound(
            rows in proptest::collection::vec(
                (proptest::collection::vec(any::<u8>(), 0..50), any::<bool>(), any::<i64>()), 0..9),
        ) {
            let data: Vec<u8> = rows.iter().flat_map(|row| row.0.clone()).collect();
            let lengths = || rows.iter().map(|row| row.0.len() as i64);
            let starts: Vec<i64> =
                lengths().scan(0, |at, size| { *at += size; Some(*at - size) }).collect();
            let sizes: Vec<i64> =
                lengths().zip(&rows).map(|(size, row)| if row.1 { size } else { -1 }).collect();
            let numbers: Vec<i64> = rows.iter().map(|row| row.2).collect();
            let valid: Vec<bool> = rows.iter().map(|row| row.1).collect();
            let spans = Spans::new(&data, &starts, &sizes).unwrap();
            let cells = vec![
                cell(b"{", Values::Hex(spans), b","),
                cell(b"", Values::Print(spans), b","),
                Cell { valid: Some(&valid), ..cell(b"n", Values::Decimal(&numbers), b"") },
                Cell { present: Some((&numbers, 63)), ..cell(b"l", Values::Lsn(&numbers), b"") },
            ];
            let told: String = rows.iter().map(|(bytes, is_valid, number)| {
                let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
                let print = bytes.iter().map(|&byte| match byte {
                    b'\\' => "\\\\".to_owned(),
                    33..=126 => char::from(byte).to_string(),
                    _ => format!("\\{byte:02x}"),
                });
                let print: String = print.collect();
                let first = if *is_valid { format!("{{{hex},{print},n{number}") }
                    else { "nullnullnull".to_owned() };
                let (high, low) = (number >> 32 & 0xffff_ffff, number & 0xffff_ffff);
                let last = if *number < 0 { format!("l0x{high:x}/0x{low:x}") } else { String::new() };
                first + &last
            }).collect();
            prop_assert_eq!(lines(&Table::new(rows.len(), cells).unwrap()), told);
        }

        #[test]
        fn any_tables_are_written_inside_the_room(
            data in bytes(40),
            (starts, sizes) in places(0..5),
            (first, spare) in (numbers(6), numbers(5)),
            (tables, rows) in (numbers(5), numbers(5)),
            valid in proptest::collection::vec(any::<bool>(), 5),
            (inner, bit, form) in (0_usize..4, 0_u32..70, 0_usize..6),
            (before, instead) in (bytes(40), bytes(3)),
            room in 0_usize..400,
        ) {
            let n = starts.len();
            let spans = Spans::new(&data, &starts, &sizes).unwrap();
            let item = || {
                Table::new(inner, vec![cell(b",", Values::Decimal(&first[..inner]), b"")]).unwrap()
            };
            let values = match form {
                0 => Values::Hex(spans),
                1 => Values::Print(spans),
                2 => Values::Text(spans),
                3 => Values::Lsn(&spare[..n]),
                4 => Values::List(&first[..n + 1], Box::new(item())),
                _ => Values::Choice(&tables[..n], &rows[..n], vec![item(), item()]),
            };
            let some = Cell {
                instead: Label::new(&instead),
                valid: Some(&valid[..n]),
                present: Some((&spare[..n], bit)),
                ..cell(&before, values, b"]")
            };
            let open = Cell { opens: true, ..cell(b"[", Values::Nothing, b"") };
            let table = Table::new(n, vec![open, some]);
            prop_assert_eq!(table.is_ok(), bit < 64);
            let Ok(table) = table else { return Ok(()) };
            table.bound();
            let (mut out, mut ends) = (vec![0; room], vec![0; n]);
            let found = table.write(&mut out, None);
            prop_assert!(found.is_ok_and(|end| end <= room) || found.is_err());
            prop_assert_eq!(table.write(&mut out, Some(&mut ends)), found);
        }
    }
}
