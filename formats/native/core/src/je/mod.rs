//! Berkeley DB Java Edition logs.

pub mod fetch;
pub mod fingerprints;
pub mod header;
pub mod keys;
pub mod node_checks;
pub mod nodes;
pub mod walk;
