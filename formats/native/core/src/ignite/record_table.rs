//! Records of a window as rows of a table: one for each entry of a data record, one for each other
//! record.
//!
//! A declared layout says, for each field of a type, which column of the table it is. The other
//! fields are columns of their type.

use crate::ignite::entries::{self, DataEntry, Shape};
use crate::ignite::fields::{self, Coding, Cursor, Payloads};

/// Column of numbers; `record_table.NumberColumn` describes each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[expect(missing_docs, reason = "described where Python declares them")]
pub enum NumberColumn {
    TimeMs = 0,
    GroupId = 1,
    PageId = 2,
    CacheId = 3,
    Partition = 4,
    Entry = 5,
    Op = 6,
    State = 7,
    Counter = 8,
    ExpireMs = 9,
    Flags = 10,
    KeyType = 11,
    ValueType = 12,
    NearTopology = 13,
    NearNode = 14,
    NearOrder = 15,
    VersionTopology = 16,
    VersionNode = 17,
    VersionOrder = 18,
}

/// Number of columns of numbers.
pub const TABLE_COLUMNS: usize = 19;

/// Use of a field; `record_table.FieldUse` describes each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[expect(missing_docs, reason = "described where Python declares them")]
pub enum FieldUse {
    Own = 0,
    Number = 1,
    PartitionState = 2,
    Page = 3,
    Version = 4,
    Key = 5,
    Value = 6,
    Cipher = 7,
}

impl FieldUse {
    /// Returns the use with a number.
    pub fn of(number: u8) -> Option<Self> {
        const ALL: [FieldUse; 8] = [
            FieldUse::Own,
            FieldUse::Number,
            FieldUse::PartitionState,
            FieldUse::Page,
            FieldUse::Version,
            FieldUse::Key,
            FieldUse::Value,
            FieldUse::Cipher,
        ];
        ALL.get(usize::from(number)).copied()
    }
}

/// Number that is added to the state of a partition, to tell it from that of a transaction.
pub const PARTITION_STATE: i64 = 256;

/// Bits of a page's id that are below those of its partition.
const PARTITION_SHIFT: u32 = 32;

/// One field of a type.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// Its encoding.
    pub coding: Coding,
    /// Its use.
    pub used: FieldUse,
    /// The first of its columns of the table, if it is a number or a version.
    pub column: usize,
}

/// Fields of a type.
#[derive(Clone, Debug, Default)]
pub struct Layout {
    codings: Vec<Coding>,
    /// Use, column of the table, and first of the numbers that [`fields::read`] returns for it.
    uses: Vec<(FieldUse, usize, usize)>,
    own: Vec<std::ops::Range<usize>>,
    is_cipher: bool,
    is_data: bool,
}

impl Layout {
    /// Returns the layout of a type with these fields, or of data records, which are entries.
    pub fn new(fields: &[Field], is_data: bool) -> Self {
        let mut made = Self { is_data, ..Self::default() };
        let mut at = 0;
        for field in fields {
            made.codings.push(field.coding);
            match field.used {
                FieldUse::Own => made.own.push(at..at + field.coding.columns()),
                used => made.uses.push((used, field.column, at)),
            }
            made.is_cipher |= field.used == FieldUse::Cipher;
            at += field.coding.columns();
        }
        made
    }

    fn own_columns(&self) -> usize {
        self.own.iter().map(ExactSizeIterator::len).sum()
    }
}

/// Entry at which the next call continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Its record.
    pub record: usize,
    /// Its start in the buffer.
    pub at: i64,
    /// Number of entries of the record before it.
    pub ordinal: i64,
    /// True if the record does not decode to its end.
    pub bad: bool,
}

/// Fields that are no columns of the table, of the records of one type that decode.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct OwnFields {
    /// Index of the type.
    pub type_no: u8,
    /// Records, ascending.
    pub records: Vec<i64>,
    /// Columns, one after the other, each as long as `records`.
    pub columns: Vec<i64>,
    /// Number of columns.
    pub width: usize,
}

