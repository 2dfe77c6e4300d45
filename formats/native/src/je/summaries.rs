//! Bindings for `formats/je/log/summaries.py`.

use je_tools_core::je::summaries::{self, Form};
use numpy::{PyArray1, PyArray2};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::arrays::{Column, array, table};
use crate::detached::detached;

type PySummaries<'py> = (
    Bound<'py, PyArray1<i64>>,
    Bound<'py, PyArray1<i64>>,
    Bound<'py, PyArray2<i64>>,
    Bound<'py, PyArray1<i64>>,
);

#[pyfunction]
#[pyo3(signature = (data, starts, stops, keys, *, width))]
pub fn read_summaries<'py>(
    py: Python<'py>,
    data: Column<'py, u8>,
    starts: Column<'py, i64>,
    stops: Column<'py, i64>,
    keys: Option<Column<'py, i64>>,
    width: usize,
) -> PyResult<PySummaries<'py>> {
    let (data, starts, stops) = (data.as_slice()?, starts.as_slice()?, stops.as_slice()?);
    let keys = keys.as_ref().map(Column::as_slice).transpose()?;
    if starts.len() != stops.len() || keys.is_some_and(|keys| keys.len() != starts.len()) {
        return Err(PyValueError::new_err("columns differ in length"));
    }
    let form = Form { skipped: usize::from(keys.is_some()), width };
    let found = detached(py, || summaries::read(data, starts, stops, keys, form))?;
    let rows = found.rows.len();
    Ok((
        array(py, found.rows),
        array(py, found.file_nos),
        table(py, found.totals, rows, width)?,
        array(py, found.obsolete),
    ))
}
