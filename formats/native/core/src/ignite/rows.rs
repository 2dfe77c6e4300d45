//! Rows of the tree of a partition or of the metastorage, in columns.
//!
//! Source: DataPageIO, CacheDataRowAdapter.readFullRow, MetastorageDataIO,
//! MetastoreDataPageIO, Ignite 2.18.0.

use crate::ignite::data_page::find;
use crate::ignite::fields::Cursor;
use crate::ignite::order::Order;
use crate::ignite::page_image::{PageFault, PageImage};
use crate::ignite::page_layout::{TreeKind, is_data, meta, tree, types};
use crate::ignite::page_reader::{Marks, PageReader, index_of, item_of, kind_of, partition_of};
use crate::ignite::tree::{LevelWalk, Node, TreeFault, TreeMeta};

/// Columns of a row, in the order of `rows.RowBatch`.
pub const ROW_COLUMNS: usize = 16;

/// Value of a column that does not apply.
const NONE: i64 = -1;

/// Reason why a row cannot be read, besides those of its pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum RowFault {
    /// The page at the link holds no rows.
    NotData = 64,
    /// The page has no such item.
    NoItem = 65,
    /// The item belongs to another row too, or the items of its page overlap.
    Shared = 66,
    /// The bytes do not decode to a row.
    Undecodable = 67,
    /// The link leads to another partition.
    Elsewhere = 68,
}

/// Rows in columns.
#[derive(Debug, Default)]
pub struct Rows {
    /// The columns, `ROW_COLUMNS` numbers for each row.
    pub rows: Vec<[i64; ROW_COLUMNS]>,
    /// Bytes of keys and values.
    pub data: Vec<u8>,
}

impl Rows {
    /// Returns the columns one after the other.
    pub fn columns(&self) -> Vec<i64> {
        (0..ROW_COLUMNS).flat_map(|i| self.rows.iter().map(move |row| row[i])).collect()
    }
}

/// Reader of all rows of one image, in the order of the keys' hashes.
#[derive(Debug)]
pub struct RowWalk {
    reader: PageReader,
    tree: TreeMeta,
    leaves: Option<LevelWalk>,
    used: UsedItems,
    /// Page and fault of the tree's meta page, or of the page that names it.
    top: Option<(u32, TreeFault)>,
}

/// Items of data pages that belong to a row.
#[derive(Debug)]
pub struct UsedItems {
    items: Marks,
    /// By place of a page in the image: the bytes of its items that were added.
    taken: Vec<u32>,
}

impl UsedItems {
    /// Number of item ids that a page may have.
    const COUNT: usize = 256;

    /// Returns the set of an image, without items.
    pub fn new(image: &PageImage<'_>) -> Self {
        let count = image.place_count();
        Self { items: Marks::new(count.saturating_mul(Self::COUNT)), taken: vec![0; count] }
    }

    fn place(image: &PageImage<'_>, link: i64) -> Option<usize> {
        let place = image.place_of(index_of(link))?;
        place.checked_mul(Self::COUNT)?.checked_add(item_of(link).into())
    }

    /// Adds the item of a link, and its number of bytes.
    ///
    /// Returns false if it belongs to a row already, or if the items of its page have more bytes
    /// than the page.
    pub fn add(&mut self, image: &PageImage<'_>, link: i64, size: usize) -> bool {
        let is_new = Self::place(image, link).is_some_and(|place| self.items.add(place));
        let place = image.place_of(index_of(link)).and_then(|place| self.taken.get_mut(place));
        let (true, Some(taken)) = (is_new, place) else { return false };
        *taken = taken.saturating_add(u32::try_from(size).unwrap_or(u32::MAX));
        usize::try_from(*taken).is_ok_and(|taken| taken <= image.page_size)
    }

    /// Returns true if the item of a link belongs to a row.
    pub fn has(&self, image: &PageImage<'_>, link: i64) -> bool {
        Self::place(image, link).is_some_and(|place| self.items.has(place))
    }
}

