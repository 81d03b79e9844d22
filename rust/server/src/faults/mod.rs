//! What a test makes a server do to its clients: answer some requests with errors of its choice, and not listen to
//! some members. All nodes of a server follow the same; while nothing is asked for, a request costs a look at a flag.

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
    requests::{JoinGroupBody, LeaveGroupBody, OffsetCommitBody, SyncGroupBody, read_heartbeat},
    versions,
};

use self::network::Network;
pub use self::{
    injected::{fetch_error, metadata_error, produce_error},
    network::{Disturbance, FaultId, NetworkFault},
    outage::{Outages, lead_nowhere},
};
use crate::client::MemberKey;

/// Names one injection of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InjectionId(pub u64);

/// An error that requests of one API are to be answered with.
#[derive(Clone, Debug)]
struct Injection {
    id: InjectionId,
    api_key: i16,
    error: ErrorCode,
    /// Only requests about this group.
    group_id: Option<Box<str>>,
    /// How many requests are still to be answered with it.
    left: u32,
    /// How many have been.
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
    /// As often as it was asked for.
    paused: Vec<MemberKey>,
    network: Network,
}

/// An injection has requests left to answer.
const INJECTING: u8 = 1;
/// A member is paused.
const PAUSING: u8 = 2;
/// A network fault has requests left to concern.
const DISTURBING: u8 = 4;

/// What a test has asked for, for all nodes.
#[derive(Debug, Default)]
pub struct Controls {
    /// What of the above is the case, so that a request looks at one flag while nothing is.
    asked: AtomicU8,
    state: Mutex<State>,
}

impl Controls {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next `times` requests of an API, about one group or any, are answered with `error`; asked again, after those.
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
        self.look_at(&state);
        id
    }

    /// Of an injection how many requests have been answered with it, and how many are still to be.
    pub fn count(&self, id: InjectionId) -> (u32, u32) {
        let state = self.lock();
        let injection = state.injections.iter().find(|injection| injection.id == id);
        injection.map_or((0, 0), |injection| (injection.given, injection.left))
    }

    /// No more requests are answered with it.
    pub fn cancel(&self, id: InjectionId) {
        let mut state = self.lock();
        if let Some(injection) = state.injections.iter_mut().find(|injection| injection.id == id) {
            injection.left = 0;
        }
        self.look_at(&state);
    }

    /// Whether nothing is asked for.
    pub fn are_idle(&self) -> bool {
        self.asked.load(Ordering::Relaxed) == 0
    }

    fn is_asked(&self, what: u8) -> bool {
        self.asked.load(Ordering::Relaxed) & what != 0
    }

    /// How many requests have been answered with injected errors.
    pub fn given(&self) -> u64 {
        self.lock().injections.iter().map(|injection| u64::from(injection.given)).sum()
    }

    /// Takes what is next for a request of this API about this group.
    fn take(&self, api_key: i16, group_id: &str) -> Option<Chosen> {
        if !self.is_asked(INJECTING) {
            return None;
        }
        let mut state = self.lock();
        let injection = state.injections.iter_mut().find(|injection| injection.is_about(api_key, group_id))?;
        injection.left -= 1;
        injection.given += 1;
        let chosen = Chosen { error: injection.error, group_id: injection.group_id.clone() };
        self.look_at(&state);
        Some(chosen)
    }

    /// From now on nothing of this member is handled.
    pub fn pause(&self, member: MemberKey) {
        let mut state = self.lock();
        state.paused.push(member);
        self.look_at(&state);
    }

    /// One pause of the member ends; gives whether it was the last, and the member is heard again.
    pub fn resume(&self, member: &MemberKey) -> bool {
        let mut state = self.lock();
        if let Some(at) = state.paused.iter().position(|paused| paused == member) {
            state.paused.swap_remove(at);
        }
        self.look_at(&state);
        !state.paused.contains(member)
    }

    /// Begins a network fault.
    pub fn begin_fault(&self, fault: NetworkFault) -> FaultId {
        let mut state = self.lock();
        let id = state.network.begin(fault);
        self.look_at(&state);
        id
    }

    /// Ends a network fault.
    pub fn end_fault(&self, id: FaultId) {
        let mut state = self.lock();
        state.network.end(id);
        self.look_at(&state);
    }

    /// Of a network fault how many requests it has concerned, and how many it is still to, `None` without a limit.
    pub fn fault_count(&self, id: FaultId) -> (u32, Option<u32>) {
        self.lock().network.count(id)
    }

    /// Whether the delays of a network fault go on.
    pub fn fault_lasts(&self, id: FaultId) -> bool {
        self.is_asked(DISTURBING) && self.lock().network.lasts(id)
    }

    /// What the network does to a request of this API to this node.
    pub fn disturb(&self, api_key: i16, node_id: i32) -> Option<Disturbance> {
        if !self.is_asked(DISTURBING) {
            return None;
        }
        let mut state = self.lock();
        let disturbance = state.network.disturb(api_key, node_id);
        self.look_at(&state);
        disturbance
    }

    /// Ends all injections, pauses and network faults; the members that were paused are heard again.
    pub fn end_all(&self) -> Vec<MemberKey> {
        let mut state = self.lock();
        state.injections.iter_mut().for_each(|injection| injection.left = 0);
        state.network.end_all();
        let paused = std::mem::take(&mut state.paused);
        self.look_at(&state);
        paused
    }

    /// The paused member whose request this is; `None`: the request is to be handled.
    pub fn paused_sender(&self, header: &RequestHeader<'_>, body: &[u8]) -> Result<Option<MemberKey>, WireError> {
        if !self.is_asked(PAUSING) {
            return Ok(None);
        }
        Ok(senders(header, body)?.into_iter().find(|(group_id, member_id)| self.is_paused(group_id, member_id)))
    }

    fn is_paused(&self, group_id: &str, member_id: &str) -> bool {
        let state = self.lock();
        state.paused.iter().any(|(group, member)| group == group_id && member == member_id)
    }

    fn look_at(&self, state: &State) {
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

/// The request that a node is handling, for the errors that it may be answered with: one request takes one injection,
/// however many groups or partitions it is about.
#[derive(Debug, Default)]
pub struct Handling {
    api_key: Option<i16>,
    chosen: RefCell<Option<Chosen>>,
}

impl Handling {
    /// A client's request begins.
    pub fn begin(&mut self, api_key: i16) {
        self.api_key = Some(api_key);
        // The one before may have ended in a panic.
        *self.chosen.get_mut() = None;
    }

    /// The API of the request that is being handled, or whose handler has panicked.
    pub fn api_name(&self) -> Option<&'static str> {
        Some(versions::find(self.api_key?)?.name)
    }

    /// It has been handled.
    pub fn end(&mut self) {
        self.api_key = None;
        *self.chosen.get_mut() = None;
    }

    /// The error that what it asks about this group ("" if about none) is to be answered with.
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

/// The group and member ids of whoever sends a request; none if it is not a member's.
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
        controls.pause(member.clone());
        controls.pause(member.clone());
        assert!(controls.is_paused("g", "m"));
        assert!(!controls.is_paused("g", "n") && !controls.is_paused("h", "m"));
        assert!(!controls.resume(&member));
        assert!(controls.is_paused("g", "m"));
        assert!(controls.resume(&member));
        assert!(!controls.is_paused("g", "m"));
        assert!(controls.are_idle());
    }
}
