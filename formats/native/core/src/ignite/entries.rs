//! Entries of caches in the payloads of data records.
//!
//! Source: RecordDataV2Serializer.readPlainDataEntry, readEncryptedDataEntry, Ignite 2.18.0.

use crate::ignite::fields::{Cursor, Payloads};

/// Type whose entries are followed by a version of the multi-version engine.
const MVCC: u8 = 54;

/// Columns of an entry, in the order of [`columns`].
pub const ENTRY_COLUMNS: usize = 24;

/// Number of entries that one call returns at most: a record of 64 MB may have millions.
pub const ENTRIES_MAX: usize = 1 << 16;

/// Value of a column that does not apply.
const NONE: i64 = -1;

/// Parts of an entry that depend on the type of its record.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    has_flags: bool,
    can_be_encrypted: bool,
    has_key_id: bool,
    is_mvcc: bool,
}

impl Shape {
    /// Returns the parts that the entries of a type of record have.
    pub fn of(type_no: u8) -> Self {
        Self {
            has_flags: matches!(type_no, 70 | 71 | 78),
            can_be_encrypted: matches!(type_no, 53 | 64 | 71),
            has_key_id: matches!(type_no, 64 | 71),
            is_mvcc: type_no == MVCC,
        }
    }
}

/// Entry of a data record. Spans are start and size, with size -1 for null.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataEntry {
    /// Cache group, if the entry is only cipher text, which is then the value; nothing else is
    /// known of it.
    pub group: Option<i64>,
    /// Cache.
    pub cache: i64,
    /// Kind of the key.
    pub key_type: i64,
    /// Span of the key.
    pub key: [i64; 2],
    /// Kind of the value; -1 for null.
    pub value_type: i64,
    /// Span of the value.
    pub value: [i64; 2],
    /// Operation.
    pub op: i64,
    /// Version of the transaction, as [`Cursor::version`] reads it.
    pub near: [i64; 4],
    /// Version of the entry.
    pub version: [i64; 4],
    /// Partition.
    pub partition: i64,
    /// Update counter of the partition.
    pub counter: i64,
    /// Time of expiry; 0 for none.
    pub expire: i64,
    /// Flags; -1 for none.
    pub flags: i64,
}

impl DataEntry {
    /// Returns an entry of which only the cipher text is known.
    fn encrypted(group: i64, value: [i64; 2]) -> Self {
        Self {
            group: Some(group),
            cache: NONE,
            key_type: NONE,
            key: [NONE; 2],
            value_type: NONE,
            value,
            op: NONE,
            near: [0, NONE, NONE, NONE],
            version: [NONE; 4],
            partition: NONE,
            counter: NONE,
            expire: NONE,
            flags: NONE,
        }
    }

    /// Returns the columns of an entry, given its record and its span.
    fn columns(&self, record: usize, [start, size]: [i64; 2]) -> [i64; ENTRY_COLUMNS] {
        let Self { key, value, near, version, .. } = self;
        [
            record as i64,
            start,
            size,
            self.group.is_some().into(),
            self.group.unwrap_or(NONE),
            self.cache,
            self.key_type,
            key[0],
            key[1],
            self.value_type,
            value[0],
            value[1],
            self.op,
            near[0],
            near[1],
            near[2],
            near[3],
            version[1],
            version[2],
            version[3],
            self.partition,
            self.counter,
            self.expire,
            self.flags,
        ]
    }
}

/// Entry at which the next call continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Its record.
    pub record: usize,
    /// Its start in the buffer.
    pub at: i64,
    /// Number of entries of the record from it on.
    pub left: i32,
}

/// Entries in columns, one after the other, each as long as `rows`.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Entries {
    /// The columns.
    pub columns: Vec<i64>,
    /// Number of entries.
    pub rows: usize,
    /// True for each record that does not decode to its end; only known from the first call.
    pub bad: Vec<bool>,
    /// The entry after the last one; `None` if there is none.
    pub next: Option<Place>,
}

/// Decoded entries, up to a largest number.
struct Found {
    entries: Vec<[i64; ENTRY_COLUMNS]>,
    most: usize,
    next: Option<Place>,
}

impl Found {
    fn add(&mut self, entry: [i64; ENTRY_COLUMNS], place: Place) {
        if self.entries.len() < self.most {
            self.entries.push(entry);
        } else {
            self.next.get_or_insert(place);
        }
    }
}

/// Returns at most `most` entries of data records, from one of them on.
///
/// The first call, without `from`, reads all records to their ends, so that its caller knows which
/// are bad before it uses an entry.
///
/// Columns: record, start, size, is encrypted, group, cache, key type, key start, key size, value
/// type, value start, value size, operation, near version (4), written version (3: its parts are
/// never missing), partition, counter, expire time, flags.
pub fn columns(payloads: Payloads<'_>, types: &[u8], from: Option<Place>, most: usize) -> Entries {
    let mut found = Found { entries: Vec::new(), most, next: None };
    let (is_first, mut bad) = (from.is_none(), Vec::new());
    let spans = payloads.starts.iter().zip(payloads.ends).zip(types).enumerate();
    for (record, ((&start, &end), &type_no)) in spans.skip(from.map_or(0, |from| from.record)) {
        let from = from.filter(|from| from.record == record);
        let start = from.map_or(start, |from| from.at);
        let mut cursor = Cursor::new(payloads.bytes, start, end, payloads.order);
        let left = from.map(|from| from.left);
        let whole = read_record(&mut cursor, Shape::of(type_no), (record, left), &mut found);
        bad.push(whole.is_none() || !cursor.is_done());
        if !is_first && found.next.is_some() {
            break;
        }
    }
    let entries = &found.entries;
    let columns = (0..ENTRY_COLUMNS).flat_map(|i| entries.iter().map(move |entry| entry[i]));
    Entries { columns: columns.collect(), rows: entries.len(), bad, next: found.next }
}

