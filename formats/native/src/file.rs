//! Bindings for `formats/files/source.py`.

use std::fs;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use je_tools_core::file::Source;
use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::detached::detached;

/// A file open for reading; threads that read it keep it open until they are done.
#[pyclass(frozen)]
pub struct File(Mutex<Option<Arc<fs::File>>>);

impl File {
    pub fn opened(&self) -> Option<Arc<fs::File>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Returns the error that Python's own calls would raise, with errno, message and path.
fn os_error(error: &io::Error, path: PathBuf) -> PyErr {
    let words = error.to_string();
    let words = words.split(" (os error").next().unwrap_or_default().to_owned();
    PyOSError::new_err((error.raw_os_error().unwrap_or(0), words, path))
}

#[pymethods]
impl File {
    #[new]
    fn new(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        let file =
            detached(py, || fs::File::open(&path))?.map_err(|error| os_error(&error, path))?;
        Ok(Self(Mutex::new(Some(Arc::new(file)))))
    }

    fn fileno(&self) -> PyResult<i32> {
        let file = self.opened().ok_or_else(|| PyValueError::new_err("the file is closed"))?;
        Ok(file.as_raw_fd())
    }

    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let file = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        detached(py, || drop(file))
    }
}

/// A file read here, with `source.Source` as the fallback for bytes that cannot be read.
pub struct PySource {
    file: Option<Arc<fs::File>>,
    source: Py<PyAny>,
}

impl PySource {
    pub fn new(file: Option<&File>, source: Py<PyAny>) -> Self {
        Self { file: file.and_then(File::opened), source }
    }

    /// Reads through `Source.read_bytes`, which skips bad sectors and raises descriptive errors.
    fn read_by_python(&self, into: &mut [u8], at: u64) -> PyResult<()> {
        Python::attach(|py| {
            let stop = at.saturating_add(into.len() as u64);
            let read = self.source.call_method1(py, "read_bytes", (at, stop))?;
            let read = read.bind(py).cast::<PyBytes>()?.as_bytes();
            if read.len() != into.len() {
                return Err(PyValueError::new_err("read_bytes gave too few bytes"));
            }
            into.copy_from_slice(read);
            Ok(())
        })
    }
}

impl Source for PySource {
    type Error = PyErr;

    fn read(&mut self, into: &mut [u8], at: u64) -> PyResult<()> {
        let is_read = self.file.as_ref().is_some_and(|file| file.read_exact_at(into, at).is_ok());
        if is_read { Ok(()) } else { self.read_by_python(into, at) }
    }
}
