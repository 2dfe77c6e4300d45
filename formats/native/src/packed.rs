//! Bindings for `formats/packed.py`.

use je_tools_core::packed;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

pub const DECLARED: crate::Declared = &[("packed.SINGLE_BYTE_MAX", packed::SINGLE_BYTE_MAX)];

#[pyfunction]
pub fn read_packed(data: &[u8]) -> Option<(i64, usize)> {
    packed::read(data, 0, data.len())
}

#[pyfunction]
pub fn encode_packed(py: Python<'_>, value: i64) -> Bound<'_, PyBytes> {
    let (bytes, size) = packed::encode(value);
    PyBytes::new(py, &bytes[..size])
}