/// An item of a leaf of rows.
#[derive(Debug)]
pub struct RowItem {
    /// Page and item of the row's start.
    pub link: i64,
    /// Hash of the key; 0 in the metastorage.
    pub hash: i64,
    /// Cache; -1 for that of the file.
    pub cache: i64,
    key: Vec<u8>,
    key_link: i64,
}

impl RowWalk {
    /// Starts at the first page of a file.
    pub fn new(image: &PageImage<'_>) -> Self {
        let mut reader = PageReader::new(image);
        let used = UsedItems::new(image);
        let (tree, leaves, top) = match tree_of(image, &mut reader, meta::TREE_AT) {
            Ok(tree) => {
                let leaves = LevelWalk::new(&tree, 0);
                (tree, Some(leaves), None)
            }
            Err(top) => (TreeMeta::default(), None, top),
        };
        Self { reader, tree, leaves, used, top }
    }

    /// Returns the faults of the tree that were found so far: page and fault.
    pub fn faults(&self) -> Vec<(u32, TreeFault)> {
        let leaves = self.leaves.iter().flat_map(|walk| &walk.faults);
        self.top.iter().chain(leaves).copied().collect()
    }

    /// Reads rows of leaves up to a number of rows or of bytes; returns none at the end.
    pub fn step(&mut self, image: &PageImage<'_>, most_rows: usize, most_bytes: usize) -> Rows {
        let mut found = Rows::default();
        let Some(leaves) = &mut self.leaves else { return found };
        while found.rows.len() < most_rows && found.data.len() < most_bytes {
            let (reader, taken) = (&mut self.reader, Marks::default());
            let next = leaves.step(image, reader, &self.tree, &taken, |index, node| {
                (index, items_of(node, image.order))
            });
            let Some((leaf, items)) = next else { break };
            let mut order: Vec<usize> = (0..items.len()).collect();
            // Rows of a leaf are scattered: those in one page are read together.
            order.sort_unstable_by_key(|&n| items[n].link);
            let base = found.rows.len();
            found.rows.resize(base + items.len(), [NONE; ROW_COLUMNS]);
            for n in order {
                let row = read_row(image, &mut self.reader, &mut self.used, &items[n], &mut found);
                let mut columns = row.columns(&items[n]);
                (columns[0], columns[1]) = (leaf.into(), n as i64);
                found.rows[base + n] = columns;
            }
        }
        found
    }
}

/// Returns the tree that the first page of a file names at an offset.
///
/// An error names the page and the fault; none if the file has no pages or no tree.
pub fn tree_of(
    image: &PageImage<'_>,
    reader: &mut PageReader,
    at: usize,
) -> Result<TreeMeta, Option<(u32, TreeFault)>> {
    if image.page_count() == 0 {
        return Err(None);
    }
    let fail = |index: u32, fault: TreeFault| Some((index, fault));
    let page = reader.page(image, 0).map_err(|fault| fail(0, TreeFault::Page(fault)))?;
    let kind = kind_of(page, image.order).map_or(0, |(no, _)| no);
    if kind != types::PARTITION_META && kind != types::INDEX_META {
        return Err(fail(0, TreeFault::Type));
    }
    let root = image.order.i64_at(page, at).ok_or(fail(0, TreeFault::Type))?;
    if root == 0 {
        return Err(None);
    }
    let index = index_of(root);
    let page = reader.page(image, index).map_err(|fault| fail(index, TreeFault::Page(fault)))?;
    TreeMeta::read(page, image.order).map_err(|fault| fail(index, fault))
}

/// Returns the items of a leaf of rows; none for a leaf of another kind of tree.
pub fn items_of(node: &Node<'_>, order: Order) -> Vec<RowItem> {
    (0..node.count).filter_map(|n| item(node, order, n)).collect()
}

