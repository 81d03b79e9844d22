//! Faults of the network between clients and nodes: answers that come late, connections that are closed instead of
//! answered. They are in real time, whatever the coordinators' clock.

use std::time::Duration;

/// Names one network fault of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FaultId(pub u64);

/// What a fault does to a connection once a request has been carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disturbance {
    /// Its answers are written so much later, or when the fault ends.
    Late(FaultId, Duration),
    /// It is closed instead of answered.
    Closed,
}

/// A fault as a test asks for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NetworkFault {
    /// How late answers are; `None`: the connection is closed instead.
    pub delay: Option<Duration>,
    /// Only requests of this API.
    pub api_key: Option<i16>,
    /// Only requests to this node.
    pub node_id: Option<i32>,
    /// How many requests are concerned; `None`: all until the fault ends.
    pub times: Option<u32>,
}

#[derive(Debug)]
struct Active {
    id: FaultId,
    fault: NetworkFault,
    /// How many requests have been concerned.
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

    /// Ends a fault, so that no more requests are concerned. Its count stays.
    pub fn end(&mut self, id: FaultId) {
        if let Some(active) = self.faults.iter_mut().find(|active| active.id == id) {
            active.fault.times = Some(active.count);
        }
    }

    /// Ends all faults.
    pub fn end_all(&mut self) {
        self.faults.iter_mut().for_each(|active| active.fault.times = Some(active.count));
    }

    /// Whether a fault has requests left to concern.
    pub fn is_active(&self) -> bool {
        self.faults.iter().any(|active| !active.is_used_up())
    }

    /// Whether a fault is not over: its delays go on.
    pub fn lasts(&self, id: FaultId) -> bool {
        self.faults.iter().any(|active| active.id == id && !active.is_used_up())
    }

    /// Of a fault how many requests it has concerned, and how many it is still to, `None` if that is not limited.
    pub fn count(&self, id: FaultId) -> (u32, Option<u32>) {
        let found = self.faults.iter().find(|active| active.id == id);
        found.map_or((0, Some(0)), |active| (active.count, active.fault.times.map(|times| times - active.count)))
    }

    /// What happens to a request of this API to this node: the oldest fault that concerns it counts.
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
