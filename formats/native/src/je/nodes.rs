//! Bindings for `formats/je/btree/nodes.py`.

use crate::arrays::{Column, Ints, PyInts, PyJoined, PyMask, PySpans, joined, same_length};
use crate::detached::detached;
use je_tools_core::je::nodes::{self, Deltas, Fulls};
use numpy::IntoPyArray;
use pyo3::prelude::*;

#[pyfunction]
pub fn join_keys<'py>(
    py: Python<'py>,
    first: Ints<'py>,
    prefixes: PySpans<'py>,
    rests: PySpans<'py>,
) -> PyResult<PyJoined<'py>> {
    let (first, prefixes, rests) = (first.as_slice()?, prefixes.keys()?, rests.keys()?);
    joined(py, detached(py, || nodes::join_keys(first, prefixes, rests))?)
}

#[pyfunction]
#[pyo3(signature = (keys, first, full_first, full_last, *, ordered, two_part))]
pub fn merge_slots<'py>(
    py: Python<'py>,
    keys: PySpans<'py>,
    first: Ints<'py>,
    full_first: Ints<'py>,
    full_last: Ints<'py>,
    ordered: bool,
    two_part: bool,
) -> PyResult<(PyInts<'py>, PyInts<'py>)> {
    let deltas = Deltas {
        keys: keys.keys()?,
        first: first.as_slice()?,
        full_first: full_first.as_slice()?,
        full_last: full_last.as_slice()?,
    };
    same_length(deltas.full_first.len(), deltas.full_last.len())?;
    let found = detached(py, || {
        if ordered { nodes::merge(deltas, two_part) } else { nodes::merge_by_bytes(deltas) }
    })?;
    Ok((found.slots.into_pyarray(py), found.counts.into_pyarray(py)))
}

/// Python's `node_states.States`.
#[derive(FromPyObject)]
pub struct PyStates<'py> {
    first: Ints<'py>,
    prefix: PySpans<'py>,
    rest: PySpans<'py>,
}

#[pyfunction]
#[pyo3(signature = (keys, first, fulls, rows, alive, *, ascending))]
pub fn count_replaced<'py>(
    py: Python<'py>,
    keys: PySpans<'py>,
    first: Ints<'py>,
    fulls: PyStates<'py>,
    rows: Ints<'py>,
    alive: Column<'py, bool>,
    ascending: bool,
) -> PyResult<u64> {
    let (keys, first, rows) = (keys.keys()?, first.as_slice()?, rows.as_slice()?);
    let fulls = Fulls {
        first: fulls.first.as_slice()?,
        prefix: fulls.prefix.keys()?,
        rest: fulls.rest.keys()?,
        alive: alive.as_slice()?,
    };
    same_length(fulls.rest.len(), fulls.alive.len())?;
    detached(py, || nodes::count_replaced(keys, first, fulls, rows, ascending))
}

#[pyfunction]
#[pyo3(signature = (keys, first, low, high, *, two_part))]
pub fn within<'py>(
    py: Python<'py>,
    keys: PySpans<'py>,
    first: Ints<'py>,
    low: PySpans<'py>,
    high: PySpans<'py>,
    two_part: bool,
) -> PyResult<PyMask<'py>> {
    let (keys, first) = (keys.keys()?, first.as_slice()?);
    let (low, high) = (low.keys()?, high.keys()?);
    same_length(low.len(), high.len())?;
    Ok(detached(py, || nodes::within(keys, first, low, high, two_part))?.into_pyarray(py))
}
