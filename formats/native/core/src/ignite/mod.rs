//! Apache Ignite's store: records of a segment and their fields, pages of a page store,
//! and the replay of changes of pages.

pub mod check;
pub mod data_page;
pub mod entries;
pub mod fields;
pub mod hashes;
#[cfg(test)]
pub(crate) mod hostile;
pub mod list_check;
pub mod order;
pub mod page_image;
pub mod page_items;
pub mod page_layout;
pub mod page_packing;
pub mod page_reader;
pub mod pages;
pub mod record_table;
pub mod replay;
pub mod rows;
pub mod tree;
pub mod tree_check;
pub mod values;
pub mod walk;
