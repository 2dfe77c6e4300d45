//! Bindings for `formats/ignite/hashes.py`.

use je_tools_core::ignite::hashes;
use numpy::PyArray1;
use pyo3::prelude::*;

use crate::arrays::{PyInts, PyMask, PySpans, array, outside};
use crate::detached::detached;

type PyHashes<'py> = Bound<'py, PyArray1<i32>>;

#[pyfunction]
pub fn value_digests<'py>(py: Python<'py>, values: PySpans<'py>) -> PyResult<PyInts<'py>> {
    let values = values.borrow()?;
    let found = detached(py, || hashes::of_values(&values))?.map_err(outside)?;
    Ok(array(py, found))
}

#[pyfunction]
pub fn key_hashes<'py>(
    py: Python<'py>,
    keys: PySpans<'py>,
) -> PyResult<(PyHashes<'py>, PyMask<'py>)> {
    let keys = keys.borrow()?;
    let (found, known) = detached(py, || hashes::of_keys(&keys))?.map_err(outside)?;
    Ok((array(py, found), array(py, known)))
}
