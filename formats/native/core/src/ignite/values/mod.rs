//! Values of caches as JSON: cache objects, tagged values, and binary objects with their metadata.
//!
//! Source: CacheObjectAdapter, GridBinaryMarshaller, BinaryReaderExImpl, BinaryUtils, Ignite 2.18.0.

mod json;
pub mod metadata;
mod reader;
pub mod types;

pub use reader::Problem;

use crate::spans::{Outside, Spans};
use reader::Writer;
use types::Types;

/// Depth of nested values from which a value is not decoded: it bounds the stack.
pub const DEPTH_MAX: usize = 100;

/// Largest size of a value's text: `EXPANSION` bytes for each byte of the value, in addition to
/// `EXPANSION_BASE`.
///
/// References can name one value many times, so that a text could grow without bounds. Work that
/// leaves no text counts as text, so the time is bounded too.
pub const EXPANSION: usize = 64;
const EXPANSION_BASE: usize = 64 << 10;

/// Total size of texts that are made at once: their offsets are numbers of 32 bits.
pub const TEXTS_MAX: usize = 1 << 30;

/// Kind of a cache object that is bare bytes.
pub const KIND_BYTES: i64 = 2;

/// Texts one after the other.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Texts {
    /// ASCII.
    pub data: Vec<u8>,
    /// Start of each text in `data`, and the end of the last.
    pub offsets: Vec<i32>,
    /// Problem of each value.
    pub problems: Vec<Problem>,
}

/// Returns cache objects as JSON; one that is null has no text.
///
/// A value that does not decode is `{"undecoded":"reason"}`.
pub fn texts(types: &Types, values: &Spans<'_>, kinds: &[i64]) -> Result<Texts, Outside> {
    let mut found = Texts { offsets: vec![0], ..Texts::default() };
    for (row, &kind) in (0..values.len()).zip(kinds) {
        let problem = match values.get(row)? {
            Some(bytes) => text(types, bytes, kind, &mut found.data),
            None => Problem::Good,
        };
        found.problems.push(problem);
        found.offsets.push(i32::try_from(found.data.len()).unwrap_or(i32::MAX));
    }
    Ok(found)
}

