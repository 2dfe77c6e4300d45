//! Berkeley DB Java Edition logs.

pub mod columns;
pub mod identity;
pub mod slots;
pub mod summaries;
pub mod walk;

// Entries at LSNs, nodes and keys, and what is written.
pub mod column_writer;
pub mod fetch;
pub mod fingerprints;
pub mod keysort;
pub mod node_checks;
pub mod node_writer;
pub mod nodes;
pub mod writer;
