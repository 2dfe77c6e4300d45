//! Bindings for `formats/ignite/records.py`.

use je_tools_core::ignite::entries::{self, ENTRIES_MAX, ENTRY_COLUMNS, Place};
use je_tools_core::ignite::fields::{self, Coding, Payloads};
use numpy::{PyArray1, PyArray2};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use super::walk::order_of;
use crate::arrays::{Column, Ints, PyMask, array, same_length, table};
use crate::detached::detached;

pub const DECLARED: crate::Declared = &[
    ("ignite.types.FieldCoding.U1", Coding::U1 as i64),
    ("ignite.types.FieldCoding.U2", Coding::U2 as i64),
    ("ignite.types.FieldCoding.I2", Coding::I2 as i64),
    ("ignite.types.FieldCoding.I4", Coding::I4 as i64),
    ("ignite.types.FieldCoding.I8", Coding::I8 as i64),
    ("ignite.types.FieldCoding.PAGE", Coding::Page as i64),
    ("ignite.types.FieldCoding.TIME", Coding::Time as i64),
    ("ignite.types.FieldCoding.VERSION", Coding::Version as i64),
    ("ignite.types.FieldCoding.BYTES2", Coding::Bytes2 as i64),
    ("ignite.types.FieldCoding.BYTES4", Coding::Bytes4 as i64),
    ("ignite.types.FieldCoding.UUID", Coding::Uuid as i64),
    ("ignite.types.FieldCoding.NODES", Coding::Nodes as i64),
    ("ignite.types.FieldCoding.REST", Coding::Rest as i64),
    ("ignite.records.ENTRY_COLUMNS", ENTRY_COLUMNS as i64),
    ("ignite.records.ENTRIES_MAX", ENTRIES_MAX as i64),
];

/// Python's `records.Payloads`.
#[derive(FromPyObject)]
pub struct PyPayloads<'py> {
    data: Column<'py, u8>,
    starts: Ints<'py>,
    ends: Ints<'py>,
    is_big: bool,
}

impl PyPayloads<'_> {
    pub fn borrow(&self) -> PyResult<Payloads<'_>> {
        let (starts, ends) = (self.starts.as_slice()?, self.ends.as_slice()?);
        same_length(starts.len(), ends.len())?;
        let order = order_of(self.is_big);
        Ok(Payloads { bytes: self.data.as_slice()?, starts, ends, order })
    }
}

type PyTable<'py> = (Bound<'py, PyArray2<i64>>, Bound<'py, PyArray1<bool>>);

#[pyfunction]
pub fn decode_fields<'py>(
    py: Python<'py>,
    payloads: PyPayloads<'py>,
    codings: Vec<u8>,
) -> PyResult<PyTable<'py>> {
    let codings: Option<Vec<_>> = codings.into_iter().map(Coding::of).collect();
    let codings = codings.ok_or_else(|| PyValueError::new_err("no field has such a coding"))?;
    let width = codings.iter().map(|coding| coding.columns()).sum();
    let borrowed = payloads.borrow()?;
    let (columns, bad) = detached(py, || fields::decode(borrowed, &codings))?;
    Ok((table(py, columns, width, bad.len())?, array(py, bad)))
}

/// Record, start and number of entries that are left.
type PyPlace = (usize, i64, i32);

#[pyfunction]
pub fn decode_entries<'py>(
    py: Python<'py>,
    payloads: PyPayloads<'py>,
    types: Column<'py, u8>,
    start: Option<PyPlace>,
) -> PyResult<(Bound<'py, PyArray2<i64>>, PyMask<'py>, Option<PyPlace>)> {
    let (borrowed, types) = (payloads.borrow()?, types.as_slice()?);
    same_length(borrowed.starts.len(), types.len())?;
    let start = start.map(|(record, at, left)| Place { record, at, left });
    let found = detached(py, || entries::columns(borrowed, types, start, ENTRIES_MAX))?;
    let next = found.next.map(|Place { record, at, left }| (record, at, left));
    Ok((table(py, found.columns, ENTRY_COLUMNS, found.rows)?, array(py, found.bad), next))
}
