//! Bindings for `formats/spans.py`.

use je_tools_core::spans::{self, Form, Strings};
use numpy::{PyArray1, PyReadwriteArray1};
use pyo3::prelude::*;

use crate::arrays::{Column, PySpans, array, outside};
use crate::detached::detached;

pub type PyStrings<'py> = (Bound<'py, PyArray1<i32>>, Bound<'py, PyArray1<u8>>);

pub fn strings(py: Python<'_>, (offsets, bytes): Strings) -> PyStrings<'_> {
    (array(py, offsets), array(py, bytes))
}

fn gathered<'py>(
    py: Python<'py>,
    spans: &PySpans<'py>,
    form: Form,
    most: usize,
) -> PyResult<Option<PyStrings<'py>>> {
    let spans = spans.borrow()?;
    let found = detached(py, || spans::gather(&spans, form, most))?.map_err(outside)?;
    Ok(found.map(|found| strings(py, found)))
}

#[pyfunction]
pub fn gather<'py>(
    py: Python<'py>,
    spans: PySpans<'py>,
    most: usize,
) -> PyResult<Option<PyStrings<'py>>> {
    gathered(py, &spans, Form::Plain, most)
}

#[pyfunction]
pub fn gather_hex<'py>(
    py: Python<'py>,
    spans: PySpans<'py>,
    most: usize,
) -> PyResult<Option<PyStrings<'py>>> {
    gathered(py, &spans, Form::Hex, most)
}

#[pyfunction]
pub fn gather_printable<'py>(
    py: Python<'py>,
    spans: PySpans<'py>,
    limit: usize,
    most: usize,
) -> PyResult<Option<PyStrings<'py>>> {
    gathered(py, &spans, Form::Printable(limit), most)
}

#[pyfunction]
pub fn lsn_texts<'py>(
    py: Python<'py>,
    lsns: Column<'py, i64>,
    most: usize,
) -> PyResult<Option<PyStrings<'py>>> {
    let lsns = lsns.as_slice()?;
    Ok(detached(py, || spans::lsn_texts(lsns, most))?.map(|found| strings(py, found)))
}

#[pyfunction]
#[pyo3(signature = (spans, needle, *, whole))]
pub fn starts_with<'py>(
    py: Python<'py>,
    spans: PySpans<'py>,
    needle: &[u8],
    whole: bool,
) -> PyResult<Bound<'py, PyArray1<bool>>> {
    let spans = spans.borrow()?;
    let found = detached(py, || spans::starts_with(&spans, needle, whole))?.map_err(outside)?;
    Ok(array(py, found))
}

#[pyfunction]
pub fn contains<'py>(
    py: Python<'py>,
    spans: PySpans<'py>,
    needle: &[u8],
) -> PyResult<Bound<'py, PyArray1<bool>>> {
    let spans = spans.borrow()?;
    let found = detached(py, || spans::contains(&spans, needle))?.map_err(outside)?;
    Ok(array(py, found))
}

#[pyfunction]
pub fn fill_spans(
    py: Python<'_>,
    mut data: PyReadwriteArray1<'_, u8>,
    starts: Column<'_, i64>,
    sizes: Column<'_, i64>,
    value: u8,
) -> PyResult<()> {
    let (data, starts, sizes) = (data.as_slice_mut()?, starts.as_slice()?, sizes.as_slice()?);
    detached(py, || spans::fill(data, starts, sizes, value))?.map_err(outside)
}

#[pyfunction]
pub fn are_zero<'py>(py: Python<'py>, spans: PySpans<'py>) -> PyResult<Bound<'py, PyArray1<bool>>> {
    let spans = spans.borrow()?;
    let found = detached(py, || spans::are_zero(&spans))?.map_err(outside)?;
    Ok(array(py, found))
}
