//! Berkeley DB Java Edition logs.

pub mod fetch;
pub mod header;
pub mod keys;
pub mod node_checks;
pub mod nodes;
pub mod walk;
