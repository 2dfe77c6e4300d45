//! Berkeley DB Java Edition logs.

pub mod column_writer;
pub mod fetch;
pub mod fingerprints;
pub mod header;
pub mod keys;
pub mod node_checks;
pub mod node_writer;
pub mod nodes;
pub mod walk;
pub mod writer;
