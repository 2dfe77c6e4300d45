//! Bindings for `formats/arrays.py`: arrays and columns of byte strings, to and from Python.

use je_tools_core::arrays::{self, Distinct};
use je_tools_core::je::keys::Keys;
use je_tools_core::je::nodes::Joined;
use je_tools_core::spans::{Outside, Spans};
use numpy::{
    Element, IntoPyArray, PyArray, PyArray1, PyArray2, PyArrayMethods, PyReadonlyArray1,
    PyUntypedArrayMethods,
};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::detached::detached;

/// A one-dimensional array, copied if it is not contiguous.
pub struct Column<'py, T: Element>(PyReadonlyArray1<'py, T>);

pub type Ints<'py> = Column<'py, i64>;

impl<'a, 'py, T: Element + 'a> FromPyObject<'a, 'py> for Column<'py, T> {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        let array: PyReadonlyArray1<'py, T> = object.extract()?;
        if array.is_contiguous() {
            return Ok(Self(array));
        }
        Ok(Self(object.call_method0("copy")?.extract()?))
    }
}

impl<T: Element> Column<'_, T> {
    pub fn as_slice(&self) -> PyResult<&[T]> {
        Ok(self.0.as_slice()?)
    }
}

/// Python's `spans.Spans`.
#[derive(FromPyObject)]
pub struct PySpans<'py> {
    data: Column<'py, u8>,
    starts: Ints<'py>,
    sizes: Ints<'py>,
}

impl PySpans<'_> {
    pub fn keys(&self) -> PyResult<Keys<'_>> {
        let (starts, sizes) = (self.starts.as_slice()?, self.sizes.as_slice()?);
        same_length(starts.len(), sizes.len())?;
        Ok(Keys { data: self.data.as_slice()?, starts, sizes })
    }

    pub fn borrow(&self) -> PyResult<Spans<'_>> {
        Spans::new(self.data.as_slice()?, self.starts.as_slice()?, self.sizes.as_slice()?)
            .map_err(outside)
    }
}

/// Returns an error unless both columns have the same length.
pub fn same_length(one: usize, other: usize) -> PyResult<()> {
    if one == other { Ok(()) } else { Err(PyValueError::new_err("columns differ in length")) }
}

pub type PyBytes1<'py> = Bound<'py, PyArray1<u8>>;
pub type PyInts<'py> = Bound<'py, PyArray1<i64>>;
pub type PyMask<'py> = Bound<'py, PyArray1<bool>>;

/// Byte strings, one after the other, as the fields of `spans.Spans`; the bytes are read-only.
pub type PyJoined<'py> = (PyBytes1<'py>, PyInts<'py>, PyInts<'py>);

pub fn joined(py: Python<'_>, joined: Joined) -> PyResult<PyJoined<'_>> {
    let data = read_only(joined.data.into_pyarray(py))?;
    Ok((data, joined.starts.into_pyarray(py), joined.sizes.into_pyarray(py)))
}

pub fn read_only(array: PyBytes1<'_>) -> PyResult<PyBytes1<'_>> {
    array.getattr("flags")?.setattr("writeable", false)?;
    Ok(array)
}

/// Returns the error for spans outside their buffer: a bug in the caller.
pub fn outside(_: Outside) -> PyErr {
    PyValueError::new_err("a span outside of its buffer, or columns that differ in length")
}

/// Returns columns stored one after the other as an array (columns, rows).
pub fn table<'py, T: Element>(
    py: Python<'py>,
    numbers: Vec<T>,
    columns: usize,
    rows: usize,
) -> PyResult<Bound<'py, PyArray2<T>>> {
    PyArray::from_vec(py, numbers).reshape([columns, rows])
}

/// Returns numbers as an array, without a copy.
pub fn array<T: Element>(py: Python<'_>, numbers: Vec<T>) -> Bound<'_, PyArray1<T>> {
    PyArray::from_vec(py, numbers)
}

type PyDistinct<'py> =
    (Bound<'py, PyArray1<i64>>, Bound<'py, PyArray1<i64>>, Bound<'py, PyArray1<i64>>);

#[pyfunction]
pub fn distinct<'py>(py: Python<'py>, column: Column<'py, i64>) -> PyResult<PyDistinct<'py>> {
    let column = column.as_slice()?;
    let Distinct { values, first, choice } = detached(py, || arrays::distinct(column))?;
    Ok((array(py, values), array(py, first), array(py, choice)))
}
