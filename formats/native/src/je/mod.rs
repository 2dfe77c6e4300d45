//! Bindings for logs of Berkeley DB Java Edition.

pub mod blanking;
pub mod column_writer;
pub mod columns;
pub mod fetch;
pub mod fingerprints;
pub mod identity;
pub mod keysort;
pub mod node_checks;
pub mod node_writer;
pub mod nodes;
pub mod reader;
pub mod segments;
pub mod slots;
pub mod summaries;
pub mod tally;
pub mod walk;
pub mod writer;
