//! Apache Ignite's write-ahead log: records of a segment, and their fields.

pub mod entries;
pub mod fields;
pub mod order;
pub mod walk;
