//! The byte loops of je-tools: bytes of logs in, columns of numbers out.
//!
//! All input is hostile. Loads are bounds-checked, arithmetic on a number from a log is checked or
//! explicitly wrapping, and such a number never sizes an allocation. Functions do not panic: they
//! return where they stopped, and why.
//!
//! The modules mirror the Python modules of `je_tools.formats` that they serve.

#![forbid(unsafe_code)]

pub mod adler;
pub mod arrays;
pub mod bytes;
pub mod file;
pub mod ignite;
pub mod je;
pub mod needles;
pub mod packed;
pub mod rows;
pub mod spans;
pub mod text;
pub mod thrift;

#[cfg(test)]
mod testing;
