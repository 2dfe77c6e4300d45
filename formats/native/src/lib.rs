//! The extension `je_tools.formats._native`.
//!
//! Each file here serves the Python module of the same name: it borrows arrays, calls `core` with
//! the interpreter lock released, and returns numbers and arrays. `formats/_native.pyi` documents
//! the Python interface.

#![deny(unsafe_code)]

mod arrays;
mod detached;
mod file;
mod ignite;
mod je;
mod maps;
mod needles;
mod packed;
mod rows;
mod spans;
mod thrift;

use pyo3::prelude::*;
use pyo3::types::PyDict;

/// Numbers that a Python module declares too: the name below `formats`, and the value.
type Declared = &'static [(&'static str, i64)];

/// Returns the numbers that this crate and a Python module both declare; a test compares them.
#[pyfunction]
fn declared(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let all = PyDict::new(py);
    let declared = [
        packed::DECLARED,
        // Reading logs.
        je::reader::DECLARED,
        je::segments::DECLARED,
        je::tally::DECLARED,
        je::walk::DECLARED,
        ignite::check::DECLARED,
        ignite::page_image::DECLARED,
        ignite::page_items::DECLARED,
        ignite::pages::DECLARED,
        ignite::record_table::DECLARED,
        ignite::records::DECLARED,
        ignite::replay::DECLARED,
        ignite::rows::DECLARED,
        ignite::values::DECLARED,
        ignite::walk::DECLARED,
        // Columns and text.
        je::columns::DECLARED,
        je::identity::DECLARED,
        je::slots::DECLARED,
        needles::DECLARED,
        rows::DECLARED,
        thrift::DECLARED,
        // Entries at LSNs, nodes and keys, and writers.
        je::column_writer::DECLARED,
        je::fetch::DECLARED,
        je::fingerprints::DECLARED,
        je::fingerprints::STEPS,
        je::writer::DECLARED,
    ];
    for (name, value) in declared.into_iter().flatten() {
        all.set_item(name, value)?;
    }
    Ok(all)
}

#[pymodule]
mod _native {
    #[pymodule_export]
    use super::declared;
    // Reading logs.
    #[pymodule_export]
    use super::file::File;
    #[pymodule_export]
    use super::ignite::check::check_pages;
    #[pymodule_export]
    use super::ignite::hashes::{key_hashes, value_digests};
    #[pymodule_export]
    use super::ignite::page_image::image_pages;
    #[pymodule_export]
    use super::ignite::page_items::{page_fields, page_items};
    #[pymodule_export]
    use super::ignite::pages::{read_file_pages, read_pages};
    #[pymodule_export]
    use super::ignite::record_table::RecordDecoder;
    #[pymodule_export]
    use super::ignite::records::{decode_entries, decode_fields};
    #[pymodule_export]
    use super::ignite::replay::PageReplay;
    #[pymodule_export]
    use super::ignite::rows::RowWalker;
    #[pymodule_export]
    use super::ignite::values::{ValueTypes, read_metadata};
    #[pymodule_export]
    use super::ignite::walk::SegmentWalker;
    #[pymodule_export]
    use super::je::reader::RangeReader;
    #[pymodule_export]
    use super::je::tally::tally;
    // Memory maps.
    #[pymodule_export]
    use super::maps::Maps;
    #[pymodule_export]
    use super::packed::{encode_packed, read_packed};

    // Columns and text.
    #[pymodule_export]
    use super::arrays::distinct;
    #[pymodule_export]
    use super::je::columns::{Program, decode_columns};
    #[pymodule_export]
    use super::je::identity::{identify, mark_newest};
    #[pymodule_export]
    use super::je::slots::split_keys;
    #[pymodule_export]
    use super::je::summaries::read_summaries;
    #[pymodule_export]
    use super::rows::{row_texts, rows_bound, write_rows};
    #[pymodule_export]
    use super::spans::{
        are_zero, contains, fill_spans, gather, gather_hex, gather_printable, lsn_texts,
        starts_with,
    };
    #[pymodule_export]
    use super::thrift::{fill_thrift, open_thrift};

    // Searches for bytes of a person.
    #[pymodule_export]
    use super::needles::{Needles, needle_hashes};

    // Entries at LSNs, nodes and keys, and writers.
    #[pymodule_export]
    use super::je::blanking::blank_sums;
    #[pymodule_export]
    use super::je::column_writer::encode_parts;
    #[pymodule_export]
    use super::je::fetch::fetch_entries;
    #[pymodule_export]
    use super::je::fingerprints::{doubtful_slots, fingerprints_of, note_lsns};
    #[pymodule_export]
    use super::je::keysort::{equal_keys, group_keys, search_sorted};
    #[pymodule_export]
    use super::je::node_checks::{descents, holders};
    #[pymodule_export]
    use super::je::node_writer::{join_rests, prefix_sizes};
    #[pymodule_export]
    use super::je::nodes::{count_replaced, join_keys, merge_slots, within};
    #[pymodule_export]
    use super::je::writer::append_rows;
}