/// Rows in columns of one length.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Rows {
    /// Record of each row.
    pub record: Vec<i64>,
    /// Numbers of each [`NumberColumn`].
    pub numbers: Vec<Vec<i64>>,
    /// True for each row that has the number.
    pub valid: Vec<Vec<bool>>,
    /// Start and size of the key; size -1 for none.
    pub key: (Vec<i64>, Vec<i64>),
    /// Start and size of the value; size -1 for none.
    pub value: (Vec<i64>, Vec<i64>),
    /// True for each row of which only cipher text is known.
    pub is_encrypted: Vec<bool>,
    /// True for each row whose record does not decode to its end.
    pub bad: Vec<bool>,
    /// Fields that are no columns of the table, of each type that occurs and has some.
    pub own: Vec<OwnFields>,
    /// The entry after the last row; `None` if there is none.
    pub next: Option<Place>,
}

impl Rows {
    /// Returns columns of nothing, with room for rows.
    fn with_room(rows: usize) -> Self {
        let mut made = Self {
            numbers: vec![Vec::new(); TABLE_COLUMNS],
            valid: vec![Vec::new(); TABLE_COLUMNS],
            ..Self::default()
        };
        made.resize(rows);
        made
    }

    fn resize(&mut self, rows: usize) {
        self.numbers.iter_mut().for_each(|column| column.resize(rows, 0));
        self.valid.iter_mut().for_each(|column| column.resize(rows, false));
        for (starts, sizes) in [&mut self.key, &mut self.value] {
            starts.resize(rows, 0);
            sizes.resize(rows, -1);
        }
        self.is_encrypted.resize(rows, false);
        self.bad.resize(rows, false);
    }

    /// Adds a row of a record that has nothing yet; returns its index.
    #[inline]
    fn add(&mut self, record: usize) -> usize {
        let row = self.record.len();
        if row == self.bad.len() {
            self.resize(row.saturating_mul(2).max(ROOM_MIN));
        }
        self.record.push(record as i64);
        row
    }

    /// Adds a row of a record that does not decode: its value is the whole payload.
    fn add_bad(&mut self, record: usize, (start, end): (i64, i64)) -> usize {
        let row = self.add(record);
        put_span(&mut self.value, row, [start, end.saturating_sub(start)]);
        mark(&mut self.bad, row, true);
        row
    }

    #[inline]
    fn put(&mut self, row: usize, column: usize, number: i64) {
        let column = self.numbers.get_mut(column).zip(self.valid.get_mut(column));
        let place = column.and_then(|(column, valid)| column.get_mut(row).zip(valid.get_mut(row)));
        if let Some((place, valid)) = place {
            (*place, *valid) = (number, true);
        }
    }

    #[inline]
    fn put_version(&mut self, row: usize, column: usize, [parts, numbers @ ..]: [i64; 4]) {
        if parts > 0 {
            let columns = numbers.into_iter().zip(column..);
            columns.for_each(|(number, column)| self.put(row, column, number));
        }
    }

    /// Sets the columns of a field.
    #[inline]
    fn put_field(&mut self, row: usize, used: FieldUse, column: usize, found: &[i64]) {
        match (used, found) {
            (FieldUse::Number, &[number, ..]) => self.put(row, column, number),
            (FieldUse::PartitionState, &[state, ..]) => {
                self.put(row, column, state.saturating_add(PARTITION_STATE));
            }
            (FieldUse::Page, &[page, ..]) => {
                self.put(row, column, page);
                let partition = page >> PARTITION_SHIFT & 0xffff;
                self.put(row, NumberColumn::Partition as usize, partition);
            }
            (FieldUse::Version, &[parts, topology, node, order, ..]) => {
                self.put_version(row, column, [parts, topology, node, order]);
            }
            (FieldUse::Key, &[start, size, ..]) => put_span(&mut self.key, row, [start, size]),
            (FieldUse::Value | FieldUse::Cipher, &[start, size, ..]) => {
                put_span(&mut self.value, row, [start, size]);
            }
            _ => {}
        }
    }

    /// Sets the columns that an entry has.
    fn put_entry(&mut self, row: usize, entry: &DataEntry) {
        use NumberColumn as To;
        put_span(&mut self.value, row, entry.value);
        if let Some(group) = entry.group {
            mark(&mut self.is_encrypted, row, true);
            self.put(row, To::GroupId as usize, group);
            return;
        }
        put_span(&mut self.key, row, entry.key);
        self.put(row, To::CacheId as usize, entry.cache);
        self.put(row, To::KeyType as usize, entry.key_type);
        self.put(row, To::Op as usize, entry.op);
        self.put_version(row, To::NearTopology as usize, entry.near);
        self.put_version(row, To::VersionTopology as usize, entry.version);
        self.put(row, To::Partition as usize, entry.partition);
        self.put(row, To::Counter as usize, entry.counter);
        if entry.value_type >= 0 {
            self.put(row, To::ValueType as usize, entry.value_type);
        }
        if entry.expire != 0 {
            self.put(row, To::ExpireMs as usize, entry.expire);
        }
        if entry.flags >= 0 {
            self.put(row, To::Flags as usize, entry.flags);
        }
    }
}

