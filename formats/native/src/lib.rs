//! The extension `je_tools.formats._native`.
//!
//! Each file here serves the Python module of its name: it borrows arrays, calls `core` with the
//! interpreter lock released, and gives back numbers and arrays. `formats/_native.pyi` says what
//! Python sees.

#![deny(unsafe_code)]

mod file;
mod je;
mod maps;
mod packed;

use pyo3::prelude::*;
use pyo3::types::PyDict;

/// Numbers that a Python module declares as well: its name below `formats`, and the value.
type Declared = &'static [(&'static str, i64)];

/// Return the numbers that both the crate and a Python module declare; a test compares them.
#[pyfunction]
fn declared(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let all = PyDict::new(py);
    let of_modules = [
        packed::DECLARED,
        // Reading logs.
        je::reader::DECLARED,
        je::tally::DECLARED,
        je::walk::DECLARED,
    ];
    for (name, value) in of_modules.into_iter().flatten() {
        all.set_item(name, value)?;
    }
    Ok(all)
}

#[pymodule]
mod _native {
    #[pymodule_export]
    use super::declared;
    // Reading logs.
    #[pymodule_export]
    use super::file::File;
    #[pymodule_export]
    use super::je::reader::RangeReader;
    #[pymodule_export]
    use super::je::tally::tally;
    // Memory maps.
    #[pymodule_export]
    use super::maps::Maps;
    #[pymodule_export]
    use super::packed::{encode_packed, read_packed};
}
