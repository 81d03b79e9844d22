//! Records of the newer consumer protocol: members, epochs and partitions. Other records are kept as bytes.

use rota_promises::{Columns, Row};

use crate::reader::Filter;

const MEMBER: i16 = 5;
const TARGET: i16 = 7;
const CURRENT: i16 = 8;

/// Key types, the types of their rows, and whether the second string of the key is a member.
const TYPES: [(i16, &str, bool); 7] = [
    (3, "consumer_group", false),
    (4, "consumer_topics", false),
    (MEMBER, "consumer_member", true),
    (6, "consumer_target_epoch", false),
    (TARGET, "consumer_target", true),
    (CURRENT, "consumer_current", true),
    (16, "consumer_regex", false),
];

/// Adds the rows of a record that is neither an offset nor a classic group.
pub(crate) fn newer_rows(base: Row<'_>, key: &[u8], value: Option<&[u8]>, filter: &Filter, columns: &mut Columns) {
    let raw = Row { kind: Some("other"), payload: Some(key), ..base };
    let Some((row, key_type)) = row_of_key(base, key) else { return columns.push(&raw) };
    if !filter.wants_group(row.group.unwrap_or_default()) {
        return;
    }
    let Some(value) = value else {
        return columns.push(&Row { note: Some("removed"), ..row });
    };
    let mut part = 0;
    let read = read_value(row, key_type, Fields { rest: value }, &mut |row: Row<'_>| {
        columns.push(&Row { part: Some(part), ..row });
        part += 1;
    });
    if read.is_none() {
        columns.push(&Row { part: Some(part), payload: Some(key), note: Some("its value is not understood"), ..row });
    }
}

fn row_of_key<'a>(base: Row<'a>, key: &'a [u8]) -> Option<(Row<'a>, i16)> {
    let mut fields = Fields { rest: key };
    let found = i16::from_be_bytes(fields.take()?);
    let (key_type, kind, has_member) = TYPES.into_iter().find(|(key_type, ..)| *key_type == found)?;
    let group = Some(fields.string()?);
    let member = if has_member { Some(fields.string()?) } else { None };
    Some((Row { kind: Some(kind), group, member, ..base }, key_type))
}

/// Returns `None` if the value is truncated or has an unknown version.
fn read_value(row: Row<'_>, key_type: i16, mut fields: Fields<'_>, push: &mut impl FnMut(Row<'_>)) -> Option<()> {
    let version = i16::from_be_bytes(fields.take()?);
    if version != 0 {
        return None;
    }
    match key_type {
        3 | 6 => push(Row { generation: Some(i32::from_be_bytes(fields.take()?)), ..row }),
        MEMBER => {
            let instance = fields.compact_string()?;
            let _rack = fields.compact_string()?;
            push(Row { instance, client: fields.compact_string()?, ..row });
        }
        TARGET => {
            push(row);
            fields.partitions(|topic, partition| push(assigned("consumer_target_partition", row, topic, partition)))?;
        }
        CURRENT => {
            let generation = Some(i32::from_be_bytes(fields.take()?));
            let _previous_epoch: [u8; 4] = fields.take()?;
            let [_state] = fields.take()?;
            let row = Row { generation, ..row };
            push(row);
            fields.partitions(|topic, partition| push(assigned("consumer_assigned", row, topic, partition)))?;
        }
        _ => push(row),
    }
    Some(())
}

fn assigned<'a>(kind: &'a str, row: Row<'a>, topic: &'a str, partition: i32) -> Row<'a> {
    Row { kind: Some(kind), topic: Some(topic), topic_partition: Some(partition), ..row }
}

/// Reads fields of the flexible versions from the front. Every method returns `None` at the end of the bytes.
struct Fields<'a> {
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (field, rest) = self.rest.split_first_chunk::<N>()?;
        self.rest = rest;
        Some(*field)
    }

    fn bytes(&mut self, length: usize) -> Option<&'a [u8]> {
        let (field, rest) = self.rest.split_at_checked(length)?;
        self.rest = rest;
        Some(field)
    }

    fn string(&mut self) -> Option<&'a str> {
        let length = usize::try_from(i16::from_be_bytes(self.take()?)).ok()?;
        std::str::from_utf8(self.bytes(length)?).ok()
    }

    fn varint(&mut self) -> Option<usize> {
        let mut value = 0;
        for shift in (0..35).step_by(7) {
            let [byte] = self.take()?;
            value |= usize::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    #[expect(clippy::option_option, reason = "null is a value")]
    /// The outer `None`: the bytes end; the inner `None`: null.
    fn compact_string(&mut self) -> Option<Option<&'a str>> {
        match self.varint()? {
            0 => Some(None),
            length => Some(Some(std::str::from_utf8(self.bytes(length - 1)?).ok()?)),
        }
    }

    /// Reads a list of topic ids with partitions. The topic is shown as 32 hexadecimal digits.
    fn partitions(&mut self, mut each: impl FnMut(&str, i32)) -> Option<()> {
        for _ in 1..self.varint()? {
            let topic = format!("{:032x}", u128::from_be_bytes(self.take()?));
            for _ in 1..self.varint()? {
                each(&topic, i32::from_be_bytes(self.take()?));
            }
            for _ in 0..self.varint()? {
                self.varint()?;
                let length = self.varint()?;
                self.bytes(length)?;
            }
        }
        Some(())
    }
}
