//! Bindings for `formats/je/write/column_writer.py`.

use crate::arrays::{Column, Ints, PyJoined, joined};
use crate::detached::detached;
use je_tools_core::je::column_writer::{self, Part, Table};
use numpy::{PyReadonlyArray2, PyUntypedArrayMethods};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

pub const DECLARED: crate::Declared = &[
    ("je.layout.COMPACT_NULL_OFFSET", column_writer::COMPACT_NULL_OFFSET),
    ("je.entry.programs.U8", column_writer::U8),
    ("je.entry.programs.I64", column_writer::I64),
    ("je.entry.programs.PACKED", column_writer::PACKED),
    ("je.entry.programs.BYTES", column_writer::BYTES),
    ("je.entry.programs.COMPACT_LSN", column_writer::COMPACT_LSN),
    ("je.entry.programs.SET", column_writer::SET),
    ("je.entry.programs.CLEAR", column_writer::CLEAR),
    ("je.entry.programs.OP_HEAD", column_writer::OP_HEAD as i64),
    ("je.entry.programs.TEST_WIDTH", column_writer::TEST_WIDTH as i64),
    ("je.entry.programs.OP_WIDTH", column_writer::OP_WIDTH as i64),
];

/// Python's `programs.Program`.
#[derive(FromPyObject)]
pub struct PyWrittenProgram<'py> {
    op_start: Ints<'py>,
    op_stop: Ints<'py>,
    ops: Ints<'py>,
}

/// Python's `column_writer.EntryPart`.
#[derive(FromPyObject)]
pub struct PyPart<'py> {
    program: PyWrittenProgram<'py>,
    data: Column<'py, u8>,
    values: PyReadonlyArray2<'py, i64>,
    sizes: PyReadonlyArray2<'py, i64>,
    counts: Ints<'py>,
    firsts: Ints<'py>,
}

impl PyPart<'_> {
    fn part(&self) -> PyResult<Part<'_>> {
        Ok(Part {
            op_start: self.program.op_start.as_slice()?,
            op_stop: self.program.op_stop.as_slice()?,
            ops: self.program.ops.as_slice()?,
            data: self.data.as_slice()?,
            values: Table { numbers: self.values.as_slice()?, rows: self.values.shape()[1] },
            sizes: Table { numbers: self.sizes.as_slice()?, rows: self.sizes.shape()[1] },
            counts: self.counts.as_slice()?,
            firsts: self.firsts.as_slice()?,
        })
    }
}

#[pyfunction]
pub fn encode_parts<'py>(
    py: Python<'py>,
    types: Column<'py, u8>,
    head: PyPart<'py>,
    slots: PyPart<'py>,
    tail: PyPart<'py>,
) -> PyResult<PyJoined<'py>> {
    let (types, head, slots, tail) = (types.as_slice()?, head.part()?, slots.part()?, tail.part()?);
    match detached(py, || column_writer::encode(types, head, slots, tail))? {
        Some(found) => joined(py, found),
        None => Err(PyValueError::new_err("columns do not have what their program asks for")),
    }
}
