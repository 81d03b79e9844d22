//! `Head`: the head alone. What it has is deleted after that, as by a Trim.

use rota_engine::{
    HistoryId, PartitionId,
    requests::{Content, Fence, HeadPut, PutHead},
};

use super::{Fenced, OWN, change_tail, fence};
use crate::{
    failure::Failure,
    sql::{Told, has_prev, is_head, is_held},
};

impl Fenced for PutHead {
    fn partition(&self) -> PartitionId {
        self.partition
    }

    fn statements(&self, history: HistoryId) -> String {
        let PutHead { partition, token, replaces, prev, head } = self;
        let (p, is_held) = (partition.0, is_held(*partition, token, history));
        let replaced = match replaces {
            None => format!("NOT EXISTS (SELECT FROM head WHERE p = {p})"),
            Some(replaced) => format!("EXISTS (SELECT FROM head WHERE p = {p} AND {})", is_head(replaced)),
        };
        // The last chunk is written after all others. An owner that outlives a restore does not find it.
        let has_chunks = head.chunks.checked_sub(1).map_or("true".to_owned(), |last| {
            let (upto, epoch) = (head.upto, head.epoch.0);
            format!("EXISTS (SELECT FROM chunk WHERE p = {p} AND upto = {upto} AND epoch = {epoch} AND index = {last})")
        });
        let (upto, epoch, chunks, checksum) = (head.upto, head.epoch.0, head.chunks, head.checksum);
        let write = format!(
            "INSERT INTO head (p, upto, epoch, chunks, checksum, revision) \
             SELECT {p}, {upto}, {epoch}, {chunks}, {checksum}, nextval('revision') \
             WHERE EXISTS (SELECT FROM part WHERE {is_held}) AND {replaced} AND {has_chunks} AND {} \
             AND NOT EXISTS (SELECT FROM head WHERE p = {p} AND {}) \
             ON CONFLICT (p) DO UPDATE SET upto = excluded.upto, epoch = excluded.epoch, chunks = excluded.chunks, \
             checksum = excluded.checksum, revision = excluded.revision;",
            has_prev(*partition, *prev),
            is_head(head)
        );
        format!("{}{write}SELECT FROM head WHERE p = {p} AND {};", change_tail(&is_held), is_head(head))
    }

    fn answer(&self, told: &Told) -> Result<Content, Failure> {
        let put = match fence(told)? {
            Fence::Held if told.has_done(OWN + 2)? => HeadPut::Written,
            Fence::Held => HeadPut::Refused(Some(self.token.part())),
            Fence::Refused(part) => HeadPut::Refused(part),
        };
        Ok(Content::HeadPut(put))
    }
}
