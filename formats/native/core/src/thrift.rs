//! Structs of Thrift's compact protocol: numbers taken out, and others filled in.
//!
//! Source: the compact protocol's description, Thrift 0.21.

/// Type of a byte string.
pub const BINARY: u8 = 8;
/// Type of a list.
pub const LIST: u8 = 9;
/// Type of a struct.
pub const STRUCT: u8 = 12;
/// Number of rules of a state: one per field number.
pub const FIELDS: usize = 16;
/// Value in place of a number that omits the whole field.
pub const LEFT_OUT: i64 = -1;
/// Value for a place without a number, such as the end of a struct.
pub const NOTHING: i64 = -2;

const DEPTH_MAX: usize = 32;
const VARINT_SIZE_MAX: usize = 9;

/// Bytes without the numbers that were taken out.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Opened {
    /// The remaining bytes.
    pub text: Vec<u8>,
    /// Offset in `text` of each number.
    pub places: Vec<i32>,
    /// The numbers.
    pub numbers: Vec<i64>,
    /// Role of each number, from the rules.
    pub roles: Vec<u8>,
    /// Offset after the last value.
    pub end: usize,
}

/// Values, one after the other.
#[derive(Clone, Copy, Debug)]
pub struct Values {
    /// Offset of the first value.
    pub at: usize,
    /// Type of the values.
    pub kind: u8,
    /// Number of values.
    pub count: i64,
    /// State of the values, which selects their rules; 0 for none.
    pub state: i64,
}

/// A list or a struct being read.
#[derive(Clone, Copy)]
struct Frame {
    /// Number of elements to come; `None` for a struct.
    left: Option<i64>,
    /// Type of the elements.
    kind: u8,
    state: i64,
    /// Number of the last field read.
    field: i64,
}

/// Input bytes, and the result so far.
struct Reader<'a> {
    data: &'a [u8],
    at: usize,
    kept: usize,
    rules: &'a [i64],
    opened: Opened,
}

impl Reader<'_> {
    fn byte(&mut self) -> Option<u8> {
        let byte = *self.data.get(self.at)?;
        self.at += 1;
        Some(byte)
    }

    /// Reads an unsigned number.
    fn varint(&mut self) -> Option<i64> {
        let mut value = 0_i64;
        for i in 0..VARINT_SIZE_MAX {
            let byte = self.byte()?;
            value |= i64::from(byte & 127) << (7 * i);
            if byte < 128 {
                return Some(value);
            }
        }
        None
    }

    fn skip(&mut self, size: i64) -> Option<()> {
        let size = usize::try_from(size).ok().filter(|&size| size <= self.data.len() - self.at)?;
        self.at += size;
        Some(())
    }

    fn rule(&self, state: i64, field: i64) -> i64 {
        let place = match (usize::try_from(state), usize::try_from(field)) {
            (Ok(state), Ok(field)) if field < FIELDS => {
                state.checked_mul(FIELDS).and_then(|first| first.checked_add(field))
            }
            _ => None,
        };
        place.and_then(|place| self.rules.get(place)).copied().unwrap_or(0)
    }

    /// Takes out the number that begins at `begun`, or the end of a struct, which has no bytes.
    fn take_out(&mut self, begun: usize, number: i64, role: i64) -> Option<()> {
        self.opened.text.extend_from_slice(self.data.get(self.kept..begun)?);
        self.kept = self.at;
        self.opened.places.push(i32::try_from(self.opened.text.len()).ok()?);
        self.opened.numbers.push(number);
        self.opened.roles.push(u8::try_from(role).ok()?);
        Some(())
    }

    /// Reads the head of the next field; returns its type and rule, or `Some(None)` at the end.
    fn field(&mut self, frame: &mut Frame) -> Option<Option<(u8, i64)>> {
        let head = self.byte()?;
        if head == 0 {
            return Some(None);
        }
        frame.field = if head < 16 {
            self.varint()? >> 1
        } else {
            frame.field.checked_add(i64::from(head >> 4))?
        };
        let rule = if frame.field > 0 { self.rule(frame.state, frame.field) } else { 0 };
        Some(Some((head & 15, rule)))
    }

    /// Reads a value, except for elements or fields; returns the frame of a list or struct.
    fn value(&mut self, kind: u8, rule: i64, in_list: bool) -> Option<Option<Frame>> {
        let begun = self.at;
        let state = if rule < 0 { rule.checked_neg()? } else { 0 };
        match kind {
            0..=2 => self.skip(i64::from(in_list))?,
            3 => self.skip(1)?,
            4..=6 => {
                let number = self.varint()?;
                if rule > 0 {
                    if number & 1 != 0 {
                        return None;
                    }
                    self.take_out(begun, number >> 1, rule)?;
                }
            }
            7 => self.skip(8)?,
            BINARY => {
                let size = self.varint()?;
                self.skip(size)?;
            }
            LIST => {
                let head = self.byte()?;
                let short = i64::from(head >> 4);
                let left = if short == 15 { self.varint()? } else { short };
                return Some(Some(Frame { left: Some(left), kind: head & 15, state, field: 0 }));
            }
            STRUCT => return Some(Some(Frame { left: None, kind: 0, state, field: 0 })),
            _ => return None,
        }
        Some(None)
    }
}

