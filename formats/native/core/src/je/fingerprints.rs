//! Fingerprints of records: numbers of 62 bits, made by a scan and again for each slot.
//!
//! A fingerprint is a polynomial over database, expiration and key, modulo a prime, evaluated at
//! two points that are chosen at random for each run.
//!
//! Source: BtreeVerifier.verifyLSN, verifyDataRecord, JE 25.3.17.

use crate::je::fetch::Log;
use crate::je::keys::Keys;
use crate::je::walk::Checksum;
use crate::packed;

/// Number of bytes of the longest key that has a fingerprint.
pub const KEY_SIZE_MAX: usize = 1 << 12;

/// Latest expiration that has a fingerprint, in hours since 1970.
pub const HOURS_MAX: i64 = 1_000_000;

/// Number of low bits of an offset that select a byte of its page.
pub const PAGE_SHIFT: u32 = 12;

/// Bit of a slot's state: the record is embedded in the slot.
pub const EMBEDDED: i64 = 0x10;

const IN_PAGE: usize = (1 << PAGE_SHIFT) - 1;
const PRIME: u64 = (1 << PRIME_BITS) - 1;
const PRIME_BITS: u32 = 31;
const ID_MAX: i64 = 1 << 24;
const HOUR_MS: i64 = 3_600_000;
const DAY_HOURS: i64 = 24;

/// Points at which the polynomial is evaluated: below 1 << 30, so that no step exceeds 63 bits.
#[derive(Clone, Copy, Debug)]
pub struct Polynomial {
    /// First point.
    pub one: u64,
    /// Second point.
    pub other: u64,
}

/// Reduces a number of 63 bits to 33 bits with the same remainder, as 2^31 has the remainder 1.
#[inline]
fn step(number: u64) -> u64 {
    (number & PRIME) + (number >> PRIME_BITS)
}

impl Polynomial {
    /// Returns the fingerprint of a record; `None` if it has none.
    #[inline]
    pub fn fingerprint(self, key: &[u8], db_id: i64, hours: i64) -> Option<i64> {
        let sound = (-ID_MAX..ID_MAX).contains(&db_id) && (0..=HOURS_MAX).contains(&hours);
        if !sound || key.len() > KEY_SIZE_MAX {
            return None;
        }
        let mut state = [(db_id + ID_MAX) as u64; 2];
        let mut add = |number: u64| {
            state = [
                step(state[0].wrapping_mul(self.one).wrapping_add(number)),
                step(state[1].wrapping_mul(self.other).wrapping_add(number)),
            ];
        };
        add(hours as u64);
        add(key.len() as u64);
        let threes = key.chunks_exact(3);
        let rest = threes.remainder();
        for three in threes {
            add(u64::from(three[0]) | u64::from(three[1]) << 8 | u64::from(three[2]) << 16);
        }
        for &byte in rest {
            add(u64::from(byte));
        }
        let [high, low] = state.map(|number| number % PRIME);
        Some((high << PRIME_BITS | low) as i64)
    }

    /// Returns the fingerprint of the record in a payload; `None` for a deletion or an invalid
    /// payload.
    #[inline]
    fn of_payload(self, payload: &[u8], steps: &[[i64; 3]]) -> Option<i64> {
        let (mut flags, mut db_id, mut hours, mut at) = (0_i64, 0, 0, 0);
        let (mut key, mut has_data) = (None, false);
        for &[action, role, mask] in steps {
            if mask != 0 && flags & mask == 0 {
                continue;
            }
            let size = match Action::of(action)? {
                Action::Rest => payload.len() - at,
                Action::Flags => {
                    flags |= i64::from(*payload.get(at)?).checked_shl(role.try_into().ok()?)?;
                    at += 1;
                    continue;
                }
                Action::Packed => {
                    let number;
                    (number, at) = packed::read(payload, at, payload.len())?;
                    match role {
                        DB_ID => db_id = number,
                        EXPIRATION => hours = hours_of(number),
                        _ => (),
                    }
                    continue;
                }
                Action::Bytes => {
                    let size;
                    (size, at) = packed::read(payload, at, payload.len())?;
                    if size == -1 {
                        // Null, like the data of a deletion.
                        match role {
                            KEY => key = None,
                            DATA => has_data = false,
                            _ => (),
                        }
                        continue;
                    }
                    usize::try_from(size).ok()?
                }
            };
            let bytes = payload.get(at..at.checked_add(size)?)?;
            match role {
                KEY => key = Some(bytes),
                DATA => has_data = true,
                _ => (),
            }
            at += size;
        }
        self.fingerprint(key.filter(|_| has_data)?, db_id, hours)
    }
}

