//! Bindings for `formats/je/log/reader.py`.

use je_tools_core::je::header::Rules;
use je_tools_core::je::notes::Watch;
use je_tools_core::je::reader::{
    BAD_KEPT, Event, FILE_HEADER_SIZE, INSERTED, Place, Range, Reader, SINGLE, WantedEntries,
};
use je_tools_core::je::segments::Segments;
use je_tools_core::je::walk::{NO_OFFSET, RangeSummary};
use numpy::{IntoPyArray, PyArray1, PyReadonlyArray1, PyReadwriteArray1};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use super::segments::{PySegments, PyTxnFields};
use super::tally::{PyPrograms, PyTally};
use super::walk::{PyHeaderColumns, PyRules};
use crate::detached::detached;
use crate::file::{File, PySource};

const ROWS: u8 = 0;
const GROW: u8 = 1;
const DONE: u8 = 2;

pub const DECLARED: crate::Declared = &[
    ("je.header.FILE_HEADER_SIZE", FILE_HEADER_SIZE),
    ("je.log.places.SINGLE", SINGLE),
    ("je.log.places.INSERTED", INSERTED),
    ("je.log.reader.KEPT", BAD_KEPT as i64),
    ("je.log.reader.StopReason.ROWS", ROWS as i64),
    ("je.log.reader.StopReason.GROW", GROW as i64),
    ("je.log.reader.StopReason.DONE", DONE as i64),
];

/// Bound of the offsets that are accepted from Python.
const OFFSET_MAX: i64 = 1 << 40;

/// Smallest `slack`: the bytes of a header with VLSN.
const SLACK_MIN: i64 = 22;

/// Python's `reader.ReadState`.
#[derive(FromPyObject)]
pub struct PyPlace {
    at: i64,
    last: i64,
    shift: i64,
    lost_from: i64,
    relaxed: bool,
}

impl PyPlace {
    fn checked(self) -> PyResult<Place> {
        let Self { at, last, shift, lost_from, relaxed } = self;
        let is_offset = |&offset: &i64| (NO_OFFSET..OFFSET_MAX).contains(&offset);
        let are_offsets = [at, last, lost_from].iter().all(is_offset);
        if !are_offsets || shift.saturating_abs() >= OFFSET_MAX {
            return Err(PyValueError::new_err("no file has a place like this"));
        }
        Ok(Place { at, last, shift, lost_from, relaxed })
    }
}

/// Python's `entry_rows.WantedEntries`.
#[derive(FromPyObject)]
pub struct PyWantedEntries<'py> {
    types: PyReadonlyArray1<'py, bool>,
    flags: u8,
    is_tallied: bool,
    programs: Option<PyPrograms<'py>>,
}

impl PyWantedEntries<'_> {
    fn owned(self) -> PyResult<WantedEntries> {
        let types = self.types.as_slice()?.try_into();
        let types = types.map_err(|_| PyValueError::new_err("a type is one of 256"))?;
        let programs = self.programs.map(|programs| programs.owned()).transpose()?;
        Ok(WantedEntries { types, flags: self.flags, is_tallied: self.is_tallied, programs })
    }
}

/// Python's `entry_rows.WatchedEntries`.
#[derive(FromPyObject)]
pub struct PyWatchedEntries<'py> {
    types: PyReadonlyArray1<'py, bool>,
    allowed: PyReadonlyArray1<'py, u8>,
}

impl PyWatchedEntries<'_> {
    fn owned(self) -> PyResult<Box<Watch>> {
        let wrong = |_| PyValueError::new_err("a type is one of 256");
        let types = self.types.as_slice()?.try_into().map_err(wrong)?;
        let allowed = self.allowed.as_slice()?.try_into().map_err(wrong)?;
        Ok(Box::new(Watch { types, allowed }))
    }
}

/// Python's `reader.ReadOptions`.
#[derive(FromPyObject)]
pub struct PyOptions<'py> {
    start: i64,
    stop: i64,
    size: i64,
    place: Option<PyPlace>,
    check: bool,
    window: i64,
    budget: i64,
    slack: i64,
    asked: Option<PyWantedEntries<'py>>,
    watched: Option<PyWatchedEntries<'py>>,
    txns: Option<PyTxnFields<'py>>,
}