/// Takes numbers out of values; returns `None` if the values are truncated or damaged.
///
/// `rules` has [`FIELDS`] numbers for each state, indexed by field number:
///
/// - 0 keeps the field.
/// - A positive rule takes out the number of the field, which must not be negative, in this role.
/// - A negative rule puts the struct, or the structs of the list, in the state of its magnitude.
///
/// The rule of field 0 is the role in which the end of each struct is recorded, or 0 for none.
pub fn open(data: &[u8], values: Values, rules: &[i64]) -> Option<Opened> {
    let Values { at, kind, count, state } = values;
    if at > data.len() {
        return None;
    }
    let mut reader = Reader { data, at, kept: at, rules, opened: Opened::default() };
    let mut stack = vec![Frame { left: Some(count), kind, state, field: 0 }];
    while let Some(frame) = stack.last_mut() {
        let (kind, rule, in_list) = match &mut frame.left {
            Some(left) if *left <= 0 => {
                stack.pop();
                continue;
            }
            Some(left) => {
                *left -= 1;
                (frame.kind, frame.state.checked_neg()?, true)
            }
            None => {
                let Some((kind, rule)) = reader.field(frame)? else {
                    let role = reader.rule(frame.state, 0);
                    if role > 0 {
                        reader.take_out(reader.at, 0, role)?;
                    }
                    stack.pop();
                    continue;
                };
                (kind, rule, false)
            }
        };
        if let Some(inner) = reader.value(kind, rule, in_list)? {
            if stack.len() >= DEPTH_MAX {
                return None;
            }
            stack.push(inner);
        }
    }
    let Reader { at, kept, mut opened, .. } = reader;
    opened.text.extend_from_slice(data.get(kept..at)?);
    opened.end = at;
    Some(opened)
}

/// Returns the bytes with other numbers filled in, and the end of each.
///
/// A value is a number of at least 0, [`LEFT_OUT`] or [`NOTHING`]. Returns `None` if the values are
/// not as many as the places, or if the places are not in order.
pub fn fill(text: &[u8], places: &[i32], values: &[i64]) -> Option<(Vec<u8>, Vec<i64>)> {
    if places.len() != values.len() {
        return None;
    }
    let mut out = Vec::with_capacity(text.len() + 4 * values.len());
    let mut ends = Vec::with_capacity(values.len());
    let mut done = 0;
    for (&place, &value) in places.iter().zip(values) {
        let place = usize::try_from(place).ok()?;
        out.extend_from_slice(text.get(done..place)?);
        done = place;
        match u64::try_from(value) {
            Ok(number) => put_varint(number.checked_mul(2)?, &mut out),
            Err(_) if value == LEFT_OUT => {
                out.pop()?;
            }
            Err(_) => {}
        }
        ends.push(out.len() as i64);
    }
    out.extend_from_slice(text.get(done..)?);
    Some((out, ends))
}