/// Smallest number of rows to which columns grow.
const ROOM_MIN: usize = 64;

#[inline]
fn put_span((starts, sizes): &mut (Vec<i64>, Vec<i64>), row: usize, [start, size]: [i64; 2]) {
    if let Some((to_start, to_size)) = starts.get_mut(row).zip(sizes.get_mut(row)) {
        (*to_start, *to_size) = (start, size);
    }
}

#[inline]
fn mark(column: &mut [bool], row: usize, value: bool) {
    if let Some(place) = column.get_mut(row) {
        *place = value;
    }
}

/// Reads records into rows.
struct Reader<'a> {
    payloads: Payloads<'a>,
    layouts: &'a [Layout],
    rows: Rows,
    /// Fields of the types, as in [`Rows::own`], but row by row.
    own: Vec<OwnFields>,
    /// Numbers of the fields of one record.
    found: Vec<i64>,
    /// Number of entries for which there is room.
    room: usize,
}

/// Returns rows of the records from `from` on, of at most `most` entries.
///
/// A type without a layout has no fields, so that only a record without a payload decodes. All
/// entries of a record are read before the first becomes a row, so that each row shows whether its
/// record decodes to its end.
pub fn rows(
    payloads: Payloads<'_>,
    types: &[u8],
    layouts: &[Layout],
    from: Option<Place>,
    most: usize,
) -> Rows {
    let count = payloads.starts.len().min(payloads.ends.len()).min(types.len());
    let first = from.map_or(0, |from| from.record);
    let mut reader = Reader {
        payloads,
        layouts,
        rows: Rows::with_room(count.saturating_sub(first)),
        own: Vec::new(),
        found: Vec::new(),
        room: most,
    };
    let nothing = Layout::default();
    let spans = payloads.starts.iter().copied().zip(payloads.ends.iter().copied()).zip(types);
    for (record, (span, &type_no)) in spans.enumerate().skip(first) {
        let layout = reader.layouts.get(usize::from(type_no)).unwrap_or(&nothing);
        if layout.is_data {
            let from = from.filter(|from| from.record == record);
            if reader.add_entries(record, span, type_no, from).is_none() {
                break;
            }
        } else {
            reader.add_record(record, span, type_no, layout);
        }
    }
    let mut rows = reader.rows;
    rows.resize(rows.record.len());
    rows.own = reader.own.into_iter().map(in_columns).collect();
    rows
}

/// Returns fields that are stored row by row in columns.
fn in_columns(own: OwnFields) -> OwnFields {
    let OwnFields { width, .. } = own;
    let column = |i| own.columns.iter().skip(i).step_by(width.max(1)).copied();
    OwnFields { columns: (0..width).flat_map(column).collect(), ..own }
}

