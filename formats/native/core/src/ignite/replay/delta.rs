//! Changes of one page, by the types of their records.

use crate::ignite::fields::{Coding, Cursor, read};
use crate::ignite::order::Order;
use crate::ignite::pages::{ID_AT, ROTATED_AT};
use crate::ignite::replay::page::{Page, PageKind};
use crate::ignite::replay::{Reason, data, lists, meta, tree};

/// Largest number of columns that the fields of a delta have.
const FIELDS_MAX: usize = 16;

/// Fields of a record before those of its own: group and page.
const OWN: usize = 2;

const ENCRYPTED: u8 = 52;
const ENCRYPTED_2: u8 = 63;

/// Returns true if physical recovery applies records of a type.
pub fn is_physical(type_no: u8) -> bool {
    matches!(type_no, 1 | 5..=31 | 33..=39 | 41..=43 | 48..=51 | 58 | 59 | 61 | 67..=69 | 81)
}

/// Returns the type of the record inside of an encrypted one; `None` if it is not encrypted.
pub fn encrypted_type(type_no: u8, payload: &[u8]) -> Option<u8> {
    const TYPE_AT: usize = 8;
    if !matches!(type_no, ENCRYPTED | ENCRYPTED_2) {
        return None;
    }
    payload.get(TYPE_AT).map(|byte| byte.wrapping_sub(1))
}

/// A record of physical recovery, decoded.
#[derive(Debug)]
pub struct Delta<'a> {
    type_no: u8,
    fields: [i64; FIELDS_MAX],
    count: usize,
    payload: &'a [u8],
}

impl<'a> Delta<'a> {
    /// Decodes the payload of a record; `None` if it does not decode to its end.
    pub fn read(type_no: u8, payload: &'a [u8], codings: &[Coding], order: Order) -> Option<Self> {
        let mut delta = Self { type_no, fields: [0; FIELDS_MAX], count: 0, payload };
        let mut cursor = Cursor::new(payload, 0, payload.len() as i64, order);
        read(&mut cursor, codings, |found| {
            for &number in found {
                if let Some(field) = delta.fields.get_mut(delta.count) {
                    *field = number;
                    delta.count += 1;
                }
            }
        })?;
        (cursor.is_done() && delta.count >= OWN).then_some(delta)
    }

    /// Returns all columns of the fields.
    pub fn fields(&self) -> &[i64] {
        &self.fields[..self.count.min(FIELDS_MAX)]
    }

    /// Returns the group.
    pub fn group(&self) -> i32 {
        self.fields[0] as i32
    }

    /// Returns the id of the page.
    pub fn page_id(&self) -> i64 {
        self.fields[1]
    }

    /// Returns the columns after group and page.
    fn own(&self) -> &[i64] {
        self.fields().get(OWN..).unwrap_or_default()
    }

