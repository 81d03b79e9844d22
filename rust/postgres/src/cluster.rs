//! The engine as a node of a cluster uses it.

use std::sync::Arc;

use rota_cluster::{Engine, Pending};
use rota_engine::{Outcome, Request, View};
use tokio::sync::watch;

use crate::engine::PostgresEngine;

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

    fn trouble(&self) -> Option<String> {
        PostgresEngine::trouble(self)
    }
}
