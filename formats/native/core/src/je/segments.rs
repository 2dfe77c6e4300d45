//! Segments of transactions: runs of entries of one transaction, up to its Commit or Abort.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;

use crate::je::columns::Program;
use crate::je::tally::{Columns, item_of};
use crate::je::walk::Window;

/// Type number of a Commit.
pub const COMMIT: u8 = 17;
/// Type number of an Abort.
pub const ABORT: u8 = 18;
/// Type number of a Prepare.
pub const PREPARE: u8 = 27;

/// LSN that stands for none.
const NULL_LSN: i64 = -1;

/// Number of columns of a program, at most.
const WIDTH: usize = 64;

/// Fields of a transaction's entries, and how to read them.
#[derive(Clone, Debug)]
pub struct TxnFields {
    /// Program that reads the fields.
    pub program: Arc<Program>,
    /// Column of the transaction's id.
    pub txn_id: usize,
    /// Column of the LSN of the transaction's entry before this one.
    pub prev_lsn: usize,
    /// Column of the LSN of the last entry before a Commit or Abort.
    pub last_lsn: usize,
    /// Column of the database's id.
    pub db_id: usize,
    /// Column of the time of a Commit or Abort.
    pub time_ms: usize,
    /// Number of the file.
    pub file_no: u32,
    /// Flag of an entry that a rollback undid.
    pub invisible: u8,
}

/// A segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Id of the transaction.
    pub txn_id: i64,
    /// Offset of the first entry.
    pub first: u32,
    /// Offset of the last entry.
    pub last: u32,
    /// Number of entries.
    pub entries: i64,
    /// Bytes of the entries.
    pub size: i64,
    /// Number of entries that a rollback undid.
    pub invisible: i64,
    /// True if it has the first entry of the transaction.
    pub begins: bool,
    /// Type of its end; 0 without one.
    pub end_type: u8,
    /// Time of its end; 0 without one.
    pub end_ms: i64,
    /// True if it has a Prepare.
    pub is_prepared: bool,
    first_db: Option<i64>,
    last_db: Option<i64>,
}

/// Databases of segments, in columns.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Databases {
    /// Index of the first id of each segment, and the number of ids.
    pub first: Vec<i64>,
    /// Ids by segment, ascending, each once.
    pub ids: Vec<i64>,
}

/// Segments of the entries of a range, in the order of their first entries.
#[derive(Debug)]
pub struct Segments {
    fields: TxnFields,
    is_read: Box<[bool; 256]>,
    open: HashMap<i64, usize, Seed>,
    /// The segments.
    pub all: Vec<Segment>,
    /// Segments that have further databases, and the ids of these; both may recur.
    more: Vec<(usize, i64)>,
}

/// One entry of a transaction.
struct Entry {
    txn_id: i64,
    db_id: Option<i64>,
    begins: bool,
    end_ms: i64,
}

impl Segments {
    /// Returns a collection without segments.
    pub fn new(fields: TxnFields) -> Self {
        let open = HashMap::with_hasher(Seed::new());
        let is_read = Box::new(std::array::from_fn(|no| fields.program.reads(no as u8)));
        Self { fields, is_read, open, all: Vec::new(), more: Vec::new() }
    }

    /// Returns the number of the file.
    pub fn file_no(&self) -> u32 {
        self.fields.file_no
    }

    /// Adds the entries that follow; damaged ones do not count.
    pub fn add(&mut self, window: Window<'_>, rows: Columns<'_>) {
        let mut values = [0; WIDTH];
        for row in 0..rows.rows().unwrap_or(0) {
            let type_no = rows.type_no[row];
            if !self.is_read[usize::from(type_no)] || rows.is_bad(row) {
                continue;
            }
            let Some(item) = item_of(window, rows, row) else { continue };
            if let Some(entry) = self.fields.read(type_no, item, &mut values) {
                self.add_entry(&entry, rows, row);
            }
        }
    }

