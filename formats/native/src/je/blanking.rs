//! Bindings for `formats/je/write/blanking.py`.

use crate::arrays::{Ints, PySpans, outside};
use crate::detached::detached;
use je_tools_core::je::blanking;
use numpy::{IntoPyArray, PyArray1};
use pyo3::prelude::*;

#[pyfunction]
#[pyo3(signature = (entries, ranges, first, *, summed_flags))]
pub fn blank_sums<'py>(
    py: Python<'py>,
    entries: PySpans<'py>,
    ranges: PySpans<'py>,
    first: Ints<'py>,
    summed_flags: u8,
) -> PyResult<Bound<'py, PyArray1<u32>>> {
    let (entries, ranges, first) = (entries.keys()?, ranges.keys()?, first.as_slice()?);
    let found = detached(py, || blanking::sums(entries, ranges, first, summed_flags))?;
    Ok(found.map_err(outside)?.into_pyarray(py))
}
