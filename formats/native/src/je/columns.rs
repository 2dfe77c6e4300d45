//! Bindings for `formats/je/entry/programs.py` and `formats/je/entry/columns.py`.

use std::sync::Arc;

use je_tools_core::je::columns::{
    self, Ask, COMPACT_NULL_OFFSET, Coding, Family, NotAProgram, Payloads, Table,
};
use numpy::{PyArray1, PyArray2};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::arrays::{Column, array, table};
use crate::detached::detached;

pub const DECLARED: crate::Declared = &[
    ("je.layout.COMPACT_NULL_OFFSET", COMPACT_NULL_OFFSET as i64),
    ("je.entry.programs.U8", Coding::U8 as i64),
    ("je.entry.programs.I32", Coding::I32 as i64),
    ("je.entry.programs.I64", Coding::I64 as i64),
    ("je.entry.programs.PACKED", Coding::Packed as i64),
    ("je.entry.programs.BYTES", Coding::Bytes as i64),
    ("je.entry.programs.REST", Coding::Rest as i64),
    ("je.entry.programs.BYTES_I32", Coding::BytesI32 as i64),
    ("je.entry.programs.COMPACT_LSN", Coding::CompactLsn as i64),
    ("je.entry.programs.SET", Ask::Set as i64),
    ("je.entry.programs.CLEAR", Ask::Clear as i64),
    ("je.entry.programs.NOT", Ask::Not as i64),
    ("je.entry.programs.OP_CODING", columns::OP_CODING as i64),
    ("je.entry.programs.OP_COLUMN", columns::OP_COLUMN as i64),
    ("je.entry.programs.OP_SIZE", columns::OP_SIZE as i64),
    ("je.entry.programs.OP_BASE", columns::OP_BASE as i64),
    ("je.entry.programs.OP_TESTS", columns::OP_TESTS as i64),
    ("je.entry.programs.OP_REPEAT", columns::OP_REPEAT as i64),
    ("je.entry.programs.OP_HEAD", columns::OP_HEAD as i64),
    ("je.entry.programs.OP_WIDTH", columns::OP_WIDTH as i64),
    ("je.entry.programs.TEST_COLUMN", columns::TEST_COLUMN as i64),
    ("je.entry.programs.TEST_PARENT", columns::TEST_PARENT as i64),
    ("je.entry.programs.TEST_OP", columns::TEST_OP as i64),
    ("je.entry.programs.TEST_OPERAND", columns::TEST_OPERAND as i64),
    ("je.entry.programs.TEST_WIDTH", columns::TEST_WIDTH as i64),
];

fn refused(NotAProgram(why): NotAProgram) -> PyErr {
    PyValueError::new_err(why)
}

/// A program of `programs.py`, parsed and checked.
#[pyclass(frozen, module = "je_tools.formats._native")]
pub struct Program(pub Arc<columns::Program>);

#[pymethods]
impl Program {
    #[new]
    #[pyo3(signature = (*, op_start, op_stop, ops, columns, sized))]
    fn new(
        op_start: Column<'_, i64>,
        op_stop: Column<'_, i64>,
        ops: Column<'_, i64>,
        columns: usize,
        sized: usize,
    ) -> PyResult<Self> {
        let (starts, stops) = (op_start.as_slice()?, op_stop.as_slice()?);
        let program = columns::Program::parse(starts, stops, ops.as_slice()?, columns, sized);
        program.map(|program| Self(program.into())).map_err(refused)
    }
}

/// Python's `columns.ListPrograms`.
#[derive(FromPyObject)]
pub struct PyListPrograms<'py> {
    item: PyRef<'py, Program>,
    tail: PyRef<'py, Program>,
    count_column: usize,
    count_max: usize,
}

/// Python's `columns.EntryPayloads`.
#[derive(FromPyObject)]
pub struct PyItems<'py> {
    data: Column<'py, u8>,
    #[pyo3(attribute("type"))]
    type_no: Column<'py, u8>,
    start: Column<'py, i64>,
    stop: Column<'py, i64>,
}

/// Columns of numbers, columns of sizes, and the presence bits of each row.
type PyTable<'py> =
    (Bound<'py, PyArray2<i64>>, Bound<'py, PyArray2<i64>>, Bound<'py, PyArray1<i64>>);

fn py_table(py: Python<'_>, found: Table) -> PyResult<PyTable<'_>> {
    let Table { rows, columns, sized, values, sizes, present } = found;
    Ok((table(py, values, columns, rows)?, table(py, sizes, sized, rows)?, array(py, present)))
}

type PyDecoded<'py> =
    (PyTable<'py>, Option<PyTable<'py>>, Bound<'py, PyArray1<i64>>, Bound<'py, PyArray1<bool>>);

#[pyfunction]
#[pyo3(signature = (items, *, head, slots, is_whole))]
pub fn decode_columns<'py>(
    py: Python<'py>,
    items: PyItems<'py>,
    head: PyRef<'py, Program>,
    slots: Option<PyListPrograms<'py>>,
    is_whole: bool,
) -> PyResult<PyDecoded<'py>> {
    let payloads = Payloads {
        bytes: items.data.as_slice()?,
        types: items.type_no.as_slice()?,
        starts: items.start.as_slice()?,
        stops: items.stop.as_slice()?,
    };
    if payloads.types.len() != payloads.starts.len() || payloads.types.len() != payloads.stops.len()
    {
        return Err(PyValueError::new_err("columns differ in length"));
    }
    let mut family = Family::new(&head.0).map_err(refused)?;
    if let Some(list) = &slots {
        let (item, tail) = (&list.item.0, &list.tail.0);
        family =
            family.with_list(item, tail, list.count_column, list.count_max).map_err(refused)?;
    }
    let found = detached(py, || columns::decode(&payloads, &family, is_whole))?;
    let slots = found.items.map(|items| py_table(py, items)).transpose()?;
    Ok((py_table(py, found.fields)?, slots, array(py, found.first), array(py, found.bad)))
}
