//! Bindings for `formats/je/write/writer.py`.

use crate::arrays::{Ints, PySpans, same_length};
use crate::detached::detached;
use je_tools_core::je::writer::{self, FILE_HEADER_SIZE, Items, Piece, Tail};
use numpy::PyReadwriteArray1;
use pyo3::prelude::*;

pub const DECLARED: crate::Declared = &[("je.header.FILE_HEADER_SIZE", FILE_HEADER_SIZE as i64)];

/// Python's `writer.LogTail`.
#[derive(FromPyObject)]
pub struct PyTail {
    file_no: u32,
    next_offset: u64,
    last_offset: u64,
}

#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "Python's keywords name them")]
#[pyo3(signature = (items, *, row, flags, type_no, tail, file_max, summed_flags, used, piece, lsns))]
pub fn append_rows(
    py: Python<'_>,
    items: PySpans<'_>,
    row: usize,
    flags: Ints<'_>,
    type_no: u8,
    tail: PyTail,
    file_max: u64,
    summed_flags: u8,
    used: usize,
    mut piece: PyReadwriteArray1<'_, u8>,
    mut lsns: PyReadwriteArray1<'_, i64>,
) -> PyResult<(usize, u64, u64, usize)> {
    let items = Items { items: items.keys()?, flags: flags.as_slice()?, type_no };
    let PyTail { file_no, next_offset, last_offset } = tail;
    let mut tail = Tail { file_no, next_offset, last_offset };
    let (bytes, lsns) = (piece.as_slice_mut()?, lsns.as_slice_mut()?);
    same_length(items.items.len(), items.flags.len())?;
    same_length(items.items.len(), lsns.len())?;
    let mut piece = Piece { bytes, used };
    let row = detached(py, || {
        writer::append(items, row, &mut tail, file_max, summed_flags, &mut piece, lsns)
    })?;
    Ok((row, tail.next_offset, tail.last_offset, piece.used))
}
