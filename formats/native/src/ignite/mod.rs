//! Bindings for `formats/ignite`.

pub mod records;
pub mod walk;
