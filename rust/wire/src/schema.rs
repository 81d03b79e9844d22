//! Walks a request by its schema without building anything.
//!
//! The `kafka-protocol` crate reserves memory for as many elements as an array announces. So before it sees a body,
//! this walk has found every announced count and length covered by bytes, and the elements under the limit.

use crate::read::{Reader, WireError};

/// The shape of a field.
#[derive(Debug)]
pub enum Kind {
    /// So many bytes.
    Fixed(usize),
    /// A BOOLEAN, one byte.
    Bool,
    /// A string.
    Str,
    /// Bytes with a length, record batches included.
    Bytes,
    /// Bytes in which consumers say what they subscribe to.
    Subscription,
    /// Bytes in which a consumer is told what is assigned to it.
    Assignment,
    /// An array of elements of one kind.
    Array(&'static Kind),
    /// Fields, and in the compact layout tagged ones behind them.
    Struct(&'static [Field]),
}

/// How much of a field is shown in a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shown {
    /// All of it.
    Whole,
    /// How many elements it has.
    Counted,
    /// Nothing.
    Hidden,
}

/// One field, and in which versions it is there.
#[derive(Debug)]
#[must_use]
pub struct Field {
    /// As in the protocol's schemas.
    pub name: &'static str,
    /// Its shape.
    pub kind: Kind,
    /// The first version with it.
    pub from: i16,
    /// The last version with it.
    pub to: i16,
    /// The first version in which it may be null.
    pub nullable_from: i16,
    /// Its number, if it is a tagged field.
    pub tag: Option<u32>,
    /// How much of it is shown.
    pub shown: Shown,
}

impl Field {
    /// A field of every version that is never null.
    pub const fn new(name: &'static str, kind: Kind) -> Field {
        Field { name, kind, from: 0, to: i16::MAX, nullable_from: i16::MAX, tag: None, shown: Shown::Whole }
    }

    /// There from `version` on.
    pub const fn from(self, version: i16) -> Field {
        Field { from: version, ..self }
    }

    /// There up to `version`.
    pub const fn to(self, version: i16) -> Field {
        Field { to: version, ..self }
    }

    /// May be null from `version` on.
    pub const fn nullable(self, version: i16) -> Field {
        Field { nullable_from: version, ..self }
    }

    /// Among the tagged fields, under this number.
    pub const fn tagged(self, tag: u32) -> Field {
        Field { tag: Some(tag), ..self }
    }

    /// Not shown in a trace.
    pub const fn hidden(self) -> Field {
        Field { shown: Shown::Hidden, ..self }
    }

    /// Shown as a number of elements in a trace.
    pub const fn counted(self) -> Field {
        Field { shown: Shown::Counted, ..self }
    }

    pub(crate) const fn present(&self, version: i16) -> bool {
        self.from <= version && version <= self.to
    }
}

/// Steps over one structure of `fields` in `version`; `reader` stands behind it afterwards.
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

/// The codec reads a tagged field that it knows without looking at the announced size. A size that lies would put
/// it somewhere else than this walk, so it is refused.
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