/// Returns the hours of an expiration as logged: in days, or in hours if negative.
///
/// Garbage is clamped to hours that are too late for a fingerprint.
#[inline]
fn hours_of(logged: i64) -> i64 {
    let logged = logged.clamp(-HOURS_MAX - 1, HOURS_MAX);
    if logged < 0 { -logged } else { logged * DAY_HOURS }
}

/// Action of a step over a field; a record with any other action has no fingerprint.
#[derive(Clone, Copy, Debug)]
pub enum Action {
    /// Another byte of flags.
    Flags = 0,
    /// A packed number.
    Packed = 2,
    /// A packed size, then bytes.
    Bytes = 3,
    /// All remaining bytes.
    Rest = 4,
}

impl Action {
    #[inline]
    fn of(number: i64) -> Option<Self> {
        [Self::Flags, Self::Packed, Self::Bytes, Self::Rest]
            .into_iter()
            .find(|action| *action as i64 == number)
    }
}

/// Role of the key.
pub const KEY: i64 = 0;
/// Role of the data.
pub const DATA: i64 = 1;
/// Role of the database id.
pub const DB_ID: i64 = 3;
/// Role of the expiration.
pub const EXPIRATION: i64 = 4;

/// Entries of a part of a file, in columns of one length.
#[derive(Clone, Copy, Debug)]
pub struct Rows<'a> {
    /// Bytes of these entries.
    pub data: &'a [u8],
    /// File offset of the first byte.
    pub base: u64,
    /// File offset of each entry.
    pub offset: &'a [u32],
    /// Type number of each entry.
    pub type_no: &'a [u8],
    /// Number of bytes of each header.
    pub header_size: &'a [u8],
    /// Number of bytes after each header.
    pub item_size: &'a [i32],
    /// [`Checksum`] of each entry.
    pub checksum: &'a [u8],
}

/// Steps over the fields of each type: (action, role, flags of which one is set).
#[derive(Clone, Copy, Debug)]
pub struct Steps<'a> {
    /// Index of the first step of each type.
    pub firsts: &'a [i64],
    /// Index after the last step of each type.
    pub lasts: &'a [i64],
    /// All steps.
    pub steps: &'a [[i64; 3]],
}

impl<'a> Steps<'a> {
    #[inline]
    fn of(&self, type_no: u8) -> &'a [[i64; 3]] {
        let place = |of: &[i64]| usize::try_from(*of.get(usize::from(type_no))?).ok();
        let range = || Some(place(self.firsts)?..place(self.lasts)?);
        range().and_then(|range| self.steps.get(range)).unwrap_or_default()
    }
}

/// Fingerprints of the records of a file.
#[derive(Debug, Default)]
pub struct Prints {
    /// File offset of each record.
    pub offsets: Vec<u32>,
    /// Fingerprint of each record.
    pub prints: Vec<i64>,
}

/// Returns the fingerprints of the records whose checksum is right.
pub fn of_rows(rows: Rows<'_>, steps: Steps<'_>, polynomial: Polynomial) -> Prints {
    let mut out = Prints::default();
    for (row, &offset) in rows.offset.iter().enumerate() {
        let print = || {
            let steps = steps.of(*rows.type_no.get(row)?);
            if steps.is_empty() || *rows.checksum.get(row)? != Checksum::Ok as u8 {
                return None;
            }
            let at = u64::from(offset).checked_sub(rows.base)?;
            let start =
                usize::try_from(at).ok()?.checked_add((*rows.header_size.get(row)?).into())?;
            let size = usize::try_from(*rows.item_size.get(row)?).ok()?;
            let payload = rows.data.get(start..start.checked_add(size)?)?;
            polynomial.of_payload(payload, steps)
        };
        if let Some(print) = print() {
            out.offsets.push(offset);
            out.prints.push(print);
        }
    }
    // They stay in memory as long as the log is being read.
    out.offsets.shrink_to_fit();
    out.prints.shrink_to_fit();
    out
}

