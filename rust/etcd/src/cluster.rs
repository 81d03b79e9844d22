//! The engine as nodes and operators of a cluster use it.

use std::sync::Arc;

use rota_cluster::{
    Engine, Pending,
    operating::{Member, Operated},
};
use rota_engine::{Outcome, PartitionId, Request, View};
use tokio::sync::watch;

use crate::{engine::EtcdEngine, mend::Alarm, space};

impl Engine for EtcdEngine {
    fn name(&self) -> String {
        EtcdEngine::name(self)
    }

    fn call<'a>(&'a self, request: &'a Request) -> Pending<'a, Outcome> {
        Box::pin(EtcdEngine::call(self, request))
    }

    fn append_all<'a>(&'a self, lane: usize, requests: &'a [Request]) -> Pending<'a, Vec<Outcome>> {
        Box::pin(EtcdEngine::append_all(self, lane, requests))
    }

    fn views(&self) -> watch::Receiver<Option<Arc<View>>> {
        EtcdEngine::views(self)
    }

    fn image(&self) -> Pending<'_, Result<View, String>> {
        Box::pin(async { EtcdEngine::image(self).await.map_err(|failure| failure.to_string()) })
    }

    fn trouble(&self) -> Option<String> {
        EtcdEngine::trouble(self)
    }

    fn small_at_once(&self) -> usize {
        8
    }

    fn says_space(&self) -> bool {
        true
    }

    fn loaded_bytes(&self, partition: PartitionId) -> Option<usize> {
        EtcdEngine::loaded_bytes(self, partition)
    }
}

impl Operated for EtcdEngine {
    fn kind(&self) -> &'static str {
        "etcd"
    }

    fn members(&self) -> Pending<'_, Vec<Member>> {
        Box::pin(async { EtcdEngine::members(self).await.into_iter().map(member).collect() })
    }

    fn alarms(&self) -> Pending<'_, Result<Vec<(u64, &'static str)>, String>> {
        Box::pin(async {
            let alarms = EtcdEngine::alarms(self).await.map_err(|failure| failure.to_string())?;
            Ok(alarms.into_iter().map(|(member, alarm)| (member, name_of(alarm))).collect())
        })
    }

    /// Everything before the present revision is forgotten.
    fn mend<'a>(&'a self, tell: &'a mut (dyn FnMut(&str) + Send)) -> Pending<'a, Result<(), String>> {
        Box::pin(async {
            let revision = Engine::image(self).await?.revision;
            EtcdEngine::mend(self, revision, tell).await.map_err(|failure| failure.to_string())
        })
    }
}

fn name_of(alarm: Alarm) -> &'static str {
    match alarm {
        Alarm::NoSpace => "NOSPACE",
        Alarm::Corrupt => "CORRUPT",
    }
}

fn member(member: space::Member) -> Member {
    let space::Member { endpoint, status } = member;
    Member { address: endpoint.to_string(), status: status.map_err(|failure| failure.to_string()) }
}
