//! Network faults between clients and nodes: delayed answers, and connections closed instead of answered. They use real
//! time, whatever the coordinators' clock.

use std::time::Duration;

/// Identifies one network fault of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FaultId(pub u64);

/// The effect of a fault on a connection, after a request was handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disturbance {
    /// The answer is delayed by this duration, or until the fault ends.
    Late(FaultId, Duration),
    /// The connection is closed instead of answered.
    Closed,
}

/// A network fault that a test requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NetworkFault {
    /// The delay of answers; `None`: the connection is closed instead.
    pub delay: Option<Duration>,
    /// Restricts the fault to requests of one API.
    pub api_key: Option<i16>,
    /// Restricts the fault to requests to one node.
    pub node_id: Option<i32>,
    /// Number of affected requests; `None`: all until the fault ends.
    pub times: Option<u32>,
}

#[derive(Debug)]
struct Active {
    id: FaultId,
    fault: NetworkFault,
    /// Number of requests affected so far.
    count: u32,
}

/// The network faults of a server.
#[derive(Debug, Default)]
pub struct Network {
    faults: Vec<Active>,
    next: u64,
}

impl Active {
    fn is_used_up(&self) -> bool {
        self.fault.times.is_some_and(|times| self.count >= times)
    }

    fn concerns(&self, api_key: i16, node_id: i32) -> bool {
        let NetworkFault { api_key: only_api, node_id: only_node, .. } = self.fault;
        !self.is_used_up()
            && only_api.is_none_or(|only| only == api_key)
            && only_node.is_none_or(|only| only == node_id)
    }
}

impl Network {
    /// Begins a fault.
    pub fn begin(&mut self, fault: NetworkFault) -> FaultId {
        let id = FaultId(self.next);
        self.next += 1;
        self.faults.push(Active { id, fault, count: 0 });
        id
    }

    /// Ends a fault. Its count stays.
    pub fn end(&mut self, id: FaultId) {
        if let Some(active) = self.faults.iter_mut().find(|active| active.id == id) {
            active.fault.times = Some(active.count);
        }
    }

    /// Ends all faults.
    pub fn end_all(&mut self) {
        self.faults.iter_mut().for_each(|active| active.fault.times = Some(active.count));
    }

    /// Whether a fault has requests left.
    pub fn is_active(&self) -> bool {
        self.faults.iter().any(|active| !active.is_used_up())
    }

    /// Whether a fault still delays answers.
    pub fn lasts(&self, id: FaultId) -> bool {
        self.faults.iter().any(|active| active.id == id && !active.is_used_up())
    }

    /// Returns how many requests a fault has affected, and how many it still will; `None`: without limit.
    pub fn count(&self, id: FaultId) -> (u32, Option<u32>) {
        let found = self.faults.iter().find(|active| active.id == id);
        found.map_or((0, Some(0)), |active| (active.count, active.fault.times.map(|times| times - active.count)))
    }

    /// Returns the effect on a request of this API to this node, by the oldest matching fault.
    pub fn disturb(&mut self, api_key: i16, node_id: i32) -> Option<Disturbance> {
        let active = self.faults.iter_mut().find(|active| active.concerns(api_key, node_id))?;
        active.count += 1;
        Some(active.fault.delay.map_or(Disturbance::Closed, |delay| Disturbance::Late(active.id, delay)))
    }
}

#[cfg(test)]
mod tests {
    use rota_wire::versions::{HEARTBEAT, OFFSET_COMMIT};

    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn fault(delay: Option<Duration>) -> NetworkFault {
        NetworkFault { delay, api_key: None, node_id: None, times: None }
    }

    #[test]
    fn a_fault_concerns_requests_of_its_api_to_its_node() {
        let mut network = Network::default();
        let id = network.begin(NetworkFault { api_key: Some(HEARTBEAT), node_id: Some(2), ..fault(Some(MS)) });
        for (api_key, node_id, found) in
            [(HEARTBEAT, 2, Some(Disturbance::Late(id, MS))), (HEARTBEAT, 1, None), (OFFSET_COMMIT, 2, None)]
        {
            assert_eq!(network.disturb(api_key, node_id), found, "{api_key} {node_id}");
        }
        assert_eq!(network.count(id), (1, None));
    }

    #[test]
    fn a_fault_is_over_after_its_requests_or_when_it_is_ended() {
        let mut network = Network::default();
        let once = network.begin(NetworkFault { times: Some(1), ..fault(None) });
        let late = network.begin(fault(Some(MS)));
        assert_eq!(network.disturb(HEARTBEAT, 1), Some(Disturbance::Closed));
        assert_eq!((network.count(once), network.lasts(once)), ((1, Some(0)), false));
        assert_eq!(network.disturb(HEARTBEAT, 1), Some(Disturbance::Late(late, MS)));
        assert!(network.is_active() && network.lasts(late));
        network.end(late);
        assert_eq!(network.disturb(HEARTBEAT, 1), None);
        assert_eq!(network.count(late), (1, Some(0)));
        assert!(!network.is_active() && !network.lasts(late));
    }

    #[test]
    fn no_fault_outlives_the_end_of_all() {
        let mut network = Network::default();
        let ids = [Some(MS), None].map(|delay| network.begin(fault(delay)));
        network.end_all();
        assert!(!network.is_active());
        assert_eq!(ids.map(|id| network.count(id)), [(0, Some(0)); 2]);
    }
}
