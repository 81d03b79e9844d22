//! The time of all coordinators, read and moved.

use std::sync::{PoisonError, mpsc::channel};

use super::{
    Server,
    virtual_time::{self, Here, There},
};
use crate::base::{clock::Clock, error::ServerError};

impl Server {
    /// The coordinators' monotonic milliseconds.
    pub fn now_ms(&self) -> Result<u64, ServerError> {
        self.ask(0, |node| node.clock().now().mono_ms)
    }

    /// Moves a virtual clock by `delta_ms` and returns where it stands. Members whose clients are connected are kept,
    /// as if their heartbeats had come in time, except those in `expire`.
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
                virtual_time::conduct(&clock, target_ms, &mut [Here { node, expire: &expire }], deadlines)
            })?
        } else {
            self.conduct(&clock, target_ms, &expire)?
        }
        .map_err(|_gone| self.gone())?;
        Ok(clock.now().mono_ms)
    }

    /// Moves the clock of several nodes, which do nothing else meanwhile.
    fn conduct(
        &self,
        clock: &Clock,
        target_ms: u64,
        expire: &[String],
    ) -> Result<Result<(), virtual_time::Gone>, ServerError> {
        let (mut hands, mut still) = (Vec::new(), Vec::new());
        for at in 0..self.nodes.len() {
            let (word, words) = channel();
            let (report, deadlines) = channel();
            let expire = expire.to_vec();
            still.push(self.order(at, move |event_loop| {
                virtual_time::stand_still(&mut event_loop.node.borrow_mut(), &expire, &words, &report);
            })?);
            hands.push(There { word, deadlines });
        }
        let deadlines: Result<Vec<_>, _> = hands.iter().map(|hand| self.answered(&hand.deadlines)).collect();
        let moved = virtual_time::conduct(clock, target_ms, &mut hands, deadlines?);
        drop(hands);
        for node in &still {
            self.answered(node)?;
        }
        Ok(moved)
    }
}
