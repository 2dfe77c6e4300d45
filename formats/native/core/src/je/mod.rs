//! Berkeley DB Java Edition logs.

pub mod header;
pub mod walk;
