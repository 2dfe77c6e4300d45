//! Berkeley DB Java Edition logs.

pub mod reader;
pub mod tally;
pub mod walk;