    #[inline]
    fn add_entry(&mut self, entry: &Entry, rows: Columns<'_>, row: usize) {
        let (type_no, offset) = (rows.type_no[row], rows.offset[row]);
        let is_end = matches!(type_no, COMMIT | ABORT);
        let known = if is_end {
            self.open.remove(&entry.txn_id)
        } else {
            self.open.get(&entry.txn_id).copied()
        };
        let index = known.filter(|_| !entry.begins).unwrap_or_else(|| {
            self.all.push(Segment::new(entry, offset));
            if !is_end {
                self.open.insert(entry.txn_id, self.all.len() - 1);
            }
            self.all.len() - 1
        });
        let segment = &mut self.all[index];
        segment.last = offset;
        segment.entries += 1;
        segment.size += i64::from(rows.header_size[row]) + i64::from(rows.item_size[row]);
        segment.invisible += i64::from(rows.flags[row] & self.fields.invisible != 0);
        segment.is_prepared |= type_no == PREPARE;
        if is_end {
            (segment.end_type, segment.end_ms) = (type_no, entry.end_ms);
        }
        if entry.db_id.is_some() && entry.db_id != segment.last_db {
            segment.last_db = entry.db_id;
            match (segment.first_db, entry.db_id) {
                (Some(_), Some(db_id)) => self.more.push((index, db_id)),
                _ => segment.first_db = entry.db_id,
            }
        }
    }

    /// Returns the databases of the segments.
    pub fn databases(&mut self) -> Databases {
        self.more.sort_unstable();
        let mut more = self.more.iter().copied().peekable();
        let mut found = Databases::default();
        found.first.reserve(self.all.len() + 1);
        for (index, segment) in self.all.iter().enumerate() {
            let start = found.ids.len();
            found.first.push(start as i64);
            found.ids.extend(segment.first_db);
            while let Some((_, db_id)) = more.next_if(|each| each.0 == index) {
                found.ids.push(db_id);
            }
            if found.ids.len() > start + 1 {
                let mut ids = found.ids.split_off(start);
                ids.sort_unstable();
                ids.dedup();
                found.ids.append(&mut ids);
            }
        }
        found.first.push(found.ids.len() as i64);
        found
    }
}

impl Segment {
    fn new(entry: &Entry, first: u32) -> Self {
        Self {
            txn_id: entry.txn_id,
            first,
            last: first,
            entries: 0,
            size: 0,
            invisible: 0,
            begins: entry.begins,
            end_type: 0,
            end_ms: 0,
            is_prepared: false,
            first_db: None,
            last_db: None,
        }
    }
}

impl TxnFields {
    /// Returns the fields of an entry that concern its transaction; `None` if it belongs to none.
    #[inline]
    fn read(&self, type_no: u8, item: &[u8], values: &mut [i64; WIDTH]) -> Option<Entry> {
        let present = self.program.read_one(type_no, item, values)?;
        let value = |column: usize| {
            let is_present = present >> (column % WIDTH) & 1 != 0;
            is_present.then(|| values[column % WIDTH])
        };
        let is_first = value(self.prev_lsn) == Some(NULL_LSN);
        // A Commit or Abort without a last LSN is the whole transaction.
        let is_alone = matches!(type_no, COMMIT | ABORT) && value(self.last_lsn) == Some(NULL_LSN);
        Some(Entry {
            txn_id: value(self.txn_id)?,
            db_id: value(self.db_id),
            begins: is_first || is_alone,
            end_ms: value(self.time_ms).unwrap_or(0),
        })
    }
}

/// Hash of ids that a log cannot foresee: ids are hostile, and SipHash costs as much as the walk.
#[derive(Clone, Copy, Debug)]
struct Seed(u64);

impl Seed {
    fn new() -> Self {
        Self(RandomState::new().hash_one(0))
    }
}

impl BuildHasher for Seed {
    type Hasher = Folded;

    fn build_hasher(&self) -> Folded {
        Folded { seed: self.0, hash: 0 }
    }
}

/// Hash of one number: the halves of a product with the seed.
#[derive(Clone, Copy, Debug)]
struct Folded {
    seed: u64,
    hash: u64,
}

