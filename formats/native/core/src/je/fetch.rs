//! Entries at LSNs: headers and checksums of entries anywhere in a log.
//!
//! Source: LogManager.getLogEntryFromLogSource, JE 7.5.11.

use crate::je::header::{Header, Rules, vlsn_at};
use crate::je::walk::{Checksum, checksum_of};

/// Result of looking for an entry at an LSN.
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// The log has no such file, or the file ends before the LSN.
    NoFile = 0,
    /// No entry that fits into the file.
    NoEntry = 1,
    /// An entry with a wrong checksum.
    Bad = 2,
    /// An entry that the eraser has overwritten.
    Erased = 3,
    /// An entry whose checksum is right, if it was computed.
    Good = 4,
}

/// Position of an LSN whose file does not exist, or ends before it.
pub const NOWHERE: i64 = -1;

/// Files of a log, one after the other; the columns have one element per file.
#[derive(Clone, Copy, Debug)]
pub struct Log<'a> {
    /// Bytes of all files.
    pub bytes: &'a [u8],
    /// Numbers of the files, ascending.
    pub file_nos: &'a [i64],
    /// Start of each file in the bytes.
    pub starts: &'a [i64],
    /// End of each file in the bytes.
    pub stops: &'a [i64],
    /// Log version of each file.
    pub versions: &'a [i64],
    /// Header rules by log version; newer versions use the last.
    pub rules: &'a [Rules],
}

/// A place in a file of a log.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    /// Index in the bytes of the log.
    pub at: usize,
    /// Bytes from there to the end of the file.
    pub bytes: &'a [u8],
    /// Index of the file.
    pub file: usize,
}

impl<'a> Log<'a> {
    /// Returns the place of an LSN; `None` if its file does not exist, or ends before it.
    #[inline]
    pub fn place(&self, lsn: i64) -> Option<Place<'a>> {
        let file = self.file(lsn >> 32 & 0xffff_ffff)?;
        let at = usize::try_from(self.starts.get(file)?.checked_add(lsn & 0xffff_ffff)?).ok()?;
        let stop = usize::try_from(*self.stops.get(file)?).ok()?;
        let bytes = self.bytes.get(at..stop)?;
        (at < stop).then_some(Place { at, bytes, file })
    }

    /// Returns the index of the file with this number.
    #[inline]
    pub fn file(&self, file_no: i64) -> Option<usize> {
        // Usually no file is missing, and the number gives the index.
        let guess = usize::try_from(file_no.checked_sub(*self.file_nos.first()?)?).ok()?;
        if self.file_nos.get(guess) == Some(&file_no) {
            return Some(guess);
        }
        self.file_nos.binary_search(&file_no).ok()
    }

    #[inline]
    fn rules_of(&self, version: i64) -> Option<&'a Rules> {
        let version = usize::try_from(version).unwrap_or(0);
        self.rules.get(version).or(self.rules.last())
    }
}

/// Entries in columns, one element per LSN.
#[derive(Debug, Default)]
pub struct Entries {
    /// Start of each entry in the bytes, or in `room`; [`NOWHERE`] if there is none.
    pub position: Vec<i64>,
    /// Log version of the file; 0 if there is none.
    pub version: Vec<i64>,
    /// Type number.
    pub type_no: Vec<u8>,
    /// Flags.
    pub flags: Vec<u8>,
    /// Number of bytes of the header.
    pub header_size: Vec<u8>,
    /// Number of bytes of the whole entry.
    pub size: Vec<i64>,
    /// VLSN, or -1 if none is stored.
    pub vlsn: Vec<i64>,
    /// A [`Found`]; below `Bad`, the fields of the entry mean nothing.
    pub found: Vec<u8>,
    /// Copies of the good entries, one after the other, if all had room.
    pub room: Option<Vec<u8>>,
}

/// Number of entries handled together, so that cache misses overlap.
const AT_ONCE: usize = 16;

/// Number of bytes of a cache line.
const LINE: usize = 64;

/// Largest number of lines of an entry to load: by then the CPU prefetches the rest by itself.
const LINES_MAX: usize = 8;

/// A whole entry, as long as its header says.
struct Seen<'a> {
    header: Header,
    rules: &'a Rules,
    entry: &'a [u8],
}

fn look<'a>(log: &Log<'a>, place: &Place<'a>, version: i64) -> Option<Seen<'a>> {
    let rules = log.rules_of(version)?;
    let header = Header::read(place.bytes, 0)?;
    let entry = place.bytes.get(..header.entry_size(rules)?)?;
    Some(Seen { header, rules, entry })
}

