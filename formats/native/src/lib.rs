//! The extension `je_tools.formats._native`.
//!
//! Each file here serves the Python module of its name: it borrows arrays, calls `core` with the
//! interpreter lock released, and gives back numbers and arrays. `formats/_native.pyi` says what
//! Python sees.

#![deny(unsafe_code)]

mod arrays;
mod je;
mod packed;
mod rows;
mod spans;
mod thrift;

use pyo3::prelude::*;
use pyo3::types::PyDict;

/// Numbers that a Python module declares as well: its name below `formats`, and the value.
type Declared = &'static [(&'static str, i64)];

/// Return the numbers that both the crate and a Python module declare; a test compares them.
#[pyfunction]
fn declared(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let all = PyDict::new(py);
    let modules = [
        packed::DECLARED,
        je::walk::DECLARED,
        je::columns::DECLARED,
        je::identity::DECLARED,
        je::slots::DECLARED,
        rows::DECLARED,
        thrift::DECLARED,
    ];
    for (name, value) in modules.into_iter().flatten() {
        all.set_item(name, value)?;
    }
    Ok(all)
}

#[pymodule]
mod _native {
    #[pymodule_export]
    use super::declared;
    #[pymodule_export]
    use super::je::walk::{check_sums, walk};
    #[pymodule_export]
    use super::packed::{encode_packed, read_packed};

    #[pymodule_export]
    use super::arrays::distinct;
    #[pymodule_export]
    use super::je::columns::{Program, decode_columns};
    #[pymodule_export]
    use super::je::identity::{identify, mark_newest};
    #[pymodule_export]
    use super::je::slots::split_keys;
    #[pymodule_export]
    use super::je::summaries::read_summaries;
    #[pymodule_export]
    use super::rows::{rows_bound, write_rows};
    #[pymodule_export]
    use super::spans::{contains, gather, gather_hex, gather_printable, lsn_texts, starts_with};
    #[pymodule_export]
    use super::thrift::{fill_thrift, open_thrift};
}