    /// Returns the bytes of the span in the last two columns.
    pub fn rest(&self) -> &'a [u8] {
        let [.., start, size] = *self.own() else { return &[] };
        let span = usize::try_from(start).ok().zip(usize::try_from(size).ok());
        let bytes =
            span.and_then(|(start, size)| self.payload.get(start..start.checked_add(size)?));
        bytes.unwrap_or_default()
    }

    /// Returns true if the record gives the page its whole content.
    pub fn is_base(&self) -> bool {
        matches!(self.type_no, 5 | 13 | 27 | 30)
    }

    /// Applies the record to its page.
    pub fn apply(&self, page: &mut Page<'_>) -> Result<(), Reason> {
        match self.type_no {
            5 | 13 | 27 | 30 => return self.format(page),
            14 => return done(page.put_i64(ID_AT, self.own_at(0))),
            48 => return done(page.put_u8(ROTATED_AT, self.size_at(0)?)),
            _ => {}
        }
        match (self.type_no, page.kind().ok_or(Reason::Type)?) {
            (6..=9 | 41, PageKind::Data) => self.apply_data(page),
            (10..=12 | 42 | 59, PageKind::TreeMeta) => self.apply_levels(page),
            (15..=19 | 21 | 23, PageKind::Tree(layout)) => {
                self.apply_tree(page, tree::Items(layout))
            }
            (25 | 26 | 28 | 29, PageKind::ListNode) => self.apply_list(page),
            (39, PageKind::ListMeta) => done(lists::reset_meta(page)),
            (31 | 58 | 67, PageKind::PartitionMeta) => done(meta::set_counters(page, self.own())),
            (34..=37, PageKind::Meta | PageKind::PartitionMeta) => self.apply_meta(page),
            (68, PageKind::Meta) => done(meta::set_encrypted(page, self.own_at(0), self.own_at(1))),
            (33, PageKind::Tracking) => {
                done(lists::mark(page, self.own_at(0), self.own_at(1), self.own_at(2)))
            }
            (61, PageKind::Tracking) => done(lists::repair(page)),
            (20 | 22 | 24 | 49..=51 | 69 | 81, _) => Err(Reason::Unsupported),
            _ => Err(Reason::Type),
        }
    }

    fn own_at(&self, index: usize) -> i64 {
        self.own().get(index).copied().unwrap_or(0)
    }

    fn size_at(&self, index: usize) -> Result<usize, Reason> {
        usize::try_from(self.own_at(index)).map_err(|_| Reason::Content)
    }

    /// Makes an empty page of a type, and writes the fields that the record has for it.
    fn format(&self, page: &mut Page<'_>) -> Result<(), Reason> {
        let own = |index| self.own_at(index);
        // Types 5 and 13 have an id of their own, after the type of the page or before it.
        let (type_at, id) = match self.type_no {
            5 => (0, own(2)),
            13 => (1, own(0)),
            _ => (0, self.page_id()),
        };
        let type_no = u16::try_from(own(type_at)).map_err(|_| Reason::Type)?;
        let version = u16::try_from(own(type_at + 1)).map_err(|_| Reason::Type)?;
        let kind = PageKind::of(type_no, version);
        done(page.put_header(type_no, version, id))?;
        done(match kind {
            PageKind::Data => data::format(page),
            PageKind::Tree(_) => tree::format(page),
            PageKind::Meta | PageKind::PartitionMeta => meta::format(page, kind),
            PageKind::ListMeta => lists::format_meta(page),
            PageKind::ListNode => lists::format_node(page),
            PageKind::CacheSizes => meta::format_sizes(page),
            PageKind::Other | PageKind::TreeMeta | PageKind::Tracking => Some(()),
        })?;
        match (self.type_no, kind) {
            (5, _) => Ok(()),
            (13, PageKind::Tree(layout)) => {
                done(tree::Items(layout).init_root(page, self.rest(), own(3), own(4)))
            }
            (27, PageKind::ListNode) => {
                done(lists::set_previous(page, own(3)))?;
                done(if own(4) == 0 { Some(()) } else { lists::add(page, own(4)) })
            }
            (30, PageKind::Meta | PageKind::PartitionMeta) => {
                done(meta::set_roots(page, own(2), own(3)))
            }
            _ => Err(Reason::Type),
        }
    }

    fn apply_data(&self, page: &mut Page<'_>) -> Result<(), Reason> {
        done(match self.type_no {
            6 => data::add(page, self.rest(), None),
            7 => data::add(page, self.rest(), Some(self.own_at(0))),
            8 => data::remove(page, self.size_at(0)?),
            9 => data::set_free_list(page, self.own_at(0)),
            _ => data::update(page, self.size_at(0)?, self.rest()),
        })
    }

    fn apply_levels(&self, page: &mut Page<'_>) -> Result<(), Reason> {
        let root = self.own_at(0);
        done(match self.type_no {
            10 => tree::init_levels(page, root, 0),
            11 => tree::add_level(page, root),
            12 => tree::cut_level(page),
            42 => tree::init_levels(page, root, self.own_at(1)),
            _ => tree::init_levels(page, root, self.own_at(1)).and_then(|()| {
                let version = self.own().get(3..7)?;
                tree::set_created(page, self.own_at(2), version, self.rest())
            }),
        })
    }

    fn apply_tree(&self, page: &mut Page<'_>, items: tree::Items) -> Result<(), Reason> {
        done(match self.type_no {
            15 => items.insert(page, self.size_at(2)?, self.rest(), self.own_at(3)),
            16 => items.set_leftmost(page, self.own_at(0)),
            17 => items.set_count(page, self.size_at(0)?),
            18 => items.replace(page, self.size_at(2)?, self.rest()),
            19 => items.remove(page, self.size_at(0)?, self.size_at(1)?),
            21 => items.set_remove_id(page, self.own_at(0)),
            _ => items.split(page, self.size_at(0)?, self.own_at(1)),
        })
    }

    fn apply_list(&self, page: &mut Page<'_>) -> Result<(), Reason> {
        let id = self.own_at(0);
        done(match self.type_no {
            25 => lists::set_next(page, id),
            26 => lists::set_previous(page, id),
            28 => lists::add(page, id),
            _ => lists::remove(page, id),
        })
    }

    fn apply_meta(&self, page: &mut Page<'_>) -> Result<(), Reason> {
        let first = self.own_at(0);
        done(match self.type_no {
            34 => meta::set_snapshot(page, first, self.own_at(1)),
            35 => meta::set_full_snapshot(page, first),
            36 => meta::set_next_tag(page, first),
            _ => meta::set_page_count(page, first),
        })
    }
}

fn done(done: Option<()>) -> Result<(), Reason> {
    done.ok_or(Reason::Content)
}