/// Returns an item of a leaf of rows; `None` for a leaf of another kind of tree.
fn item(node: &Node<'_>, order: Order, n: usize) -> Option<RowItem> {
    let bytes = node.item(n)?;
    let kind = node.layout.kind;
    let link = order.i64_at(bytes, kind.link_at()?)?;
    let mut item = RowItem { link, hash: 0, cache: NONE, key: Vec::new(), key_link: 0 };
    match kind {
        TreeKind::Data | TreeKind::GroupData => {
            item.hash = order.i32_at(bytes, tree::LINK_SIZE)?.into();
            if let Some(at) = kind.cache_at() {
                item.cache = order.i32_at(bytes, at)?.into();
            }
        }
        TreeKind::Metastorage => {
            let size = usize::from(order.u16_at(bytes, tree::LINK_SIZE)?);
            let key = bytes.get(tree::LINK_SIZE + 2..)?;
            match key.get(..size) {
                Some(key) => item.key = key.to_vec(),
                None => item.key_link = order.i64_at(key, 0)?,
            }
        }
        _ => return None,
    }
    Some(item)
}

/// A row: its columns that are not in the leaf, or its fault.
#[derive(Debug)]
pub struct Row {
    key_type: i64,
    key: [i64; 2],
    value_type: i64,
    value: [i64; 2],
    version: [i64; 3],
    expire: i64,
    /// A `PageFault` or a `RowFault`; 0 for none.
    pub fault: u8,
}

impl Row {
    fn bad(fault: u8, payload: [i64; 2]) -> Self {
        let none = [NONE, NONE];
        Self {
            key_type: NONE,
            key: none,
            value_type: NONE,
            value: payload,
            version: [NONE; 3],
            expire: 0,
            fault,
        }
    }

    fn columns(&self, item: &RowItem) -> [i64; ROW_COLUMNS] {
        let mut columns = [NONE; ROW_COLUMNS];
        (columns[2], columns[3], columns[4]) = (item.cache, item.link, item.hash);
        columns[5..].copy_from_slice(&self.numbers());
        columns
    }

    /// Returns the columns from the type of the key on.
    pub fn numbers(&self) -> [i64; ROW_COLUMNS - 5] {
        let ([key, key_size], [value, value_size]) = (self.key, self.value);
        let [topology, node, order] = self.version;
        [
            self.key_type,
            key,
            key_size,
            self.value_type,
            value,
            value_size,
            topology,
            node,
            order,
            self.expire,
            self.fault.into(),
        ]
    }
}

/// Reads the row of an item, and appends its bytes to those of others.
pub fn read_row(
    image: &PageImage<'_>,
    reader: &mut PageReader,
    used: &mut UsedItems,
    item: &RowItem,
    rows: &mut Rows,
) -> Row {
    let start = rows.data.len();
    let found = append(image, reader, used, item.link, &mut rows.data);
    let stop = rows.data.len();
    let payload = [start as i64, (stop - start) as i64];
    let (type_no, is_fragmented) = match found {
        Ok(found) => found,
        Err(fault) => return Row::bad(fault, payload),
    };
    let row = decode_any(&rows.data, payload, type_no, is_fragmented, image.order);
    if type_no == types::DATA || row.fault != 0 {
        return row;
    }
    with_key(row, image, reader, used, item, rows)
}

/// Decodes a row without fragments, given the type of its page.
pub fn decode_payload(data: &[u8], payload: [i64; 2], type_no: u16, order: Order) -> Row {
    decode_any(data, payload, type_no, false, order)
}

fn decode_any(
    data: &[u8],
    payload: [i64; 2],
    type_no: u16,
    is_fragmented: bool,
    order: Order,
) -> Row {
    let [start, size] = payload;
    let mut cursor = Cursor::new(data, start, start.saturating_add(size), order);
    let decoded = match type_no {
        types::DATA => decode(&mut cursor, is_fragmented),
        _ => decode_blob(&mut cursor),
    };
    decoded
        .filter(|_| cursor.is_done())
        .unwrap_or_else(|| Row::bad(RowFault::Undecodable as u8, payload))
}

