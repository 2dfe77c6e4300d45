//! Bindings for `formats/je/log/walk.py`.

use je_tools_core::je::header::{FILE_HEADER_TYPE, MAX_SIZE, MIN_SIZE, PROVISIONAL_YES, Rules};
use je_tools_core::je::resync::TYPE_NO_MAX;
use je_tools_core::je::walk::{Checksum, HeaderColumns, NO_OFFSET};
use numpy::PyReadwriteArray1;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

pub const DECLARED: crate::Declared = &[
    ("je.header.MIN_HEADER_SIZE", MIN_SIZE as i64),
    ("je.header.MAX_HEADER_SIZE", MAX_SIZE as i64),
    ("je.flags.HeaderFlag.PROVISIONAL_YES", PROVISIONAL_YES as i64),
    ("je.types.TYPE_NO_MAX", TYPE_NO_MAX as i64),
    ("je.types.FILE_HEADER_NO", FILE_HEADER_TYPE as i64),
    ("je.log.walk.NO_OFFSET", NO_OFFSET),
    ("je.log.walk.Checksum.BAD", Checksum::Bad as i64),
    ("je.log.walk.Checksum.OK", Checksum::Ok as i64),
    ("je.log.walk.Checksum.NONE", Checksum::None as i64),
    ("je.log.walk.Checksum.UNCHECKED", Checksum::Unchecked as i64),
];

/// Python's `walk.HeaderRules`.
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

/// Python's `walk.HeaderColumns`.
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
