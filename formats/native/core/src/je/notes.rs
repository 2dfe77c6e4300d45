//! Entries to note while a range is read: some of each wanted type, and those with odd flags.

use crate::je::walk::{Checksum, HeaderColumns, RangeSummary};

/// Number of entries of each type to note in a batch.
pub const NOTED_EACH: u8 = 2;

/// Entries to note.
#[derive(Clone, Debug)]
pub struct Watch {
    /// Types of which some entries are noted.
    pub types: [bool; 256],
    /// Flags that an entry of each type may have; an entry with another flag is odd.
    pub allowed: [u8; 256],
}

/// An entry whose type does not allow one of its flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Odd {
    /// Offset of the entry.
    pub offset: u32,
    /// Type number.
    pub type_no: u8,
    /// Flags.
    pub flags: u8,
}

/// Entries that were noted, in the order of their offsets.
#[derive(Clone, Debug, Default)]
pub struct Notes {
    /// Offsets of the first [`NOTED_EACH`] good entries of each wanted type in each batch.
    pub samples: Vec<u32>,
    /// All good entries with odd flags.
    pub odd: Vec<Odd>,
}

impl Notes {
    /// Adds entries of the first `n` rows, of which `survey` is the summary.
    pub fn add(
        &mut self,
        watch: &Watch,
        columns: &HeaderColumns<'_>,
        n: usize,
        survey: &RangeSummary,
    ) {
        let wanted = survey.counts.iter().zip(&watch.types);
        let mut left = wanted
            .map(|(&count, &is_wanted)| if is_wanted { count.min(NOTED_EACH.into()) } else { 0 })
            .sum::<i64>();
        let mut seen = [0_u8; 256];
        let rows = columns.type_no.iter().zip(&*columns.flags).zip(&*columns.checksum);
        let mut rows = rows.zip(&*columns.offset).take(n);
        while left > 0 {
            let Some((((&type_no, _), &state), &offset)) = rows.next() else { break };
            let count = &mut seen[usize::from(type_no)];
            if !watch.types[usize::from(type_no)] || *count >= NOTED_EACH {
                continue;
            }
            *count += 1;
            left -= 1;
            if state != Checksum::Bad as u8 {
                self.samples.push(offset);
            }
        }
        if survey.odd_flags == 0 {
            return;
        }
        let rows = columns.type_no.iter().zip(&*columns.flags).zip(&*columns.checksum);
        for (((&type_no, &flags), &state), &offset) in rows.zip(&*columns.offset).take(n) {
            let is_odd = flags & !watch.allowed[usize::from(type_no)] != 0;
            if is_odd && state != Checksum::Bad as u8 {
                self.odd.push(Odd { offset, type_no, flags });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::je::testing::Owned;
    use crate::je::walk::ANY_FLAGS;

    /// Returns columns with these types, flags and checksum states; offsets are 10 apart.
    fn columns(entries: &[(u8, u8, Checksum)]) -> Owned {
        let mut owned = Owned::new(entries.len());
        let lent = owned.lend();
        for (row, &(type_no, flags, state)) in entries.iter().enumerate() {
            lent.offset[row] = row as u32 * 10;
            lent.type_no[row] = type_no;
            lent.flags[row] = flags;
            lent.checksum[row] = state as u8;
        }
        owned
    }

    fn notes(watch: &Watch, entries: &[(u8, u8, Checksum)]) -> Notes {
        let mut owned = columns(entries);
        let (lent, n) = (owned.lend(), entries.len());
        let mut notes = Notes::default();
        notes.add(watch, &lent, n, &RangeSummary::of(&lent, n, &watch.allowed));
        notes
    }

    #[test]
    fn some_entries_of_each_type_are_noted() {
        let mut watch = Watch { types: [false; 256], allowed: ANY_FLAGS };
        watch.types[13] = true;
        watch.types[20] = true;
        let ok = Checksum::Ok;
        let log = [(13, 0, ok), (1, 0, ok), (13, 0, ok), (13, 0, ok), (20, 0, ok), (1, 0, ok)];
        assert_eq!(notes(&watch, &log).samples, [0, 20, 40]);
        let log = [(20, 0, Checksum::Bad), (13, 0, ok)];
        assert_eq!(notes(&watch, &log).samples, [10]);
        assert!(notes(&watch, &[(1, 0xff, ok)]).odd.is_empty());
    }

    #[test]
    fn odd_flags_are_those_that_a_type_does_not_allow() {
        let mut watch = Watch { types: [false; 256], allowed: ANY_FLAGS };
        watch.allowed[1] = 0x28;
        let (ok, bad) = (Checksum::Ok, Checksum::Bad);
        let log = [(1, 0x28, ok), (1, 0x38, ok), (2, 0x10, ok), (1, 0x10, bad), (1, 0x80, ok)];
        let found = notes(&watch, &log).odd;
        let expected = [(10, 0x38), (40, 0x80)];
        let expected = expected.map(|(offset, flags)| Odd { offset, type_no: 1, flags });
        assert_eq!(found, expected);
    }
}
