//! Columns of byte strings: spans of a buffer, to concatenate and to search.

use memchr::memmem::Finder;

use crate::{bytes, text};

/// Error for a span outside its buffer, or columns that differ in length: a bug in the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outside;

/// Byte strings as a column: spans of one buffer; a negative size is null.
#[derive(Clone, Copy, Debug)]
pub struct Spans<'a> {
    data: &'a [u8],
    starts: &'a [i64],
    sizes: &'a [i64],
}

impl<'a> Spans<'a> {
    /// Returns the column; `starts` and `sizes` must have the same length.
    pub fn new(data: &'a [u8], starts: &'a [i64], sizes: &'a [i64]) -> Result<Self, Outside> {
        if starts.len() == sizes.len() { Ok(Self { data, starts, sizes }) } else { Err(Outside) }
    }

    /// Returns the number of byte strings.
    #[inline]
    pub fn len(&self) -> usize {
        self.sizes.len()
    }

    /// Returns true if there are no byte strings.
    pub fn is_empty(&self) -> bool {
        self.sizes.is_empty()
    }

    /// Returns the size of each byte string; negative for null.
    pub fn sizes(&self) -> &'a [i64] {
        self.sizes
    }

    /// Returns the byte string in `row`; `None` if it is null.
    #[inline]
    pub fn get(&self, row: usize) -> Result<Option<&'a [u8]>, Outside> {
        let (Some(&start), Some(&size)) = (self.starts.get(row), self.sizes.get(row)) else {
            return Err(Outside);
        };
        let Ok(size) = usize::try_from(size) else {
            return Ok(None);
        };
        let start = usize::try_from(start).map_err(|_| Outside)?;
        let value = self.data.get(start..).and_then(|rest| rest.get(..size));
        value.map(Some).ok_or(Outside)
    }

    /// Returns an iterator over all byte strings, in order.
    pub fn iter(&self) -> impl Iterator<Item = Result<Option<&'a [u8]>, Outside>> + '_ {
        (0..self.len()).map(|row| self.get(row))
    }
}

/// Sets the bytes of all byte strings to `value`; null ones have none.
pub fn fill(data: &mut [u8], starts: &[i64], sizes: &[i64], value: u8) -> Result<(), Outside> {
    if starts.len() != sizes.len() {
        return Err(Outside);
    }
    for (&start, &size) in starts.iter().zip(sizes) {
        let Ok(size) = usize::try_from(size) else {
            continue;
        };
        let start = usize::try_from(start).map_err(|_| Outside)?;
        let bytes = data.get_mut(start..).and_then(|rest| rest.get_mut(..size));
        bytes.ok_or(Outside)?.fill(value);
    }
    Ok(())
}

/// Returns for each byte string whether all its bytes are zero; true for null.
pub fn are_zero(spans: &Spans<'_>) -> Result<Vec<bool>, Outside> {
    spans.iter().map(|each| Ok(each?.is_none_or(bytes::are_zero))).collect()
}

/// Format in which [`gather`] writes a byte string.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Unchanged.
    Plain,
    /// Two lower-case hexadecimal digits per byte.
    Hex,
    /// At most this many bytes, with `.` for all but printable ASCII; `~` is last if bytes were
    /// cut.
    Printable(usize),
}

/// Offsets of strings, one more than there are strings, and their bytes.
pub type Strings = (Vec<i32>, Vec<u8>);

/// Returns the strings, concatenated; `None` if they are too long for [`offsets_of`].
pub fn gather(spans: &Spans<'_>, form: Form, most: usize) -> Result<Option<Strings>, Outside> {
    let Some(offsets) = offsets_of(spans.sizes, form, most) else {
        return Ok(None);
    };
    let total = offsets.last().map_or(0, |&end| end as usize);
    let mut out = Vec::new();
    if form == Form::Hex {
        out.resize(total, 0);
    } else {
        out.reserve_exact(total);
    }
    let mut at = 0;
    for value in spans.iter() {
        let Some(value) = value? else { continue };
        match form {
            Form::Plain => out.extend_from_slice(value),
            Form::Hex => {
                let after = at + 2 * value.len();
                text::put_hex(value, out.get_mut(at..after).ok_or(Outside)?);
                at = after;
            }
            Form::Printable(limit) => put_printable(value, limit, &mut out),
        }
    }
    Ok(Some((offsets, out)))
}