// Neighbouring LSNs differ in their low bits, and the mask keeps the low bits of the product.
const SPREAD: i64 = 40503;
const SPREAD_FILES: i64 = 2_654_435_761;

/// Returns the place of an LSN's bit in a filter; other LSNs share it.
#[inline]
fn bit_of(lsn: i64, bits: &[u8]) -> Option<(usize, u8)> {
    let number = (lsn & 0xffff_ffff)
        .wrapping_mul(SPREAD)
        .wrapping_add((lsn >> 32).wrapping_mul(SPREAD_FILES));
    let mask = bits.len().checked_mul(8)?.checked_sub(1)?;
    let bit = number as usize & mask;
    Some((bit >> 3, 1 << (bit & 7)))
}

/// Sets the bits of LSNs in a filter, whose size must be a power of two.
pub fn note(lsns: &[i64], bits: &mut [u8]) {
    for &lsn in lsns {
        let Some((byte, bit)) = bit_of(lsn, bits) else { return };
        if let Some(byte) = bits.get_mut(byte) {
            *byte |= bit;
        }
    }
}

/// Records and LSNs that slots are compared with.
#[derive(Clone, Copy, Debug)]
pub struct Known<'a> {
    /// The log.
    pub log: Log<'a>,
    /// By index of a file in `log`: true if slots that name an entry in the file are in doubt.
    pub reserved: &'a [bool],
    /// Index of the first record of each page of the log; nothing is known of pages after the last.
    pub page_first: &'a [i32],
    /// Offset of each record in its page.
    pub low: &'a [u16],
    /// Fingerprint of each record.
    pub prints: &'a [i64],
    /// LSNs that are in doubt unless the record is embedded in its slot, ascending.
    pub noted: &'a [i64],
    /// Filter of `noted`; see [`note`].
    pub noted_bits: &'a [u8],
}

/// Slots of BINs in columns.
#[derive(Clone, Copy, Debug)]
pub struct Slots<'a> {
    /// Whole keys.
    pub key: Keys<'a>,
    /// LSN of each slot.
    pub lsn: &'a [i64],
    /// State bits of each slot.
    pub state: &'a [i64],
    /// Expiration in milliseconds since 1970; 0 for never.
    pub expires_ms: &'a [i64],
}

/// Number of slots handled together, so that cache misses overlap.
const AT_ONCE: usize = 64;

impl Known<'_> {
    /// Returns true if an LSN was noted; the filter excludes most others without a search.
    #[inline]
    fn is_noted(&self, lsn: i64) -> bool {
        bit_of(lsn, self.noted_bits)
            .is_some_and(|(byte, bit)| self.noted_bits.get(byte).is_some_and(|it| it & bit != 0))
            && self.noted.binary_search(&lsn).is_ok()
    }

    /// Returns the offset of an LSN in its page, and the bounds of the records of that page.
    #[inline]
    fn page_of(&self, lsn: i64) -> Option<(u16, usize, usize)> {
        let place = self.log.place(lsn)?;
        if self.reserved.get(place.file) != Some(&false) {
            return None;
        }
        let page = place.at >> PAGE_SHIFT;
        let first = usize::try_from(*self.page_first.get(page)?).ok()?;
        let last = usize::try_from(*self.page_first.get(page.checked_add(1)?)?).ok()?;
        Some(((place.at & IN_PAGE) as u16, first, last))
    }

    /// Fills `found` with the fingerprints of the records at LSNs; `None` if there is none.
    ///
    /// Each step runs for all LSNs before the next one, so that the second loads the cache lines
    /// that the third reads.
    fn find(&self, lsns: impl Iterator<Item = Option<i64>>, found: &mut [Option<i64>; AT_ONCE]) {
        let mut pages = [None; AT_ONCE];
        for (page, lsn) in pages.iter_mut().zip(lsns) {
            *page = lsn.and_then(|lsn| self.page_of(lsn));
        }
        let loads = pages.iter().flatten().map(|&(_, first, _)| {
            let low = self.low.get(first).copied().unwrap_or(0);
            i64::from(low) ^ self.prints.get(first).copied().unwrap_or(0)
        });
        std::hint::black_box(loads.fold(0, |sum, number| sum ^ number));
        for (found, page) in found.iter_mut().zip(&pages) {
            *found = page.and_then(|(low, first, last)| {
                let at = self.low.get(first..last)?.iter().position(|&other| other == low)?;
                self.prints.get(first + at).copied()
            });
        }
    }
}

