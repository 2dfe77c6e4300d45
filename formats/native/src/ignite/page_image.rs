//! Bindings for `formats/ignite/page_image.py`.

use je_tools_core::ignite::page_image::{self, PageFault, PageImage};
use numpy::{PyArray1, PyArray2};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use super::walk::order_of;
use crate::arrays::{Column, Ints, array, table};
use crate::detached::detached;

pub const DECLARED: crate::Declared = &[
    ("ignite.page_image.PageFault.ABSENT", PageFault::Absent as i64),
    ("ignite.page_image.PageFault.ZERO", PageFault::Zero as i64),
    ("ignite.page_image.PageFault.CUT", PageFault::Cut as i64),
    ("ignite.page_image.PageFault.CHECKSUM", PageFault::Checksum as i64),
    ("ignite.page_image.PageFault.MISPLACED", PageFault::Misplaced as i64),
    ("ignite.page_image.PageFault.ENCRYPTED", PageFault::Encrypted as i64),
    ("ignite.page_image.PageFault.PACKED", PageFault::Packed as i64),
];

/// Python's `page_image.PageImage`.
#[derive(FromPyObject)]
pub struct PyPageImage<'py> {
    base: Column<'py, u8>,
    header_size: usize,
    page_size: usize,
    is_big: bool,
    partition: u16,
    changed: PyChangedPages<'py>,
}

/// Python's `page_image.ChangedPages`.
#[derive(FromPyObject)]
struct PyChangedPages<'py> {
    indexes: Ints<'py>,
    starts: Ints<'py>,
    data: Column<'py, u8>,
}

impl PyPageImage<'_> {
    pub fn borrow(&self) -> PyResult<PageImage<'_>> {
        let changed_indexes = self.changed.indexes.as_slice()?;
        let changed_starts = self.changed.starts.as_slice()?;
        let is_whole = changed_starts.len() == changed_indexes.len() + 1;
        if !is_whole || !changed_indexes.is_sorted() {
            return Err(PyValueError::new_err("a page for each changed index, ascending"));
        }
        Ok(PageImage {
            base: self.base.as_slice()?,
            header_size: self.header_size,
            page_size: self.page_size,
            order: order_of(self.is_big),
            partition: self.partition,
            changed_indexes,
            changed_starts,
            changed_pages: self.changed.data.as_slice()?,
        })
    }
}

type PyPlainPages<'py> = (Bound<'py, PyArray2<u8>>, Bound<'py, PyArray1<u8>>);

#[pyfunction]
pub fn image_pages<'py>(
    py: Python<'py>,
    image: PyPageImage<'py>,
    indexes: Ints<'py>,
) -> PyResult<PyPlainPages<'py>> {
    let (image, indexes) = (image.borrow()?, indexes.as_slice()?);
    let found = detached(py, || page_image::read(&image, indexes))?;
    Ok((table(py, found.pages, indexes.len(), image.page_size)?, array(py, found.faults)))
}
