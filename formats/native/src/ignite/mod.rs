//! Bindings for `formats/ignite`.

pub mod pages;
pub mod records;
pub mod walk;
