//! Bindings for `formats/thrift.py`.

use je_tools_core::thrift::{self, Values};
use numpy::PyArray1;
use pyo3::prelude::*;

use crate::arrays::{Column, array};
use crate::detached::detached;

pub const DECLARED: crate::Declared = &[
    ("thrift.BINARY", thrift::BINARY as i64),
    ("thrift.LIST", thrift::LIST as i64),
    ("thrift.STRUCT", thrift::STRUCT as i64),
    ("thrift.FIELDS", thrift::FIELDS as i64),
    ("thrift.LEFT_OUT", thrift::LEFT_OUT),
    ("thrift.NOTHING", thrift::NOTHING),
];

type PyOpened<'py> = (
    Bound<'py, PyArray1<u8>>,
    Bound<'py, PyArray1<i32>>,
    Bound<'py, PyArray1<i64>>,
    Bound<'py, PyArray1<u8>>,
    usize,
);

#[pyfunction]
#[pyo3(signature = (data, *, at, kind, count, rules, state))]
pub fn open_thrift<'py>(
    py: Python<'py>,
    data: Column<'py, u8>,
    at: usize,
    kind: u8,
    count: i64,
    rules: Column<'py, i64>,
    state: i64,
) -> PyResult<Option<PyOpened<'py>>> {
    let (data, rules) = (data.as_slice()?, rules.as_slice()?);
    let values = Values { at, kind, count, state };
    let opened = detached(py, || thrift::open(data, values, rules))?;
    Ok(opened.map(|opened| {
        (
            array(py, opened.text),
            array(py, opened.places),
            array(py, opened.numbers),
            array(py, opened.roles),
            opened.end,
        )
    }))
}

type PyFilled<'py> = (Bound<'py, PyArray1<u8>>, Bound<'py, PyArray1<i64>>);

#[pyfunction]
pub fn fill_thrift<'py>(
    py: Python<'py>,
    text: Column<'py, u8>,
    places: Column<'py, i32>,
    values: Column<'py, i64>,
) -> PyResult<Option<PyFilled<'py>>> {
    let (text, places, values) = (text.as_slice()?, places.as_slice()?, values.as_slice()?);
    let filled = detached(py, || thrift::fill(text, places, values))?;
    Ok(filled.map(|(out, ends)| (array(py, out), array(py, ends))))
}