impl Reader<'_> {
    fn add_record(&mut self, record: usize, span: (i64, i64), type_no: u8, layout: &Layout) {
        let Payloads { bytes, order, .. } = self.payloads;
        let mut cursor = Cursor::new(bytes, span.0, span.1, order);
        let found = &mut self.found;
        found.clear();
        let put = |numbers: &[i64]| found.extend_from_slice(numbers);
        let whole = fields::read(&mut cursor, &layout.codings, put);
        if whole.is_none() || !cursor.is_done() {
            let row = self.rows.add_bad(record, span);
            mark(&mut self.rows.is_encrypted, row, layout.is_cipher);
            return;
        }
        let row = self.rows.add(record);
        for &(used, column, at) in &layout.uses {
            self.rows.put_field(row, used, column, self.found.get(at..).unwrap_or_default());
        }
        mark(&mut self.rows.is_encrypted, row, layout.is_cipher);
        if layout.own.is_empty() {
            return;
        }
        let index = self.own.iter().position(|own| own.type_no == type_no).unwrap_or_else(|| {
            let width = layout.own_columns();
            self.own.push(OwnFields { type_no, width, ..OwnFields::default() });
            self.own.len() - 1
        });
        let own = &mut self.own[index];
        own.records.push(record as i64);
        for range in &layout.own {
            own.columns.extend_from_slice(self.found.get(range.clone()).unwrap_or_default());
        }
    }

    /// Adds the entries of a data record; returns `None` if there was no room for all.
    fn add_entries(
        &mut self,
        record: usize,
        span: (i64, i64),
        type_no: u8,
        from: Option<Place>,
    ) -> Option<()> {
        let Payloads { bytes, order, .. } = self.payloads;
        let shape = Shape::of(type_no);
        let mut cursor = Cursor::new(bytes, span.0, span.1, order);
        let Some([count, time]) = entries::read_header(&mut cursor) else {
            self.rows.add_bad(record, span);
            return Some(());
        };
        let bad = match from {
            Some(from) => {
                cursor = Cursor::new(bytes, from.at, span.1, order);
                from.bad
            }
            None => !decodes(cursor, shape, count),
        };
        let first = from.map_or(0, |from| from.ordinal);
        for ordinal in first..count {
            let at = cursor.position();
            let Some(entry) = entries::read(&mut cursor, shape) else { break };
            if self.room == 0 {
                self.rows.next = Some(Place { record, at, ordinal, bad });
                return None;
            }
            self.room -= 1;
            let row = self.rows.add(record);
            self.rows.put_entry(row, &entry);
            self.rows.put(row, NumberColumn::Entry as usize, ordinal);
            self.rows.put(row, NumberColumn::TimeMs as usize, time);
            mark(&mut self.rows.bad, row, bad);
        }
        if first == 0 && self.rows.record.last() != Some(&(record as i64)) {
            let rows = &mut self.rows;
            let row = if bad { rows.add_bad(record, span) } else { rows.add(record) };
            rows.put(row, NumberColumn::TimeMs as usize, time);
        }
        Some(())
    }
}

