//! Berkeley DB Java Edition logs.

pub mod walk;
