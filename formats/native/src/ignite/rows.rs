//! Bindings for `formats/ignite/rows.py`.

use je_tools_core::ignite::rows::{ROW_COLUMNS, RowFault, RowWalk};
use je_tools_core::ignite::tree::TreeFault;
use numpy::{PyArray1, PyArray2};
use pyo3::prelude::*;

use super::page_image::PyPageImage;
use crate::arrays::{array, table};
use crate::detached::detached;

pub const DECLARED: crate::Declared = &[
    ("ignite.rows.ROW_COLUMNS", ROW_COLUMNS as i64),
    ("ignite.rows.RowFault.NOT_DATA", RowFault::NotData as i64),
    ("ignite.rows.RowFault.NO_ITEM", RowFault::NoItem as i64),
    ("ignite.rows.RowFault.SHARED", RowFault::Shared as i64),
    ("ignite.rows.RowFault.UNDECODABLE", RowFault::Undecodable as i64),
    ("ignite.rows.RowFault.ELSEWHERE", RowFault::Elsewhere as i64),
];

type PyRows<'py> = (Bound<'py, PyArray2<i64>>, Bound<'py, PyArray1<u8>>);

/// Reader of the rows of one image; see `_native.pyi`.
#[pyclass]
pub struct RowWalker(RowWalk);

#[pymethods]
impl RowWalker {
    #[new]
    fn new(py: Python<'_>, image: PyPageImage<'_>) -> PyResult<Self> {
        let image = image.borrow()?;
        detached(py, || RowWalk::new(&image)).map(Self)
    }

    fn step<'py>(
        &mut self,
        py: Python<'py>,
        image: PyPageImage<'py>,
        most_rows: usize,
        most_bytes: usize,
    ) -> PyResult<PyRows<'py>> {
        let image = image.borrow()?;
        let walk = &mut self.0;
        let rows = detached(py, || walk.step(&image, most_rows, most_bytes))?;
        let count = rows.rows.len();
        Ok((table(py, rows.columns(), ROW_COLUMNS, count)?, array(py, rows.data)))
    }

    fn faults(&self) -> Vec<(u32, u8)> {
        self.0.faults().into_iter().map(|(page, fault)| (page, TreeFault::number(fault))).collect()
    }
}
