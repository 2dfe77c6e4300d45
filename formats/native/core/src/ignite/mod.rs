//! Apache Ignite's store: records of a segment and their fields, and pages of a page store.

pub mod entries;
pub mod fields;
pub mod order;
pub mod pages;
pub mod walk;
