//! `formats/je/walk.py`.

use je_tools_core::je;
use je_tools_core::je::header::{FILE_HEADER_TYPE, MAX_SIZE, MIN_SIZE, Rules};
use je_tools_core::je::walk::{
    Checksum, HeaderColumns, NO_OFFSET, SURVEY_SIZE, Start, Stop, Survey, Walked, Window,
};
use numpy::{PyReadonlyArray1, PyReadwriteArray1};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

pub const DECLARED: crate::Declared = &[
    ("je.header.MIN_HEADER_SIZE", MIN_SIZE as i64),
    ("je.header.MAX_HEADER_SIZE", MAX_SIZE as i64),
    ("je.types.FILE_HEADER_NO", FILE_HEADER_TYPE as i64),
    ("je.walk.NO_OFFSET", NO_OFFSET),
    ("je.walk.SURVEY_SIZE", SURVEY_SIZE as i64),
    ("je.walk.Checksum.BAD", Checksum::Bad as i64),
    ("je.walk.Checksum.OK", Checksum::Ok as i64),
    ("je.walk.Checksum.NONE", Checksum::None as i64),
    ("je.walk.Checksum.UNCHECKED", Checksum::Unchecked as i64),
    ("je.walk.Stop.LIMIT", Stop::Limit as i64),
    ("je.walk.Stop.NEED_MORE", Stop::NeedMore as i64),
    ("je.walk.Stop.BAD_HEADER", Stop::BadHeader as i64),
    ("je.walk.Stop.CHAIN", Stop::Chain as i64),
    ("je.walk.Stop.ROWS", Stop::Rows as i64),
];

/// `walk.HeaderRules`.
#[derive(FromPyObject)]
pub struct PyRules {
    vlsn_mask: u8,
    summed_flags: u8,
    erased_type: u16,
    file_size: u64,
}

impl From<PyRules> for Rules {
    fn from(rules: PyRules) -> Self {
        Self {
            vlsn_mask: rules.vlsn_mask,
            summed_flags: rules.summed_flags,
            erased_type: u8::try_from(rules.erased_type).ok(),
            file_size: rules.file_size,
        }
    }
}

/// `walk.HeaderColumns`.
#[derive(FromPyObject)]
pub struct PyHeaderColumns<'py> {
    offset: PyReadwriteArray1<'py, u32>,
    prev_offset: PyReadwriteArray1<'py, u32>,
    stored_checksum: PyReadwriteArray1<'py, u32>,
    item_size: PyReadwriteArray1<'py, i32>,
    vlsn: PyReadwriteArray1<'py, i64>,
    #[pyo3(attribute("type"))]
    type_no: PyReadwriteArray1<'py, u8>,
    flags: PyReadwriteArray1<'py, u8>,
    header_size: PyReadwriteArray1<'py, u8>,
    checksum: PyReadwriteArray1<'py, u8>,
}

impl PyHeaderColumns<'_> {
    pub fn borrow(&mut self) -> PyResult<HeaderColumns<'_>> {
        let columns = HeaderColumns {
            offset: self.offset.as_slice_mut()?,
            prev_offset: self.prev_offset.as_slice_mut()?,
            stored_checksum: self.stored_checksum.as_slice_mut()?,
            item_size: self.item_size.as_slice_mut()?,
            vlsn: self.vlsn.as_slice_mut()?,
            type_no: self.type_no.as_slice_mut()?,
            flags: self.flags.as_slice_mut()?,
            header_size: self.header_size.as_slice_mut()?,
            checksum: self.checksum.as_slice_mut()?,
        };
        match columns.rows() {
            Some(_) => Ok(columns),
            None => Err(PyValueError::new_err("columns differ in length")),
        }
    }
}

#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "Python's keywords name them")]
#[pyo3(signature = (data, *, base, at, limit, expected_prev, shift, rules, columns, survey))]
pub fn walk(
    py: Python<'_>,
    data: PyReadonlyArray1<'_, u8>,
    base: u64,
    at: u64,
    limit: u64,
    expected_prev: i64,
    shift: i64,
    rules: PyRules,
    mut columns: PyHeaderColumns<'_>,
    mut survey: Option<PyReadwriteArray1<'_, i64>>,
) -> PyResult<(usize, u64, u8)> {
    let window = Window { bytes: data.as_slice()?, base };
    let start = Start { at, limit, expected_prev, shift };
    let mut columns = columns.borrow()?;
    let survey = survey.as_mut().map(borrowed_survey).transpose()?;
    let Walked { n, after, stop } =
        py.detach(|| je::walk::walk(window, start, &rules.into(), &mut columns, survey));
    Ok((n, after, stop as u8))
}

fn borrowed_survey<'a>(survey: &'a mut PyReadwriteArray1<'_, i64>) -> PyResult<Survey<'a>> {
    let numbers = survey.as_slice_mut()?.try_into();
    let numbers = numbers.map_err(|_| PyValueError::new_err("a survey has SURVEY_SIZE numbers"))?;
    Ok(Survey { numbers })
}

#[pyfunction]
#[pyo3(signature = (data, *, base, rules, offsets, states))]
pub fn check_sums(
    py: Python<'_>,
    data: PyReadonlyArray1<'_, u8>,
    base: u64,
    rules: PyRules,
    offsets: PyReadonlyArray1<'_, u32>,
    mut states: PyReadwriteArray1<'_, u8>,
) -> PyResult<()> {
    let window = Window { bytes: data.as_slice()?, base };
    let (offsets, states) = (offsets.as_slice()?, states.as_slice_mut()?);
    if offsets.len() != states.len() {
        return Err(PyValueError::new_err("offsets and states differ in length"));
    }
    py.detach(|| je::walk::check_sums(window, &rules.into(), offsets, states));
    Ok(())
}
