//! Arrays that are borrowed from Python, and `formats/arrays.py`.

use numpy::{Element, PyArray, PyArray1, PyArray2, PyArrayMethods, PyReadonlyArray1};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::{Borrowed, FromPyObject};

use je_tools_core::arrays::{self, Distinct};
use je_tools_core::spans::{Outside, Spans};

/// A column of numbers; one whose elements do not lie one after the other is copied.
pub enum Column<'py, T: Element> {
    Borrowed(PyReadonlyArray1<'py, T>),
    Copied(Vec<T>),
}

impl<'a, 'py, T: Element + Copy + 'a> FromPyObject<'a, 'py> for Column<'py, T> {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        let array: PyReadonlyArray1<'py, T> = object.extract()?;
        if array.as_slice().is_ok() {
            return Ok(Self::Borrowed(array));
        }
        let copied = array.as_array().iter().copied().collect();
        Ok(Self::Copied(copied))
    }
}

impl<T: Element> Column<'_, T> {
    pub fn as_slice(&self) -> PyResult<&[T]> {
        match self {
            Self::Borrowed(array) => Ok(array.as_slice()?),
            Self::Copied(numbers) => Ok(numbers),
        }
    }
}

/// `spans.Spans`.
#[derive(FromPyObject)]
pub struct PySpans<'py> {
    data: Column<'py, u8>,
    starts: Column<'py, i64>,
    sizes: Column<'py, i64>,
}

impl PySpans<'_> {
    pub fn borrow(&self) -> PyResult<Spans<'_>> {
        Spans::new(self.data.as_slice()?, self.starts.as_slice()?, self.sizes.as_slice()?)
            .map_err(outside)
    }
}

/// The error for spans that do not lie in their buffer: a bug of the caller.
pub fn outside(_: Outside) -> PyErr {
    PyValueError::new_err("a span outside of its buffer, or columns that differ in length")
}

/// Return columns that lie one after the other as an array (columns, rows).
pub fn table<'py, T: Element>(
    py: Python<'py>,
    numbers: Vec<T>,
    columns: usize,
    rows: usize,
) -> PyResult<Bound<'py, PyArray2<T>>> {
    PyArray::from_vec(py, numbers).reshape([columns, rows])
}

/// Return numbers as an array, without a copy.
pub fn array<T: Element>(py: Python<'_>, numbers: Vec<T>) -> Bound<'_, PyArray1<T>> {
    PyArray::from_vec(py, numbers)
}

type PyDistinct<'py> =
    (Bound<'py, PyArray1<i64>>, Bound<'py, PyArray1<i64>>, Bound<'py, PyArray1<i64>>);

#[pyfunction]
pub fn distinct<'py>(py: Python<'py>, column: Column<'py, i64>) -> PyResult<PyDistinct<'py>> {
    let column = column.as_slice()?;
    let Distinct { values, first, choice } = py.detach(|| arrays::distinct(column));
    Ok((array(py, values), array(py, first), array(py, choice)))
}
