//! Faults that a test injects between a server and its clients: errors in answers, and paused members. All nodes share
//! them. Without any, a request costs one check of a flag.

mod injected;
mod network;
mod outage;

use std::{
    cell::RefCell,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU8, Ordering},
    },
};

use rota_core::{error::ErrorCode, request::LeaveIdentity};
use rota_wire::{
    RequestHeader, WireError,
    consumer_groups::HeartbeatBody,
    requests::{JoinGroupBody, LeaveGroupBody, OffsetCommitBody, SyncGroupBody, read_heartbeat},
    versions,
};

use self::network::Network;
pub use self::{
    injected::{fetch_error, metadata_error, produce_error},
    network::{Disturbance, FaultId, NetworkFault},
    outage::{Outages, clear_leaders},
};
use crate::client::MemberKey;

/// Identifies one injection of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InjectionId(pub u64);

/// Identifies one pause of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PauseId(pub u64);

/// An injected error for requests of one API.
#[derive(Clone, Debug)]
struct Injection {
    id: InjectionId,
    api_key: i16,
    error: ErrorCode,
    /// Restricts the injection to one group.
    group_id: Option<Box<str>>,
    /// Number of requests still to be answered with the error.
    left: u32,
    /// Number of requests answered with it.
    given: u32,
}

impl Injection {
    fn is_about(&self, api_key: i16, group_id: &str) -> bool {
        self.left > 0 && self.api_key == api_key && concerns(self.group_id.as_deref(), group_id)
    }
}

fn concerns(only: Option<&str>, group_id: &str) -> bool {
    only.is_none_or(|only| only == group_id)
}

#[derive(Debug, Default)]
struct State {
    injections: Vec<Injection>,
    /// Paused members, once per pause.
    paused: Vec<(PauseId, MemberKey)>,
    pauses: u64,
    network: Network,
}

/// Some injection has requests left.
const INJECTING: u8 = 1;
/// Some member is paused.
const PAUSING: u8 = 2;
/// Some network fault has requests left.
const DISTURBING: u8 = 4;

/// The faults of all nodes.
#[derive(Debug, Default)]
pub struct Controls {
    /// Which kinds of faults exist, so that a request without faults checks one flag only.
    asked: AtomicU8,
    state: Mutex<State>,
}

impl Controls {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Injects `error` into the next `times` answers of an API, about one group or any. A later injection applies after
    /// earlier ones.
    pub fn inject(&self, api_key: i16, error: ErrorCode, times: u32, group_id: Option<&str>) -> InjectionId {
        let mut state = self.lock();
        let id = InjectionId(state.injections.len() as u64);
        state.injections.push(Injection {
            id,
            api_key,
            error,
            group_id: group_id.map(Into::into),
            left: times,
            given: 0,
        });
        self.update_flags(&state);
        id
    }

    /// Returns how many requests got the error, and how many still will.
    pub fn count(&self, id: InjectionId) -> (u32, u32) {
        let state = self.lock();
        let injection = state.injections.iter().find(|injection| injection.id == id);
        injection.map_or((0, 0), |injection| (injection.given, injection.left))
    }

    /// Cancels an injection.
    pub fn cancel(&self, id: InjectionId) {
        let mut state = self.lock();
        if let Some(injection) = state.injections.iter_mut().find(|injection| injection.id == id) {
            injection.left = 0;
        }
        self.update_flags(&state);
    }

    /// Whether there are no faults.
    pub fn are_idle(&self) -> bool {
        self.asked.load(Ordering::Relaxed) == 0
    }

    fn is_asked(&self, what: u8) -> bool {
        self.asked.load(Ordering::Relaxed) & what != 0
    }

    /// Returns the number of answers with injected errors.
    pub fn given(&self) -> u64 {
        self.lock().injections.iter().map(|injection| u64::from(injection.given)).sum()
    }

