//! Berkeley DB Java Edition logs.

pub mod header;
pub mod walk;

pub mod file;
pub mod reader;
pub mod resync;
pub mod search;
pub mod tally;

#[cfg(test)]
mod testing;
