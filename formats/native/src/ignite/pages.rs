//! Bindings for `formats/ignite/pages.py`.

use je_tools_core::ignite::pages::{
    self, ENCRYPTED_TAIL_SIZE, INDEX_PARTITION, PAGE_HEADER_SIZE, PageRules, PageState, Pages,
};
use numpy::PyArray1;
use pyo3::prelude::*;

use super::walk::order_of;
use crate::arrays::{Column, array};
use crate::detached::detached;
use crate::file::{File, PySource};

pub const DECLARED: crate::Declared = &[
    ("ignite.pages.PAGE_HEADER_SIZE", PAGE_HEADER_SIZE as i64),
    ("ignite.pages.ENCRYPTED_TAIL_SIZE", ENCRYPTED_TAIL_SIZE as i64),
    ("ignite.page_ids.INDEX_PARTITION", INDEX_PARTITION as i64),
    ("ignite.pages.PageState.GOOD", PageState::Good as i64),
    ("ignite.pages.PageState.ZERO", PageState::Zero as i64),
    ("ignite.pages.PageState.ENCRYPTED", PageState::Encrypted as i64),
    ("ignite.pages.PageState.UNSUMMED", PageState::Unsummed as i64),
    ("ignite.pages.PageState.CHECKSUM", PageState::Checksum as i64),
    ("ignite.pages.PageState.CUT", PageState::Cut as i64),
    ("ignite.pages.PageState.MISPLACED", PageState::Misplaced as i64),
    ("ignite.pages.PageState.UNKNOWN", PageState::Unknown as i64),
    ("ignite.pages.PageState.UNREADABLE", PageState::Unreadable as i64),
];

/// Python's `pages.PageRules`.
#[derive(FromPyObject)]
pub struct PyPageRules<'py> {
    page_size: usize,
    is_big: bool,
    partition: u16,
    versions: Column<'py, u8>,
    items_at: Column<'py, u8>,
    items_size: Column<'py, u8>,
    free_at: Column<'py, u8>,
}

/// The fields of Python's `pages.PageColumns`.
type PyPages<'py> = (
    Bound<'py, PyArray1<u8>>,
    Bound<'py, PyArray1<u16>>,
    Bound<'py, PyArray1<u16>>,
    Bound<'py, PyArray1<i64>>,
    Bound<'py, PyArray1<u8>>,
    Bound<'py, PyArray1<u8>>,
    Bound<'py, PyArray1<u16>>,
    Bound<'py, PyArray1<u16>>,
    Bound<'py, PyArray1<u32>>,
    Bound<'py, PyArray1<u32>>,
    Bound<'py, PyArray1<i32>>,
    Bound<'py, PyArray1<i32>>,
);

impl PyPageRules<'_> {
    fn borrow(&self) -> PyResult<PageRules<'_>> {
        Ok(PageRules {
            page_size: self.page_size,
            order: order_of(self.is_big),
            partition: self.partition,
            versions: self.versions.as_slice()?,
            items_at: self.items_at.as_slice()?,
            items_size: self.items_size.as_slice()?,
            free_at: self.free_at.as_slice()?,
        })
    }
}

fn columns(py: Python<'_>, pages: Pages) -> PyPages<'_> {
    (
        array(py, pages.state),
        array(py, pages.type_no),
        array(py, pages.version),
        array(py, pages.id),
        array(py, pages.rotated),
        array(py, pages.compression),
        array(py, pages.compressed_size),
        array(py, pages.compacted_size),
        array(py, pages.stored),
        array(py, pages.computed),
        array(py, pages.items),
        array(py, pages.free),
    )
}

#[pyfunction]
pub fn read_pages<'py>(
    py: Python<'py>,
    data: Column<'py, u8>,
    rules: PyPageRules<'py>,
    first: u64,
) -> PyResult<PyPages<'py>> {
    let (bytes, rules) = (data.as_slice()?, rules.borrow()?);
    let pages = detached(py, || pages::read(bytes, rules, first))?;
    Ok(columns(py, pages))
}

#[pyfunction]
pub fn read_file_pages<'py>(
    py: Python<'py>,
    file: Option<&File>,
    source: Py<PyAny>,
    span: (u64, u64),
    rules: PyPageRules<'py>,
    first: u64,
) -> PyResult<PyPages<'py>> {
    let mut source = PySource::new(file, source);
    let (rules, span) = (rules.borrow()?, span.0..span.1);
    let pages = detached(py, || pages::read_file(&mut source, span, rules, first))??;
    Ok(columns(py, pages))
}