    /// Takes the next error for a request of this API about this group.
    fn take(&self, api_key: i16, group_id: &str) -> Option<Chosen> {
        if !self.is_asked(INJECTING) {
            return None;
        }
        let mut state = self.lock();
        let injection = state.injections.iter_mut().find(|injection| injection.is_about(api_key, group_id))?;
        injection.left -= 1;
        injection.given += 1;
        let chosen = Chosen { error: injection.error, group_id: injection.group_id.clone() };
        self.update_flags(&state);
        Some(chosen)
    }

    /// Pauses a member: its requests are not handled.
    pub fn pause(&self, member: MemberKey) -> PauseId {
        let mut state = self.lock();
        let id = PauseId(state.pauses);
        state.pauses += 1;
        state.paused.push((id, member));
        self.update_flags(&state);
        id
    }

    /// Ends a pause, unless it has ended. Returns its member if that was the member's last pause.
    pub fn resume(&self, id: PauseId) -> Option<MemberKey> {
        let mut state = self.lock();
        let at = state.paused.iter().position(|(paused, _)| *paused == id)?;
        let (_, member) = state.paused.swap_remove(at);
        self.update_flags(&state);
        let is_last = state.paused.iter().all(|(_, other)| *other != member);
        is_last.then_some(member)
    }

    /// Begins a network fault.
    pub fn begin_fault(&self, fault: NetworkFault) -> FaultId {
        let mut state = self.lock();
        let id = state.network.begin(fault);
        self.update_flags(&state);
        id
    }

    /// Ends a network fault.
    pub fn end_fault(&self, id: FaultId) {
        let mut state = self.lock();
        state.network.end(id);
        self.update_flags(&state);
    }

    /// Returns how many requests a network fault has affected, and how many it still will; `None`: without limit.
    pub fn fault_count(&self, id: FaultId) -> (u32, Option<u32>) {
        self.lock().network.count(id)
    }

    /// Whether a network fault still delays answers.
    pub fn fault_lasts(&self, id: FaultId) -> bool {
        self.is_asked(DISTURBING) && self.lock().network.lasts(id)
    }

    /// Returns the network fault of a request of this API to this node.
    pub fn disturb(&self, api_key: i16, node_id: i32) -> Option<Disturbance> {
        if !self.is_asked(DISTURBING) {
            return None;
        }
        let mut state = self.lock();
        let disturbance = state.network.disturb(api_key, node_id);
        self.update_flags(&state);
        disturbance
    }

    /// Ends all injections, pauses and network faults. Returns the members that were paused.
    pub fn end_all(&self) -> Vec<MemberKey> {
        let mut state = self.lock();
        state.injections.iter_mut().for_each(|injection| injection.left = 0);
        state.network.end_all();
        let paused = std::mem::take(&mut state.paused);
        self.update_flags(&state);
        paused.into_iter().map(|(_, member)| member).collect()
    }

    /// Returns the paused member of a request; `None` if none is paused.
    pub fn paused_sender(&self, header: &RequestHeader<'_>, body: &[u8]) -> Result<Option<MemberKey>, WireError> {
        if !self.is_asked(PAUSING) {
            return Ok(None);
        }
        Ok(senders(header, body)?.into_iter().find(|(group_id, member_id)| self.is_paused(group_id, member_id)))
    }

    fn is_paused(&self, group_id: &str, member_id: &str) -> bool {
        let state = self.lock();
        state.paused.iter().any(|(_, (group, member))| group == group_id && member == member_id)
    }

    fn update_flags(&self, state: &State) {
        let injecting = state.injections.iter().any(|injection| injection.left > 0);
        let asked =
            [(injecting, INJECTING), (!state.paused.is_empty(), PAUSING), (state.network.is_active(), DISTURBING)];
        let asked = asked.iter().filter(|(is_asked, _)| *is_asked).fold(0, |sum, (_, what)| sum | what);
        self.asked.store(asked, Ordering::Relaxed);
    }
}

