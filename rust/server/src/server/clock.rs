//! Reads and moves the clock of all coordinators.

use std::sync::{PoisonError, mpsc::channel};

use super::{
    Server,
    virtual_time::{self, LocalNode, RemoteNode},
};
use crate::base::{clock::Clock, error::ServerError};

impl Server {
    /// Returns the coordinators' clock in monotonic milliseconds.
    pub fn now_ms(&self) -> Result<u64, ServerError> {
        self.ask(0, |node| node.clock().now().mono_ms)
    }

    /// Moves a virtual clock by `delta_ms` and returns its time. Members with connected clients stay in their groups, as
    /// if their heartbeats had arrived in time, except those in `expire`. Fails on the real clock.
    pub fn advance(&self, delta_ms: u64, expire: Vec<String>) -> Result<u64, ServerError> {
        let clock = self.shared.clock().clone();
        if !clock.is_virtual() {
            return Err(ServerError::ClockIsReal);
        }
        let _one_at_a_time = self.moving.write().unwrap_or_else(PoisonError::into_inner);
        let target_ms = self.now_ms()?.saturating_add(delta_ms);
        if self.nodes.len() == 1 {
            let clock = clock.clone();
            self.ask(0, move |node| {
                let deadlines = vec![node.next_deadline()];
                virtual_time::advance_to(&clock, target_ms, &mut [LocalNode { node, expire: &expire }], deadlines)
            })?
        } else {
            self.advance_all(&clock, target_ms, &expire)?
        }
        .map_err(|_stopped| self.gone())?;
        Ok(clock.now().mono_ms)
    }

    /// Moves the clock of several nodes, which handle no requests meanwhile.
    fn advance_all(
        &self,
        clock: &Clock,
        target_ms: u64,
        expire: &[String],
    ) -> Result<Result<(), virtual_time::NodeStopped>, ServerError> {
        let (mut remotes, mut still) = (Vec::new(), Vec::new());
        for at in 0..self.nodes.len() {
            let (fire, orders) = channel();
            let (report, deadlines) = channel();
            let expire = expire.to_vec();
            still.push(self.order(at, move |event_loop| {
                virtual_time::follow_clock(&mut event_loop.node.borrow_mut(), &expire, &orders, &report);
            })?);
            remotes.push(RemoteNode { fire, deadlines });
        }
        let deadlines: Result<Vec<_>, _> = remotes.iter().map(|remote| self.answered(&remote.deadlines)).collect();
        let moved = virtual_time::advance_to(clock, target_ms, &mut remotes, deadlines?);
        drop(remotes);
        for node in &still {
            self.answered(node)?;
        }
        Ok(moved)
    }
}