fn text(types: &Types, bytes: &[u8], kind: i64, out: &mut Vec<u8>) -> Problem {
    let start = out.len();
    let room = bytes.len().saturating_mul(EXPANSION).saturating_add(EXPANSION_BASE);
    let most = start.saturating_add(room).min(TEXTS_MAX);
    let mut writer = Writer::new(types, bytes, out, most);
    let problem = match if kind == KIND_BYTES { writer.bytes() } else { writer.whole() } {
        Ok(()) => return writer.doubt(),
        Err(problem) => problem,
    };
    out.truncate(start);
    out.extend_from_slice(b"{\"undecoded\":\"");
    out.extend_from_slice(problem.reason().as_bytes());
    out.extend_from_slice(b"\"}");
    problem
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::bytes;
    use proptest::prelude::*;
    use std::time::{Duration, Instant};

    fn json(value: &[u8]) -> (String, Problem) {
        let mut out = Vec::new();
        let problem = text(&Types::default(), value, 1, &mut out);
        (String::from_utf8(out).unwrap(), problem)
    }

    fn good(value: &[u8]) -> String {
        let (text, problem) = json(value);
        assert_eq!(problem, Problem::Good, "{text}");
        text
    }

    #[test]
    fn scalars() {
        assert_eq!(good(b"\x03\xff\xff\xff\xff"), r#"{"int":-1}"#);
        assert_eq!(good(b"\x09\x03\0\0\0a\"\x01"), r#""a\"\u0001""#);
        assert_eq!(good(b"\x08\x01"), "true");
        assert_eq!(good(b"\x65"), "null");
        assert_eq!(good(b"\x05\0\0\x80\x3f"), r#"{"floatBits":"3f800000"}"#);
        assert_eq!(good(b"\x1e\x02\0\0\0\x01\0\0\0\x85"), r#"{"decimal":["-5",2]}"#);
        assert_eq!(
            good(b"\x0a\x01\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0"),
            r#"{"uuid":"00000000-0000-0001-0000-000000000002"}"#
        );
    }

    #[test]
    fn lists_and_references() {
        let list = b"\x18\x02\0\0\0\x01\x14\x01\0\0\0\x65\x66\x06\0\0\0";
        let inner = r#"{"array":"String","of":[null]}"#;
        let expected = format!(r#"{{"collection":"ArrayList","of":[{inner},{inner}]}}"#);
        assert_eq!(good(list), expected);
        let itself = b"\x18\x01\0\0\0\x01\x66\x06\0\0\0";
        assert_eq!(good(itself), r#"{"collection":"ArrayList","of":[{"handle":0}]}"#);
    }

    #[test]
    fn an_object_without_metadata_has_numbers_for_names() {
        let mut object = vec![103, 1, 3 | 8 | 32, 0, 7, 0, 0, 0, 0, 0, 0, 0, 30, 0, 0, 0];
        object.extend([9, 0, 0, 0, 29, 0, 0, 0, 3, 5, 0, 0, 0, 24]);
        let (text, problem) = json(&object);
        assert_eq!(text, r##"{"object":null,"typeId":7,"fields":{"#0":{"int":5}}}"##);
        assert_eq!(problem, Problem::Partial);
    }

    const MAP_ID: [u8; 4] = [221, 197, 159, 224];
    const SET_ID: [u8; 4] = [227, 220, 159, 224];

    /// Returns an object of raw data.
    fn object(id: [u8; 4], body: &[u8]) -> Vec<u8> {
        let mut bytes = vec![103, 1, 4, 0];
        bytes.extend(id);
        bytes.extend([0; 4]);
        bytes.extend((24 + body.len() as i32).to_le_bytes());
        bytes.extend([0, 0, 0, 0, 24, 0, 0, 0]);
        bytes.extend(body);
        bytes
    }

    /// Appends a reference to the value at `target`.
    fn refer(value: &mut Vec<u8>, target: usize) {
        let back = i32::try_from(value.len() - target).unwrap();
        value.push(102);
        value.extend(back.to_le_bytes());
    }

    /// Asserts that a value is given up before it takes time without bounds.
    fn assert_is_given_up(value: &[u8]) {
        let start = Instant::now();
        assert_eq!(json(value).1, Problem::Long);
        // Only unbounded work takes that long; otherwise it takes a fraction of a second.
        assert!(start.elapsed() < Duration::from_secs(60), "{:?}", start.elapsed());
    }

    #[test]
    fn sorted_maps_and_sets_are_collections() {
        let map = object(MAP_ID, b"\x65\x01\0\0\0\x08\x01\x65");
        assert_eq!(good(&map), r#"{"map":"TreeMap","of":[[true,null]]}"#);
        let set = object(SET_ID, b"\x65\x01\0\0\0\x08\x01");
        assert_eq!(good(&set), r#"{"collection":"TreeSet","of":[true]}"#);
        assert_eq!(json(&object(SET_ID, b"\x65\x02\0\0\0\x08\x01")).1, Problem::Damaged);
    }

    #[test]
    fn what_does_not_decode_has_a_reason() {
        assert_eq!(json(b"\x03\0").1, Problem::Damaged);
        assert_eq!(json(b"\x65\x65").1, Problem::Damaged);
        assert_eq!(json(b"\xfd\x01").1, Problem::Transformed);
        assert_eq!(json(b"").1, Problem::Damaged);
        let deep = b"\x18\x01\0\0\0\x01".repeat(DEPTH_MAX + 1);
        assert_eq!(json(&deep).1, Problem::Deep);
    }

    #[test]
    fn references_to_references_do_not_grow_without_bounds() {
        // Each list names the one before it twice.
        let mut value = vec![24, 41, 0, 0, 0, 1, 24, 0, 0, 0, 0, 1];
        let mut before = 6_usize;
        for _ in 0..40 {
            let start = value.len();
            value.extend([24, 2, 0, 0, 0, 1]);
            refer(&mut value, before);
            refer(&mut value, before);
            before = start;
        }
        assert_eq!(json(&value).1, Problem::Long);
    }

    #[test]
    fn comparators_that_are_not_shown_do_not_take_time_without_bounds() {
        // Each set names the one before it as its comparator and as its element.
        let mut value = vec![24, 41, 0, 0, 0, 1, 101];
        let mut before = 6;
        for _ in 0..40 {
            let start = value.len();
            value.extend(object(SET_ID, &[0; 14])[..24].iter());
            refer(&mut value, before);
            value.extend(1_i32.to_le_bytes());
            refer(&mut value, before);
            before = start;
        }
        assert_is_given_up(&value);
    }

    #[test]
    fn a_long_comparator_is_not_read_without_bounds() {
        // 10000 references to a set whose comparator has 100000 bytes.
        let (size, references) = (100_000_i32, 10_000);
        let mut value = vec![24];
        value.extend((references + 1_i32).to_le_bytes());
        value.push(1);
        let target = value.len();
        let mut body = vec![9];
        body.extend(size.to_le_bytes());
        body.extend(vec![b'a'; size as usize]);
        body.extend([0; 4]);
        value.extend(object(SET_ID, &body));
        assert_eq!(good(&value[target..]), r#"{"collection":"TreeSet","of":[]}"#);
        (0..references).for_each(|_| refer(&mut value, target));
        assert_is_given_up(&value);
    }

    #[test]
    fn digits_of_decimals_do_not_take_time_without_bounds() {
        let (size, references) = (2048_i32, 10_000);
        let mut decimal = vec![30, 0, 0, 0, 0];
        decimal.extend(size.to_le_bytes());
        decimal.extend(vec![0x7f; size as usize]);
        let list = |count: i32| [&[24][..], &count.to_le_bytes(), &[1]].concat();
        let each_once = [list(40), decimal.repeat(40)].concat();
        assert_eq!(json(&each_once).1, Problem::Good);
        let mut again = [list(references + 1), decimal].concat();
        (0..references).for_each(|_| refer(&mut again, 6));
        assert_is_given_up(&again);
    }

    #[test]
    fn fields_that_are_not_there_do_not_take_time_without_bounds() {
        // 10000 references to an object whose footer has 100000 fields without a value.
        let (fields, references) = (100_000, 10_000);
        let mut value = vec![24];
        value.extend((references + 1_i32).to_le_bytes());
        value.push(1);
        let target = value.len();
        value.extend([103, 1, 3 | 8 | 32, 0, 7, 0, 0, 0, 0, 0, 0, 0]);
        value.extend((24 + fields as i32).to_le_bytes());
        value.extend([0, 0, 0, 0, 24, 0, 0, 0]);
        value.extend(vec![0; fields]);
        assert_eq!(json(&value[target..]).1, Problem::Partial);
        (0..references).for_each(|_| refer(&mut value, target));
        assert_is_given_up(&value);
    }

    #[test]
    fn chains_of_references_do_not_take_time_without_bounds() {
        // A list that names a chain of references 1000 times, and is named 20000 times.
        let mut value = vec![24];
        value.extend(20_092_i32.to_le_bytes());
        value.extend([1, 101]);
        for _ in 0..90 {
            let before = value.len() - if value.len() == 7 { 1 } else { 5 };
            refer(&mut value, before);
        }
        let chain = value.len() - 5;
        let list = value.len();
        value.extend([24, 0xe8, 3, 0, 0, 1]);
        (0..1000).for_each(|_| refer(&mut value, chain));
        (0..20_000).for_each(|_| refer(&mut value, list));
        assert_is_given_up(&value);
    }

    proptest! {
        #[test]
        fn any_bytes_become_ascii_of_bounded_size(value in bytes(200), kind in 0_i64..4) {
            let mut out = Vec::new();
            text(&Types::default(), &value, kind, &mut out);
            prop_assert!(out.is_ascii());
            prop_assert!(out.len() <= value.len() * EXPANSION + 2 * EXPANSION_BASE);
        }

        #[test]
        fn any_tags_decode(tags in proptest::collection::vec(
            prop_oneof![4 => proptest::sample::select(vec![0_u8, 1, 2, 3, 9, 23, 24, 25, 27, 28, 101, 102, 103, 254]), 1 => any::<u8>()], 0..300)) {
            let mut out = Vec::new();
            text(&Types::default(), &tags, 1, &mut out);
            prop_assert!(out.is_ascii());
        }
    }
}
