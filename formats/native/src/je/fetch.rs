//! Bindings for `formats/je/log/fetch.py`.

use crate::arrays::{Column, Ints, PyBytes1, PyInts, read_only, same_length};
use crate::detached::detached;
use crate::je::walk::PyRules;
use je_tools_core::je::fetch::{self, Found, Log, NOWHERE};
use je_tools_core::je::header::Rules;
use numpy::IntoPyArray;
use pyo3::prelude::*;
use pyo3::types::PyDict;

pub const DECLARED: crate::Declared = &[
    ("files.image.NOWHERE", NOWHERE),
    ("je.log.fetch.Found.NO_FILE", Found::NoFile as i64),
    ("je.log.fetch.Found.NO_ENTRY", Found::NoEntry as i64),
    ("je.log.fetch.Found.BAD", Found::Bad as i64),
    ("je.log.fetch.Found.ERASED", Found::Erased as i64),
    ("je.log.fetch.Found.GOOD", Found::Good as i64),
];

/// Python's `image.Image`.
#[derive(FromPyObject)]
pub struct PyImage<'py> {
    data: Column<'py, u8>,
    file_nos: Ints<'py>,
    starts: Ints<'py>,
    stops: Ints<'py>,
    versions: Ints<'py>,
}

impl PyImage<'_> {
    pub fn log<'a>(&'a self, rules: &'a [Rules]) -> PyResult<Log<'a>> {
        let log = Log {
            bytes: self.data.as_slice()?,
            file_nos: self.file_nos.as_slice()?,
            starts: self.starts.as_slice()?,
            stops: self.stops.as_slice()?,
            versions: self.versions.as_slice()?,
            rules,
        };
        for column in [log.starts, log.stops, log.versions] {
            same_length(log.file_nos.len(), column.len())?;
        }
        Ok(log)
    }
}

#[pyfunction]
#[pyo3(signature = (image, lsns, *, rules, check, room_size))]
pub fn fetch_entries<'py>(
    py: Python<'py>,
    image: PyImage<'py>,
    lsns: Ints<'py>,
    rules: Vec<PyRules>,
    check: bool,
    room_size: usize,
) -> PyResult<(Bound<'py, PyDict>, Option<PyBytes1<'py>>)> {
    let rules: Vec<Rules> = rules.into_iter().map(Rules::from).collect();
    let (log, lsns) = (image.log(&rules)?, lsns.as_slice()?);
    let found = detached(py, || fetch::fetch(log, lsns, check, room_size))?;
    let columns = PyDict::new(py);
    let numbers: [(&str, PyInts<'py>); 4] = [
        ("position", found.position.into_pyarray(py)),
        ("version", found.version.into_pyarray(py)),
        ("size", found.size.into_pyarray(py)),
        ("vlsn", found.vlsn.into_pyarray(py)),
    ];
    for (name, column) in numbers {
        columns.set_item(name, column)?;
    }
    let bytes: [(&str, PyBytes1<'py>); 4] = [
        ("type", found.type_no.into_pyarray(py)),
        ("flags", found.flags.into_pyarray(py)),
        ("header_size", found.header_size.into_pyarray(py)),
        ("found", found.found.into_pyarray(py)),
    ];
    for (name, column) in bytes {
        columns.set_item(name, column)?;
    }
    let room = found.room.map(|room| read_only(room.into_pyarray(py))).transpose()?;
    Ok((columns, room))
}
