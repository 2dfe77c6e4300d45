//! Bindings for `formats/ignite/record_table.py`.

use je_tools_core::ignite::entries::ENTRIES_MAX;
use je_tools_core::ignite::fields::Coding;
use je_tools_core::ignite::record_table::{
    self, Field, FieldUse, Layout, NumberColumn, OwnFields, PARTITION_STATE, Place,
};
use numpy::PyArray2;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use super::records::PyPayloads;
use crate::arrays::{Column, PyInts, PyMask, array, same_length, table};
use crate::detached::detached;

pub const DECLARED: crate::Declared = &[
    ("ignite.record_table.NumberColumn.TIME_MS", NumberColumn::TimeMs as i64),
    ("ignite.record_table.NumberColumn.GROUP_ID", NumberColumn::GroupId as i64),
    ("ignite.record_table.NumberColumn.PAGE_ID", NumberColumn::PageId as i64),
    ("ignite.record_table.NumberColumn.CACHE_ID", NumberColumn::CacheId as i64),
    ("ignite.record_table.NumberColumn.PARTITION", NumberColumn::Partition as i64),
    ("ignite.record_table.NumberColumn.ENTRY", NumberColumn::Entry as i64),
    ("ignite.record_table.NumberColumn.OP", NumberColumn::Op as i64),
    ("ignite.record_table.NumberColumn.STATE", NumberColumn::State as i64),
    ("ignite.record_table.NumberColumn.COUNTER", NumberColumn::Counter as i64),
    ("ignite.record_table.NumberColumn.EXPIRE_MS", NumberColumn::ExpireMs as i64),
    ("ignite.record_table.NumberColumn.FLAGS", NumberColumn::Flags as i64),
    ("ignite.record_table.NumberColumn.KEY_TYPE", NumberColumn::KeyType as i64),
    ("ignite.record_table.NumberColumn.VALUE_TYPE", NumberColumn::ValueType as i64),
    ("ignite.record_table.NumberColumn.NEAR_TOPOLOGY", NumberColumn::NearTopology as i64),
    ("ignite.record_table.NumberColumn.NEAR_NODE", NumberColumn::NearNode as i64),
    ("ignite.record_table.NumberColumn.NEAR_ORDER", NumberColumn::NearOrder as i64),
    ("ignite.record_table.NumberColumn.VERSION_TOPOLOGY", NumberColumn::VersionTopology as i64),
    ("ignite.record_table.NumberColumn.VERSION_NODE", NumberColumn::VersionNode as i64),
    ("ignite.record_table.NumberColumn.VERSION_ORDER", NumberColumn::VersionOrder as i64),
    ("ignite.record_table.FieldUse.OWN", FieldUse::Own as i64),
    ("ignite.record_table.FieldUse.NUMBER", FieldUse::Number as i64),
    ("ignite.record_table.FieldUse.PARTITION_STATE", FieldUse::PartitionState as i64),
    ("ignite.record_table.FieldUse.PAGE", FieldUse::Page as i64),
    ("ignite.record_table.FieldUse.VERSION", FieldUse::Version as i64),
    ("ignite.record_table.FieldUse.KEY", FieldUse::Key as i64),
    ("ignite.record_table.FieldUse.VALUE", FieldUse::Value as i64),
    ("ignite.record_table.FieldUse.CIPHER", FieldUse::Cipher as i64),
    ("ignite.record_table.PARTITION_STATE", PARTITION_STATE),
];

/// Python's `record_table.RecordLayout`.
#[derive(FromPyObject)]
pub struct PyLayout {
    codings: Vec<u8>,
    uses: Vec<u8>,
    columns: Vec<usize>,
    is_data: bool,
}

impl PyLayout {
    fn layout(self) -> Option<Layout> {
        let fields = self.codings.into_iter().zip(self.uses).zip(self.columns);
        let field = |((coding, used), column)| {
            Some(Field { coding: Coding::of(coding)?, used: FieldUse::of(used)?, column })
        };
        let fields: Option<Vec<_>> = fields.map(field).collect();
        Some(Layout::new(&fields?, self.is_data))
    }
}

/// Record, start of the entry, its number in the record, and whether the record is bad.
type PyPlace = (usize, i64, i64, bool);
/// Type, records, and columns.
type PyOwn<'py> = (u8, PyInts<'py>, Bound<'py, PyArray2<i64>>);
type PySpan<'py> = (PyInts<'py>, PyInts<'py>);
type PyRows<'py> = (
    PyInts<'py>,
    Vec<PyInts<'py>>,
    Vec<PyMask<'py>>,
    PySpan<'py>,
    PySpan<'py>,
    PyMask<'py>,
    PyMask<'py>,
    Vec<PyOwn<'py>>,
    Option<PyPlace>,
);

/// Layouts of all types of records; see `_native.pyi`.
#[pyclass(frozen)]
pub struct RecordDecoder(Vec<Layout>);

#[pymethods]
impl RecordDecoder {
    #[new]
    #[pyo3(signature = (layouts))]
    fn new(layouts: Vec<PyLayout>) -> PyResult<Self> {
        let layouts: Option<_> = layouts.into_iter().map(PyLayout::layout).collect();
        layouts.map(Self).ok_or_else(|| PyValueError::new_err("no field has such a coding or use"))
    }

    fn rows<'py>(
        &self,
        py: Python<'py>,
        payloads: PyPayloads<'py>,
        types: Column<'py, u8>,
        start: Option<PyPlace>,
    ) -> PyResult<PyRows<'py>> {
        let (borrowed, types) = (payloads.borrow()?, types.as_slice()?);
        same_length(borrowed.starts.len(), types.len())?;
        let start = start.map(|(record, at, ordinal, bad)| Place { record, at, ordinal, bad });
        let found =
            detached(py, || record_table::rows(borrowed, types, &self.0, start, ENTRIES_MAX))?;
        let own = |own: OwnFields| {
            let rows = own.records.len();
            PyResult::Ok((
                own.type_no,
                array(py, own.records),
                table(py, own.columns, own.width, rows)?,
            ))
        };
        let span = |(starts, sizes)| (array(py, starts), array(py, sizes));
        Ok((
            array(py, found.record),
            found.numbers.into_iter().map(|column| array(py, column)).collect(),
            found.valid.into_iter().map(|column| array(py, column)).collect(),
            span(found.key),
            span(found.value),
            array(py, found.is_encrypted),
            array(py, found.bad),
            found.own.into_iter().map(own).collect::<PyResult<_>>()?,
            found.next.map(|Place { record, at, ordinal, bad }| (record, at, ordinal, bad)),
        ))
    }
}
