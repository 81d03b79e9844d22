//! What a test wants the network to do to the answers of a connection.

use std::{io, rc::Rc};

use tokio::{
    select,
    time::{Instant, sleep_until},
};

use super::channel::Channel;
use crate::{client::Ending, faults::Disturbance};

impl Channel {
    /// Has the network do to its answers what it does to the request that was parked.
    pub(super) async fn suffer_what_is_left(&mut self) -> io::Result<()> {
        match self.late.take() {
            Some(disturbance) => self.suffer(disturbance).await,
            None => Ok(()),
        }
    }

    /// Waits as long as the network delays its answers. Errors: it closes the connection.
    pub(super) async fn suffer(&mut self, disturbance: Disturbance) -> io::Result<()> {
        let Disturbance::Late(fault, delay) = disturbance else { return Err(io::ErrorKind::ConnectionAborted.into()) };
        let until = Instant::now() + delay;
        let client = Rc::clone(&self.client);
        while client.ending() == Ending::No && self.event_loop.fault_lasts(fault) {
            let is_over = async {
                select! {
                    () = sleep_until(until) => true,
                    () = client.wake().told() => false,
                }
            };
            if self.read_ahead_until(is_over).await? {
                break;
            }
        }
        Ok(())
    }
}
