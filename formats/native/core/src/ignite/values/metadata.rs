//! Metadata of types in `binary_meta`: a binary object of the class `BinaryMetadata`.
//!
//! Source: BinaryMetadata, BinaryFieldMetadata, BinarySchema, BinaryUtils.schemaId, Ignite 2.18.0.

use crate::bytes::{array_at, i32_at};
use std::collections::HashSet;

/// Size in bytes from which metadata is not read.
pub const METADATA_MAX: usize = 4 << 20;

/// Number of field ids to hash in search of schemas, for each byte of the file: it bounds the time.
const HASHED_MAX: usize = 64;

const OBJECT: u8 = 103;
const STRING: u8 = 9;
const INT: u8 = 3;
const MAP: u8 = 25;
const MARSHALLED: u8 = 0xfe;
const HEADER_SIZE: usize = 24;
const HAS_SCHEMA: u16 = 2;
const OFFSETS_1: u16 = 8;
const OFFSETS_2: u16 = 16;
const COMPACT: u16 = 32;

/// A field of a type.
#[derive(Debug, PartialEq, Eq)]
pub struct Field {
    /// Name, in UTF-8.
    pub name: Vec<u8>,
    /// Type of its values, a tag.
    pub type_id: i32,
    /// Id.
    pub id: i32,
}

/// A type.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Metadata {
    /// Id.
    pub type_id: i32,
    /// Name, in UTF-8.
    pub name: Vec<u8>,
    /// Fields, as the file lists them.
    pub fields: Vec<Field>,
    /// Schemas: id, and the ids of the fields in order.
    pub schemas: Vec<(i32, Vec<i32>)>,
    /// Constants of an enum, with their ordinals.
    pub constants: Vec<(Vec<u8>, i32)>,
}

/// Returns Java's hash of an ASCII string: the id of a field is that of its name in lower case.
const fn hash(name: &[u8]) -> i32 {
    let (mut found, mut i) = (0_i32, 0);
    while i < name.len() {
        found = found.wrapping_mul(31).wrapping_add(name[i] as i32);
        i += 1;
    }
    found
}

const TYPE_ID: i32 = hash(b"typeid");
const TYPE_NAME: i32 = hash(b"typename");
const FIELDS: i32 = hash(b"fields");
const ORDINALS: i32 = hash(b"nametoord");

/// Returns the metadata in a file; `None` if the bytes are not that.
pub fn read(bytes: &[u8]) -> Option<Metadata> {
    let flags = u16::from_le_bytes(*array_at(bytes, 2)?);
    let is_known = bytes.first() == Some(&OBJECT) && bytes.get(1) == Some(&1);
    let end = usize::try_from(i32_at(bytes, 12)?).ok()?;
    let footer = usize::try_from(i32_at(bytes, 20)?).ok()?;
    let is_bounded = HEADER_SIZE <= footer && footer <= end && end <= bytes.len();
    let has_ids = flags & HAS_SCHEMA != 0 && flags & COMPACT == 0;
    if !is_known || !is_bounded || !has_ids || bytes.len() > METADATA_MAX {
        return None;
    }
    let bytes = bytes.get(..end)?;
    let offset_size = match flags & (OFFSETS_1 | OFFSETS_2) {
        0 => 4,
        OFFSETS_1 => 1,
        _ => 2,
    };
    let mut found = Metadata::default();
    let mut is_named = false;
    let mut seen = HashSet::new();
    for entry in bytes.get(footer..)?.chunks_exact(4 + offset_size) {
        let offset =
            entry.get(4..)?.iter().rev().fold(0, |sum, &byte| sum << 8 | usize::from(byte));
        let mut at = offset;
        let id = i32_at(entry, 0)?;
        // No engine writes a field twice, and to read one again and again would take long.
        if !seen.insert(id) {
            return None;
        }
        match id {
            TYPE_ID => found.type_id = int(bytes, &mut at)?,
            TYPE_NAME => {
                found.name = string(bytes, &mut at)?.to_vec();
                is_named = true;
            }
            FIELDS => found.fields = fields(bytes, at).unwrap_or_default(),
            ORDINALS => found.constants = constants(bytes, at).unwrap_or_default(),
            _ => (),
        }
    }
    found.schemas = schemas(bytes, &found.fields);
    is_named.then_some(found)
}

fn byte(bytes: &[u8], at: &mut usize) -> Option<u8> {
    let found = *bytes.get(*at)?;
    *at += 1;
    Some(found)
}

fn tagged(bytes: &[u8], at: &mut usize, tag: u8) -> Option<i32> {
    if byte(bytes, at)? != tag {
        return None;
    }
    let found = i32_at(bytes, *at)?;
    *at += 4;
    Some(found)
}

fn int(bytes: &[u8], at: &mut usize) -> Option<i32> {
    tagged(bytes, at, INT)
}

fn sized<'a>(bytes: &'a [u8], at: &mut usize, tag: u8) -> Option<&'a [u8]> {
    let size = usize::try_from(tagged(bytes, at, tag)?).ok()?;
    let found = bytes.get(*at..)?.get(..size)?;
    *at += size;
    Some(found)
}