/// Returns true if exactly `count` entries are left before the end of a cursor.
fn decodes(mut cursor: Cursor<'_>, shape: Shape, count: i64) -> bool {
    // Each entry has bytes, so a forged number ends at the end of the payload.
    count >= 0
        && (0..count).all(|_| entries::read(&mut cursor, shape).is_some())
        && cursor.is_done()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ignite::order::Order;
    use crate::testing::{bytes, places};
    use proptest::prelude::*;

    const DATA: u8 = 1;

    /// Returns layouts of three types: pages with a number of their own, data records, cipher text.
    fn layouts() -> Vec<Layout> {
        let number =
            |coding, used, column: NumberColumn| Field { coding, used, column: column as usize };
        let own = |coding| Field { coding, used: FieldUse::Own, column: 0 };
        let page = [
            number(Coding::I4, FieldUse::Number, NumberColumn::GroupId),
            number(Coding::Page, FieldUse::Page, NumberColumn::PageId),
            own(Coding::U2),
            number(Coding::U1, FieldUse::PartitionState, NumberColumn::State),
            own(Coding::Bytes2),
        ];
        let cipher = [
            number(Coding::Version, FieldUse::Version, NumberColumn::NearTopology),
            number(Coding::Bytes2, FieldUse::Key, NumberColumn::TimeMs),
            number(Coding::Rest, FieldUse::Cipher, NumberColumn::TimeMs),
        ];
        vec![Layout::new(&page, false), Layout::new(&[], true), Layout::new(&cipher, false)]
    }

    fn read(payloads: &[&[u8]], types: &[u8], from: Option<Place>, most: usize) -> Rows {
        let ends: Vec<_> = payloads
            .iter()
            .scan(0, |end, payload| {
                *end += payload.len() as i64;
                Some(*end)
            })
            .collect();
        let starts: Vec<_> =
            ends.iter().zip(payloads).map(|(end, payload)| end - payload.len() as i64).collect();
        let bytes = payloads.concat();
        let payloads =
            Payloads { bytes: &bytes, starts: &starts, ends: &ends, order: Order::Little };
        rows(payloads, types, &layouts(), from, most)
    }

    fn numbers(rows: &Rows, column: NumberColumn) -> Vec<Option<i64>> {
        let (numbers, valid) = (&rows.numbers[column as usize], &rows.valid[column as usize]);
        numbers.iter().zip(valid).map(|(&number, &valid)| valid.then_some(number)).collect()
    }

    #[test]
    fn fields_are_columns_of_the_table_or_of_their_type() {
        let page = b"\x07\0\0\0\x02\0\0\0\x05\0\x01\0\x09\0\x03\x02\0ab";
        let cipher = b"\x01\x05\0\0\0\x06\0\0\0\x07\0\0\0\0\0\0\0\x01\0kxyz";
        let found = read(&[page, cipher, &page[..12]], &[0, 2, 0], None, 9);
        assert_eq!(found.record, [0, 1, 2]);
        assert_eq!(numbers(&found, NumberColumn::GroupId), [Some(7), None, None]);
        assert_eq!(numbers(&found, NumberColumn::Partition), [Some(5), None, None]);
        assert_eq!(numbers(&found, NumberColumn::State), [Some(3 + PARTITION_STATE), None, None]);
        assert_eq!(numbers(&found, NumberColumn::NearOrder), [None, Some(7), None]);
        assert_eq!(found.key, (vec![0, 38, 0], vec![-1, 1, -1]));
        assert_eq!(found.value, (vec![0, 39, 42], vec![-1, 3, 12]));
        assert_eq!(found.is_encrypted, [false, true, false]);
        assert_eq!(found.bad, [false, false, true]);
        let own = OwnFields { type_no: 0, records: vec![0], columns: vec![9, 17, 2], width: 3 };
        assert_eq!(found.own, [own]);
    }

    #[test]
    fn entries_are_rows_and_go_on_in_the_next_call() {
        // Type 1 has neither flags nor encryption; its entries are those of DATA_RECORD.
        let mut entry = b"\x09\0\0\0\x01\0\0\0\x01k\xff\xff\xff\xff\x03\0\x01\x05\0\0\0".to_vec();
        entry.extend([6, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0]);
        entry.extend([4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        let header = |count: u8| vec![count, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0];
        let three = [header(3), entry.repeat(3)].concat();
        let damaged = [header(2), entry.clone()].concat();
        let payloads: [&[u8]; 5] = [&three, &header(0), &damaged, b"ab", &header(1)];
        let types = [DATA; 5];
        let all = read(&payloads, &types, None, 9);
        assert_eq!(all.record, [0, 0, 0, 1, 2, 3, 4]);
        let ordinals = [Some(0), Some(1), Some(2), None, Some(0), None, None];
        assert_eq!(numbers(&all, NumberColumn::Entry), ordinals);
        assert_eq!(numbers(&all, NumberColumn::VersionOrder)[4], Some(7));
        assert_eq!(
            numbers(&all, NumberColumn::TimeMs)[2..],
            [8, 8, 8, -1, 8].map(|time| (time >= 0).then_some(time))
        );
        assert_eq!(all.bad, [false, false, false, false, true, true, true]);
        assert_eq!(all.value.1, [-1, -1, -1, -1, -1, 2, 12]);
        let mut from = None;
        let mut found = Vec::new();
        loop {
            let some = read(&payloads, &types, from, 2);
            let entries = numbers(&some, NumberColumn::Entry);
            found.extend(some.record.iter().copied().zip(entries).zip(some.bad.iter().copied()));
            from = some.next;
            if from.is_none() {
                break;
            }
        }
        let whole = all.record.iter().copied().zip(ordinals).zip(all.bad.iter().copied());
        assert_eq!(found, whole.collect::<Vec<_>>());
    }

    proptest! {
        #[test]
        fn any_bytes_become_rows_of_their_buffer(
            data in bytes(120),
            (starts, ends) in places(0..5),
            types in proptest::collection::vec(0_u8..4, 5),
            most in 1_usize..4,
        ) {
            let payloads =
                Payloads { bytes: &data, starts: &starts, ends: &ends, order: Order::Little };
            let all = rows(payloads, &types, &layouts(), None, usize::MAX);
            prop_assert_eq!(all.next, None);
            let records: std::collections::BTreeSet<_> = all.record.iter().copied().collect();
            prop_assert_eq!(records.len(), starts.len());
            let (mut from, mut at) = (None, 0);
            loop {
                let some = rows(payloads, &types, &layouts(), from, most);
                let stop = at + some.record.len();
                prop_assert_eq!(&some.record, &all.record[at..stop]);
                prop_assert_eq!(&some.bad, &all.bad[at..stop]);
                prop_assert_eq!(&some.value.0, &all.value.0[at..stop]);
                for (some, all) in some.numbers.iter().zip(&all.numbers) {
                    prop_assert_eq!(some, &all[at..stop]);
                }
                (from, at) = (some.next, stop);
                if from.is_none() {
                    break;
                }
            }
            prop_assert_eq!(at, all.record.len());
        }
    }
}
