//! The small keys as statements read them.

use rota_engine::{
    Beat, Directory, Epoch, HistoryId, Incarnation, Meta, NodeId, Part, PartitionId, Registration, Revision, View,
};
use tokio_postgres::SimpleQueryRow;

use crate::{
    failure::Failure,
    sql::{Told, bool_at, bytes_at, optional, uuid_at, value},
};

/// Reads history, format and the revision of the last change of a small key.
pub const META: &str = "SELECT history, format, revision FROM meta;";
/// Reads the owners of all partitions.
pub const PARTS: &str = "SELECT p, epoch, node, incarnation, held FROM part;";
const NODES: &str = "SELECT id, directory, incarnation, beat_incarnation, beat_counter FROM node;";
const NOTES: &str = "SELECT name, value FROM note;";

/// Reads everything but [`META`]: three statements.
pub fn statements() -> String {
    [PARTS, NODES, NOTES].concat()
}

/// What [`META`] has read.
pub fn meta(row: Option<&SimpleQueryRow>) -> Result<(Meta, Revision), Failure> {
    let row = row.ok_or(Failure::Malformed("the table meta has no row"))?;
    let meta = Meta { history: HistoryId(uuid_at(row, 0)?), format: value(row, 1)? };
    Ok((meta, Revision(value(row, 2)?)))
}

/// The owner in a row, from this column on.
pub fn part(row: &SimpleQueryRow, first: usize) -> Result<Part, Failure> {
    let (epoch, node) = (Epoch(value(row, first)?), NodeId(value(row, first + 1)?));
    Ok(Part { epoch, node, incarnation: Incarnation(uuid_at(row, first + 2)?), held: bool_at(row, first + 3)? })
}

/// A row of [`PARTS`].
pub fn owned(row: &SimpleQueryRow) -> Result<(PartitionId, Part), Failure> {
    Ok((PartitionId(value(row, 0)?), part(row, 1)?))
}

/// What [`statements`] has read, from this statement on.
pub fn view(told: &Told, first: usize, meta: Meta, revision: Revision) -> Result<View, Failure> {
    let parts = told.rows(first)?.iter().map(owned).collect::<Result<_, _>>()?;
    let rows = told.rows(first + 1)?;
    let nodes = rows.iter().map(|row| {
        let (directory, incarnation) = (Directory(uuid_at(row, 1)?), Incarnation(uuid_at(row, 2)?));
        Ok((NodeId(value(row, 0)?), Registration { directory, incarnation }))
    });
    let beats = rows.iter().filter_map(|row| beat(row).transpose());
    let told_notes = told.rows(first + 2)?.iter().map(|row| Ok((value(row, 0)?, bytes_at(row, 1)?)));
    Ok(View {
        revision,
        meta,
        nodes: nodes.collect::<Result<_, Failure>>()?,
        beats: beats.collect::<Result<_, Failure>>()?,
        parts,
        notes: told_notes.collect::<Result<_, Failure>>()?,
    })
}

fn beat(row: &SimpleQueryRow) -> Result<Option<(NodeId, Beat)>, Failure> {
    let Some(counter) = optional(row, 4)? else { return Ok(None) };
    Ok(Some((NodeId(value(row, 0)?), Beat { incarnation: Incarnation(uuid_at(row, 3)?), counter })))
}
