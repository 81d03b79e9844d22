//! Shows a request or an answer, field by field, in a trace.
//!
//! Fields have the protocol's names in snake case, in its order. Nulls, throttle times of 0, and fields that say
//! nothing about groups, such as the byte limits of Fetch, are left out. Errors are shown by name. The bytes of
//! consumers that the coordinator relays are decoded (docs/protocol.md §18).

use rota_core::{
    embedded::{TopicPartitions, decode_assignment, decode_subscription},
    error::ErrorCode,
};

use crate::{
    header::RequestHeader,
    line::Line,
    read::{Reader, WireError},
    schema::{Field, Kind, Shown, walk_field, walk_kind},
    schemas,
    versions::Api,
};

/// Maximum shown elements of a list.
pub const ELEMENTS_SHOWN_MAX: usize = 20;

/// Maximum bytes of a subscription or assignment that are decoded. Of larger ones only the size is shown.
pub const EMBEDDED_BYTES_MAX: usize = 65_536;

/// Errors that only the front-end answers.
const OTHER_ERRORS: [(i16, &str); 8] = [
    (33, "UNSUPPORTED_SASL_MECHANISM"),
    (54, "SECURITY_DISABLED"),
    (91, "RESOURCE_NOT_FOUND"),
    (92, "DUPLICATE_RESOURCE"),
    (93, "UNACCEPTABLE_CREDENTIAL"),
    (114, "MISMATCHED_ENDPOINT_TYPE"),
    (115, "UNSUPPORTED_ENDPOINT_TYPE"),
    (129, "REBOOTSTRAP_REQUIRED"),
];

/// Adds the fields of a request to `line`.
pub fn request(line: &mut Line, header: &RequestHeader<'_>, body: &[u8]) {
    let key = header.api.key;
    let fields = schemas::groups::request(key).or_else(|| schemas::schema(key));
    message(line, header.api, header.version, fields, body);
}

/// Adds the fields of an answer of `version` to `line`. `body` starts after the header.
pub fn answer(line: &mut Line, api: &Api, version: i16, body: &[u8]) {
    message(line, api, version, schemas::answers::answer(api.key), body);
}

fn message(line: &mut Line, api: &Api, version: i16, fields: Option<&'static [Field]>, body: &[u8]) {
    let mut reader = Reader::new(body, api.flexible(version));
    if let Err(error) = structure(line, &mut reader, version, fields.unwrap_or_default()) {
        line.name("undecodable");
        line.str(&error.to_string());
    }
}

fn structure(
    line: &mut Line,
    reader: &mut Reader<'_>,
    version: i16,
    fields: &'static [Field],
) -> Result<(), WireError> {
    for field in fields.iter().filter(|field| field.tag.is_none() && field.present(version)) {
        show_field(line, reader, version, field)?;
    }
    if reader.flexible() { tags(line, reader, version, fields) } else { Ok(()) }
}

fn tags(line: &mut Line, reader: &mut Reader<'_>, version: i16, fields: &'static [Field]) -> Result<(), WireError> {
    const FIELD: &str = "_tagged_fields";
    for _ in 0..reader.varint(FIELD)? {
        let tag = reader.varint(FIELD)?;
        let size = reader.varint(FIELD)? as usize;
        let known = fields.iter().find(|field| field.tag == Some(tag) && field.present(version));
        let mut inside = Reader::new(reader.take(size, FIELD)?, true);
        if let Some(field) = known {
            show_field(line, &mut inside, version, field)?;
        }
    }
    Ok(())
}

fn show_field(line: &mut Line, reader: &mut Reader<'_>, version: i16, field: &'static Field) -> Result<(), WireError> {
    if field.shown == Shown::Hidden {
        return walk_field(reader, version, field);
    }
    match (&field.kind, field.name) {
        (Kind::Fixed(2), "error_code") => {
            line.name("error");
            error(line, reader.i16(field.name)?);
        }
        (Kind::Fixed(4), "throttle_time_ms") => match reader.i32(field.name)? {
            0 => {}
            waited => {
                line.name(field.name);
                line.plain(waited);
            }
        },
        (Kind::Str, _) => match reader.nullable_str(field.name)? {
            Some("") if field.name == "error_message" => {}
            Some(value) => {
                line.name(field.name);
                line.str(value);
            }
            None => {}
        },
        (Kind::Bytes | Kind::Subscription | Kind::Assignment, _) => {
            if let Some(value) = reader.nullable_bytes(field.name)? {
                line.name(field.name);
                bytes(line, &field.kind, value);
            }
        }
        (Kind::Array(element), _) => {
            if let Some(count) = reader.nullable_count(field.name)? {
                line.name(field.name);
                list(line, reader, version, (field, element, count))?;
            }
        }
        (Kind::Struct(_), _) if field.is_null(reader, version)? => {}
        (kind, _) => {
            line.name(field.name);
            value(line, reader, version, kind, field.name)?;
        }
    }
    Ok(())
}

