//! The loops over bytes of je-tools: bytes of logs in, columns of numbers out.
//!
//! Every byte is hostile. A load is bounds-checked, arithmetic on a number from a log is checked
//! or explicitly wrapping, nothing is allocated by such a number, and no function panics: it
//! returns where it stopped, and why.
//!
//! The modules mirror the Python modules of `je_tools.formats` that they serve.

#![forbid(unsafe_code)]

pub mod adler;
pub mod arrays;
pub mod bytes;
pub mod je;
pub mod packed;
pub mod rows;
pub mod spans;
pub mod text;
pub mod thrift;

#[cfg(test)]
mod testing;
