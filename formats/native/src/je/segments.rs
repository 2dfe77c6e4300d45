//! Bindings for `formats/je/log/segments.py`.

use je_tools_core::je::segments::{
    ABORT, COMMIT, Databases, PREPARE, Segment, Segments, TxnFields,
};
use numpy::{IntoPyArray, PyArray1};
use pyo3::prelude::*;

use super::columns::Program;

pub const DECLARED: crate::Declared = &[
    ("je.types.COMMIT_NO", COMMIT as i64),
    ("je.types.ABORT_NO", ABORT as i64),
    ("je.types.PREPARE_NO", PREPARE as i64),
];

/// Python's `segments.TxnFields`.
#[derive(FromPyObject)]
pub struct PyTxnFields<'py> {
    program: PyRef<'py, Program>,
    txn_id: usize,
    prev_lsn: usize,
    last_lsn: usize,
    db_id: usize,
    time_ms: usize,
    file_no: u32,
    invisible: u8,
}

impl PyTxnFields<'_> {
    pub fn owned(&self) -> PyResult<TxnFields> {
        Ok(TxnFields {
            program: self.program.0.clone(),
            txn_id: self.txn_id,
            prev_lsn: self.prev_lsn,
            last_lsn: self.last_lsn,
            db_id: self.db_id,
            time_ms: self.time_ms,
            file_no: self.file_no,
            invisible: self.invisible,
        })
    }
}

type Ints<'py> = Bound<'py, PyArray1<i64>>;
type Mask<'py> = Bound<'py, PyArray1<bool>>;

/// Fields of `segments.Segments`, in their order.
#[derive(IntoPyObject)]
pub struct PySegments<'py>(
    Ints<'py>,
    Ints<'py>,
    Ints<'py>,
    Ints<'py>,
    Ints<'py>,
    Ints<'py>,
    Mask<'py>,
    Bound<'py, PyArray1<u8>>,
    Ints<'py>,
    Mask<'py>,
    Ints<'py>,
    Ints<'py>,
);

impl<'py> PySegments<'py> {
    pub fn of(py: Python<'py>, mut segments: Segments) -> Self {
        let Databases { first, ids } = segments.databases();
        let file = i64::from(segments.file_no()) << 32;
        let all = segments.all.as_slice();
        let ints =
            |of: fn(&Segment) -> i64| all.iter().map(of).collect::<Vec<_>>().into_pyarray(py);
        let lsns = |of: fn(&Segment) -> u32| {
            all.iter().map(|each| file | i64::from(of(each))).collect::<Vec<_>>().into_pyarray(py)
        };
        let mask =
            |of: fn(&Segment) -> bool| all.iter().map(of).collect::<Vec<_>>().into_pyarray(py);
        Self(
            ints(|each| each.txn_id),
            lsns(|each| each.first),
            lsns(|each| each.last),
            ints(|each| each.entries),
            ints(|each| each.size),
            ints(|each| each.invisible),
            mask(|each| each.begins),
            all.iter().map(|each| each.end_type).collect::<Vec<_>>().into_pyarray(py),
            ints(|each| each.end_ms),
            mask(|each| each.is_prepared),
            first.into_pyarray(py),
            ids.into_pyarray(py),
        )
    }
}