/// Reads the headers of the entries at `lsns`, and sums the entries if `check`.
///
/// Copies the good entries if all of them fit into `room_size` bytes.
pub fn fetch(log: Log<'_>, lsns: &[i64], check: bool, room_size: usize) -> Entries {
    let mut out = Entries::with_rows(lsns.len());
    let mut room = (room_size > 0).then(|| Vec::with_capacity(room_size));
    let mut seen: [Option<Seen<'_>>; AT_ONCE] = [const { None }; AT_ONCE];
    for some in lsns.chunks(AT_ONCE) {
        for (&lsn, seen) in some.iter().zip(&mut seen) {
            *seen = out.push(&log, lsn);
        }
        let first = out.found.len() - some.len();
        if check || room.is_some() {
            load(seen[..some.len()].iter().flatten());
        }
        for (row, seen) in (first..).zip(&seen[..some.len()]) {
            let Some(seen) = seen else { continue };
            out.found[row] = state_of(seen, check) as u8;
            if out.found[row] != Found::Good as u8 {
                continue;
            }
            if let Some(copies) = room.take_if(|copies| room_size - copies.len() < seen.entry.len())
            {
                drop(copies);
            }
            if let Some(copies) = &mut room {
                copies.extend_from_slice(seen.entry);
            }
        }
    }
    if let Some(copies) = room {
        out.move_to(copies);
    }
    out
}

/// Loads the cache lines of entries that are about to be read, so that the misses overlap.
fn load<'a>(entries: impl Iterator<Item = &'a Seen<'a>>) {
    let lines = entries.flat_map(|seen| seen.entry.iter().step_by(LINE).skip(1).take(LINES_MAX));
    // `black_box` keeps the compiler from removing the loads.
    std::hint::black_box(lines.fold(0_u8, |sum, &byte| sum ^ byte));
}

#[inline]
fn state_of(seen: &Seen<'_>, check: bool) -> Found {
    if seen.rules.erased_type == Some(seen.header.type_no) {
        Found::Erased
    } else if check && checksum_of(seen.entry, &seen.header, seen.rules) == Checksum::Bad {
        Found::Bad
    } else {
        Found::Good
    }
}

impl Entries {
    fn with_rows(rows: usize) -> Self {
        Self {
            position: Vec::with_capacity(rows),
            version: Vec::with_capacity(rows),
            type_no: Vec::with_capacity(rows),
            flags: Vec::with_capacity(rows),
            header_size: Vec::with_capacity(rows),
            size: Vec::with_capacity(rows),
            vlsn: Vec::with_capacity(rows),
            found: Vec::with_capacity(rows),
            room: None,
        }
    }

