//! Walks a request by its schema without building values.
//!
//! The `kafka-protocol` crate reserves memory for as many elements as an array announces. So this walk first checks
//! that bytes cover every count and length, and that the elements stay within the limit.

use crate::read::{Reader, WireError};

/// The shape of a field.
#[derive(Debug)]
pub enum Kind {
    /// A fixed number of bytes.
    Fixed(usize),
    /// A BOOLEAN, one byte.
    Bool,
    /// A string.
    Str,
    /// Bytes with a length, record batches included.
    Bytes,
    /// Bytes of an embedded consumer subscription.
    Subscription,
    /// Bytes of an embedded consumer assignment.
    Assignment,
    /// An array of elements of one kind.
    Array(&'static Kind),
    /// Fields; in the compact layout with tagged fields at the end.
    Struct(&'static [Field]),
}

/// How a trace shows a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shown {
    /// With its content.
    Whole,
    /// As a number of elements.
    Counted,
    /// Not at all.
    Hidden,
}

/// One field, and the versions that have it.
#[derive(Debug)]
#[must_use]
pub struct Field {
    /// The name in the protocol's schemas.
    pub name: &'static str,
    /// The shape.
    pub kind: Kind,
    /// The first version with it.
    pub from: i16,
    /// The last version with it.
    pub to: i16,
    /// The first version in which it may be null.
    pub nullable_from: i16,
    /// The tag, for a tagged field.
    pub tag: Option<u32>,
    /// How a trace shows the field.
    pub shown: Shown,
}

impl Field {
    /// Creates a field of every version that is never null.
    pub const fn new(name: &'static str, kind: Kind) -> Field {
        Field { name, kind, from: 0, to: i16::MAX, nullable_from: i16::MAX, tag: None, shown: Shown::Whole }
    }

    /// Sets the first version.
    pub const fn from(self, version: i16) -> Field {
        Field { from: version, ..self }
    }

    /// Sets the last version.
    pub const fn to(self, version: i16) -> Field {
        Field { to: version, ..self }
    }

    /// Allows null from `version` on.
    pub const fn nullable(self, version: i16) -> Field {
        Field { nullable_from: version, ..self }
    }

    /// Makes it a tagged field with this tag.
    pub const fn tagged(self, tag: u32) -> Field {
        Field { tag: Some(tag), ..self }
    }

    /// Hides the field from traces.
    pub const fn hidden(self) -> Field {
        Field { shown: Shown::Hidden, ..self }
    }

    /// Shows the field as a number of elements in traces.
    pub const fn counted(self) -> Field {
        Field { shown: Shown::Counted, ..self }
    }

    pub(crate) const fn present(&self, version: i16) -> bool {
        self.from <= version && version <= self.to
    }

    /// Whether a struct is null. A byte before a nullable struct says so: -1 for null, 1 otherwise.
    pub(crate) fn is_null(&self, reader: &mut Reader<'_>, version: i16) -> Result<bool, WireError> {
        Ok(version >= self.nullable_from && reader.i8(self.name)? < 0)
    }
}

/// Walks over one structure of `fields` in `version`, and leaves `reader` after it.
pub fn walk(reader: &mut Reader<'_>, version: i16, fields: &'static [Field]) -> Result<(), WireError> {
    for field in fields.iter().filter(|field| field.tag.is_none() && field.present(version)) {
        walk_field(reader, version, field)?;
    }
    if reader.flexible() { walk_tags(reader, version, fields) } else { Ok(()) }
}

pub(crate) fn walk_field(reader: &mut Reader<'_>, version: i16, field: &'static Field) -> Result<(), WireError> {
    let present = match &field.kind {
        Kind::Array(element) => match reader.nullable_count(field.name)? {
            Some(count) => {
                for _ in 0..count {
                    walk_kind(reader, version, element, field.name)?;
                }
                true
            }
            None => false,
        },
        Kind::Str => reader.nullable_str(field.name)?.is_some(),
        Kind::Bytes | Kind::Subscription | Kind::Assignment => reader.nullable_bytes(field.name)?.is_some(),
        Kind::Struct(_) if field.is_null(reader, version)? => return Ok(()),
        kind => return walk_kind(reader, version, kind, field.name),
    };
    if present || version >= field.nullable_from { Ok(()) } else { Err(WireError::Null { field: field.name }) }
}

pub(crate) fn walk_kind(
    reader: &mut Reader<'_>,
    version: i16,
    kind: &'static Kind,
    name: &'static str,
) -> Result<(), WireError> {
    match kind {
        Kind::Fixed(bytes) => reader.take(*bytes, name).map(drop),
        Kind::Bool => reader.bool(name).map(drop),
        Kind::Str => reader.str(name).map(drop),
        Kind::Bytes | Kind::Subscription | Kind::Assignment => reader.bytes(name).map(drop),
        Kind::Struct(fields) => walk(reader, version, fields),
        Kind::Array(element) => {
            for _ in 0..reader.count(name)? {
                walk_kind(reader, version, element, name)?;
            }
            Ok(())
        }
    }
}

/// The codec ignores the announced size of a tagged field that it knows. A wrong size would separate its position from
/// that of this walk, so it is an error.
fn walk_tags(reader: &mut Reader<'_>, version: i16, fields: &'static [Field]) -> Result<(), WireError> {
    const FIELD: &str = "_tagged_fields";
    for _ in 0..reader.varint(FIELD)? {
        reader.spend(1, FIELD)?;
        let tag = reader.varint(FIELD)?;
        let size = reader.varint(FIELD)? as usize;
        match fields.iter().find(|field| field.tag == Some(tag) && field.present(version)) {
            None => drop(reader.take(size, FIELD)?),
            Some(field) => {
                let before = reader.remaining();
                walk_field(reader, version, field)?;
                if before - reader.remaining() != size {
                    return Err(WireError::BadTag { field: field.name });
                }
            }
        }
    }
    Ok(())
}
