//! Berkeley DB Java Edition logs.

pub mod column_writer;
pub mod columns;
pub mod fetch;
pub mod fingerprints;
pub mod header;
pub mod identity;
pub mod keys;
pub mod node_checks;
pub mod node_writer;
pub mod nodes;
pub mod slots;
pub mod summaries;
pub mod walk;
pub mod writer;