    /// Adds a row with the fields of the header; returns the entry, if there is one.
    #[inline]
    fn push<'a>(&mut self, log: &Log<'a>, lsn: i64) -> Option<Seen<'a>> {
        let place = log.place(lsn);
        let version = place.and_then(|place| log.versions.get(place.file).copied()).unwrap_or(0);
        let seen = place.and_then(|place| look(log, &place, version));
        let (header, rules, entry) = match &seen {
            Some(seen) => (Some(&seen.header), Some(seen.rules), seen.entry),
            None => (None, None, &[][..]),
        };
        let stored = header.zip(rules).filter(|(header, rules)| header.has_vlsn(rules));
        let header_size = header.zip(rules).map_or(0, |(header, rules)| header.size(rules));
        self.position.push(place.map_or(NOWHERE, |place| place.at as i64));
        self.version.push(version);
        self.type_no.push(header.map_or(0, |header| header.type_no));
        self.flags.push(header.map_or(0, |header| header.flags));
        self.header_size.push(header_size as u8);
        self.size.push(entry.len() as i64);
        self.vlsn.push(stored.and_then(|_| vlsn_at(entry, 0)).unwrap_or(-1));
        self.found.push(if place.is_some() { Found::NoEntry } else { Found::NoFile } as u8);
        seen
    }

    /// Sets the positions of good entries to those in `copies`, and all others to [`NOWHERE`].
    fn move_to(&mut self, copies: Vec<u8>) {
        let mut used = 0;
        for ((position, &size), &found) in self.position.iter_mut().zip(&self.size).zip(&self.found)
        {
            *position = NOWHERE;
            if found == Found::Good as u8 {
                *position = used;
                used += size;
            }
        }
        self.room = Some(copies);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::adler;
    use crate::je::header::{MAX_SIZE, MIN_SIZE};
    use proptest::prelude::*;

    const RULES: [Rules; 2] = [
        Rules { vlsn_mask: 0x20, summed_flags: 0xff, erased_type: None, file_size: 0 },
        Rules { vlsn_mask: 0x28, summed_flags: 0xef, erased_type: Some(43), file_size: 0 },
    ];

    fn push(log: &mut Vec<u8>, type_no: u8, flags: u8, item: &[u8]) {
        let start = log.len();
        log.extend([0, 0, 0, 0, type_no, flags, 0, 0, 0, 0]);
        log.extend((item.len() as u32).to_le_bytes());
        if flags & 0x28 != 0 {
            log.extend(7_i64.to_le_bytes());
        }
        log.extend(item);
        let sum = adler::of_masked(&log[start + 4..], 0xef);
        log[start..start + 4].copy_from_slice(&sum.to_le_bytes());
    }

    /// Returns two files: number 3, and from byte 128 on number 5.
    fn bytes() -> Vec<u8> {
        let mut bytes = Vec::new();
        push(&mut bytes, 1, 0x10, &[9; 20]);
        push(&mut bytes, 2, 0x28, b"ab");
        bytes.resize(128, 0);
        push(&mut bytes, 43, 0, b"gone");
        push(&mut bytes, 4, 0, &[1; 100]);
        bytes
    }

    fn log(bytes: &[u8]) -> Log<'_> {
        Log {
            bytes,
            file_nos: &[3, 5],
            starts: &[0, 128],
            stops: &[58, 260],
            versions: &[17, 17],
            rules: &RULES,
        }
    }

    #[test]
    fn entries_at_places() {
        let bytes = bytes();
        let lsns = [5 << 32 | 18, 3 << 32, 3 << 32 | 34, 5 << 32, 4 << 32, 3 << 32 | 58, -1];
        let found = fetch(log(&bytes), &lsns, true, 0);
        assert_eq!(found.position, [146, 0, 34, 128, -1, -1, -1]);
        assert_eq!(found.found, [4, 4, 4, 3, 0, 0, 0]);
        assert_eq!(found.type_no, [4, 1, 2, 43, 0, 0, 0]);
        assert_eq!(found.size, [114, 34, 24, 18, 0, 0, 0]);
        assert_eq!(found.vlsn, [-1, -1, 7, -1, -1, -1, -1]);
        assert_eq!(found.header_size[..4], [14, 14, 22, 14]);
        assert_eq!((MIN_SIZE, MAX_SIZE, found.room), (14, 22, None));
    }

    #[test]
    fn good_entries_are_copied_if_all_have_room() {
        let bytes = bytes();
        let lsns = [5 << 32 | 18, 5 << 32, 3 << 32 | 34];
        let found = fetch(log(&bytes), &lsns, true, 138);
        assert_eq!(found.position, [0, -1, 114]);
        assert_eq!(found.room, Some([&bytes[146..], &bytes[34..58]].concat()));
        let found = fetch(log(&bytes), &lsns, true, 137);
        assert_eq!((found.position, found.room), (vec![146, 128, 34], None));
    }

    #[test]
    fn a_changed_byte_is_bad_if_it_is_summed() {
        let mut bytes = bytes();
        bytes[20] ^= 1;
        assert_eq!(fetch(log(&bytes), &[3 << 32], true, 0).found, [Found::Bad as u8]);
        assert_eq!(fetch(log(&bytes), &[3 << 32], false, 0).found, [Found::Good as u8]);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_inside_their_file(
            changes in proptest::collection::vec((0_usize..260, any::<u8>()), 0..8),
            lsns in proptest::collection::vec(
                prop_oneof![any::<i64>(), (2_i64..7, 0_i64..140).prop_map(|(no, at)| no << 32 | at)],
                0..40,
            ),
            starts in proptest::sample::select(vec![[0, 128], [-5, i64::MAX], [300, 128]]),
            stops in proptest::sample::select(vec![[58, 260], [58, 261], [-1, i64::MAX]]),
            room_size in 0_usize..400,
            versions in proptest::sample::select(vec![[17, 17], [0, 1], [i64::MIN, i64::MAX]]),
            rules in 0_usize..3,
        ) {
            let mut bytes = bytes();
            for (at, byte) in changes {
                bytes[at] = byte;
            }
            for check in [false, true] {
                let rules = &RULES[..rules];
                let log = Log {
                    starts: &starts, stops: &stops, versions: &versions, rules, ..log(&bytes)
                };
                let found = fetch(log, &lsns, check, room_size);
                prop_assert_eq!(found.found.len(), lsns.len());
                let data = found.room.as_deref().unwrap_or(&bytes);
                for row in 0..lsns.len() {
                    if found.found[row] == Found::Good as u8 {
                        let start = found.position[row] as usize;
                        prop_assert_eq!(data[start + 4], found.type_no[row]);
                        prop_assert!(start + found.size[row] as usize <= data.len());
                    }
                }
            }
        }
    }
}
