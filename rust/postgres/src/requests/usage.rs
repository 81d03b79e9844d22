//! `Usage`: the files of the database, and those of the cluster's tables in it. PostgreSQL has no quota.

use rota_engine::{
    HistoryId, PartitionId,
    requests::{Content, Usage, Used},
};

use super::{Fenced, OWN};
use crate::{
    failure::Failure,
    sql::{Told, value},
};

/// The database's files, and the tables of the schema that is chosen.
pub const SIZES: &str = "SELECT pg_database_size(current_database()), (SELECT coalesce(sum(pg_total_relation_size(oid)), 0) \
                         FROM pg_class WHERE relkind = 'r' AND relnamespace = current_schema()::regnamespace);";

impl Fenced for Usage {
    fn partition(&self) -> PartitionId {
        PartitionId(0)
    }

    fn statements(&self, _: HistoryId) -> String {
        SIZES.to_owned()
    }

    fn answer(&self, told: &Told) -> Result<Content, Failure> {
        let row = told.row(OWN)?.ok_or(Failure::Malformed("no sizes"))?;
        Ok(Content::Used(Used { file_bytes: value(row, 0)?, live_bytes: value(row, 1)?, quota_bytes: 0 }))
    }
}
