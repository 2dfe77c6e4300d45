//! Bindings for `formats/je/btree/slots.py`.

use je_tools_core::je::slots::{self, EMBEDDED, NO_DATA};
use numpy::PyArray1;
use pyo3::prelude::*;

use crate::arrays::{Column, PySpans, array, outside};
use crate::detached::detached;

pub const DECLARED: crate::Declared =
    &[("je.flags.SlotState.EMBEDDED", EMBEDDED), ("je.flags.SlotState.NO_DATA", NO_DATA)];

type PySizes<'py> = (Bound<'py, PyArray1<i64>>, Bound<'py, PyArray1<i64>>);

#[pyfunction]
pub fn split_keys<'py>(
    py: Python<'py>,
    keys: PySpans<'py>,
    states: Option<Column<'py, i64>>,
) -> PyResult<PySizes<'py>> {
    let keys = keys.borrow()?;
    let states = states.as_ref().map(Column::as_slice).transpose()?;
    let (sizes, data) = detached(py, || slots::split(&keys, states))?.map_err(outside)?;
    Ok((array(py, sizes), array(py, data)))
}
