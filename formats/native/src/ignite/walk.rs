//! Bindings for `formats/ignite/walk.py`.

use je_tools_core::ignite::order::Order;
use je_tools_core::ignite::walk::{
    Cause, Columns, GAPS_KEPT, Gap, HEADER_SIZE, MIN_SIZE, Next, Rules, SEGMENT_HEADER_SIZE,
    SWITCH_TYPE, Stop, TYPE_COUNT, Walker, Window,
};
use numpy::{PyReadonlyArray1, PyReadwriteArray1};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::arrays::same_length;
use crate::detached::detached;

const NOTHING: i64 = -1;
const ROOM: i64 = 0;

pub const DECLARED: crate::Declared = &[
    ("ignite.segments.SEGMENT_HEADER_SIZE", SEGMENT_HEADER_SIZE as i64),
    ("ignite.types.SWITCH_NO", SWITCH_TYPE as i64),
    ("ignite.types.TYPE_COUNT", TYPE_COUNT as i64),
    ("ignite.walk.HEADER_SIZE", HEADER_SIZE as i64),
    ("ignite.walk.MIN_SIZE", MIN_SIZE as i64),
    ("ignite.walk.GAPS_KEPT", GAPS_KEPT as i64),
    ("ignite.walk.NOTHING", NOTHING),
    ("ignite.walk.ROOM", ROOM),
    ("ignite.walk.Cause.FILE_END", Cause::FileEnd as i64),
    ("ignite.walk.Cause.ZERO", Cause::Zero as i64),
    ("ignite.walk.Cause.SWITCH", Cause::Switch as i64),
    ("ignite.walk.Cause.POINTER", Cause::Pointer as i64),
    ("ignite.walk.Cause.TYPE", Cause::Type as i64),
    ("ignite.walk.Cause.LENGTH", Cause::Length as i64),
    ("ignite.walk.Cause.CUT", Cause::Cut as i64),
    ("ignite.walk.Cause.CHECKSUM", Cause::Checksum as i64),
];

/// Python's `walk.SegmentRules`.
#[derive(FromPyObject)]
pub struct PyRules {
    segment: i64,
    is_big: bool,
    compacted: bool,
    summed: bool,
    size: u64,
}

/// Python's `walk.RecordColumns`.
#[derive(FromPyObject)]
pub struct PyColumns<'py> {
    at: PyReadwriteArray1<'py, u32>,
    offset: PyReadwriteArray1<'py, u32>,
    length: PyReadwriteArray1<'py, u32>,
    type_no: PyReadwriteArray1<'py, u8>,
}

pub fn order_of(is_big: bool) -> Order {
    if is_big { Order::Big } else { Order::Little }
}

type PyStop = (u64, u8, u8, u32, i64, u32, u32);

fn stop_of(stop: Stop) -> PyStop {
    let Stop { at, cause, type_no, length, segment, stored, computed } = stop;
    (at, cause as u8, type_no, length, segment, stored, computed)
}

/// Reader of the records of one segment; see `_native.pyi`.
#[pyclass]
pub struct SegmentWalker(Walker);

#[pymethods]
impl SegmentWalker {
    #[new]
    #[pyo3(signature = (rules))]
    fn new(rules: PyRules) -> PyResult<Self> {
        let PyRules { segment, is_big, compacted, summed, size } = rules;
        if size > u32::MAX.into() {
            return Err(PyValueError::new_err("no segment is as long as this"));
        }
        let order = order_of(is_big);
        Ok(Self(Walker::new(Rules { segment, order, compacted, summed, size })))
    }

    fn position(&self) -> u64 {
        self.0.position()
    }

    fn step(
        &mut self,
        py: Python<'_>,
        data: PyReadonlyArray1<'_, u8>,
        base: u64,
        mut columns: PyColumns<'_>,
    ) -> PyResult<(usize, i64)> {
        let window = Window { bytes: data.as_slice()?, base };
        let mut columns = Columns {
            at: columns.at.as_slice_mut()?,
            offset: columns.offset.as_slice_mut()?,
            length: columns.length.as_slice_mut()?,
            type_no: columns.type_no.as_slice_mut()?,
        };
        same_length(columns.at.len(), columns.offset.len())?;
        same_length(columns.at.len(), columns.length.len())?;
        same_length(columns.at.len(), columns.type_no.len())?;
        if columns.at.is_empty() {
            return Err(PyValueError::new_err("columns have room for no record"));
        }
        let Self(walker) = self;
        let (rows, next) = detached(py, || walker.step(window, &mut columns))?;
        let next = match next {
            Next::Bytes(size) => i64::try_from(size).unwrap_or(i64::MAX),
            Next::Room => ROOM,
            Next::Nothing => NOTHING,
        };
        Ok((rows, next))
    }

    fn gaps(&self) -> Vec<(PyStop, u64, bool)> {
        let gaps = self.0.gaps.iter();
        gaps.map(|&Gap { stop, end, is_zero }| (stop_of(stop), end, is_zero)).collect()
    }

    fn gap_totals(&self) -> (u64, u64) {
        self.0.gap_totals
    }

    fn tail(&self) -> Option<(PyStop, bool, u32, i64, u64)> {
        let tail = self.0.tail?;
        let stop = stop_of(tail.stop);
        Some((stop, tail.is_zero, tail.stale, tail.stale_segment, tail.unsearched))
    }
}
