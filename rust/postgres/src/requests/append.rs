//! `Append`: appends to several partitions are one statement. Each has its own verdict.

use rota_engine::{
    HistoryId, Nonce, Prev, Revision,
    requests::{Answer, Append, Appended, Content},
};
use tokio_postgres::{Row, types::ToSql};
use uuid::Uuid;

use super::{BARRIER, LAST, part_of};
use crate::{
    failure::Failure,
    image::{self, META},
    sql::{Told, uuid_at, value},
};

/// `asked` are the appends, and `held` those whose owner is the partition's: the lock on its row keeps it so until the
/// commit. An entry is written if its position is free and what it follows is there.
pub fn statement() -> String {
    let asked = "unnest($2::int[], $3::int[], $4::int[], $5::uuid[], $6::bigint[], $7::uuid[], $8::bigint[], $9::bytea[], \
                 $10::int[], $11::bigint[], $12::bigint[]) \
                 AS t (p, epoch, node, incarnation, base_offset, nonce, count, bytes, follows, prev_offset, prev_revision)";
    let history = "part.history = $1";
    let owner = "part.epoch = asked.epoch AND part.node = asked.node AND part.incarnation = asked.incarnation";
    let held = "part.held";
    let lock = "FOR SHARE OF part";
    let begins = "NOT EXISTS (SELECT FROM head WHERE head.p = asked.p)";
    let of_the_head = "head.revision = asked.prev_revision";
    let of_the_entry = "log.base_offset = asked.prev_offset AND log.revision = asked.prev_revision";
    let position = "ON CONFLICT DO NOTHING";
    format!(
        "WITH asked AS MATERIALIZED (SELECT * FROM {asked}), held AS MATERIALIZED ( \
           SELECT part.p FROM part JOIN asked USING (p) WHERE {history} AND {owner} AND {held} {lock} \
         ) \
         INSERT INTO log (p, base_offset, epoch, nonce, count, bytes, revision) \
         SELECT p, base_offset, epoch, nonce, count, bytes, nextval('revision') FROM asked JOIN held USING (p) \
         WHERE CASE follows \
           WHEN 0 THEN {begins} \
           WHEN 1 THEN EXISTS (SELECT FROM head WHERE head.p = asked.p AND {of_the_head}) \
           ELSE EXISTS (SELECT FROM log WHERE log.p = asked.p AND {of_the_entry}) END \
         {position} RETURNING p, revision"
    )
}

/// The statement's parameters.
#[derive(Debug, Default)]
pub struct Columns<'a> {
    history: Uuid,
    partitions: Vec<i32>,
    epochs: Vec<i32>,
    nodes: Vec<i32>,
    incarnations: Vec<Uuid>,
    base_offsets: Vec<i64>,
    nonces: Vec<Uuid>,
    counts: Vec<i64>,
    bytes: Vec<&'a [u8]>,
    follows: Vec<i32>,
    prev_offsets: Vec<i64>,
    prev_revisions: Vec<i64>,
}

impl<'a> Columns<'a> {
    /// Of appends to different partitions.
    pub fn new(history: HistoryId, appends: &[&'a Append]) -> Columns<'a> {
        let mut columns = Columns { history: Uuid::from_u128(history.0), ..Columns::default() };
        for append in appends {
            columns.add(append);
        }
        columns
    }

    fn add(&mut self, append: &'a Append) {
        let Append { partition, token, prev, base_offset, nonce, count, bytes } = append;
        let (follows, prev_offset, prev_revision) = match *prev {
            Prev::Nothing => (0, 0, Revision(0)),
            Prev::Head(revision) => (1, 0, revision),
            Prev::Entry(base_offset, revision) => (2, base_offset, revision),
        };
        self.partitions.push(partition.0);
        self.epochs.push(token.epoch.0);
        self.nodes.push(token.node.0);
        self.incarnations.push(Uuid::from_u128(token.incarnation.0));
        self.base_offsets.push(*base_offset);
        self.nonces.push(Uuid::from_u128(nonce.0));
        self.counts.push(*count);
        self.bytes.push(bytes);
        self.follows.push(follows);
        self.prev_offsets.push(prev_offset);
        self.prev_revisions.push(prev_revision.0 as i64);
    }

    /// In the statement's order.
    pub fn parameters(&self) -> [&(dyn ToSql + Sync); 12] {
        [
            &self.history,
            &self.partitions,
            &self.epochs,
            &self.nodes,
            &self.incarnations,
            &self.base_offsets,
            &self.nonces,
            &self.counts,
            &self.bytes,
            &self.follows,
            &self.prev_offsets,
            &self.prev_revisions,
        ]
    }
}

/// The answer to an append, if a row of the statement has it.
pub fn written(append: &Append, rows: &[Row]) -> Option<Answer> {
    let row = rows.iter().find(|row| row.get::<_, i32>(0) == append.partition.0)?;
    let revision = Revision(row.get::<_, i64>(1) as u64);
    Some(Answer { revision, content: Content::Appended(Appended::Written(revision)) })
}

/// Reads why an append was not written. A host that was replaced, or has no standby, does not answer this.
pub fn why(append: &Append) -> String {
    let (p, base_offset) = (append.partition.0, append.base_offset);
    let entry = format!("SELECT nonce, revision FROM log WHERE p = {p} AND base_offset = {base_offset};");
    [META, &part_of(append.partition), &entry, BARRIER, LAST].concat()
}

/// What the statements of [`why`] have answered.
pub fn refused(history: HistoryId, told: &Told) -> Result<Answer, Failure> {
    let (meta, _) = image::meta(told.row(0)?)?;
    let revision = Revision(value(told.last()?, 0)?);
    if meta.history != history {
        return Ok(Answer { revision, content: Content::OtherHistory(meta) });
    }
    let part = told.row(1)?.map(|row| image::part(row, 0)).transpose()?;
    let entry = |row| Ok::<_, Failure>((Nonce(uuid_at(row, 0)?), Revision(value(row, 1)?)));
    let entry = told.row(2)?.map(entry).transpose()?;
    Ok(Answer { revision, content: Content::Appended(Appended::Refused { part, entry }) })
}