fn put_printable(value: &[u8], limit: usize, out: &mut Vec<u8>) {
    let shown = value.get(..limit).unwrap_or(value);
    out.extend(shown.iter().map(|&byte| if (32..127).contains(&byte) { byte } else { b'.' }));
    if shown.len() < value.len() {
        if let Some(last) = out.last_mut().filter(|_| !shown.is_empty()) {
            *last = b'~';
        }
    }
}

/// Returns the offset of each concatenated string, and the end of the last one.
///
/// Returns `None` if they take more than `most` bytes, or more than 31 bits can count.
pub fn offsets_of(sizes: &[i64], form: Form, most: usize) -> Option<Vec<i32>> {
    let most = most.min(i32::MAX as usize);
    let mut offsets = Vec::with_capacity(sizes.len() + 1);
    offsets.push(0);
    let mut at = 0_usize;
    for &size in sizes {
        let size = usize::try_from(size).unwrap_or(0);
        let length = match form {
            Form::Plain => size,
            Form::Hex => size.checked_mul(2)?,
            Form::Printable(limit) => size.min(limit),
        };
        at = at.checked_add(length).filter(|&at| at <= most)?;
        offsets.push(i32::try_from(at).ok()?);
    }
    Some(offsets)
}

/// Returns LSNs as `0x3/0x1a2f`, concatenated; `None` if they take more than `most` bytes.
pub fn lsn_texts(lsns: &[i64], most: usize) -> Option<Strings> {
    let mut offsets = Vec::with_capacity(lsns.len() + 1);
    let mut out = Vec::with_capacity(lsns.len().saturating_mul(text::LSN_MAX));
    offsets.push(0);
    for &lsn in lsns {
        let mut digits = [0; text::LSN_ROOM];
        let size = text::put_lsn(lsn, &mut digits);
        out.extend_from_slice(&digits[..size]);
        offsets.push(i32::try_from(out.len()).ok().filter(|_| out.len() <= most)?);
    }
    Some((offsets, out))
}

/// Returns a mask of the strings that start with `needle`, or are equal to it if `whole`.
pub fn starts_with(spans: &Spans<'_>, needle: &[u8], whole: bool) -> Result<Vec<bool>, Outside> {
    let test = |value: &[u8]| if whole { value == needle } else { value.starts_with(needle) };
    spans.iter().map(|value| Ok(value?.is_some_and(test))).collect()
}

