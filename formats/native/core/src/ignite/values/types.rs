//! Types of binary objects: their names, fields, schemas (orders of fields), and enums.

use std::collections::HashMap;

use super::json;
use super::metadata::Metadata;

/// Names and schemas of types, by their ids.
#[derive(Debug, Default)]
pub struct Types {
    objects: HashMap<i32, Object>,
    classes: HashMap<i32, Vec<u8>>,
}

#[derive(Debug, Default)]
struct Object {
    /// JSON string.
    name: Vec<u8>,
    /// JSON strings.
    fields: HashMap<i32, Vec<u8>>,
    schemas: HashMap<i32, Vec<i32>>,
    /// JSON strings.
    constants: HashMap<i32, Vec<u8>>,
}

fn quoted(name: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    json::string(&mut out, name);
    out
}

impl Types {
    /// Adds a type. If one of the same id is known, its fields and schemas are kept too.
    pub fn add(&mut self, metadata: &Metadata) {
        let object = self.objects.entry(metadata.type_id).or_default();
        object.name = quoted(&metadata.name);
        object.fields.extend(metadata.fields.iter().map(|each| (each.id, quoted(&each.name))));
        object.schemas.extend(metadata.schemas.iter().cloned());
        let constants = metadata.constants.iter();
        object.constants.extend(constants.map(|(name, ordinal)| (*ordinal, quoted(name))));
    }

    /// Adds the name of a class.
    pub fn add_class(&mut self, id: i32, name: &[u8]) {
        self.classes.insert(id, quoted(name));
    }

    /// Returns the name of a type or class as a JSON string.
    pub fn name(&self, id: i32) -> Option<&[u8]> {
        let object = self.objects.get(&id).map(|object| &object.name);
        object.or_else(|| self.classes.get(&id)).map(Vec::as_slice)
    }

    /// Returns the name of a constant of an enum as a JSON string.
    pub fn constant(&self, id: i32, ordinal: i32) -> Option<&[u8]> {
        self.objects.get(&id)?.constants.get(&ordinal).map(Vec::as_slice)
    }

    /// Returns the ids of the fields of a compact object in their order.
    pub fn schema(&self, id: i32, schema: i32) -> Option<&[i32]> {
        self.objects.get(&id)?.schemas.get(&schema).map(Vec::as_slice)
    }

    /// Returns the name of a field as a JSON string.
    pub fn field(&self, id: i32, field: i32) -> Option<&[u8]> {
        self.objects.get(&id)?.fields.get(&field).map(Vec::as_slice)
    }
}