/// Returns a row of the metastorage with the key of its item.
fn with_key(
    mut row: Row,
    image: &PageImage<'_>,
    reader: &mut PageReader,
    used: &mut UsedItems,
    item: &RowItem,
    rows: &mut Rows,
) -> Row {
    let start = rows.data.len();
    row.key = [start as i64, item.key.len() as i64];
    rows.data.extend_from_slice(&item.key);
    if item.key_link == 0 {
        return row;
    }
    match append(image, reader, used, item.key_link, &mut rows.data) {
        Ok(_) => {
            let stop = rows.data.len() as i64;
            let mut cursor = Cursor::new(&rows.data, start as i64, stop, image.order);
            match decode_blob(&mut cursor).filter(|_| cursor.is_done()) {
                Some(key) => row.key = key.value,
                None => row.fault = RowFault::Undecodable as u8,
            }
        }
        Err(fault) => row.fault = fault,
    }
    row
}

/// Returns the bytes of a row that does not belong to a cache.
pub fn read_bytes(
    image: &PageImage<'_>,
    reader: &mut PageReader,
    used: &mut UsedItems,
    link: i64,
) -> Result<Vec<u8>, u8> {
    let mut data = Vec::new();
    append(image, reader, used, link, &mut data)?;
    Ok(data)
}

/// Appends the payload of a row; returns the type of its page, and whether it has fragments.
fn append(
    image: &PageImage<'_>,
    reader: &mut PageReader,
    used: &mut UsedItems,
    mut link: i64,
    data: &mut Vec<u8>,
) -> Result<(u16, bool), u8> {
    let mut kind = None;
    loop {
        let index = index_of(link);
        if partition_of(link) != image.partition {
            return Err(RowFault::Elsewhere as u8);
        }
        let page = reader.page(image, index).map_err(|fault: PageFault| fault as u8)?;
        let type_no = kind_of(page, image.order).map_or(0, |(no, _)| no);
        if !is_data(type_no) || kind.is_some_and(|(first, _)| first != type_no) {
            return Err(RowFault::NotData as u8);
        }
        let entry = find(page, image.order, item_of(link)).ok_or(RowFault::NoItem as u8)?;
        // No page gives more bytes than it has, so rows take no more than the file.
        if !used.add(image, link, entry.payload.len()) {
            return Err(RowFault::Shared as u8);
        }
        data.extend_from_slice(page.get(entry.payload).unwrap_or_default());
        let is_fragmented = entry.next.is_some();
        kind.get_or_insert((type_no, is_fragmented));
        match entry.next {
            Some(next) if next != 0 => link = next,
            _ => return kind.ok_or(RowFault::NotData as u8),
        }
    }
}

/// Decodes a row of a cache. In a row with fragments, the time of expiry follows the key.
fn decode(cursor: &mut Cursor<'_>, is_fragmented: bool) -> Option<Row> {
    let (key_type, key) = object(cursor)?;
    let early = if is_fragmented { cursor.i64()? } else { 0 };
    let (value_type, value) = object(cursor)?;
    let [parts, topology, node, order] = cursor.version()?;
    let expire = if is_fragmented { early } else { cursor.i64()? };
    (parts > 0).then_some(Row {
        key_type,
        key,
        value_type,
        value,
        version: [topology, node, order],
        expire,
        fault: 0,
    })
}

fn object(cursor: &mut Cursor<'_>) -> Option<(i64, [i64; 2])> {
    let size = cursor.i32()?;
    Some((cursor.u8()?, cursor.span(size)?))
}

