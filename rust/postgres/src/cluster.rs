//! The engine as nodes and operators of a cluster use it.

use std::sync::Arc;

use rota_cluster::{
    Engine, Pending,
    operating::{Member, MemberStatus, Operated},
};
use rota_engine::{Outcome, PartitionId, Request, View, requests::Used};
use tokio::sync::watch;

use crate::{engine::PostgresEngine, failure::Failure, settings::Durability};

impl Engine for PostgresEngine {
    fn name(&self) -> String {
        PostgresEngine::name(self)
    }

    fn call<'a>(&'a self, request: &'a Request) -> Pending<'a, Outcome> {
        Box::pin(PostgresEngine::call(self, request))
    }

    fn append_all<'a>(&'a self, lane: usize, requests: &'a [Request]) -> Pending<'a, Vec<Outcome>> {
        Box::pin(PostgresEngine::append_all(self, lane, requests))
    }

    fn views(&self) -> watch::Receiver<Option<Arc<View>>> {
        PostgresEngine::views(self)
    }

    fn image(&self) -> Pending<'_, Result<View, String>> {
        Box::pin(async { PostgresEngine::image(self).await.map_err(|failure| failure.to_string()) })
    }

    fn trouble(&self) -> Option<String> {
        PostgresEngine::trouble(self)
    }

    fn loaded_bytes(&self, partition: PartitionId) -> Option<usize> {
        PostgresEngine::loaded_bytes(self, partition)
    }

    fn warning(&self) -> Option<String> {
        self.durability().and_then(|known| known.warning())
    }
}

/// What grows and has rows deleted.
const TABLES: [&str; 2] = ["log", "chunk"];

impl Operated for PostgresEngine {
    fn kind(&self) -> &'static str {
        "postgresql"
    }

    fn members(&self) -> Pending<'_, Vec<Member>> {
        Box::pin(async {
            let hosts = self.hosts().await.into_iter();
            hosts.map(|(endpoint, host)| Member { address: endpoint.to_string(), status: status(host) }).collect()
        })
    }

    /// PostgreSQL has none.
    fn alarms(&self) -> Pending<'_, Result<Vec<(u64, &'static str)>, String>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    fn mend<'a>(&'a self, tell: &'a mut (dyn FnMut(&str) + Send)) -> Pending<'a, Result<(), String>> {
        Box::pin(async {
            for table in TABLES {
                self.vacuum(table).await.map_err(|failure| failure.to_string())?;
                tell(&format!("vacuumed {table}"));
            }
            Ok(())
        })
    }
}

fn status(host: Result<(Durability, u64, u64), Failure>) -> Result<MemberStatus, String> {
    let (said, file_bytes, live_bytes) = host.map_err(|failure| failure.to_string())?;
    let used = Used { file_bytes, live_bytes, quota_bytes: 0 };
    // A standby's own settings count after a failover.
    let errors = if said.is_standby { Vec::new() } else { said.warning().into_iter().collect() };
    Ok(MemberStatus { id: 0, version: said.version, leads: !said.is_standby, used, errors })
}