/// Returns a mask of the slots that are not certain to refer to the right record.
///
/// `rows` selects slots of a database. With `asks_noted`, noted LSNs are in doubt.
pub fn doubtful(
    slots: Slots<'_>,
    rows: &[i64],
    known: Known<'_>,
    db_id: i64,
    polynomial: Polynomial,
    asks_noted: bool,
) -> Vec<bool> {
    let mut out = Vec::with_capacity(rows.len());
    let mut found = [None; AT_ONCE];
    let column = |of: &[i64], row: i64| of.get(usize::try_from(row).ok()?).copied();
    for some in rows.chunks(AT_ONCE) {
        known.find(some.iter().map(|&row| column(slots.lsn, row)), &mut found);
        out.extend(some.iter().zip(&found).map(|(&row, &found)| {
            let is_certain = || {
                let expires_ms = column(slots.expires_ms, row)?;
                let key = slots.key.find(usize::try_from(row).ok()?)?;
                let own = polynomial.fingerprint(key, db_id, expires_ms.div_euclid(HOUR_MS))?;
                let same = own == found? && expires_ms.rem_euclid(HOUR_MS) == 0;
                let asked = asks_noted && column(slots.state, row)? & EMBEDDED == 0;
                Some(same && !(asked && known.is_noted(column(slots.lsn, row)?)))
            };
            !is_certain().unwrap_or(false)
        }));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::je::keys::tests::Owned;
    use crate::testing::{bytes, mostly, number, numbers};
    use proptest::collection::vec;
    use proptest::prelude::*;

    const POLYNOMIAL: Polynomial = Polynomial { one: (1 << 30) - 1, other: (1 << 30) - 3 };

    /// A value in place of the fingerprint of key k of database 7.
    const PRINT: i64 = -7;

    /// A byte of flags, database, key, an expiration if a flag says so, and data.
    const STEPS: [[i64; 3]; 5] =
        [[0, 0, 0], [2, DB_ID, 0], [3, KEY, 0], [2, EXPIRATION, 0x80], [3, DATA, 0]];

    #[test]
    fn the_record_of_a_payload() {
        let same = |payload: &[u8], key: &[u8], db_id, hours| {
            let expected = POLYNOMIAL.fingerprint(key, db_id, hours);
            assert!(expected.is_some());
            assert_eq!(POLYNOMIAL.of_payload(payload, &STEPS), expected);
        };
        same(b"\x00\x05\x02ab\x01v", b"ab", 5, 0);
        same(b"\x80\x05\x02ab\x03\x01v", b"ab", 5, 72);
        same(b"\x80\xfb\x00\xfd\x00", b"", -5, 3);
        for none in [&b""[..], b"\x00\x05\x02ab\xff", b"\x00\x05\xff\x00", b"\x00\x05\x02ab\x01"] {
            assert_eq!(POLYNOMIAL.of_payload(none, &STEPS), None);
        }
        assert_eq!(POLYNOMIAL.of_payload(b"\x00\x05", &[[1, 2, 0]]), None);
    }

    #[test]
    fn noted_lsns_are_known() {
        let noted = [3, 1 << 32 | 77, 9 << 32];
        let mut bits = [0; 128];
        note(&noted, &mut bits);
        let known = Known { noted: &noted, noted_bits: &bits, ..nothing() };
        assert!(noted.iter().all(|&lsn| known.is_noted(lsn)));
        assert!((0..5_000).all(|lsn| !known.is_noted(lsn << 20 | 5)));
        note(&noted, &mut []);
        assert!(!nothing().is_noted(3));
    }

    fn nothing() -> Known<'static> {
        let log =
            Log { bytes: &[], file_nos: &[], starts: &[], stops: &[], versions: &[], rules: &[] };
        Known {
            log,
            reserved: &[],
            page_first: &[],
            low: &[],
            prints: &[],
            noted: &[],
            noted_bits: &[],
        }
    }

    #[test]
    fn slots_beside_records() {
        let print = POLYNOMIAL.fingerprint(b"k", 7, 2).unwrap();
        let bytes = vec![0; 9_000];
        let log = Log {
            bytes: &bytes,
            file_nos: &[4, 6],
            starts: &[0, 4096],
            stops: &[100, 9_000],
            ..nothing().log
        };
        let known = Known {
            log,
            reserved: &[true, false],
            page_first: &[0, 1, 3],
            low: &[10, 10, 20],
            prints: &[print, print + 1, print],
            ..nothing()
        };
        let lsns = [6 << 32 | 20, 6 << 32 | 10, 6 << 32 | 21, 4 << 32 | 10, 6 << 32 | 5_000, -1];
        let keys = Owned::new(&["k"; 6]);
        let slots = |expires_ms| {
            doubtful(
                Slots { key: keys.lend(), lsn: &lsns, state: &[0; 6], expires_ms },
                &[5, 0, 1, 2, 3, 4, 0, -1, 6],
                known,
                7,
                POLYNOMIAL,
                true,
            )
        };
        let told = slots(&[2 * HOUR_MS; 6]);
        assert_eq!(told, [true, false, true, true, true, true, false, true, true]);
        assert_eq!(slots(&[2 * HOUR_MS + 1; 6]), [true; 9]);
    }

    proptest! {
        #[test]
        fn different_records_differ(
            records in proptest::collection::hash_set(
                (vec(any::<u8>(), 0..40), -ID_MAX..ID_MAX, 0..=HOURS_MAX),
                2..6,
            ),
        ) {
            let prints: std::collections::HashSet<_> = records
                .iter()
                .map(|(key, db_id, hours)| POLYNOMIAL.fingerprint(key, *db_id, *hours).unwrap())
                .collect();
            prop_assert_eq!(prints.len(), records.len());
            prop_assert!(prints.iter().all(|&print| (0..1 << 62).contains(&print)));
        }

        #[test]
        fn any_bytes_are_read_inside_the_rows(
            data in vec(any::<u8>(), 0..60),
            offset in vec(0_u32..80, 4),
            item_size in vec(-2_i32..60, 4),
            steps in vec(any::<[i64; 3]>(), 0..4),
            ends in (0_i64..8, 0_i64..8),
            base in 0_u64..20,
        ) {
            let steps: Vec<_> = STEPS
                .into_iter()
                .chain(steps.into_iter().map(|[a, b, c]| [a % 6, b % 70, c]))
                .collect();
            let rows = Rows {
                data: &data,
                base,
                offset: &offset,
                type_no: &[0; 4],
                header_size: &[14, 22, 0, 14],
                item_size: &item_size,
                checksum: &[1; 4],
            };
            let steps = Steps { firsts: &[ends.0], lasts: &[ends.1], steps: &steps };
            let found = of_rows(rows, steps, POLYNOMIAL);
            prop_assert!(found.offsets.len() == found.prints.len() && found.prints.len() <= 4);
        }

        #[test]
        fn any_rows_have_fingerprints_or_none(
            (data, wild) in (bytes(60), any::<bool>()),
            base in prop_oneof![0_u64..20, any::<u64>()],
            rows in vec((0_u32..40, mostly(0..2), mostly(0..14), mostly(0..30)), 0..5),
            (firsts, lasts) in (vec(mostly(0..2), 0..3), vec(mostly(3..6), 0..3)),
            changes in vec((0_usize..5, 0_usize..3, number()), 0..3),
            (one, other) in any::<(u64, u64)>(),
        ) {
            // A record, over and over, or anything.
            let data = if wild { data } else { b"\x00\x05\x02ab\x01v".repeat(9) };
            let rows_of = Rows {
                data: &data,
                base,
                offset: &rows.iter().map(|row| row.0 + base as u32).collect::<Vec<_>>(),
                type_no: &rows.iter().map(|row| row.1 as u8).collect::<Vec<_>>(),
                header_size: &rows.iter().map(|row| row.2 as u8).collect::<Vec<_>>(),
                item_size: &rows.iter().map(|row| row.3 as i32).collect::<Vec<_>>(),
                checksum: &vec![Checksum::Ok as u8; rows.len()],
            };
            let mut steps = STEPS;
            for (step, at, number) in changes {
                steps[step][at] = number;
            }
            let steps = Steps { firsts: &firsts, lasts: &lasts, steps: &steps };
            let found = of_rows(rows_of, steps, Polynomial { one, other });
            prop_assert!(found.offsets.len() == found.prints.len());
        }

        #[test]
        fn any_lsns_are_noted(lsns in numbers(0..9), mut bits in bytes(20), size in 0_usize..6) {
            note(&lsns, &mut bits);
            let mut filter = vec![0; 1 << size];
            note(&lsns, &mut filter);
            let mut noted = lsns.clone();
            noted.sort_unstable();
            let known = Known { noted: &noted, noted_bits: &filter, ..nothing() };
            prop_assert!(lsns.iter().all(|&lsn| known.is_noted(lsn)));
        }

        #[test]
        fn any_slots_are_doubted_or_not(
            (size, data) in (0_usize..9_000, bytes(20)),
            (starts, stops) in (vec(mostly(0..2), 2), vec(mostly(0..9_000), 2)),
            lsn in vec(mostly(6 << 32..6 << 32 | 12), 6),
            (key_starts, key_sizes) in (vec(mostly(0..9), 6), vec(mostly(0..2), 6)),
            (states, expires_ms) in (numbers(6), vec(mostly(0..1), 6)),
            page_first in vec(prop_oneof![0_i32..4, 8..12, any::<i32>()], 0..4),
            low in vec(0_u16..12, 0..12),
            prints in vec(prop_oneof![Just(PRINT), number()], 0..12),
            (noted, bits) in (numbers(0..9), bytes(20)),
            rows in vec(mostly(0..6), 0..9),
            (db_id, asks_noted, is_same) in (mostly(7..8), any::<bool>(), any::<bool>()),
            (one, other) in any::<(u64, u64)>(),
        ) {
            let log_bytes = vec![0; size];
            let file_nos = &[4, 6];
            let log = Log {
                bytes: &log_bytes, file_nos, starts: &starts, stops: &stops, ..nothing().log
            };
            let print = POLYNOMIAL.fingerprint(b"k", 7, 0).unwrap();
            let prints: Vec<i64> =
                prints.iter().map(|&each| if each == PRINT { print } else { each }).collect();
            let known = Known {
                log,
                reserved: &[false, false],
                page_first: &page_first,
                low: &low,
                prints: &prints,
                noted: &noted,
                noted_bits: &bits,
            };
            let data = if is_same { vec![b'k'; 20] } else { data };
            let slots = Slots {
                key: Keys { data: &data, starts: &key_starts, sizes: &key_sizes },
                lsn: &lsn,
                state: &states,
                expires_ms: &expires_ms,
            };
            let polynomial = if is_same { POLYNOMIAL } else { Polynomial { one, other } };
            let told = doubtful(slots, &rows, known, db_id, polynomial, asks_noted);
            prop_assert_eq!(told.len(), rows.len());
            for (&row, told) in rows.iter().zip(told) {
                prop_assert!(told || (0..6).contains(&row));
            }
        }
    }
}
