//! Arbitrary arguments of a caller, for tests.

use proptest::collection::{SizeRange, vec};
use proptest::prelude::*;
use std::ops::Range;

use crate::file::Source;

/// A file in memory.
pub struct Memory<'a>(pub &'a [u8]);

impl Source for Memory<'_> {
    type Error = ();

    fn read(&mut self, into: &mut [u8], at: u64) -> Result<(), ()> {
        let at = usize::try_from(at).map_err(|_| ())?;
        let from = self.0.get(at..at + into.len()).ok_or(())?;
        into.copy_from_slice(from);
        Ok(())
    }
}

/// Returns numbers that are mostly rows of short columns, or just outside of these.
pub fn number() -> impl Strategy<Value = i64> {
    let edges = vec![i64::MIN, i64::MAX, -1, 0, 0xffff_ffff, 1 << 32];
    prop_oneof![6 => -2_i64..12, 1 => any::<i64>(), 1 => proptest::sample::select(edges)]
}

/// Returns numbers that are mostly in a range.
pub fn mostly(these: Range<i64>) -> impl Strategy<Value = i64> {
    prop_oneof![24 => these, 1 => number()]
}

/// Returns a column of any numbers.
pub fn numbers(rows: impl Into<SizeRange>) -> impl Strategy<Value = Vec<i64>> {
    vec(number(), rows)
}

/// Returns two columns of one length: the starts and sizes of byte strings.
pub fn places(rows: impl Into<SizeRange>) -> impl Strategy<Value = (Vec<i64>, Vec<i64>)> {
    vec((number(), number()), rows).prop_map(|pairs| pairs.into_iter().unzip())
}

/// Returns any bytes, fewer than `most`.
pub fn bytes(most: usize) -> impl Strategy<Value = Vec<u8>> {
    vec(any::<u8>(), 0..most)
}