impl PyOptions<'_> {
    fn reader(self, rules: Rules) -> PyResult<Reader> {
        let Self { start, stop, size, check, window, budget, slack, .. } = self;
        let are_offsets = [start, stop, size].iter().all(|each| (0..OFFSET_MAX).contains(each));
        if !are_offsets || window < 1 || budget < 0 || slack < SLACK_MIN {
            return Err(PyValueError::new_err("no file has a range like this"));
        }
        let place = self.place.map(PyPlace::checked).transpose()?;
        let range = Range { start, stop, size, place, check, window, budget, slack };
        let watch = self.watched.map(PyWatchedEntries::owned).transpose()?;
        let asked = self.asked.map(PyWantedEntries::owned).transpose()?;
        let segments = self.txns.map(|fields| fields.owned().map(Segments::new)).transpose()?;
        Ok(Reader::new(range, rules, asked, watch).with_segments(segments))
    }
}

type Ints<'py> = Bound<'py, PyArray1<i64>>;

/// Fields of `entry_rows.RangeSummary`: counts by type, damaged entries, flags, first and last offset.
type Surveyed<'py> = (Ints<'py>, i64, u8, i64, i64);

fn surveyed<'py>(py: Python<'py>, survey: &RangeSummary) -> Surveyed<'py> {
    let ends = survey.ends.map(|(first, last)| (first.into(), last.into()));
    let (first, last) = ends.unwrap_or((NO_OFFSET, NO_OFFSET));
    (survey.counts.to_vec().into_pyarray(py), survey.bad, survey.flags, first, last)
}

/// Reader of a range of one file; see `_native.pyi`.
#[pyclass]
pub struct RangeReader {
    reader: Reader,
    source: PySource,
}

#[pymethods]
impl RangeReader {
    #[new]
    #[pyo3(signature = (source, file, rules, options))]
    fn new(
        source: Py<PyAny>,
        file: Option<&File>,
        rules: PyRules,
        options: PyOptions<'_>,
    ) -> PyResult<Self> {
        let reader = options.reader(rules.into())?;
        Ok(Self { reader, source: PySource::new(file, source) })
    }

    fn step(
        &mut self,
        py: Python<'_>,
        mut buffer: PyReadwriteArray1<'_, u8>,
        mut columns: PyHeaderColumns<'_>,
    ) -> PyResult<(u8, usize)> {
        let buffer = buffer.as_slice_mut()?;
        let mut columns = columns.borrow()?;
        if columns.offset.is_empty() {
            return Err(PyValueError::new_err("columns have room for no entry"));
        }
        let Self { reader, source } = self;
        Ok(match detached(py, || reader.step(source, buffer, &mut columns))?? {
            Event::Rows(n) => (ROWS, n),
            Event::Grow(size) => (GROW, size),
            Event::Done => (DONE, 0),
        })
    }

    fn window(&self) -> (i64, usize) {
        self.reader.window()
    }

    fn survey<'py>(&self, py: Python<'py>) -> Surveyed<'py> {
        surveyed(py, &self.reader.survey)
    }

    fn take_quiet<'py>(&mut self, py: Python<'py>) -> (Surveyed<'py>, PyTally<'py>) {
        let quiet = std::mem::take(&mut self.reader.quiet);
        (surveyed(py, &quiet.survey), PyTally::of(py, &quiet.tally))
    }

    fn take_segments<'py>(&mut self, py: Python<'py>) -> Option<PySegments<'py>> {
        self.reader.segments.take().map(|segments| PySegments::of(py, *segments))
    }

    fn first(&self) -> (i64, i64) {
        self.reader.first
    }

    fn place(&self) -> (i64, i64, i64, i64, bool) {
        let Place { at, last, shift, lost_from, relaxed } = self.reader.place();
        (at, last, shift, lost_from, relaxed)
    }

    fn gaps<'py>(&self, py: Python<'py>) -> Ints<'py> {
        let numbers = self.reader.gaps.iter().flat_map(|gap| [gap.start, gap.stop, gap.kind]);
        numbers.collect::<Vec<_>>().into_pyarray(py)
    }

    fn chain_breaks<'py>(&self, py: Python<'py>) -> Ints<'py> {
        let numbers = self.reader.breaks.iter();
        let numbers = numbers.flat_map(|each| [each.offset, each.expected, each.found, each.shift]);
        numbers.collect::<Vec<_>>().into_pyarray(py)
    }

    fn bad(&self) -> Vec<(i64, i64)> {
        self.reader.bad.clone()
    }

    fn samples<'py>(&self, py: Python<'py>) -> Ints<'py> {
        let samples = self.reader.notes.samples.iter().map(|&offset| offset.into());
        samples.collect::<Vec<_>>().into_pyarray(py)
    }

    fn odd<'py>(&self, py: Python<'py>) -> Ints<'py> {
        let odd = self.reader.notes.odd.iter();
        let numbers =
            odd.flat_map(|each| [each.offset.into(), each.type_no.into(), each.flags.into()]);
        numbers.collect::<Vec<_>>().into_pyarray(py)
    }

    fn is_blank(&self) -> bool {
        self.reader.blank
    }
}