#[derive(Clone, Debug)]
struct Chosen {
    error: ErrorCode,
    group_id: Option<Box<str>>,
}

/// The current request of a node, for injected errors. One request takes one injection, even if it is about several
/// groups or partitions.
#[derive(Debug, Default)]
pub struct Handling {
    api_key: Option<i16>,
    chosen: RefCell<Option<Chosen>>,
}

impl Handling {
    /// Begins a client's request.
    pub fn begin(&mut self, api_key: i16) {
        self.api_key = Some(api_key);
        // The previous request may have ended in a panic.
        *self.chosen.get_mut() = None;
    }

    /// Returns the API of the current request, or of the one whose handler panicked.
    pub fn api_name(&self) -> Option<&'static str> {
        Some(versions::find(self.api_key?)?.name)
    }

    /// Ends the request.
    pub fn end(&mut self) {
        self.api_key = None;
        *self.chosen.get_mut() = None;
    }

    /// Returns the injected error for a part of the request about this group ("" if about none).
    pub fn injected(&self, controls: &Controls, group_id: &str) -> Option<ErrorCode> {
        let api_key = self.api_key?;
        let mut chosen = self.chosen.borrow_mut();
        if chosen.is_none() {
            *chosen = controls.take(api_key, group_id);
        }
        let Chosen { error, group_id: only } = chosen.as_ref()?;
        concerns(only.as_deref(), group_id).then_some(*error)
    }
}