/// Returns a mask of the strings that contain `needle`.
pub fn contains(spans: &Spans<'_>, needle: &[u8]) -> Result<Vec<bool>, Outside> {
    let finder = Finder::new(needle);
    spans.iter().map(|value| Ok(value?.is_some_and(|value| finder.find(value).is_some()))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{bytes, numbers, places};
    use proptest::prelude::*;

    const DATA: &[u8] = b"abc\x00\x7fdefghabc";
    const STARTS: &[i64] = &[0, 99, 3, 5, 10];
    const SIZES: &[i64] = &[3, -1, 2, 0, 3];

    fn spans() -> Spans<'static> {
        Spans::new(DATA, STARTS, SIZES).unwrap()
    }

    fn texts((offsets, out): &Strings) -> Vec<String> {
        let pairs = offsets.windows(2).map(|pair| pair[0] as usize..pair[1] as usize);
        pairs.map(|range| String::from_utf8_lossy(&out[range]).into_owned()).collect()
    }

    #[test]
    fn strings_follow_each_other() {
        let of = |form| texts(&gather(&spans(), form, 100).unwrap().unwrap());
        assert_eq!(of(Form::Plain), ["abc", "", "\0\x7f", "", "abc"]);
        assert_eq!(of(Form::Hex), ["616263", "", "007f", "", "616263"]);
        assert_eq!(of(Form::Printable(2)), ["a~", "", "..", "", "a~"]);
        assert_eq!(of(Form::Printable(0)), ["", "", "", "", ""]);
    }

    #[test]
    fn what_is_too_long_is_not_begun() {
        assert_eq!(gather(&spans(), Form::Plain, 8).unwrap().unwrap().0, [0, 3, 3, 5, 5, 8]);
        assert_eq!(gather(&spans(), Form::Plain, 7), Ok(None));
        assert_eq!(gather(&spans(), Form::Hex, 15), Ok(None));
        assert_eq!(offsets_of(&[i64::MAX, i64::MAX], Form::Hex, usize::MAX), None);
        assert_eq!(offsets_of(&[1 << 31], Form::Plain, usize::MAX), None);
    }

    #[test]
    fn a_span_outside_of_the_buffer_is_an_error() {
        for (start, size) in [(-1, 0), (0, 14), (14, 0), (i64::MAX, i64::MAX)] {
            let (starts, sizes) = ([start], [size]);
            assert_eq!(Spans::new(DATA, &starts, &sizes).unwrap().get(0), Err(Outside));
        }
        assert!(Spans::new(DATA, &[0], &[]).is_err());
        assert_eq!(spans().get(5), Err(Outside));
    }

    #[test]
    fn lsns() {
        let found = lsn_texts(&[0, -1, 3 << 32 | 0x1a2f], 100).unwrap();
        assert_eq!(texts(&found), ["0x0/0x0", "0xffffffff/0xffffffff", "0x3/0x1a2f"]);
        assert_eq!(lsn_texts(&[0, -1], 27), None);
    }

    #[test]
    fn needles() {
        let of = |needle| contains(&spans(), needle).unwrap();
        assert_eq!(of(b"bc"), [true, false, false, false, true]);
        assert_eq!(of(b""), [true, false, true, true, true]);
        let of = |needle, whole| starts_with(&spans(), needle, whole).unwrap();
        assert_eq!(of(b"ab", false), [true, false, false, false, true]);
        assert_eq!(of(b"ab", true), [false; 5]);
        assert_eq!(of(b"", true), [false, false, false, true, false]);
    }

    proptest! {
        #[test]
        fn any_spans_are_gathered_or_refused(
            data in bytes(40),
            (starts, sizes) in places(0..8),
            limit in prop_oneof![0_usize..20, Just(usize::MAX)],
            most in prop_oneof![0_usize..100, Just(1_000)],
        ) {
            let spans = Spans::new(&data, &starts, &sizes).unwrap();
            for form in [Form::Plain, Form::Hex, Form::Printable(limit)] {
                if let Ok(Some((offsets, out))) = gather(&spans, form, most) {
                    prop_assert_eq!(offsets.last().copied(), Some(out.len() as i32));
                    prop_assert_eq!(offsets.len(), spans.len() + 1);
                    prop_assert!(out.len() <= most);
                }
            }
        }

        #[test]
        fn any_spans_are_searched_or_refused(
            data in proptest::collection::vec(0_u8..3, 0..40),
            (starts, sizes) in places(0..8),
            needle in proptest::collection::vec(0_u8..3, 0..4),
        ) {
            let spans = Spans::new(&data, &starts, &sizes).unwrap();
            let told = |test: &dyn Fn(&[u8]) -> bool| {
                (0..spans.len()).map(|row| Ok(spans.get(row)?.is_some_and(test))).collect()
            };
            let needle = &needle[..];
            let begins: Result<Vec<bool>, Outside> = told(&|value| value.starts_with(needle));
            prop_assert_eq!(starts_with(&spans, needle, false), begins);
            prop_assert_eq!(starts_with(&spans, needle, true), told(&|value| value == needle));
            let holds = |value: &[u8]| {
                needle.is_empty() || value.windows(needle.len()).any(|some| some == needle)
            };
            prop_assert_eq!(contains(&spans, needle), told(&holds));
        }

        #[test]
        fn any_spans_are_filled_or_refused(
            mut data in bytes(40),
            (starts, sizes) in places(0..8),
        ) {
            let before = data.clone();
            let filled = fill(&mut data, &starts, &sizes, 0);
            let spans = Spans::new(&data, &starts, &sizes).unwrap();
            let zero = are_zero(&spans);
            prop_assert_eq!(filled.is_ok(), zero.is_ok());
            prop_assert!(zero.is_err() || zero.unwrap().into_iter().all(|each| each));
            prop_assert!(data.iter().zip(&before).all(|(new, old)| new == old || *new == 0));
        }

        #[test]
        fn any_lsns_are_told(lsns in numbers(0..9), most in prop_oneof![0..200_usize, Just(9_999)]) {
            let told = |lsn: &i64| format!("0x{:x}/0x{:x}", lsn >> 32 & 0xffff_ffff, *lsn as u32);
            let told: Vec<String> = lsns.iter().map(told).collect();
            let found = lsn_texts(&lsns, most);
            prop_assert_eq!(found.is_some(), told.concat().len() <= most);
            prop_assert_eq!(found.map_or_else(|| told.clone(), |found| texts(&found)), told);
        }
    }
}
