//! Berkeley DB Java Edition logs.

pub mod blanking;
pub mod column_writer;
pub mod columns;
pub mod fetch;
pub mod file;
pub mod fingerprints;
pub mod header;
pub mod identity;
pub mod keys;
pub mod node_checks;
pub mod node_writer;
pub mod nodes;
pub mod notes;
pub mod reader;
pub mod resync;
pub mod search;
pub mod segments;
pub mod slots;
pub mod summaries;
pub mod tally;
pub mod walk;
pub mod writer;

#[cfg(test)]
mod testing;
