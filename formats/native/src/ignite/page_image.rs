//! Bindings for `formats/ignite/page_image.py`.

use je_tools_core::ignite::page_image::{self, PageFault, PageImage};
use numpy::{PyArray1, PyArray2, PyReadonlyArray2};
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
    changed_indexes: Ints<'py>,
    changed_pages: PyReadonlyArray2<'py, u8>,
}

impl PyPageImage<'_> {
    pub fn borrow(&self) -> PyResult<PageImage<'_>> {
        let changed_indexes = self.changed_indexes.as_slice()?;
        let changed_pages = self.changed_pages.as_slice()?;
        let is_whole = changed_indexes.len().checked_mul(self.page_size);
        if is_whole != Some(changed_pages.len()) || !changed_indexes.is_sorted() {
            return Err(PyValueError::new_err("a page for each changed index, ascending"));
        }
        Ok(PageImage {
            base: self.base.as_slice()?,
            header_size: self.header_size,
            page_size: self.page_size,
            order: order_of(self.is_big),
            partition: self.partition,
            changed_indexes,
            changed_pages,
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
