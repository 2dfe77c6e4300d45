//! Values of the binary format, written as JSON.

use super::types::Types;
use super::{DEPTH_MAX, json};
use crate::bytes::array_at;

/// Reason why a value is not shown, or only in part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[expect(missing_docs, reason = "described where Python declares them")]
pub enum Problem {
    Good = 0,
    Partial = 1,
    Damaged = 2,
    Transformed = 3,
    Deep = 4,
    Long = 5,
}

impl Problem {
    /// Returns the reason why a value is not shown.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Good | Self::Partial => "",
            Self::Damaged => "damaged",
            Self::Transformed => "transformed",
            Self::Deep => "nested too deeply",
            Self::Long => "too long as text",
        }
    }
}

type Step<T = ()> = Result<T, Problem>;

const NULL: u8 = 101;
const HANDLE: u8 = 102;
const OBJECT: u8 = 103;
const STRING: u8 = 9;
const TRANSFORMED: u8 = 0xfd;

/// Bytes of the header of an object.
const HEADER_SIZE: usize = 24;

const HAS_SCHEMA: u16 = 2;
const HAS_RAW: u16 = 4;
const OFFSETS_1: u16 = 8;
const OFFSETS_2: u16 = 16;
const COMPACT: u16 = 32;

/// Type id of an array of any objects.
const ANY_OBJECT: i32 = -1;

/// Start of a stream of the JDK's serialization.
const STREAM: &[u8] = b"\xac\xed\0\x05";

/// One value that is being written.
pub struct Writer<'a> {
    types: &'a Types,
    bytes: &'a [u8],
    out: &'a mut Vec<u8>,
    most: usize,
    /// Starts of the values around the next one.
    open: Vec<usize>,
    is_partial: bool,
}

/// Id of the engine's class for sorted maps: the hash of its name in lower case, without package.
/// Ignite 2.18 writes the whole name instead.
const TREE_MAP: i32 = -526_400_035;

/// The same for sorted sets.
const TREE_SET: i32 = -526_394_141;

#[derive(Clone, Copy)]
enum Tree {
    Map,
    Set,
}

/// Header of an object.
struct Head {
    start: usize,
    end: usize,
    flags: u16,
    type_id: i32,
    schema_id: i32,
    /// Start of the footer, or of the raw data if there are no fields.
    offset: usize,
}

impl<'a> Writer<'a> {
    /// Returns a writer that appends to `out` until that has `most` bytes, less what work takes.
    pub fn new(types: &'a Types, bytes: &'a [u8], out: &'a mut Vec<u8>, most: usize) -> Self {
        Self { types, bytes, out, most, open: Vec::new(), is_partial: false }
    }

    /// Returns [`Problem::Partial`] if names or an order were not known.
    pub fn doubt(&self) -> Problem {
        if self.is_partial { Problem::Partial } else { Problem::Good }
    }

    /// Writes all bytes as one value.
    pub fn whole(&mut self) -> Step {
        let mut at = 0;
        self.value(&mut at)?;
        if at == self.bytes.len() { Ok(()) } else { Err(Problem::Damaged) }
    }

    /// Writes all bytes as bytes.
    pub fn bytes(&mut self) -> Step {
        let bytes = self.bytes;
        self.hex_of("bytes", bytes)
    }

    fn room(&self, size: usize) -> Step {
        if self.out.len().saturating_add(size) > self.most { Err(Problem::Long) } else { Ok(()) }
    }

    /// Pays for work that leaves no text with room for text, so that all work is bounded.
    fn spend(&mut self, work: usize) -> Step {
        self.most = self.most.checked_sub(work).ok_or(Problem::Long)?;
        self.room(0)
    }

    fn put(&mut self, text: &str) {
        self.out.extend_from_slice(text.as_bytes());
    }

    fn take<const N: usize>(&self, at: &mut usize) -> Step<[u8; N]> {
        let found = *array_at(self.bytes, *at).ok_or(Problem::Damaged)?;
        *at += N;
        Ok(found)
    }

