//! Bindings for `formats/ignite/replay.py`.

use je_tools_core::ignite::fields::Coding;
use je_tools_core::ignite::replay::image::RECOVERY_HEADER_SIZE;
use je_tools_core::ignite::replay::{
    MISFITS_KEPT, Misfit, Place, Reason, Records, Replay, ReplayRules,
};
use numpy::{PyArray1, PyArray2};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use super::walk::order_of;
use crate::arrays::{Column, PyBytes1, PyInts, PyMask, array, same_length, table};
use crate::detached::detached;

pub const DECLARED: crate::Declared = &[
    ("ignite.replay.MISFITS_KEPT", MISFITS_KEPT as i64),
    ("ignite.replay.RECOVERY_HEADER_SIZE", RECOVERY_HEADER_SIZE as i64),
    ("ignite.replay.MisfitReason.NO_BASE", Reason::NoBase as i64),
    ("ignite.replay.MisfitReason.BROKEN", Reason::Broken as i64),
    ("ignite.replay.MisfitReason.FIELDS", Reason::Fields as i64),
    ("ignite.replay.MisfitReason.TYPE", Reason::Type as i64),
    ("ignite.replay.MisfitReason.CONTENT", Reason::Content as i64),
    ("ignite.replay.MisfitReason.UNSUPPORTED", Reason::Unsupported as i64),
    ("ignite.replay.MisfitReason.ENCRYPTED", Reason::Encrypted as i64),
    ("ignite.replay.MisfitReason.FULL", Reason::Full as i64),
];

/// Python's `replay.PageReplayRules`.
#[derive(FromPyObject)]
pub struct PyReplayRules {
    page_size: usize,
    pages_max: usize,
    codings: Vec<Vec<u8>>,
}

/// Python's `walk.RecordColumns`, to be read.
#[derive(FromPyObject)]
pub struct PyRecords<'py> {
    at: Column<'py, u32>,
    offset: Column<'py, u32>,
    length: Column<'py, u32>,
    type_no: Column<'py, u8>,
}

/// The fields of Python's `replay.Misfit`.
type PyMisfit = (i64, u32, u8, u8, i32, i64);

type PyPlaces<'py> =
    (Bound<'py, PyArray1<i64>>, Bound<'py, PyArray1<i64>>, Bound<'py, PyArray1<i64>>, PyMask<'py>);

type PyPages<'py> = (Bound<'py, PyArray1<i64>>, Bound<'py, PyArray2<u8>>);

/// Changes of pages, applied in order; see `_native.pyi`.
#[pyclass]
pub struct PageReplay(Replay, usize);

#[pymethods]
impl PageReplay {
    #[new]
    #[pyo3(signature = (rules))]
    fn new(rules: PyReplayRules) -> PyResult<Self> {
        let codings = rules.codings.into_iter();
        let codings: Option<_> =
            codings.map(|each| each.into_iter().map(Coding::of).collect()).collect();
        let codings = codings.ok_or_else(|| PyValueError::new_err("no field has such a coding"))?;
        let page_size = rules.page_size;
        Ok(Self(
            Replay::new(ReplayRules { page_size, pages_max: rules.pages_max, codings }),
            page_size,
        ))
    }

    fn apply(
        &mut self,
        py: Python<'_>,
        data: Column<'_, u8>,
        base: u64,
        columns: PyRecords<'_>,
        segment: i64,
        is_big: bool,
    ) -> PyResult<()> {
        let records = Records {
            bytes: data.as_slice()?,
            base,
            at: columns.at.as_slice()?,
            offset: columns.offset.as_slice()?,
            length: columns.length.as_slice()?,
            type_no: columns.type_no.as_slice()?,
            segment,
            order: order_of(is_big),
        };
        same_length(records.at.len(), records.offset.len())?;
        same_length(records.at.len(), records.length.len())?;
        same_length(records.at.len(), records.type_no.len())?;
        let Self(replay, _) = self;
        detached(py, || replay.apply(records))
    }

    fn take_recovered(
        &mut self,
        py: Python<'_>,
        data: Column<'_, u8>,
        base: u64,
        is_big: bool,
    ) -> PyResult<(usize, usize)> {
        let bytes = data.as_slice()?;
        let Self(replay, _) = self;
        detached(py, || replay.take_recovered(bytes, base, order_of(is_big)))
    }

    fn applied<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<u64>> {
        array(py, self.0.applied.clone())
    }

    fn misfits(&self) -> (Vec<PyMisfit>, u64) {
        let misfits = self.0.misfits.iter();
        let rows = misfits.map(|&Misfit { segment, offset, type_no, reason, group, page_id }| {
            (segment, offset, type_no, reason as u8, group, page_id)
        });
        (rows.collect(), self.0.misfit_count)
    }

    fn destroyed(&self) -> Vec<(i32, u16)> {
        self.0.destroyed.iter().copied().collect()
    }

    fn places<'py>(&self, py: Python<'py>) -> PyPlaces<'py> {
        let (mut groups, mut partitions, mut indexes) = (vec![], vec![], vec![]);
        let mut broken = vec![];
        for (place, is_broken) in self.0.places() {
            groups.push(i64::from(place.group));
            partitions.push(i64::from(place.partition));
            indexes.push(i64::from(place.index));
            broken.push(is_broken);
        }
        (array(py, groups), array(py, partitions), array(py, indexes), array(py, broken))
    }

    fn whole_pages<'py>(&self, py: Python<'py>, group: i32, partition: u16) -> PyInts<'py> {
        let indexes = self.0.whole_pages(group, partition);
        array(py, indexes.map(i64::from).collect())
    }

    fn plain_pages<'py>(
        &self,
        py: Python<'py>,
        group: i32,
        partition: u16,
        first: u32,
        last: u32,
    ) -> PyResult<PyPages<'py>> {
        let Self(replay, page_size) = self;
        let place = |index| Place { group, partition, index };
        if first > last {
            return Err(PyValueError::new_err("the last page is before the first"));
        }
        let pages = detached(py, || replay.plain_pages(place(first)..=place(last)))?;
        let rows = pages.indexes.len();
        Ok((array(py, pages.indexes), table(py, pages.bytes, rows, *page_size)?))
    }

    fn packed_pages<'py>(
        &self,
        py: Python<'py>,
        group: i32,
        partition: u16,
    ) -> PyResult<(PyInts<'py>, PyInts<'py>, PyBytes1<'py>)> {
        let Self(replay, _) = self;
        let pages = detached(py, || replay.packed_pages(group, partition))?;
        Ok((array(py, pages.indexes), array(py, pages.starts), array(py, pages.bytes)))
    }
}