impl Hasher for Folded {
    fn finish(&self) -> u64 {
        self.hash
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(byte.into());
        }
    }

    fn write_i64(&mut self, number: i64) {
        self.write_u64(number as u64);
    }

    fn write_u64(&mut self, number: u64) {
        // An odd factor is never 0, which would map all numbers to one hash.
        let mixed = self.hash ^ number ^ self.seed.rotate_left(32);
        let product = u128::from(mixed) * u128::from(self.seed | 1);
        self.hash = product as u64 ^ (product >> 64) as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::je::columns::{Coding, OP_WIDTH};
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    const RECORD: u8 = 1;

    /// Returns fields in which every entry has five bytes: id, previous LSN, last LSN, database and
    /// time.
    fn fields() -> TxnFields {
        let ops: Vec<[i64; OP_WIDTH]> = (0..5)
            .map(|column| {
                let mut op = [0; OP_WIDTH];
                op[..6].copy_from_slice(&[Coding::Packed as i64, column, -1, 0, 0, -1]);
                op
            })
            .collect();
        let stops = [RECORD, COMMIT, ABORT, PREPARE];
        let mut stop = [0; 256];
        for type_no in stops {
            stop[usize::from(type_no)] = ops.concat().len() as i64;
        }
        let program = Program::parse(&[0; 256], &stop, &ops.concat(), 5, 0).unwrap();
        TxnFields {
            program: program.into(),
            txn_id: 0,
            prev_lsn: 1,
            last_lsn: 2,
            db_id: 3,
            time_ms: 4,
            file_no: 7,
            invisible: 0x10,
        }
    }

    /// An entry: type, five bytes of fields, flags, and the state of its checksum.
    type Given = (u8, [i8; 5], u8, u8);

    fn collected(entries: &[Given]) -> Segments {
        let mut segments = Segments::new(fields());
        let bytes: Vec<u8> =
            entries.iter().flat_map(|each| each.1.map(|number| number as u8)).collect();
        let n = entries.len();
        let offset: Vec<u32> = (0..n as u32).map(|row| row * 5).collect();
        let of = |get: fn(&Given) -> u8| entries.iter().map(get).collect::<Vec<_>>();
        let rows = Columns {
            offset: &offset,
            item_size: &vec![5; n],
            type_no: &of(|each| each.0),
            flags: &of(|each| each.2),
            header_size: &vec![0; n],
            checksum: &of(|each| each.3),
        };
        segments.add(Window { bytes: &bytes, base: 0 }, rows);
        segments
    }

    #[test]
    fn a_segment_ends_with_its_commit() {
        let entries = [
            (RECORD, [5, -1, 0, 8, 0], 0, 1),
            (RECORD, [6, 3, 0, 9, 0], 0, 1),
            (RECORD, [5, 0, 0, 2, 0], 0x10, 1),
            (24, [5, 0, 0, 3, 0], 0, 1),
            (RECORD, [5, 0, 0, 3, 0], 0, 0),
            (COMMIT, [5, 0, 0, 8, 77], 0, 1),
            (RECORD, [5, 0, 0, 8, 0], 0, 1),
            (ABORT, [5, 0, -1, 8, 78], 0, 1),
        ];
        let mut found = collected(&entries);
        let lines: Vec<_> = found
            .all
            .iter()
            .map(|each| (each.txn_id, each.first, each.last, each.entries, each.begins))
            .collect();
        let expected =
            [(5, 0, 25, 3, true), (6, 5, 5, 1, false), (5, 30, 30, 1, false), (5, 35, 35, 1, true)];
        assert_eq!(lines, expected);
        let whole = found.all[0];
        assert_eq!((whole.size, whole.invisible), (15, 1));
        assert_eq!((whole.end_type, whole.end_ms), (COMMIT, 77));
        let databases = found.databases();
        assert_eq!(databases.first, [0, 2, 3, 4, 5]);
        assert_eq!(databases.ids, [2, 8, 9, 8, 8]);
    }

    #[test]
    fn a_payload_that_is_cut_belongs_to_no_transaction() {
        let fields = fields();
        let mut values = [0; WIDTH];
        assert!(fields.read(RECORD, &[5, 0, 0, 8, 0], &mut values).is_some());
        assert!(fields.read(RECORD, &[5, 0, 0, 8], &mut values).is_none());
        assert!(fields.read(24, &[5, 0, 0, 8, 0], &mut values).is_none());
    }

    proptest! {
        #[test]
        fn every_entry_is_in_one_segment(
            entries in proptest::collection::vec(
                (
                    proptest::sample::select(vec![RECORD, COMMIT, ABORT, PREPARE, 24]),
                    [-2_i8..3, -1..2, -1..2, 1..5, 0..9],
                    0_u8..0x20,
                    0_u8..3,
                ),
                0..60,
            ),
        ) {
            let mut found = collected(&entries);
            let counts: Vec<_> =
                entries.iter().filter(|each| each.0 != 24 && each.3 != 0).collect();
            let sum = found.all.iter().map(|each| each.entries).sum::<i64>();
            prop_assert_eq!(sum, counts.len() as i64);
            let ends = counts.iter().filter(|each| matches!(each.0, COMMIT | ABORT)).count();
            prop_assert_eq!(found.all.iter().filter(|each| each.end_type != 0).count(), ends);
            prop_assert!(found.all.is_sorted_by_key(|each| each.first));
            let ids: BTreeSet<_> = counts.iter().map(|each| i64::from(each.1[3])).collect();
            let databases = found.databases();
            prop_assert_eq!(databases.ids.iter().copied().collect::<BTreeSet<_>>(), ids);
        }
    }
}
