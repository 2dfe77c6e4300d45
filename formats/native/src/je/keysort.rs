//! Bindings for `formats/je/btree/keysort.py`.

use crate::arrays::{PyInts, PyMask, PySpans, same_length};
use crate::detached::detached;
use je_tools_core::je::keys;
use numpy::IntoPyArray;
use pyo3::prelude::*;

#[pyfunction]
#[pyo3(signature = (keys, *, two_part))]
pub fn group_keys<'py>(
    py: Python<'py>,
    keys: PySpans<'py>,
    two_part: bool,
) -> PyResult<(PyInts<'py>, PyMask<'py>)> {
    let keys = keys.keys()?;
    let found = detached(py, || keys::group(keys, two_part))?;
    Ok((found.order.into_pyarray(py), found.is_new.into_pyarray(py)))
}

#[pyfunction]
pub fn equal_keys<'py>(
    py: Python<'py>,
    ones: PySpans<'py>,
    others: PySpans<'py>,
) -> PyResult<PyMask<'py>> {
    let (ones, others) = (ones.keys()?, others.keys()?);
    same_length(ones.len(), others.len())?;
    Ok(detached(py, || keys::equal(ones, others))?.into_pyarray(py))
}

#[pyfunction]
#[pyo3(signature = (keys, needles, *, two_part))]
pub fn search_sorted<'py>(
    py: Python<'py>,
    keys: PySpans<'py>,
    needles: PySpans<'py>,
    two_part: bool,
) -> PyResult<PyInts<'py>> {
    let (keys, needles) = (keys.keys()?, needles.keys()?);
    Ok(detached(py, || keys::search(keys, needles, two_part))?.into_pyarray(py))
}
