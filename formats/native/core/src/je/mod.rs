//! Berkeley DB Java Edition logs.

pub mod columns;
pub mod header;
pub mod identity;
pub mod slots;
pub mod summaries;
pub mod walk;
