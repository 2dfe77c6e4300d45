//! Bindings for `formats/je/entry/identity.py`.

use je_tools_core::je::identity::{self, SEED_SIZE};
use numpy::PyArray1;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::arrays::{Column, PySpans, array, outside};
use crate::detached::detached;

pub const DECLARED: crate::Declared = &[("je.entry.identity.SEED_SIZE", SEED_SIZE as i64)];

type PyDigests<'py> = (Bound<'py, PyArray1<i64>>, Bound<'py, PyArray1<i64>>);

#[pyfunction]
pub fn identify<'py>(
    py: Python<'py>,
    keys: PySpans<'py>,
    db_ids: Column<'py, i64>,
    seed: Column<'py, u32>,
) -> PyResult<PyDigests<'py>> {
    let (keys, db_ids) = (keys.borrow()?, db_ids.as_slice()?);
    let seed = seed.as_slice()?.try_into();
    let seed = seed.map_err(|_| PyValueError::new_err("a seed has SEED_SIZE words"))?;
    let found = detached(py, || identity::identify(&keys, db_ids, seed))?.map_err(outside)?;
    Ok((array(py, found.0), array(py, found.1)))
}

#[pyfunction]
pub fn mark_newest<'py>(
    py: Python<'py>,
    first: Column<'py, i64>,
    second: Column<'py, i64>,
    wanted: Column<'py, bool>,
    threads: usize,
) -> PyResult<Bound<'py, PyArray1<bool>>> {
    let (first, second, wanted) = (first.as_slice()?, second.as_slice()?, wanted.as_slice()?);
    if first.len() != second.len() || first.len() != wanted.len() {
        return Err(PyValueError::new_err("columns differ in length"));
    }
    Ok(array(py, detached(py, || identity::newest(first, second, wanted, threads))?))
}