    fn u8(&self, at: &mut usize) -> Step<u8> {
        self.take::<1>(at).map(|[byte]| byte)
    }

    fn i32(&self, at: &mut usize) -> Step<i32> {
        self.take(at).map(i32::from_le_bytes)
    }

    fn i64(&self, at: &mut usize) -> Step<i64> {
        self.take(at).map(i64::from_le_bytes)
    }

    /// Reads a number of bytes or elements; an element has at least one byte.
    fn count(&self, at: &mut usize) -> Step<usize> {
        let count = usize::try_from(self.i32(at)?).map_err(|_| Problem::Damaged)?;
        if count > self.bytes.len() - *at { Err(Problem::Damaged) } else { Ok(count) }
    }

    fn span(&self, at: &mut usize) -> Step<&'a [u8]> {
        let size = self.count(at)?;
        let bytes = self.bytes;
        let found = bytes.get(*at..*at + size).ok_or(Problem::Damaged)?;
        *at += size;
        Ok(found)
    }

    fn named(&mut self, name: &str, value: i64) {
        self.put("{\"");
        self.put(name);
        self.put("\":");
        json::number(self.out, value);
        self.put("}");
    }

    fn hex_of(&mut self, name: &str, bytes: &[u8]) -> Step {
        self.room(2 * bytes.len())?;
        self.put("{\"");
        self.put(name);
        self.put("\":\"");
        json::hex(self.out, bytes);
        self.put("\"}");
        Ok(())
    }

    fn string(&mut self, bytes: &[u8]) -> Step {
        self.room(6 * bytes.len())?;
        json::string(self.out, bytes);
        Ok(())
    }

    /// Writes the value at `at`, and moves to its end.
    fn value(&mut self, at: &mut usize) -> Step {
        self.room(0)?;
        let start = *at;
        let tag = self.u8(at)?;
        match tag {
            1..=8 => self.scalar(tag, at),
            STRING => {
                let found = self.span(at)?;
                self.string(found)
            }
            12 => {
                let found = self.span(at)?;
                self.hex_of("bytes", found)
            }
            10 | 11 | 30 | 33 | 36 => self.compound(tag, at),
            13..=19 => self.numbers(tag, at),
            20..=25 | 27 | 29 | 31 | 34 | 35 | 37 | HANDLE | OBJECT => {
                if self.open.len() >= DEPTH_MAX {
                    return Err(Problem::Deep);
                }
                // References can lead to one another, and each is searched in what is open.
                self.spend(self.open.len())?;
                self.open.push(start);
                self.nested(tag, start, at)?;
                self.open.pop();
                Ok(())
            }
            28 | 38 => self.constant(at),
            32 => {
                self.put("{\"class\":");
                self.class(at)?;
                self.put("}");
                Ok(())
            }
            NULL => {
                self.put("null");
                Ok(())
            }
            0xfe => {
                let found = self.span(at)?;
                self.marshalled(found)
            }
            TRANSFORMED if start == 0 => Err(Problem::Transformed),
            _ => Err(Problem::Damaged),
        }
    }

    fn scalar(&mut self, tag: u8, at: &mut usize) -> Step {
        match tag {
            1 => {
                let [byte] = self.take(at)?;
                self.named("byte", i64::from(byte as i8));
            }
            2 => {
                let number = i16::from_le_bytes(self.take(at)?);
                self.named("short", number.into());
            }
            3 => {
                let number = self.i32(at)?;
                self.named("int", number.into());
            }
            4 => {
                let number = self.i64(at)?;
                self.named("long", number);
            }
            5 => {
                let mut bits = self.take::<4>(at)?;
                bits.reverse();
                self.hex_of("floatBits", &bits)?;
            }
            6 => {
                let mut bits = self.take::<8>(at)?;
                bits.reverse();
                self.hex_of("doubleBits", &bits)?;
            }
            7 => {
                let unit = u16::from_le_bytes(self.take(at)?);
                self.named("char", unit.into());
            }
            _ => {
                let [byte] = self.take(at)?;
                self.put(if byte == 0 { "false" } else { "true" });
            }
        }
        Ok(())
    }

    fn compound(&mut self, tag: u8, at: &mut usize) -> Step {
        match tag {
            10 => {
                let (mut high, mut low) = (self.take::<8>(at)?, self.take::<8>(at)?);
                high.reverse();
                low.reverse();
                self.put("{\"uuid\":\"");
                let pieces =
                    [high.get(..4), high.get(4..6), high.get(6..), low.get(..2), low.get(2..)];
                for (i, piece) in pieces.into_iter().flatten().enumerate() {
                    if i > 0 {
                        self.put("-");
                    }
                    json::hex(self.out, piece);
                }
                self.put("\"}");
            }
            11 | 36 => {
                let time = self.i64(at)?;
                self.named(if tag == 11 { "date" } else { "time" }, time);
            }
            33 => {
                let (time, nanos) = (self.i64(at)?, self.i32(at)?);
                self.put("{\"timestamp\":[");
                json::number(self.out, time);
                self.put(",");
                json::number(self.out, nanos.into());
                self.put("]}");
            }
            _ => {
                let scale = self.i32(at)?;
                let magnitude = self.span(at)?;
                self.room(3 * magnitude.len())?;
                self.spend(json::unscaled_work(magnitude.len()))?;
                self.put("{\"decimal\":[");
                json::unscaled(self.out, magnitude);
                self.put(",");
                json::number(self.out, scale.into());
                self.put("]}");
            }
        }
        Ok(())
    }

    /// Writes an array of numbers or booleans.
    fn numbers(&mut self, tag: u8, at: &mut usize) -> Step {
        const ELEMENTS: [(&str, u8); 7] = [
            ("short", 2),
            ("int", 3),
            ("long", 4),
            ("float", 5),
            ("double", 6),
            ("char", 7),
            ("boolean", 8),
        ];
        let (name, element) = *ELEMENTS.get(usize::from(tag - 13)).ok_or(Problem::Damaged)?;
        let count = self.count(at)?;
        self.begin("array", name);
        for i in 0..count {
            self.comma(i);
            self.room(0)?;
            self.scalar(element, at)?;
        }
        self.put("]}");
        Ok(())
    }

    fn begin(&mut self, what: &str, name: &str) {
        self.put("{\"");
        self.put(what);
        self.put("\":\"");
        self.put(name);
        self.put("\",\"of\":[");
    }

    fn comma(&mut self, i: usize) {
        if i > 0 {
            self.put(",");
        }
    }

    fn values(&mut self, count: usize, at: &mut usize) -> Step {
        for i in 0..count {
            self.comma(i);
            self.value(at)?;
        }
        Ok(())
    }

    fn nested(&mut self, tag: u8, start: usize, at: &mut usize) -> Step {
        match tag {
            HANDLE => self.reference(start, at),
            OBJECT => self.object(start, at),
            27 => self.wrapped(at),
            25 => self.map(at),
            35 => self.proxy(at),
            23 | 29 => {
                self.put("{\"array\":");
                self.element_class(at)?;
                self.put(",\"of\":[");
                let count = self.count(at)?;
                self.values(count, at)?;
                self.put("]}");
                Ok(())
            }
            _ => {
                let count = self.count(at)?;
                let (what, name) = match tag {
                    20 => ("array", "String"),
                    21 => ("array", "UUID"),
                    22 => ("array", "Date"),
                    31 => ("array", "BigDecimal"),
                    34 => ("array", "Timestamp"),
                    37 => ("array", "Time"),
                    _ => ("collection", collection(self.u8(at)?)),
                };
                self.begin(what, name);
                self.values(count, at)?;
                self.put("]}");
                Ok(())
            }
        }
    }

    fn map(&mut self, at: &mut usize) -> Step {
        let count = self.count(at)?;
        let name = match self.u8(at)? {
            1 => "HashMap",
            2 => "LinkedHashMap",
            _ => "Map",
        };
        self.pairs(name, count, at)
    }

    fn pairs(&mut self, name: &str, count: usize, at: &mut usize) -> Step {
        self.begin("map", name);
        for i in 0..count {
            self.comma(i);
            self.put("[");
            self.values(2, at)?;
            self.put("]");
        }
        self.put("]}");
        Ok(())
    }

    /// Writes the value that a reference names; one that is around it stays a reference.
    fn reference(&mut self, start: usize, at: &mut usize) -> Step {
        let back = usize::try_from(self.i32(at)?).map_err(|_| Problem::Damaged)?;
        let mut target = start.checked_sub(back).ok_or(Problem::Damaged)?;
        if self.open.contains(&target) {
            self.named("handle", i64::try_from(target).unwrap_or(i64::MAX));
            return Ok(());
        }
        self.value(&mut target)
    }

    /// Writes the object in an array of bytes.
    fn wrapped(&mut self, at: &mut usize) -> Step {
        let start = *at + 4;
        let found = self.span(at)?;
        let offset = usize::try_from(self.i32(at)?).map_err(|_| Problem::Damaged)?;
        if offset >= found.len() {
            return Err(Problem::Damaged);
        }
        let mut inner = start + offset;
        self.value(&mut inner)?;
        if inner > start + found.len() { Err(Problem::Damaged) } else { Ok(()) }
    }

    fn proxy(&mut self, at: &mut usize) -> Step {
        let count = self.count(at)?;
        self.put("{\"proxy\":[");
        for i in 0..count {
            self.comma(i);
            self.room(0)?;
            self.class(at)?;
        }
        self.put("],\"of\":");
        self.value(at)?;
        self.put("}");
        Ok(())
    }

    /// Reads the id of a class, and the name that follows if it is 0.
    fn class_id(&mut self, at: &mut usize) -> Step<(i32, Option<&'a [u8]>)> {
        let id = self.i32(at)?;
        if id != 0 {
            return Ok((id, None));
        }
        if self.u8(at)? != STRING {
            return Err(Problem::Damaged);
        }
        Ok((id, Some(self.span(at)?)))
    }

    /// Writes the name of a class, or its id if the name is not known.
    fn class(&mut self, at: &mut usize) -> Step {
        let (id, name) = self.class_id(at)?;
        self.name(id, name)?;
        Ok(())
    }

    fn name(&mut self, id: i32, name: Option<&[u8]>) -> Step {
        if let Some(name) = name {
            return self.string(name);
        }
        match self.types.name(id) {
            Some(known) => self.out.extend_from_slice(known),
            None => {
                self.is_partial = true;
                self.put("null");
            }
        }
        Ok(())
    }

    fn element_class(&mut self, at: &mut usize) -> Step {
        let (id, name) = self.class_id(at)?;
        if id == ANY_OBJECT {
            self.put("\"Object\"");
            return Ok(());
        }
        self.name(id, name)
    }

    fn constant(&mut self, at: &mut usize) -> Step {
        let (id, name) = self.class_id(at)?;
        let ordinal = self.i32(at)?;
        self.put("{\"enum\":");
        self.name(id, name)?;
        self.put(",\"typeId\":");
        json::number(self.out, id.into());
        self.put(",\"ordinal\":");
        json::number(self.out, ordinal.into());
        if let Some(constant) = self.types.constant(id, ordinal) {
            self.put(",\"name\":");
            self.out.extend_from_slice(constant);
        }
        self.put("}");
        Ok(())
    }

    /// Writes a value that only a JVM can read, as its class and its bytes.
    fn marshalled(&mut self, bytes: &[u8]) -> Step {
        self.room(2 * bytes.len())?;
        self.put("{\"java\":");
        match (bytes.first(), array_at(bytes, 1)) {
            (Some(0x64..=0x66), Some(id)) => self.name(i32::from_le_bytes(*id), None)?,
            (Some(0xfe), _) => match stream_class(bytes.get(1..).unwrap_or_default()) {
                Some(name) => self.string(name)?,
                None => self.put("null"),
            },
            _ => self.put("null"),
        }
        self.put(",\"bytes\":\"");
        json::hex(self.out, bytes);
        self.put("\"}");
        Ok(())
    }

    fn object(&mut self, start: usize, at: &mut usize) -> Step {
        let head = self.head(start, at)?;
        let name = if head.type_id == 0 {
            if self.u8(at)? != STRING {
                return Err(Problem::Damaged);
            }
            Some(self.span(at)?)
        } else {
            None
        };
        if let Some(kind) = self.tree_of(&head, name) {
            self.tree(kind, &head)?;
            *at = head.end;
            return Ok(());
        }
        self.put("{\"object\":");
        self.name(head.type_id, name)?;
        self.put(",\"typeId\":");
        json::number(self.out, head.type_id.into());
        self.put(",\"fields\":{");
        let mut raw = None;
        if head.flags & HAS_SCHEMA != 0 {
            let mut footer_end = head.end;
            if head.flags & HAS_RAW != 0 {
                footer_end -= 4;
                let offset = self.i32(&mut footer_end.clone())?;
                raw = Some((start_of(offset, &head)?, head.offset));
            }
            self.fields(&head, footer_end, *at)?;
        } else if head.flags & HAS_RAW != 0 {
            raw = Some((head.offset, head.end));
        }
        self.put("}");
        if let Some((from, to)) = raw {
            let bytes = self.bytes.get(from..to).ok_or(Problem::Damaged)?;
            self.room(2 * bytes.len())?;
            self.put(",\"raw\":\"");
            json::hex(self.out, bytes);
            self.put("\"");
        }
        self.put("}");
        *at = head.end;
        Ok(())
    }

    /// Returns the collection of Java that the engine writes as an object of its own.
    ///
    /// Source: BinaryTreeMap, BinaryTreeSet, Ignite 2.18.0.
    fn tree_of(&self, head: &Head, name: Option<&[u8]>) -> Option<Tree> {
        if head.flags & (HAS_SCHEMA | HAS_RAW) != HAS_RAW {
            return None;
        }
        match (head.type_id, name) {
            (0, Some(b"org.apache.ignite.internal.binary.BinaryTreeMap")) | (TREE_MAP, _) => {
                Some(Tree::Map)
            }
            (0, Some(b"org.apache.ignite.internal.binary.BinaryTreeSet")) | (TREE_SET, _) => {
                Some(Tree::Set)
            }
            _ => None,
        }
    }

    /// Writes a sorted collection, which is stored as comparator, number of elements, and elements.
    fn tree(&mut self, kind: Tree, head: &Head) -> Step {
        let mut at = head.offset;
        let mark = self.out.len();
        self.value(&mut at)?;
        let unseen = self.out.len().saturating_sub(mark);
        self.out.truncate(mark);
        self.spend(unseen)?;
        let count = self.count(&mut at)?;
        match kind {
            Tree::Map => self.pairs("TreeMap", count, &mut at)?,
            Tree::Set => {
                self.begin("collection", "TreeSet");
                self.values(count, &mut at)?;
                self.put("]}");
            }
        }
        if at == head.end { Ok(()) } else { Err(Problem::Damaged) }
    }

    fn head(&self, start: usize, at: &mut usize) -> Step<Head> {
        if self.u8(at)? != 1 {
            return Err(Problem::Damaged);
        }
        let flags = u16::from_le_bytes(self.take(at)?);
        let type_id = self.i32(at)?;
        self.i32(at)?;
        let size = usize::try_from(self.i32(at)?).map_err(|_| Problem::Damaged)?;
        let schema_id = self.i32(at)?;
        let end = start.checked_add(size).ok_or(Problem::Damaged)?;
        if size < HEADER_SIZE || end > self.bytes.len() {
            return Err(Problem::Damaged);
        }
        let offset = self.i32(at)?;
        let mut head = Head { start, end, flags, type_id, schema_id, offset: end };
        if flags & (HAS_SCHEMA | HAS_RAW) != 0 {
            head.offset = start_of(offset, &head)?;
        }
        Ok(head)
    }

    /// Writes the fields that a footer lists; `first` is the end of the header.
    fn fields(&mut self, head: &Head, footer_end: usize, first: usize) -> Step {
        let is_compact = head.flags & COMPACT != 0;
        let offset_size = match head.flags & (OFFSETS_1 | OFFSETS_2) {
            0 => 4,
            OFFSETS_1 => 1,
            _ => 2,
        };
        let entry = offset_size + if is_compact { 0 } else { 4 };
        let footer = footer_end.checked_sub(head.offset).ok_or(Problem::Damaged)?;
        if footer % entry != 0 {
            return Err(Problem::Damaged);
        }
        let types = self.types;
        let known = types.schema(head.type_id, head.schema_id).filter(|_| is_compact);
        let mut at = head.offset;
        let mut written = 0;
        for i in 0..footer / entry {
            let id = match known {
                Some(ids) => ids.get(i).copied(),
                None if is_compact => None,
                None => Some(self.i32(&mut at)?),
            };
            let offset = match offset_size {
                1 => self.u8(&mut at)?.into(),
                2 => u16::from_le_bytes(self.take(&mut at)?).into(),
                _ => self.i32(&mut at)?,
            };
            if offset == 0 {
                self.spend(1)?;
                continue;
            }
            let mut place = start_of(offset, head)?;
            if place < first || place >= head.offset {
                return Err(Problem::Damaged);
            }
            self.comma(written);
            self.field_name(head.type_id, id, i)?;
            self.value(&mut place)?;
            if place > head.offset {
                return Err(Problem::Damaged);
            }
            written += 1;
        }
        Ok(())
    }

    fn field_name(&mut self, type_id: i32, id: Option<i32>, place: usize) -> Step {
        let types = self.types;
        let known = id.and_then(|id| types.field(type_id, id));
        if let Some(name) = known {
            self.room(name.len())?;
            self.out.extend_from_slice(name);
        } else {
            self.is_partial = true;
            self.put("\"#");
            json::number(self.out, id.map_or(place as i64, i64::from));
            self.put("\"");
        }
        self.put(":");
        Ok(())
    }
}

/// Returns the place of an offset in an object.
fn start_of(offset: i32, head: &Head) -> Step<usize> {
    let offset = usize::try_from(offset).map_err(|_| Problem::Damaged)?;
    let at = head.start.checked_add(offset).ok_or(Problem::Damaged)?;
    if offset < HEADER_SIZE || at > head.end { Err(Problem::Damaged) } else { Ok(at) }
}

fn collection(kind: u8) -> &'static str {
    match kind {
        1 => "ArrayList",
        2 => "LinkedList",
        3 => "HashSet",
        4 => "LinkedHashSet",
        5 => "SingletonList",
        0xff => "Set",
        _ => "Collection",
    }
}

/// Returns the name of the class of the object, or of the enum, with which a JDK stream begins.
///
/// Source: Java Object Serialization Specification 6.0, "Object Serialization Stream Protocol".
fn stream_class(stream: &[u8]) -> Option<&[u8]> {
    let body = stream.strip_prefix(STREAM)?;
    let body = body.strip_prefix(b"sr").or_else(|| body.strip_prefix(b"~r"))?;
    let size = u16::from_be_bytes(*array_at(body, 0)?);
    body.get(2..2 + usize::from(size))
}
