//! Bindings for `formats/je/btree/node_checks.py`.

use crate::arrays::{Ints, PyMask, PySpans};
use crate::detached::detached;
use je_tools_core::je::node_checks;
use numpy::IntoPyArray;
use pyo3::prelude::*;

#[pyfunction]
#[pyo3(signature = (keys, first, *, two_part))]
pub fn descents<'py>(
    py: Python<'py>,
    keys: PySpans<'py>,
    first: Ints<'py>,
    two_part: bool,
) -> PyResult<PyMask<'py>> {
    let (keys, first) = (keys.keys()?, first.as_slice()?);
    Ok(detached(py, || node_checks::descents(keys, first, two_part))?.into_pyarray(py))
}

#[pyfunction]
pub fn holders<'py>(
    py: Python<'py>,
    keys: PySpans<'py>,
    first: Ints<'py>,
    wanted: PySpans<'py>,
) -> PyResult<PyMask<'py>> {
    let (keys, first, wanted) = (keys.keys()?, first.as_slice()?, wanted.keys()?);
    Ok(detached(py, || node_checks::holders(keys, first, wanted))?.into_pyarray(py))
}