/// Returns the group and member ids of a request's sender; none if it is not from a member.
fn senders(header: &RequestHeader<'_>, body: &[u8]) -> Result<Vec<MemberKey>, WireError> {
    let version = header.version;
    let one = |group_id: Option<&str>, member_id: &str| vec![(group_id.unwrap_or("").to_owned(), member_id.to_owned())];
    Ok(match header.api.key {
        versions::JOIN_GROUP => {
            let body = JoinGroupBody::read(version, body)?;
            let request = body.request("", "");
            one(request.group_id, request.member_id)
        }
        versions::SYNC_GROUP => {
            let body = SyncGroupBody::read(version, body)?;
            let request = body.request();
            one(request.group_id, request.member_id)
        }
        versions::HEARTBEAT => {
            let request = read_heartbeat(version, body)?;
            one(request.group_id, request.member_id)
        }
        versions::CONSUMER_GROUP_HEARTBEAT => {
            let body = HeartbeatBody::read(version, body)?;
            one(Some(body.group_id()), body.member_id())
        }
        versions::OFFSET_COMMIT => {
            let body = OffsetCommitBody::read(version, body)?;
            one(Some(body.group_id), body.member_id())
        }
        versions::LEAVE_GROUP => {
            let body = LeaveGroupBody::read(version, body)?;
            let request = body.request();
            let group_id = request.group_id.unwrap_or("");
            let key = |leaver: &LeaveIdentity<'_>| (group_id.to_owned(), leaver.member_id.to_owned());
            request.members.iter().map(key).collect()
        }
        _ => Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEARTBEAT: i16 = versions::HEARTBEAT;
    const DESCRIBE: i16 = versions::DESCRIBE_GROUPS;

    fn handled(controls: &Controls, api_key: i16, group_ids: &[&str]) -> Vec<Option<ErrorCode>> {
        let mut handling = Handling::default();
        handling.begin(api_key);
        let errors = group_ids.iter().map(|group_id| handling.injected(controls, group_id)).collect();
        handling.end();
        errors
    }

    #[test]
    fn so_many_requests_of_one_api_are_answered_with_an_error_and_then_no_more() {
        let controls = Controls::default();
        let id = controls.inject(HEARTBEAT, ErrorCode::NotCoordinator, 2, None);
        assert_eq!(handled(&controls, DESCRIBE, &["g"]), [None]);
        for left in [1, 0] {
            assert_eq!(handled(&controls, HEARTBEAT, &["g"]), [Some(ErrorCode::NotCoordinator)]);
            assert_eq!(controls.count(id), (2 - left, left));
        }
        assert_eq!(handled(&controls, HEARTBEAT, &["g"]), [None]);
        assert_eq!(controls.given(), 2);
    }

    #[test]
    fn a_request_whose_handler_panicked_leaves_no_error_to_the_next_one() {
        let controls = Controls::default();
        controls.inject(HEARTBEAT, ErrorCode::NotCoordinator, 1, None);
        let mut handling = Handling::default();
        handling.begin(HEARTBEAT);
        assert_eq!(handling.injected(&controls, "g"), Some(ErrorCode::NotCoordinator));
        assert_eq!(handling.api_name(), Some("Heartbeat"));
        handling.begin(DESCRIBE);
        assert_eq!(handling.injected(&controls, "g"), None);
    }

    #[test]
    fn a_request_about_several_groups_takes_one_injection() {
        let controls = Controls::default();
        let error = ErrorCode::CoordinatorLoadInProgress;
        controls.inject(DESCRIBE, error, 1, None);
        assert_eq!(handled(&controls, DESCRIBE, &["a", "b"]), [Some(error), Some(error)]);
        assert_eq!(handled(&controls, DESCRIBE, &["a", "b"]), [None, None]);
    }

    #[test]
    fn an_injection_for_one_group_leaves_the_others_alone_and_waits_for_its_own() {
        let controls = Controls::default();
        let (first, second) = (ErrorCode::UnknownMemberId, ErrorCode::IllegalGeneration);
        controls.inject(HEARTBEAT, first, 1, Some("b"));
        controls.inject(HEARTBEAT, second, 1, None);
        assert_eq!(handled(&controls, HEARTBEAT, &["a"]), [Some(second)]);
        assert_eq!(handled(&controls, HEARTBEAT, &["a"]), [None]);
        assert_eq!(handled(&controls, HEARTBEAT, &["b"]), [Some(first)]);
        controls.inject(DESCRIBE, first, 1, Some("b"));
        assert_eq!(handled(&controls, DESCRIBE, &["a", "b", "c"]), [None, Some(first), None]);
    }

    #[test]
    fn what_is_cancelled_or_is_no_request_of_a_client_takes_nothing() {
        let controls = Controls::default();
        let id = controls.inject(HEARTBEAT, ErrorCode::NotCoordinator, 5, None);
        assert_eq!(Handling::default().injected(&controls, "g"), None);
        controls.cancel(id);
        assert_eq!(handled(&controls, HEARTBEAT, &["g"]), [None]);
        assert_eq!(controls.count(id), (0, 0));
    }

    #[test]
    fn a_member_is_paused_until_each_of_its_pauses_has_ended() {
        let controls = Controls::default();
        let member = ("g".to_owned(), "m".to_owned());
        let pauses = [controls.pause(member.clone()), controls.pause(member.clone())];
        assert!(controls.is_paused("g", "m"));
        assert!(!controls.is_paused("g", "n") && !controls.is_paused("h", "m"));
        assert_eq!(controls.resume(pauses[0]), None);
        assert_eq!(controls.resume(pauses[0]), None, "it has ended");
        assert!(controls.is_paused("g", "m"));
        assert_eq!(controls.resume(pauses[1]), Some(member));
        assert!(!controls.is_paused("g", "m"));
        assert!(controls.are_idle());
    }

    #[test]
    fn a_pause_that_was_ended_with_all_others_ends_no_later_one() {
        let controls = Controls::default();
        let member = ("g".to_owned(), "m".to_owned());
        let earlier = controls.pause(member.clone());
        assert_eq!(controls.end_all(), std::slice::from_ref(&member));
        controls.pause(member);
        assert_eq!(controls.resume(earlier), None);
        assert!(controls.is_paused("g", "m"));
    }
}
