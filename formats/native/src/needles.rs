//! Bindings for `formats/needles.py`.

use je_tools_core::needles::{
    self, CONTEXT, HashedNeedles, Hits, Literals, PATTERN_REACH_MAX, Pattern, Refusal, Seed,
};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::Declared;
use crate::arrays::{Column, Ints, PyInts, PySpans, array, outside};
use crate::detached::detached;

pub const DECLARED: Declared =
    &[("needles.CONTEXT", CONTEXT as i64), ("needles.PATTERN_REACH_MAX", PATTERN_REACH_MAX as i64)];

/// Python's `needles.HashedColumns`.
#[derive(FromPyObject)]
pub struct PyHashedColumns<'py> {
    seed: u64,
    width: usize,
    sizes: Ints<'py>,
    firsts: Column<'py, u32>,
    wholes: Column<'py, u32>,
}

impl PyHashedColumns<'_> {
    fn needles(&self) -> PyResult<HashedNeedles> {
        let sizes: Result<Vec<usize>, _> =
            self.sizes.as_slice()?.iter().map(|&size| usize::try_from(size)).collect();
        let made = sizes.ok().zip(self.wholes.as_slice().ok()).and_then(|(sizes, wholes)| {
            let firsts = self.firsts.as_slice().ok()?;
            HashedNeedles::new(Seed::new(self.seed), self.width, sizes, firsts, wholes.to_vec())
        });
        made.ok_or_else(|| PyValueError::new_err("columns of hashed needles that do not fit"))
    }
}

fn refused(refusal: Refusal) -> PyErr {
    PyValueError::new_err(match refusal {
        Refusal::Syntax(text) => format!("it is no regular expression: {text}"),
        Refusal::TooLarge => "its program needs more than 8 MiB".to_owned(),
        Refusal::Empty => "it matches no bytes at all, which are everywhere".to_owned(),
        Refusal::Long => format!(
            "its hits may be longer than {PATTERN_REACH_MAX} bytes: bound its repetitions, \
             as x{{0,100}} for x*"
        ),
        Refusal::Anchored => {
            "it asks for the begin or end of a text, which bytes of a file do not have: \
             leave out ^, $, \\A and \\z"
                .to_owned()
        }
    })
}

type PyHits<'py> = (PyInts<'py>, PyInts<'py>, PyInts<'py>, PyInts<'py>);

fn columns(py: Python<'_>, hits: Hits) -> PyHits<'_> {
    let column = |of: fn(&needles::Hit) -> usize| {
        array(py, hits.kept.iter().map(|hit| of(hit) as i64).collect())
    };
    (
        column(|hit| hit.start),
        column(|hit| hit.size),
        column(|hit| hit.needle),
        array(py, hits.counts.clone()),
    )
}

/// Needles of all kinds, prepared for searches.
#[pyclass(frozen)]
pub struct Needles(needles::Needles);

#[pymethods]
impl Needles {
    #[new]
    fn new(
        py: Python<'_>,
        literals: Vec<Vec<u8>>,
        patterns: Vec<String>,
        hashed: Option<PyHashedColumns<'_>>,
    ) -> PyResult<Self> {
        let hashed = hashed.map(|columns| columns.needles()).transpose()?;
        let made = detached(py, || {
            let patterns: Result<Vec<Pattern>, Refusal> =
                patterns.iter().map(|text| Pattern::new(text)).collect();
            (Literals::new(literals), patterns)
        })?;
        let literals = made.0.ok_or_else(|| PyValueError::new_err("an empty or equal literal"))?;
        Ok(Self(needles::Needles::new(literals, made.1.map_err(refused)?, hashed)))
    }

    #[getter]
    fn reach(&self) -> usize {
        self.0.reach()
    }

    #[getter]
    fn fixed_lens(&self) -> Vec<usize> {
        self.0.fixed_lens()
    }

    fn search<'py>(
        &self,
        py: Python<'py>,
        data: Column<'py, u8>,
        first: usize,
        stop: usize,
        most: usize,
    ) -> PyResult<PyHits<'py>> {
        let data = data.as_slice()?;
        let hits = detached(py, || {
            let mut hits = Hits::new(self.0.len(), most);
            self.0.search(data, first..stop, &mut hits);
            hits
        })?;
        Ok(columns(py, hits))
    }

    fn search_joined<'py>(
        &self,
        py: Python<'py>,
        first: Ints<'py>,
        prefixes: PySpans<'py>,
        rests: PySpans<'py>,
        most: usize,
    ) -> PyResult<(PyInts<'py>, PyHits<'py>)> {
        let (first, prefixes, rests) = (first.as_slice()?, prefixes.borrow()?, rests.borrow()?);
        let (rows, hits) = detached(py, || {
            let mut hits = Hits::new(self.0.len(), most);
            let rows = self.0.search_joined(first, &prefixes, &rests, &mut hits);
            rows.map(|rows| (rows, hits))
        })?
        .map_err(outside)?;
        Ok((array(py, rows), columns(py, hits)))
    }
}

#[pyfunction]
pub fn needle_hashes<'py>(
    py: Python<'py>,
    values: Vec<Vec<u8>>,
    seed: u64,
    width: usize,
) -> PyResult<(PyInts<'py>, PyInts<'py>)> {
    let (firsts, wholes) = detached(py, || {
        let seed = Seed::new(seed);
        let firsts = values.iter().map(|value| i64::from(seed.first(value, width))).collect();
        let wholes = values.iter().map(|value| i64::from(seed.whole(value))).collect();
        (firsts, wholes)
    })?;
    Ok((array(py, firsts), array(py, wholes)))
}