/// Reads a record, or those of its entries that are left.
fn read_record(
    cursor: &mut Cursor<'_>,
    shape: Shape,
    (record, left): (usize, Option<i32>),
    found: &mut Found,
) -> Option<()> {
    let count = match left {
        Some(left) => left,
        None => i32::try_from(read_header(cursor)?[0]).ok()?,
    };
    // Each entry has bytes, so a forged number ends at the end of the payload.
    for n in 0..count {
        let start = cursor.position();
        let entry = read(cursor, shape)?.columns(record, [start, cursor.position() - start]);
        found.add(entry, Place { record, at: start, left: count - n });
    }
    (count >= 0).then_some(())
}

/// Reads what a data record begins with: the number of its entries, and its time.
#[inline]
pub fn read_header(cursor: &mut Cursor<'_>) -> Option<[i64; 2]> {
    Some([cursor.i32()?, cursor.i64()?])
}

/// Reads an entry and what follows it in records of its type.
#[inline]
pub fn read(cursor: &mut Cursor<'_>, shape: Shape) -> Option<DataEntry> {
    let entry = read_entry(cursor, shape)?;
    if shape.is_mvcc {
        cursor.span(20)?;
    }
    Some(entry)
}

fn read_entry(cursor: &mut Cursor<'_>, shape: Shape) -> Option<DataEntry> {
    if shape.can_be_encrypted && cursor.u8()? != 0 {
        let group = cursor.i32()?;
        let size = cursor.i32()?;
        if shape.has_key_id {
            cursor.u8()?;
        }
        return Some(DataEntry::encrypted(group, cursor.span(size)?));
    }
    let cache = cursor.i32()?;
    let key_size = cursor.i32()?;
    let key_type = cursor.u8()?;
    let key = cursor.span(key_size)?;
    let (value_type, value) = match cursor.i32()? {
        size if size < 0 => (NONE, [cursor.position(), -1]),
        size => (cursor.u8()?, cursor.span(size)?),
    };
    Some(DataEntry {
        group: None,
        cache,
        key_type,
        key,
        value_type,
        value,
        op: cursor.u8()?,
        near: cursor.version()?,
        version: cursor.version().filter(|version| version[0] > 0)?,
        partition: cursor.i32()?,
        counter: cursor.i64()?,
        expire: cursor.i64()?,
        flags: if shape.has_flags { cursor.u8()? } else { NONE },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ignite::order::Order;
    use crate::testing::{bytes, places};
    use proptest::prelude::*;

    fn entry(flags: Option<u8>) -> Vec<u8> {
        let mut out = vec![9, 0, 0, 0, 2, 0, 0, 0, 1, b'k', b'y', 255, 255, 255, 255, 3, 0];
        out.extend([1, 5, 0, 0, 0, 6, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0]);
        out.extend([3, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        out.extend(flags);
        out
    }

    fn read(payload: &[u8], type_no: u8) -> Entries {
        let ends = [payload.len() as i64];
        let payloads = Payloads { bytes: payload, starts: &[0], ends: &ends, order: Order::Little };
        columns(payloads, &[type_no], None, ENTRIES_MAX)
    }

    #[test]
    fn an_entry_with_and_without_flags() {
        let mut payload = vec![1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        payload.extend(entry(Some(5)));
        let found = read(&payload, 70);
        assert_eq!((found.rows, &found.bad), (1, &vec![false]));
        assert_eq!(
            found.columns[5..],
            [9, 1, 21, 2, NONE, 27, NONE, 3, 0, 0, 0, 0, 5, 6, 7, 3, 4, 0, 5,]
        );
        assert_eq!(read(&payload, 2).bad, [true]);
        payload.pop();
        assert_eq!(read(&payload, 2).columns.last(), Some(&NONE));
        assert_eq!(read(&payload, 70).rows, 0);
    }

    #[test]
    fn an_encrypted_entry_is_bytes_of_a_group() {
        let payload = b"\x01\0\0\0\0\0\0\0\0\0\0\0\x01\x07\0\0\0\x03\0\0\0\x02abc";
        let found = read(payload, 71);
        assert_eq!((found.rows, &found.bad), (1, &vec![false]));
        assert_eq!((found.columns[3], found.columns[4], found.columns[11]), (1, 7, 3));
    }

    proptest! {
        #[test]
        fn any_bytes_decode_inside_their_buffer(
            data in bytes(120),
            (starts, ends) in places(0..5),
            types in proptest::collection::vec(50_u8..79, 5),
        ) {
            let order = Order::Little;
            let payloads = Payloads { bytes: &data, starts: &starts, ends: &ends, order };
            let all = columns(payloads, &types, None, ENTRIES_MAX);
            prop_assert_eq!(all.columns.len(), ENTRY_COLUMNS * all.rows);
            prop_assert!(all.rows <= data.len() * starts.len());
            prop_assert_eq!((all.bad.len(), all.next), (starts.len(), None));
            let (mut rows, mut from) = (0, None);
            loop {
                let some = columns(payloads, &types, from, 2);
                prop_assert!(some.rows <= 2);
                for (i, column) in some.columns.chunks(some.rows.max(1)).enumerate() {
                    let at = i * all.rows + rows;
                    prop_assert_eq!(column, &all.columns[at..at + some.rows]);
                }
                if from.is_none() {
                    prop_assert_eq!(&some.bad, &all.bad);
                }
                rows += some.rows;
                from = some.next;
                if from.is_none() {
                    break;
                }
            }
            prop_assert_eq!(rows, all.rows);
        }
    }
}
