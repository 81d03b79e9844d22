//! Applies network faults of tests to the answers of a connection.

use std::{io, rc::Rc};

use tokio::{
    select,
    time::{Instant, sleep_until},
};

use super::channel::Channel;
use crate::{client::Ending, faults::Disturbance};

impl Channel {
    /// Applies the network fault of the request that was parked.
    pub(super) async fn disturb_parked_answer(&mut self) -> io::Result<()> {
        match self.late.take() {
            Some(disturbance) => self.disturb_answers(disturbance).await,
            None => Ok(()),
        }
    }

    /// Delays the answers as the fault demands. An error closes the connection.
    pub(super) async fn disturb_answers(&mut self, disturbance: Disturbance) -> io::Result<()> {
        let Disturbance::Late(fault, delay) = disturbance else { return Err(io::ErrorKind::ConnectionAborted.into()) };
        let until = Instant::now() + delay;
        let client = Rc::clone(&self.client);
        while client.ending() == Ending::No && self.event_loop.fault_lasts(fault) {
            let is_over = async {
                select! {
                    () = sleep_until(until) => true,
                    () = client.notify().notified() => false,
                }
            };
            if self.read_ahead_until(is_over).await? {
                break;
            }
        }
        Ok(())
    }
}
