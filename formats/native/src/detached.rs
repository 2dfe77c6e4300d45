//! Work without the interpreter lock; a panic in it becomes a Python error.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

/// Does `work` with the interpreter lock released; a panic in it becomes a `RuntimeError`.
///
/// By default, pyo3 raises a `PanicException`. That is not an `Exception`, so the code that reports
/// bugs would not catch it. It cannot be pickled either, so a worker process could not return it.
pub fn detached<T: Send>(py: Python<'_>, work: impl Send + FnOnce() -> T) -> PyResult<T> {
    // Half-done work belongs to the caller, whose call fails; there is no lock to be poisoned.
    #[expect(clippy::disallowed_methods, reason = "this is the place for it")]
    let done = py.detach(|| catch_unwind(AssertUnwindSafe(work)));
    done.map_err(|panic| {
        let text = text_of(&*panic);
        PyRuntimeError::new_err(format!("a panic in je_tools.formats._native: {text}"))
    })
}

fn text_of(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("without a message")
}