fn string<'a>(bytes: &'a [u8], at: &mut usize) -> Option<&'a [u8]> {
    sized(bytes, at, STRING)
}

/// Returns the fields in a map of names to marshalled objects, which end with two numbers.
fn fields(bytes: &[u8], mut at: usize) -> Option<Vec<Field>> {
    let count = tagged(bytes, &mut at, MAP)?;
    byte(bytes, &mut at)?;
    let mut found = Vec::new();
    for _ in 0..count {
        let name = string(bytes, &mut at)?.to_vec();
        let object = sized(bytes, &mut at, MARSHALLED)?;
        let end = object.len().checked_sub(8)?;
        found.push(Field { name, type_id: i32_at(object, end)?, id: i32_at(object, end + 4)? });
    }
    Some(found)
}

fn constants(bytes: &[u8], mut at: usize) -> Option<Vec<(Vec<u8>, i32)>> {
    let count = tagged(bytes, &mut at, MAP)?;
    byte(bytes, &mut at)?;
    let mut found = Vec::new();
    for _ in 0..count {
        found.push((string(bytes, &mut at)?.to_vec(), int(bytes, &mut at)?));
    }
    Some(found)
}

/// Returns the schemas in any bytes: an id, a count, and that many field ids that hash to the id.
///
/// Schemas are marshalled by Java in several ways, but their content can be recognised.
fn schemas(bytes: &[u8], fields: &[Field]) -> Vec<(i32, Vec<i32>)> {
    let known: HashSet<i32> = fields.iter().map(|field| field.id).collect();
    let mut found: Vec<(i32, Vec<i32>)> = Vec::new();
    let mut budget = bytes.len().saturating_mul(HASHED_MAX);
    let mut at = 0;
    while let Some(id) = i32_at(bytes, at) {
        at += 1;
        let count = i32_at(bytes, at + 3).and_then(|count| usize::try_from(count).ok());
        let Some(count) = count.filter(|&count| count > 0 && count <= known.len()) else {
            continue;
        };
        let ids: Vec<i32> = (0..count).map_while(|i| i32_at(bytes, at + 7 + 4 * i)).collect();
        let Some(left) = budget.checked_sub(count) else { break };
        budget = left;
        if ids.len() == count && ids.iter().all(|id| known.contains(id)) && schema_id(&ids) == id {
            found.push((id, ids));
        }
    }
    found
}

/// Returns the id of a schema.
fn schema_id(fields: &[i32]) -> i32 {
    let bytes = fields.iter().flat_map(|id| id.to_le_bytes());
    bytes.fold(0x811C_9DC5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
        as i32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::bytes;
    use proptest::prelude::*;
    use std::time::{Duration, Instant};

    #[test]
    fn ids_as_the_engine_makes_them() {
        assert_eq!(hash(b"name"), 3_373_707);
        let fields = ["name", "age", "salary", "born", "blob"].map(|name| hash(name.as_bytes()));
        assert_eq!(schema_id(&fields), 0xB1C5_97F1_u32 as i32);
    }

    /// Returns metadata with a map of `count` constants, and a footer with these ids of fields.
    fn metadata(count: i32, ids: &[i32]) -> Vec<u8> {
        let mut data = vec![OBJECT, 1, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        data.resize(HEADER_SIZE, 0);
        let name = data.len() as i32;
        data.extend([STRING, 1, 0, 0, 0, b'T']);
        let map = data.len() as i32;
        data.push(MAP);
        data.extend(count.to_le_bytes());
        data.push(1);
        for ordinal in 0..count {
            data.extend([STRING, 1, 0, 0, 0, b'C', INT]);
            data.extend(ordinal.to_le_bytes());
        }
        let footer = data.len() as i32;
        for &id in ids {
            data.extend(id.to_le_bytes());
            data.extend((if id == TYPE_NAME { name } else { map }).to_le_bytes());
        }
        let end = data.len() as i32;
        data[12..16].copy_from_slice(&end.to_le_bytes());
        data[20..24].copy_from_slice(&footer.to_le_bytes());
        data
    }

    #[test]
    fn a_field_named_again_and_again_is_read_once() {
        let found = read(&metadata(3, &[TYPE_NAME, ORDINALS])).unwrap();
        assert_eq!((found.name, found.constants.len()), (b"T".to_vec(), 3));
        let mut ids = vec![ORDINALS; 100_000];
        ids.push(TYPE_NAME);
        let start = Instant::now();
        assert_eq!(read(&metadata(100_000, &ids)), None);
        // Only comparing each field with all others would take that long.
        assert!(start.elapsed() < Duration::from_secs(60), "{:?}", start.elapsed());
    }

    proptest! {
        #[test]
        fn any_bytes_are_read(mut data in bytes(200), footer in 24_u8..120) {
            let head = [103, 1, 2 | 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, data.len() as u8, 0, 0, 0, 0, 0, 0, 0, footer, 0, 0, 0];
            let count = data.len().min(24);
            data[..count].copy_from_slice(&head[..count]);
            let _ = read(&data);
        }
    }
}