/// Decodes a length and that many bytes.
fn decode_blob(cursor: &mut Cursor<'_>) -> Option<Row> {
    let size = cursor.i32()?;
    let value = cursor.span(size)?;
    Some(Row { value, fault: 0, ..Row::bad(0, value) })
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::ignite::hostile::{KINDS, Lies};
    use crate::ignite::page_layout::{data, tree_meta};

    pub(crate) const SIZE: usize = 1024;

    fn put(page: &mut [u8], at: usize, bytes: &[u8]) {
        page[at..at + bytes.len()].copy_from_slice(bytes);
    }

    fn id(index: u32) -> i64 {
        1 << 48 | 3 << 32 | i64::from(index)
    }

    fn link(index: u32, item: u8) -> [u8; 8] {
        (id(index) | i64::from(item) << 56).to_le_bytes()
    }

    /// Returns a page without a checksum, as the engine writes it if checksums are turned off.
    fn page(index: u32, type_no: u16, version: u8) -> Vec<u8> {
        let mut page = vec![0; SIZE];
        put(&mut page, 0, &type_no.to_le_bytes());
        page[2] = version;
        put(&mut page, 8, &id(index).to_le_bytes());
        page
    }

    fn node(index: u32, type_no: u16, forward: u32, items: &[u8], count: u16) -> Vec<u8> {
        let mut page = page(index, type_no, 1);
        put(&mut page, tree::COUNT_AT, &count.to_le_bytes());
        if forward > 0 {
            put(&mut page, tree::FORWARD_AT, &id(forward).to_le_bytes());
        }
        put(&mut page, tree::ITEMS_AT, items);
        page
    }

    fn data_page(index: u32, entries: &[Vec<u8>]) -> Vec<u8> {
        let mut page = page(index, 1, 1);
        let mut at = SIZE;
        page[data::DIRECT_AT] = entries.len() as u8;
        for (n, entry) in entries.iter().enumerate() {
            at -= entry.len();
            put(&mut page, at, entry);
            put(&mut page, data::ITEMS_AT + 2 * n, &(at as u16).to_le_bytes());
        }
        page
    }

    fn entry(payload: &[u8], next: Option<[u8; 8]>) -> Vec<u8> {
        let flag = if next.is_some() { data::FRAGMENT_BIT } else { 0 };
        let mut entry = (payload.len() as u16 | flag).to_le_bytes().to_vec();
        entry.extend(next.into_iter().flatten());
        entry.extend(payload);
        entry
    }

    fn row(value: &[u8], is_fragmented: bool) -> Vec<u8> {
        let mut row = vec![1, 0, 0, 0, 7, b'k'];
        let expire = 99i64.to_le_bytes();
        if is_fragmented {
            row.extend(expire);
        }
        row.extend((value.len() as u32).to_le_bytes());
        row.push(8);
        row.extend(value);
        row.extend([1, 5, 0, 0, 0, 6, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0]);
        if !is_fragmented {
            row.extend(expire);
        }
        row
    }

    /// Returns a file: a tree with two leaves, three rows, the second of them in two pages.
    pub(crate) fn file() -> Vec<u8> {
        let mut top = page(0, types::PARTITION_META, 1);
        put(&mut top, meta::TREE_AT, &id(1).to_le_bytes());
        let mut roots = page(1, types::TREE_META, 1);
        roots[tree_meta::LEVELS_AT] = 2;
        put(&mut roots, 41, &id(2).to_le_bytes());
        put(&mut roots, 49, &id(4).to_le_bytes());
        let item = |index, item| [&link(index, item)[..], &[1, 0, 0, 0]].concat();
        let long = row(&[9; 1000], true);
        let second = entry(&long[600..], Some([0; 8]));
        let first = entry(&long[..600], Some(link(6, 0)));
        [
            vec![0; SIZE],
            top,
            roots,
            node(2, 6, 3, &[item(5, 0), item(5, 1)].concat(), 2),
            node(3, 6, 0, &item(6, 1), 1),
            node(
                4,
                5,
                0,
                &[&id(2).to_le_bytes()[..], &item(5, 1), &id(3).to_le_bytes()].concat(),
                1,
            ),
            data_page(5, &[entry(&row(b"one", false), None), first]),
            data_page(6, &[second, entry(&row(b"last", false), None)]),
        ]
        .concat()
    }

    pub(crate) fn image(base: &[u8]) -> PageImage<'_> {
        PageImage {
            base,
            header_size: SIZE,
            page_size: SIZE,
            order: Order::Little,
            partition: 3,
            changed_indexes: &[],
            changed_starts: &[],
            changed_pages: &[],
        }
    }

    /// Returns size of value, expiry and fault of each row, and the faults of the tree.
    fn read(base: &[u8]) -> (Vec<[i64; 3]>, Vec<(u32, TreeFault)>) {
        let image = image(base);
        let mut walk = RowWalk::new(&image);
        let mut found = Vec::new();
        loop {
            let rows = walk.step(&image, 1, 1);
            for row in &rows.rows {
                for at in [6, 9] {
                    assert!(row[at] + row[at + 1] <= rows.data.len() as i64);
                }
                found.push([row[10], row[14], row[15]]);
            }
            if rows.rows.is_empty() {
                return (found, walk.faults());
            }
        }
    }

    const GOOD: [[i64; 3]; 3] = [[3, 99, 0], [1000, 99, 0], [4, 99, 0]];

    #[test]
    fn rows_of_two_leaves_in_order() {
        assert_eq!(read(&file()), (GOOD.to_vec(), vec![]));
    }

    #[test]
    fn reading_goes_on_after_a_damaged_leaf() {
        let mut base = file();
        base[3 * SIZE..4 * SIZE].fill(0);
        let fault = TreeFault::Page(PageFault::Zero);
        assert_eq!(read(&base), (vec![GOOD[2]], vec![(2, fault)]));
        base[5 * SIZE..6 * SIZE].fill(0);
        let lost = vec![(2, fault), (2, TreeFault::Lost)];
        assert_eq!(read(&base), (vec![], lost));
    }

    #[test]
    fn each_fault_of_a_row() {
        let items = 3 * SIZE + tree::ITEMS_AT;
        for (at, byte, fault) in [
            (items, 4, RowFault::NotData as i64),
            (items, 9, PageFault::Absent as i64),
            (items + 4, 2, RowFault::Elsewhere as i64),
            (items + 7, 5, RowFault::NoItem as i64),
            (items + 7, 1, RowFault::Shared as i64),
            (7 * SIZE - 39, 0xff, RowFault::Undecodable as i64),
        ] {
            let mut base = file();
            base[at] = byte;
            let (rows, faults) = read(&base);
            assert_eq!(faults, []);
            let found: Vec<i64> = rows.iter().map(|row| row[2]).filter(|&n| n != 0).collect();
            assert_eq!(found, [fault], "{at}: {rows:?}");
        }
    }

    #[test]
    fn a_loop_of_leaves_ends() {
        let mut base = file();
        put(&mut base, 4 * SIZE + tree::FORWARD_AT, &id(2).to_le_bytes());
        assert_eq!(read(&base), (GOOD.to_vec(), vec![(2, TreeFault::Loop)]));
    }

    #[test]
    fn pages_after_the_end_that_are_named_twice_end_the_level() {
        let mut base = file();
        put(&mut base, 2 * SIZE + 41, &id(5000).to_le_bytes());
        for at in [tree::ITEMS_AT, tree::ITEMS_AT + 20] {
            put(&mut base, 5 * SIZE + at, &id(5000).to_le_bytes());
        }
        let fault = (5000, TreeFault::Page(PageFault::Absent));
        assert_eq!(read(&base), (vec![], vec![fault]));
        put(&mut base, 5 * SIZE + tree::ITEMS_AT + 20, &id(6000).to_le_bytes());
        assert_eq!(read(&base).1, [fault, (6000, fault.1)]);
    }

    /// Returns a data page with 200 items of 100 bytes, two bytes apart.
    pub(crate) fn overlapping() -> Vec<u8> {
        let mut page = page(7, 1, 1);
        page[data::DIRECT_AT] = 200;
        for n in 0..200 {
            let at = 454 + 2 * n;
            put(&mut page, data::ITEMS_AT + 2 * n, &(at as u16).to_le_bytes());
            put(&mut page, at, &100u16.to_le_bytes());
        }
        page
    }

    #[test]
    fn items_that_overlap_give_no_more_bytes_than_the_page() {
        let base = [file(), overlapping()].concat();
        let image = image(&base);
        let mut reader = PageReader::new(&image);
        let mut used = UsedItems::new(&image);
        let mut sizes = Vec::new();
        for item in 0..200 {
            let row = i64::from_le_bytes(link(7, item));
            sizes.push(read_bytes(&image, &mut reader, &mut used, row).map(|row| row.len()));
        }
        assert_eq!(sizes[..10], [Ok(100); 10]);
        assert_eq!(sizes[10..], [Err(RowFault::Shared as u8); 190]);
    }

    /// Returns a file with levels whose first pages all lead to one chain, which ends nowhere.
    pub(crate) fn levels(count: u8) -> Vec<u8> {
        let mut base = file();
        let start = 8 * SIZE;
        let chain = u32::from(count) + 8;
        base[2 * SIZE + tree_meta::LEVELS_AT] = count;
        for level in 0..count {
            let index = 7 + u32::from(level);
            put(&mut base, 2 * SIZE + 41 + 8 * usize::from(level), &id(index).to_le_bytes());
            // Every other first page cannot be read, so that its level needs those above.
            let kind = if level % 2 == 0 { 0 } else { 5 };
            base.extend(node(index, kind, chain, &[], 0));
        }
        base.extend(vec![0; SIZE]);
        assert_eq!(base.len(), start + SIZE * (usize::from(count) + 1));
        base.extend((chain..chain + 50).flat_map(|n| node(n, 5, n + 1, &link(chain, 0), 0)));
        base
    }

    #[test]
    fn levels_that_share_a_chain_read_it_once() {
        let base = levels(100);
        let image = image(&base);
        let mut reader = PageReader::new(&image);
        let tree = tree_of(&image, &mut reader, meta::TREE_AT).unwrap_or_default();
        let (mut walk, none) = (LevelWalk::new(&tree, 1), Marks::default());
        let mut pages = 0;
        while walk.step(&image, &mut reader, &tree, &none, |_, _| pages += 1).is_some() {}
        assert_eq!(pages, 51);
        // No level above reads the chain again, so none names a page.
        let end = 100 + 8 + 50;
        let absent = TreeFault::Page(PageFault::Absent);
        assert_eq!(walk.faults, [(end, absent), (end, TreeFault::Lost)]);
        assert_eq!(read(&base).0, Vec::<[i64; 3]>::new());
    }

    #[test]
    fn levels_with_one_first_page_are_no_tree() {
        let mut base = file();
        put(&mut base, 2 * SIZE + 49, &id(2).to_le_bytes());
        assert_eq!(read(&base), (vec![], vec![(1, TreeFault::Count)]));
    }

    proptest! {
        #[test]
        fn rows_of_any_tree_are_read_in_linear_time(seed: u64, pages in 1u32..60) {
            let lies = Lies::new(seed, pages, &KINDS, false);
            let image = lies.image();
            let mut walk = RowWalk::new(&image);
            let mut bytes = 0;
            loop {
                let rows = walk.step(&image, 1, 1);
                bytes += rows.data.len();
                if rows.rows.is_empty() {
                    break;
                }
            }
            prop_assert!(bytes <= lies.bytes.len());
            prop_assert!(walk.reader.reads <= lies.reads_max(), "{} reads", walk.reader.reads);
        }

        #[test]
        fn damage_never_stops_reading(
            edits in prop::collection::vec((0..8 * SIZE, any::<u8>()), 0..12),
            stop in 0..8 * SIZE,
        ) {
            let mut base = file();
            for (at, byte) in edits {
                base[at] = byte;
            }
            let (rows, _) = read(&base);
            prop_assert!(rows.len() < 8 * SIZE / 12);
            read(&base[..stop]);
        }

        #[test]
        fn any_bytes_are_read_to_their_end(base in prop::collection::vec(any::<u8>(), 0..8 * SIZE)) {
            read(&base);
        }
    }
}
