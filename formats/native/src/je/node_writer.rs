//! Bindings for `formats/je/write/node_writer.py`.

use crate::arrays::{Ints, PyInts, PyJoined, PySpans, joined, same_length};
use crate::detached::detached;
use je_tools_core::je::node_writer;
use numpy::IntoPyArray;
use pyo3::prelude::*;

#[pyfunction]
pub fn prefix_sizes<'py>(
    py: Python<'py>,
    keys: PySpans<'py>,
    first: Ints<'py>,
) -> PyResult<PyInts<'py>> {
    let (keys, first) = (keys.keys()?, first.as_slice()?);
    Ok(detached(py, || node_writer::prefix_sizes(keys, first))?.into_pyarray(py))
}

#[pyfunction]
pub fn join_rests<'py>(
    py: Python<'py>,
    keys: PySpans<'py>,
    data: PySpans<'py>,
    first: Ints<'py>,
    prefixes: Ints<'py>,
) -> PyResult<PyJoined<'py>> {
    let (keys, data) = (keys.keys()?, data.keys()?);
    let (first, prefixes) = (first.as_slice()?, prefixes.as_slice()?);
    same_length(keys.len(), data.len())?;
    same_length(first.len(), prefixes.len() + 1)?;
    joined(py, detached(py, || node_writer::join_rests(keys, data, first, prefixes))?)
}
