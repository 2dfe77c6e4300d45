//! Bindings for `formats/ignite/values.py`.

use je_tools_core::ignite::values::types::Types;
use je_tools_core::ignite::values::{self, DEPTH_MAX, KIND_BYTES, Problem, TEXTS_MAX, metadata};
use numpy::PyArray1;
use pyo3::prelude::*;

use crate::arrays::{Ints, PySpans, array, outside, same_length};
use crate::detached::detached;

pub const DECLARED: crate::Declared = &[
    ("ignite.values.DEPTH_MAX", DEPTH_MAX as i64),
    ("ignite.values.KIND_BYTES", KIND_BYTES),
    ("ignite.values.METADATA_MAX", metadata::METADATA_MAX as i64),
    ("ignite.values.TEXTS_MAX", TEXTS_MAX as i64),
    ("ignite.values.ValueProblem.GOOD", Problem::Good as i64),
    ("ignite.values.ValueProblem.PARTIAL", Problem::Partial as i64),
    ("ignite.values.ValueProblem.DAMAGED", Problem::Damaged as i64),
    ("ignite.values.ValueProblem.TRANSFORMED", Problem::Transformed as i64),
    ("ignite.values.ValueProblem.DEEP", Problem::Deep as i64),
    ("ignite.values.ValueProblem.LONG", Problem::Long as i64),
];

type PyTexts<'py> = (Bound<'py, PyArray1<i32>>, Bound<'py, PyArray1<u8>>, Bound<'py, PyArray1<u8>>);

/// Names of types and fields; see `_native.pyi`.
#[pyclass(frozen)]
pub struct ValueTypes(Types);

#[pymethods]
impl ValueTypes {
    #[new]
    #[pyo3(signature = (metadata, classes))]
    fn new(py: Python<'_>, metadata: Vec<Vec<u8>>, classes: Vec<(i32, Vec<u8>)>) -> PyResult<Self> {
        let types = detached(py, || {
            let mut types = Types::default();
            classes.iter().for_each(|(id, name)| types.add_class(*id, name));
            metadata
                .iter()
                .filter_map(|bytes| metadata::read(bytes))
                .for_each(|each| types.add(&each));
            types
        })?;
        Ok(Self(types))
    }

    fn texts<'py>(
        &self,
        py: Python<'py>,
        values: PySpans<'py>,
        kinds: Ints<'py>,
    ) -> PyResult<PyTexts<'py>> {
        let (values, kinds) = (values.borrow()?, kinds.as_slice()?);
        same_length(values.len(), kinds.len())?;
        let found = detached(py, || values::texts(&self.0, &values, kinds))?.map_err(outside)?;
        let problems = found.problems.into_iter().map(|problem| problem as u8).collect();
        Ok((array(py, found.offsets), array(py, found.data), array(py, problems)))
    }
}

type PyMetadata =
    (i32, Vec<u8>, Vec<(Vec<u8>, i32, i32)>, Vec<(i32, Vec<i32>)>, Vec<(Vec<u8>, i32)>);

#[pyfunction]
pub fn read_metadata(py: Python<'_>, data: Vec<u8>) -> PyResult<Option<PyMetadata>> {
    let found = detached(py, || metadata::read(&data))?;
    Ok(found.map(|found| {
        let fields = found.fields.into_iter().map(|each| (each.name, each.type_id, each.id));
        (found.type_id, found.name, fields.collect(), found.schemas, found.constants)
    }))
}
