//! Bindings for `formats/ignite/page_items.py`.

use je_tools_core::ignite::page_items::{ITEM_COLUMNS, read};
use je_tools_core::ignite::page_layout::{DATA_FIELDS, FIELDS, PageField, TREE_FIELDS};
use numpy::{PyArray1, PyArray2, PyReadonlyArray2, PyUntypedArrayMethods};
use pyo3::prelude::*;

use super::walk::order_of;
use crate::arrays::{array, table};
use crate::detached::detached;

pub const DECLARED: crate::Declared = &[("ignite.page_items.ITEM_COLUMNS", ITEM_COLUMNS as i64)];

type PyItems<'py> = (Bound<'py, PyArray2<i64>>, Bound<'py, PyArray1<u8>>);

/// Fields of all pages of some types: name, offset, kind.
type Fields = Vec<(&'static str, usize, &'static str)>;

#[pyfunction]
pub fn page_items<'py>(
    py: Python<'py>,
    pages: PyReadonlyArray2<'py, u8>,
    is_big: bool,
) -> PyResult<PyItems<'py>> {
    let page_size = pages.shape()[1];
    let bytes = pages.as_slice()?;
    let found = detached(py, || read(bytes, page_size, order_of(is_big)))?;
    let count = found.items.len();
    Ok((table(py, found.columns(), ITEM_COLUMNS, count)?, array(py, found.data)))
}

#[pyfunction]
pub fn page_fields() -> (Vec<PageField>, Fields, Fields) {
    (FIELDS.to_vec(), DATA_FIELDS.to_vec(), TREE_FIELDS.to_vec())
}
