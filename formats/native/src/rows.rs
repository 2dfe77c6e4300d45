//! Bindings for `formats/rows.py`.

use je_tools_core::rows::{Cell, Failure, Label, SLACK, Table, Values};
use numpy::PyReadwriteArray1;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;

use crate::arrays::{Column, PySpans, outside};
use crate::detached::detached;
use crate::spans::{PyStrings, strings};

/// Python's `rows.Form`.
#[repr(u8)]
#[derive(Clone, Copy)]
enum Form {
    Nothing = 0,
    Hex = 1,
    Print = 2,
    Text = 3,
    Decimal = 4,
    Lsn = 5,
    List = 6,
    Choice = 7,
}

pub const DECLARED: crate::Declared = &[
    ("rows.SLACK", SLACK as i64),
    ("rows.Form.NOTHING", Form::Nothing as i64),
    ("rows.Form.HEX", Form::Hex as i64),
    ("rows.Form.PRINT", Form::Print as i64),
    ("rows.Form.TEXT", Form::Text as i64),
    ("rows.Form.DECIMAL", Form::Decimal as i64),
    ("rows.Form.LSN", Form::Lsn as i64),
    ("rows.Form.LIST", Form::List as i64),
    ("rows.Form.CHOICE", Form::Choice as i64),
];

impl Form {
    const ALL: [Self; 8] = [
        Self::Nothing,
        Self::Hex,
        Self::Print,
        Self::Text,
        Self::Decimal,
        Self::Lsn,
        Self::List,
        Self::Choice,
    ];

    fn of(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        let number: u8 = object.extract()?;
        let form = Self::ALL.into_iter().find(|&form| form as u8 == number);
        form.ok_or_else(|| PyValueError::new_err("unknown form of a cell"))
    }
}

/// Python's `rows.ListItems`.
#[derive(FromPyObject)]
pub struct PyList<'py> {
    first: Column<'py, i64>,
    table: PyTable<'py>,
}

/// Python's `rows.RowChoice`.
#[derive(FromPyObject)]
pub struct PyChoice<'py> {
    table: Column<'py, i64>,
    row: Column<'py, i64>,
    tables: Vec<PyTable<'py>>,
}

enum PyValues<'py> {
    Nothing,
    Spans(Form, PySpans<'py>),
    Numbers(Form, Column<'py, i64>),
    List(Box<PyList<'py>>),
    Choice(PyChoice<'py>),
}

/// Python's `rows.Cell`.
struct PyCell<'py> {
    texts: [PyBackedBytes; 3],
    values: PyValues<'py>,
    valid: Option<Column<'py, bool>>,
    present: Option<Column<'py, i64>>,
    bit: u32,
    opens: bool,
}

impl<'a, 'py> FromPyObject<'a, 'py> for PyCell<'py> {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        let text =
            |name: &str| object.getattr(name)?.extract::<PyBackedBytes>().map_err(PyErr::from);
        let values = object.getattr("values")?;
        let values = match Form::of(&object.getattr("form")?)? {
            Form::Nothing => PyValues::Nothing,
            form @ (Form::Hex | Form::Print | Form::Text) => {
                PyValues::Spans(form, values.extract()?)
            }
            form @ (Form::Decimal | Form::Lsn) => PyValues::Numbers(form, values.extract()?),
            Form::List => PyValues::List(Box::new(values.extract()?)),
            Form::Choice => PyValues::Choice(values.extract()?),
        };
        Ok(Self {
            texts: [text("before")?, text("after")?, text("instead")?],
            values,
            valid: object.getattr("valid")?.extract()?,
            present: object.getattr("present")?.extract()?,
            bit: object.getattr("bit")?.extract()?,
            opens: object.getattr("opens")?.extract()?,
        })
    }
}

impl PyCell<'_> {
    fn borrow(&self) -> PyResult<Cell<'_>> {
        let [before, after, instead] = &self.texts;
        let present = self.present.as_ref().map(Column::as_slice).transpose()?;
        Ok(Cell {
            before: Label::new(before),
            after: Label::new(after),
            instead: Label::new(instead),
            values: self.values.borrow()?,
            valid: self.valid.as_ref().map(Column::as_slice).transpose()?,
            present: present.map(|bits| (bits, self.bit)),
            opens: self.opens,
        })
    }
}

impl PyValues<'_> {
    fn borrow(&self) -> PyResult<Values<'_>> {
        Ok(match self {
            Self::Nothing => Values::Nothing,
            Self::Spans(Form::Hex, spans) => Values::Hex(spans.borrow()?),
            Self::Spans(Form::Print, spans) => Values::Print(spans.borrow()?),
            Self::Spans(_, spans) => Values::Text(spans.borrow()?),
            Self::Numbers(Form::Lsn, numbers) => Values::Lsn(numbers.as_slice()?),
            Self::Numbers(_, numbers) => Values::Decimal(numbers.as_slice()?),
            Self::List(list) => {
                Values::List(list.first.as_slice()?, Box::new(list.table.borrow()?))
            }
            Self::Choice(choice) => {
                let tables = choice.tables.iter().map(PyTable::borrow).collect::<PyResult<_>>()?;
                Values::Choice(choice.table.as_slice()?, choice.row.as_slice()?, tables)
            }
        })
    }
}

/// Python's `rows.CellTable`.
#[derive(FromPyObject)]
pub struct PyTable<'py> {
    rows: usize,
    cells: Vec<PyCell<'py>>,
}

impl PyTable<'_> {
    fn borrow(&self) -> PyResult<Table<'_>> {
        let cells = self.cells.iter().map(PyCell::borrow).collect::<PyResult<_>>()?;
        Table::new(self.rows, cells).map_err(outside)
    }
}

#[pyfunction]
pub fn rows_bound(py: Python<'_>, table: PyTable<'_>) -> PyResult<Option<usize>> {
    let table = table.borrow()?;
    detached(py, || table.bound())
}

#[pyfunction]
pub fn write_rows(
    py: Python<'_>,
    table: PyTable<'_>,
    mut out: PyReadwriteArray1<'_, u8>,
) -> PyResult<usize> {
    let table = table.borrow()?;
    let out = out.as_slice_mut()?;
    detached(py, || table.write(out, None))?.map_err(refused)
}

#[pyfunction]
pub fn row_texts<'py>(
    py: Python<'py>,
    table: PyTable<'py>,
    most: usize,
) -> PyResult<Option<PyStrings<'py>>> {
    let table = table.borrow()?;
    // Offsets are numbers of 32 bits.
    let most = most.min(i32::MAX as usize);
    let found = detached(py, || table.texts(most))?.map_err(refused)?;
    Ok(found.map(|found| strings(py, found)))
}

fn refused(failure: Failure) -> PyErr {
    PyValueError::new_err(match failure {
        Failure::Outside => "a span outside of its buffer, or a row outside of its table",
        Failure::Full => "rows do not fit into the room for them",
    })
}
