//! Bindings for `formats/je/log/fingerprints.py`.

use crate::arrays::{Column, Ints, PyInts, PyMask, PySpans, same_length};
use crate::detached::detached;
use crate::je::fetch::PyImage;
use je_tools_core::je::fingerprints::{
    self, Action, DATA, DB_ID, EMBEDDED, EXPIRATION, HOURS_MAX, KEY, KEY_SIZE_MAX, Known,
    Polynomial, Rows, Slots, Steps,
};
use numpy::{IntoPyArray, PyArray1, PyReadwriteArray1};
use pyo3::prelude::*;

pub const DECLARED: crate::Declared = &[
    ("je.log.fingerprints.HOURS_MAX", HOURS_MAX),
    ("je.log.fingerprints.KEY_SIZE_MAX", KEY_SIZE_MAX as i64),
    ("je.log.fingerprints.PAGE_SHIFT", fingerprints::PAGE_SHIFT as i64),
    ("je.flags.SlotState.EMBEDDED", EMBEDDED),
];

/// Actions and roles of `steps.py`. No record with a fingerprint has action 1 or 5.
pub const STEPS: crate::Declared = &[
    ("je.entry.steps.Action.FLAGS", Action::Flags as i64),
    ("je.entry.steps.Action.FIXED", 1),
    ("je.entry.steps.Action.PACKED", Action::Packed as i64),
    ("je.entry.steps.Action.BYTES", Action::Bytes as i64),
    ("je.entry.steps.Action.REST", Action::Rest as i64),
    ("je.entry.steps.Action.BYTES_I32", 5),
    ("je.entry.steps.Role.KEY", KEY),
    ("je.entry.steps.Role.DATA", DATA),
    ("je.entry.steps.Role.OTHER", 2),
    ("je.entry.steps.Role.DB_ID", DB_ID),
    ("je.entry.steps.Role.EXPIRATION", EXPIRATION),
];

/// Python's `fingerprints.Printing`.
#[derive(FromPyObject)]
pub struct PyPrinting {
    one: u64,
    other: u64,
}

impl From<PyPrinting> for Polynomial {
    fn from(printing: PyPrinting) -> Self {
        Self { one: printing.one, other: printing.other }
    }
}

/// Python's `entry_rows.Rows`.
#[derive(FromPyObject)]
pub struct PyRows<'py> {
    data: Column<'py, u8>,
    base: u64,
    offset: Column<'py, u32>,
    #[pyo3(attribute("type"))]
    type_no: Column<'py, u8>,
    header_size: Column<'py, u8>,
    item_size: Column<'py, i32>,
    checksum: Column<'py, u8>,
}

impl PyRows<'_> {
    fn rows(&self) -> PyResult<Rows<'_>> {
        let rows = Rows {
            data: self.data.as_slice()?,
            base: self.base,
            offset: self.offset.as_slice()?,
            type_no: self.type_no.as_slice()?,
            header_size: self.header_size.as_slice()?,
            item_size: self.item_size.as_slice()?,
            checksum: self.checksum.as_slice()?,
        };
        let lengths =
            [rows.type_no.len(), rows.header_size.len(), rows.item_size.len(), rows.checksum.len()];
        for length in lengths {
            same_length(rows.offset.len(), length)?;
        }
        Ok(rows)
    }
}

#[pyfunction]
#[pyo3(signature = (rows, *, firsts, lasts, steps, printing))]
pub fn fingerprints_of<'py>(
    py: Python<'py>,
    rows: PyRows<'py>,
    firsts: Ints<'py>,
    lasts: Ints<'py>,
    steps: Ints<'py>,
    printing: PyPrinting,
) -> PyResult<(Bound<'py, PyArray1<u32>>, PyInts<'py>)> {
    let rows = rows.rows()?;
    let threes: Vec<[i64; 3]> =
        steps.as_slice()?.chunks_exact(3).map(|step| [step[0], step[1], step[2]]).collect();
    let steps = Steps { firsts: firsts.as_slice()?, lasts: lasts.as_slice()?, steps: &threes };
    let found = detached(py, || fingerprints::of_rows(rows, steps, printing.into()))?;
    Ok((found.offsets.into_pyarray(py), found.prints.into_pyarray(py)))
}

#[pyfunction]
pub fn note_lsns(
    py: Python<'_>,
    lsns: Ints<'_>,
    mut bits: PyReadwriteArray1<'_, u8>,
) -> PyResult<()> {
    let (lsns, bits) = (lsns.as_slice()?, bits.as_slice_mut()?);
    detached(py, || fingerprints::note(lsns, bits))
}

/// Python's `slots.Slots`.
#[derive(FromPyObject)]
pub struct PySlots<'py> {
    key: PySpans<'py>,
    lsn: Ints<'py>,
    state: Ints<'py>,
    expires_ms: Ints<'py>,
}

impl PySlots<'_> {
    fn slots(&self) -> PyResult<Slots<'_>> {
        let slots = Slots {
            key: self.key.keys()?,
            lsn: self.lsn.as_slice()?,
            state: self.state.as_slice()?,
            expires_ms: self.expires_ms.as_slice()?,
        };
        for length in [slots.key.len(), slots.state.len(), slots.expires_ms.len()] {
            same_length(slots.lsn.len(), length)?;
        }
        Ok(slots)
    }
}

/// Python's `fingerprints.KnownData`.
#[derive(FromPyObject)]
pub struct PyKnown<'py> {
    image: PyImage<'py>,
    reserved: Column<'py, bool>,
    page_first: Column<'py, i32>,
    low: Column<'py, u16>,
    prints: Ints<'py>,
    noted: Ints<'py>,
    noted_bits: Column<'py, u8>,
}

impl PyKnown<'_> {
    fn known(&self) -> PyResult<Known<'_>> {
        Ok(Known {
            log: self.image.log(&[])?,
            reserved: self.reserved.as_slice()?,
            page_first: self.page_first.as_slice()?,
            low: self.low.as_slice()?,
            prints: self.prints.as_slice()?,
            noted: self.noted.as_slice()?,
            noted_bits: self.noted_bits.as_slice()?,
        })
    }
}

#[pyfunction]
#[pyo3(signature = (slots, rows, known, *, db_id, printing, asks_noted))]
pub fn doubtful_slots<'py>(
    py: Python<'py>,
    slots: PySlots<'py>,
    rows: Ints<'py>,
    known: PyKnown<'py>,
    db_id: i64,
    printing: PyPrinting,
    asks_noted: bool,
) -> PyResult<PyMask<'py>> {
    let (slots, rows, known) = (slots.slots()?, rows.as_slice()?, known.known()?);
    let told = detached(py, || {
        fingerprints::doubtful(slots, rows, known, db_id, printing.into(), asks_noted)
    })?;
    Ok(told.into_pyarray(py))
}
