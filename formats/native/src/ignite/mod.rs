//! Bindings for `formats/ignite`.

pub mod check;
pub mod hashes;
pub mod page_image;
pub mod page_items;
pub mod pages;
pub mod record_table;
pub mod records;
pub mod replay;
pub mod rows;
pub mod values;
pub mod walk;
