//! How full the engine is: asked now and then, and said before its space is exhausted.

use std::sync::Arc;

use rota_engine::{
    Outcome, Request,
    requests::{Body, Content, Usage, Used},
};

use super::Running;
use crate::messages::Report;

/// Between two questions.
const INTERVAL_MS: u64 = 10_000;
/// Percent of the quota at which operators are warned, and below which the warning is over.
const WARNING: (u64, u64) = (80, 70);

/// When the engine is asked next.
#[derive(Debug)]
pub(super) struct Space {
    next_ms: u64,
    is_asking: bool,
    has_warned: bool,
}

impl Space {
    pub fn new(now_ms: u64) -> Space {
        Space { next_ms: now_ms, is_asking: false, has_warned: false }
    }

    /// The line for operators, if one is due.
    fn warning(&mut self, engine: &str, used: &Used) -> Option<String> {
        let Used { file_bytes, quota_bytes, live_bytes: _ } = *used;
        let percent = file_bytes.saturating_mul(100).checked_div(quota_bytes)?;
        if percent < WARNING.1 {
            self.has_warned = false;
        }
        if percent < WARNING.0 || std::mem::replace(&mut self.has_warned, true) {
            return None;
        }
        Some(format!(
            "engine {engine} uses {percent} % of its quota of {quota_bytes} bytes: run `rota cluster mend`, or give etcd more"
        ))
    }
}

impl Running<'_> {
    /// Asks if it is time, for metrics. An engine that has no quota is not asked again.
    pub(super) fn ask_usage(&mut self) {
        let now_ms = self.now_ms();
        if self.space.is_asking || now_ms < self.space.next_ms {
            return;
        }
        self.space.is_asking = true;
        let (engine, reports) = (Arc::clone(&self.engine), self.reports.clone());
        let request = Request { history: self.node.inspect().history, body: Body::Usage(Usage) };
        tokio::task::spawn_local(async move {
            let outcome = engine.call(&request).await;
            // The node may have ended.
            let _gone = reports.send(Report::Usage(outcome));
        });
    }

    pub(super) fn told_usage(&mut self, outcome: &Outcome) {
        self.space.is_asking = false;
        self.space.next_ms = self.now_ms() + INTERVAL_MS;
        let Outcome::Answered(answer) = outcome else { return };
        let Content::Used(used) = &answer.content else { return };
        if used.quota_bytes == 0 && !self.engine.says_space() {
            self.space.next_ms = u64::MAX;
            return;
        }
        self.shared.count(|stats| stats.space = Some(*used));
        if let Some(line) = self.space.warning(&self.engine.name(), used) {
            eprintln!("rota: {line}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn used(file_bytes: u64, quota_bytes: u64) -> Used {
        Used { file_bytes, live_bytes: 1, quota_bytes }
    }

    #[test]
    fn a_warning_is_given_once_until_there_is_space_again() {
        let mut space = Space::new(0);
        assert_eq!(space.warning("e", &used(79, 100)), None);
        assert_eq!(
            space.warning("e", &used(80, 100)).as_deref(),
            Some("engine e uses 80 % of its quota of 100 bytes: run `rota cluster mend`, or give etcd more")
        );
        assert_eq!(space.warning("e", &used(99, 100)), None);
        assert_eq!(space.warning("e", &used(70, 100)), None);
        assert_eq!(space.warning("e", &used(85, 100)), None);
        assert_eq!(space.warning("e", &used(69, 100)), None);
        assert!(space.warning("e", &used(85, 100)).is_some());
        assert_eq!(space.warning("e", &used(85, 0)), None);
    }
}
