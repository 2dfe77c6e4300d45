//! Bindings for `formats/ignite/check.py`.

use je_tools_core::ignite::check::{self, Defect, DefectKind, POWERS};
use pyo3::prelude::*;

use super::page_image::PyPageImage;
use crate::arrays::Column;
use crate::detached::detached;

pub const DECLARED: crate::Declared = &[
    ("ignite.check.POWERS", POWERS as i64),
    ("ignite.check.DefectKind.PAGE", DefectKind::Page as i64),
    ("ignite.check.DefectKind.TYPE", DefectKind::Type as i64),
    ("ignite.check.DefectKind.COUNT", DefectKind::Count as i64),
    ("ignite.check.DefectKind.TWICE", DefectKind::Twice as i64),
    ("ignite.check.DefectKind.ELSEWHERE", DefectKind::Elsewhere as i64),
    ("ignite.check.DefectKind.CHAIN", DefectKind::Chain as i64),
    ("ignite.check.DefectKind.LOST", DefectKind::Lost as i64),
    ("ignite.check.DefectKind.ORDER", DefectKind::Order as i64),
    ("ignite.check.DefectKind.BOUNDS", DefectKind::Bounds as i64),
    ("ignite.check.DefectKind.ROW", DefectKind::Row as i64),
    ("ignite.check.DefectKind.ITEMS", DefectKind::Items as i64),
    ("ignite.check.DefectKind.FREE", DefectKind::Free as i64),
    ("ignite.check.DefectKind.UNNAMED", DefectKind::Unnamed as i64),
    ("ignite.check.DefectKind.EXPIRY", DefectKind::Expiry as i64),
    ("ignite.check.DefectKind.LIST", DefectKind::List as i64),
    ("ignite.check.DefectKind.ROWS", DefectKind::Rows as i64),
    ("ignite.check.DefectKind.CACHE_ROWS", DefectKind::CacheRows as i64),
    ("ignite.check.DefectKind.ORPHAN", DefectKind::Orphan as i64),
    ("ignite.check.DefectKind.CACHES", DefectKind::Caches as i64),
];

type Places = Vec<(i64, Vec<u64>)>;

/// The fields of Python's `check.Structure`.
type Structure = (Vec<Defect>, Vec<u64>, u64, u64, i64, Places, Vec<u32>);

#[pyfunction]
pub fn check_pages(
    py: Python<'_>,
    image: PyPageImage<'_>,
    verdicts: Column<'_, u8>,
) -> PyResult<Structure> {
    let (image, verdicts) = (image.borrow()?, verdicts.as_slice()?);
    let found = detached(py, || check::check(image, verdicts))?;
    let places = found.places.into_iter().map(|(cache, counts)| (cache, counts.to_vec()));
    Ok((
        found.defects,
        found.counts.to_vec(),
        found.trees,
        found.rows,
        found.expected_rows,
        places.collect(),
        found.missing.into_iter().collect(),
    ))
}
