//! Bindings for `formats/je/log/tally.py`.

use je_tools_core::je::tally::{
    Action, BROKEN, Columns, DATA, KEY, Line, NO_MINIMUM, Programs, Tally, tally_sizes, tally_types,
};
use je_tools_core::je::walk::Window;
use numpy::{IntoPyArray, PyArray1, PyReadonlyArray1, PyReadonlyArray2};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::detached::detached;

pub const DECLARED: crate::Declared = &[
    ("je.log.tally.KEY", KEY as i64),
    ("je.log.tally.DATA", DATA as i64),
    ("je.log.tally.BROKEN", BROKEN as i64),
    ("je.log.tally.NO_MINIMUM", NO_MINIMUM),
    ("je.entry.steps.Action.FLAGS", Action::Flags as i64),
    ("je.entry.steps.Action.FIXED", Action::Fixed as i64),
    ("je.entry.steps.Action.PACKED", Action::Packed as i64),
    ("je.entry.steps.Action.BYTES", Action::Bytes as i64),
    ("je.entry.steps.Action.REST", Action::Rest as i64),
    ("je.entry.steps.Action.BYTES_I32", Action::BytesI32 as i64),
];

/// Result of Python's `steps.programs`.
#[derive(FromPyObject)]
pub struct PyPrograms<'py>(
    PyReadonlyArray1<'py, i64>,
    PyReadonlyArray1<'py, i64>,
    PyReadonlyArray2<'py, i64>,
);

impl PyPrograms<'_> {
    pub fn owned(&self) -> PyResult<Programs> {
        Programs::new(self.0.as_slice()?, self.1.as_slice()?, self.2.as_slice()?)
            .ok_or_else(|| PyValueError::new_err("these are no programs"))
    }
}

/// Lines of types and of sizes, flattened; five numbers each.
#[derive(IntoPyObject)]
pub struct PyTally<'py>(Bound<'py, PyArray1<i64>>, Bound<'py, PyArray1<i64>>);

impl<'py> PyTally<'py> {
    pub fn of(py: Python<'py>, tally: &Tally) -> Self {
        Self(flat(py, &tally.types), flat(py, &tally.sizes))
    }
}

fn flat<'py>(py: Python<'py>, lines: &[Line]) -> Bound<'py, PyArray1<i64>> {
    lines.concat().into_pyarray(py)
}

/// Columns of `entry_rows.Rows` that are tallied.
#[derive(FromPyObject)]
pub struct PyRows<'py> {
    data: PyReadonlyArray1<'py, u8>,
    base: u64,
    offset: PyReadonlyArray1<'py, u32>,
    item_size: PyReadonlyArray1<'py, i32>,
    #[pyo3(attribute("type"))]
    type_no: PyReadonlyArray1<'py, u8>,
    flags: PyReadonlyArray1<'py, u8>,
    header_size: PyReadonlyArray1<'py, u8>,
    checksum: PyReadonlyArray1<'py, u8>,
}

#[pyfunction]
#[pyo3(signature = (rows, programs))]
pub fn tally<'py>(
    py: Python<'py>,
    rows: PyRows<'_>,
    programs: Option<PyPrograms<'_>>,
) -> PyResult<PyTally<'py>> {
    let window = Window { bytes: rows.data.as_slice()?, base: rows.base };
    let columns = Columns {
        offset: rows.offset.as_slice()?,
        item_size: rows.item_size.as_slice()?,
        type_no: rows.type_no.as_slice()?,
        flags: rows.flags.as_slice()?,
        header_size: rows.header_size.as_slice()?,
        checksum: rows.checksum.as_slice()?,
    };
    if columns.rows().is_none() {
        return Err(PyValueError::new_err("columns differ in length"));
    }
    let programs = programs.map(|programs| programs.owned()).transpose()?;
    let mut tally = Tally::default();
    detached(py, || {
        tally_types(columns, &mut tally.types);
        if let Some(programs) = &programs {
            tally_sizes(window, columns, programs, &mut tally.sizes);
        }
    })?;
    Ok(PyTally::of(py, &tally))
}