fn list(
    line: &mut Line,
    reader: &mut Reader<'_>,
    version: i16,
    (field, element, count): (&'static Field, &'static Kind, usize),
) -> Result<(), WireError> {
    let shown = if field.shown == Shown::Counted { 0 } else { count.min(ELEMENTS_SHOWN_MAX) };
    if field.shown == Shown::Counted {
        line.amount(count, "elements");
    } else {
        line.open('[');
    }
    let mut result = Ok(());
    for index in 0..count {
        result = if index < shown {
            line.element();
            value(line, reader, version, element, field.name)
        } else {
            walk_kind(reader, version, element, field.name)
        };
        if result.is_err() {
            break;
        }
    }
    if field.shown != Shown::Counted {
        if count > shown {
            line.element();
            line.amount(count - shown, "more");
        }
        line.close(']');
    }
    result
}

fn value(
    line: &mut Line,
    reader: &mut Reader<'_>,
    version: i16,
    kind: &'static Kind,
    name: &'static str,
) -> Result<(), WireError> {
    match kind {
        Kind::Fixed(1) => line.plain(reader.i8(name)?),
        Kind::Fixed(2) => line.plain(reader.i16(name)?),
        Kind::Fixed(4) => line.plain(reader.i32(name)?),
        Kind::Fixed(8) => line.plain(reader.i64(name)?),
        Kind::Fixed(16) => line.str(&kafka_uuid(reader.uuid(name)?)),
        Kind::Fixed(other) => line.amount(reader.take(*other, name)?.len(), "bytes"),
        Kind::Bool => line.plain(reader.bool(name)?),
        Kind::Str => line.str(reader.str(name)?),
        Kind::Bytes | Kind::Subscription | Kind::Assignment => bytes(line, kind, reader.bytes(name)?),
        Kind::Struct(fields) => {
            line.open('{');
            let result = structure(line, reader, version, fields);
            line.close('}');
            result?;
        }
        Kind::Array(_) => walk_kind(reader, version, kind, name)?,
    }
    Ok(())
}

fn error(line: &mut Line, code: i16) {
    let other = || OTHER_ERRORS.iter().find(|(other, _)| *other == code).map(|(_, name)| *name);
    match ErrorCode::from_code(code).map(ErrorCode::name).or_else(other) {
        Some(name) => line.str(name),
        None => line.plain(code),
    }
}

/// Shows the size of bytes of other protocol types, which are no subscriptions and assignments.
fn bytes(line: &mut Line, kind: &Kind, value: &[u8]) {
    let shown = match kind {
        _ if value.len() > EMBEDDED_BYTES_MAX => None,
        Kind::Subscription => subscription(line, value),
        Kind::Assignment => assignment(line, value),
        _ => None,
    };
    if shown.is_none() {
        line.amount(value.len(), "bytes");
    }
}

fn subscription(line: &mut Line, value: &[u8]) -> Option<()> {
    let subscription = decode_subscription(value).ok()?;
    line.open('{');
    line.name("version");
    line.plain(subscription.version);
    line.name("topics");
    line.open('[');
    for topic in subscription.topics.iter().take(ELEMENTS_SHOWN_MAX) {
        line.element();
        line.str(topic);
    }
    more(line, subscription.topics.len());
    line.close(']');
    if !subscription.owned_partitions.is_empty() {
        line.name("owned_partitions");
        partitions(line, &subscription.owned_partitions);
    }
    if subscription.generation != -1 {
        line.name("generation");
        line.plain(subscription.generation);
    }
    if let Some(rack) = &subscription.rack {
        line.name("rack");
        line.str(rack);
    }
    user_data(line, subscription.user_data.as_deref());
    line.close('}');
    Some(())
}

fn assignment(line: &mut Line, value: &[u8]) -> Option<()> {
    let assignment = decode_assignment(value).ok()?;
    line.open('{');
    line.name("version");
    line.plain(assignment.version);
    line.name("partitions");
    partitions(line, &assignment.partitions);
    user_data(line, assignment.user_data.as_deref());
    line.close('}');
    Some(())
}

/// Formats as `{topic=[partition, ...]}`.
fn partitions(line: &mut Line, topics: &[TopicPartitions]) {
    line.open('{');
    for TopicPartitions { topic, partitions } in topics.iter().take(ELEMENTS_SHOWN_MAX) {
        line.name(topic);
        line.open('[');
        for partition in partitions.iter().take(ELEMENTS_SHOWN_MAX) {
            line.element();
            line.plain(partition);
        }
        more(line, partitions.len());
        line.close(']');
    }
    if let Some(left_out @ 1..) = topics.len().checked_sub(ELEMENTS_SHOWN_MAX) {
        line.name("...");
        line.amount(left_out, "more");
    }
    line.close('}');
}

fn more(line: &mut Line, count: usize) {
    if let Some(left_out @ 1..) = count.checked_sub(ELEMENTS_SHOWN_MAX) {
        line.element();
        line.amount(left_out, "more");
    }
}

fn user_data(line: &mut Line, value: Option<&[u8]>) {
    if let Some(value @ [_, ..]) = value {
        line.name("user_data");
        line.amount(value.len(), "bytes");
    }
}

/// Formats 128 bits like Kafka's UUIDs: URL-safe base64 without padding.
pub fn kafka_uuid(bits: u128) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    // 22 digits of 6 bits are 132 bits: the last four are zeros.
    (0..22)
        .map(|place| {
            let digit = if place == 21 { bits << 4 } else { bits >> (122 - 6 * place) };
            char::from(DIGITS[(digit & 63) as usize])
        })
        .collect()
}