fn put_varint(mut number: u64, out: &mut Vec<u8>) {
    while number > 127 {
        out.push((number & 127) as u8 | 128);
        number >>= 7;
    }
    out.push(number as u8);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{bytes, number, numbers};
    use proptest::prelude::*;

    /// Returns rules by which field 1 of a struct has role 1, and its end role 2.
    fn rules() -> [i64; 2 * FIELDS] {
        let mut rules = [0; 2 * FIELDS];
        rules[FIELDS] = 2;
        rules[FIELDS + 1] = 1;
        rules[FIELDS + 3] = -1;
        rules
    }

    fn of(count: i64) -> Values {
        Values { at: 0, kind: STRUCT, count, state: 1 }
    }

    #[test]
    fn numbers_are_taken_out_and_put_back() {
        let data = [0x15, 0x90, 0x03, 0x18, 2, 9, 9, 0x1c, 0x15, 4, 0, 0, 77];
        let opened = open(&data, of(1), &rules()).unwrap();
        assert_eq!((opened.end, &opened.numbers[..]), (12, &[200, 2, 0, 0][..]));
        assert_eq!(opened.roles, [1, 1, 2, 2]);
        let (out, ends) = fill(&opened.text, &opened.places, &[200, 2, NOTHING, NOTHING]).unwrap();
        assert_eq!(out, data[..12]);
        assert_eq!(ends, [3, 10, 11, 12]);
        let (out, _) = fill(&opened.text, &opened.places, &[5, LEFT_OUT, -2, -2]).unwrap();
        assert_eq!(out, [0x15, 10, 0x18, 2, 9, 9, 0x1c, 0, 0]);
    }

    #[test]
    fn damage_is_none() {
        let data = [0x15, 0x90, 0x03, 0x18, 2, 9, 9, 0x1c, 0x15, 4, 0, 0];
        for size in 0..data.len() {
            assert_eq!(open(&data[..size], of(1), &rules()), None);
        }
        assert_eq!(open(&[0x15, 1, 0], of(1), &rules()), None);
        assert_eq!(open(&[0x1c; 100], of(1), &rules()), None);
        assert_eq!(open(&[0x1d, 0], of(1), &rules()), None);
        assert_eq!(fill(&[1, 2], &[2, 1], &[0, 0]), None);
        assert_eq!(fill(&[], &[0], &[LEFT_OUT]), None);
    }

    #[test]
    fn a_wild_count_is_not_a_length() {
        let list = [0xf5, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f, 1];
        assert_eq!(open(&list, Values { kind: LIST, ..of(1) }, &rules()), None);
    }

    proptest! {
        #[test]
        fn what_is_opened_is_filled_again(
            data in proptest::collection::vec(any::<u8>(), 0..60),
            at in 0_usize..70,
            kind in 0_u8..14,
            count in -1_i64..4,
        ) {
            let values = Values { at, kind, count, state: 1 };
            if let Some(opened) = open(&data, values, &rules()) {
                prop_assert!(opened.end <= data.len());
                let numbers = opened.numbers.iter().zip(&opened.roles);
                let numbers: Vec<_> =
                    numbers.map(|(&n, &role)| if role == 2 { NOTHING } else { n }).collect();
                prop_assert!(fill(&opened.text, &opened.places, &numbers).is_some());
            }
        }

        #[test]
        fn any_rules_are_followed_inside_the_bytes(
            data in bytes(60),
            (at, kind) in any::<(usize, u8)>(),
            (count, state) in (number(), number()),
            rules in numbers(0..3 * FIELDS),
        ) {
            for (at, kind) in [(at, kind), (at % 8, kind % 14)] {
                if let Some(opened) = open(&data, Values { at, kind, count, state }, &rules) {
                    prop_assert!(at <= opened.end && opened.end <= data.len());
                    prop_assert_eq!(opened.places.len(), opened.numbers.len());
                }
            }
        }

        #[test]
        fn any_numbers_are_filled_in_or_refused(
            text in bytes(12),
            places in proptest::collection::vec(
                prop_oneof![6 => -1_i32..14, 1 => any::<i32>()], 0..5,
            ),
            values in numbers(0..5),
        ) {
            let sorted = {
                let mut places = places.clone();
                places.sort_unstable();
                places
            };
            for places in [places, sorted] {
                if let Some((out, ends)) = fill(&text, &places, &values) {
                    prop_assert_eq!(ends.len(), values.len());
                    // A number left out takes a byte away, perhaps that of another number.
                    let inside = ends.iter().all(|&end| end <= out.len() as i64);
                    prop_assert!(values.contains(&LEFT_OUT) || ends.is_sorted() && inside);
                }
            }
        }
    }
}
