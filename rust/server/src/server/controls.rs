//! Controls of a server for tests.

use std::rc::Rc;

use rota_core::error::ErrorCode;
use rota_journal::Event;
use rota_log::{Fault, LogError};
use rota_wire::versions::{self, APIS};

use super::Server;
use crate::{
    base::{error::ServerError, names::Hint},
    client::MemberKey,
    faults::{InjectionId, PauseId},
    net::event_loop::EventLoop,
    node::Node,
};

/// The APIs with injectable errors, by key.
const INJECTABLE: [i16; 16] = [
    versions::PRODUCE,
    versions::FETCH,
    versions::METADATA,
    versions::OFFSET_COMMIT,
    versions::OFFSET_FETCH,
    versions::FIND_COORDINATOR,
    versions::JOIN_GROUP,
    versions::HEARTBEAT,
    versions::LEAVE_GROUP,
    versions::SYNC_GROUP,
    versions::DESCRIBE_GROUPS,
    versions::LIST_GROUPS,
    versions::DELETE_GROUPS,
    versions::OFFSET_DELETE,
    versions::CONSUMER_GROUP_HEARTBEAT,
    versions::CONSUMER_GROUP_DESCRIBE,
];

/// One member of a group.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct MemberName {
    /// The group id.
    pub group_id: String,
    /// The member id.
    pub member_id: String,
    /// The `group.instance.id` of a static member.
    pub instance_id: Option<String>,
}

fn injectable(name: &str) -> Result<i16, ServerError> {
    let names = || APIS.iter().filter(|api| INJECTABLE.contains(&api.key));
    if let Some(api) = names().find(|api| api.name == name) {
        return Ok(api.key);
    }
    Err(ServerError::UnknownApiName { name: name.to_owned(), hint: Hint::new(name, names().map(|api| api.name)) })
}

/// Returns the error of this name; `NONE` is not an error.
fn error_named(name: &str) -> Result<ErrorCode, ServerError> {
    let errors = || ErrorCode::ALL.iter().copied().filter(|error| *error != ErrorCode::None);
    if let Some(error) = errors().find(|error| error.name() == name) {
        return Ok(error);
    }
    Err(ServerError::UnknownErrorName { name: name.to_owned(), hint: Hint::new(name, errors().map(ErrorCode::name)) })
}

impl Server {
    /// Returns the members of a group in joining order, or of all groups.
    pub fn members(&self, group_id: Option<&str>) -> Result<Vec<MemberName>, ServerError> {
        let group_ids = group_id.map_or_else(|| self.groups(), |group_id| Ok(vec![group_id.to_owned()]))?;
        let mut members = Vec::new();
        for found in group_ids {
            let partition = self.partition_of(&found);
            let asked = found.clone();
            let names =
                self.ask_owner(partition, move |node| node.coordinator(partition)?.member_identities(&asked))?;
            match names {
                Some(names) => members.extend(names.iter().map(|(member_id, instance_id)| MemberName {
                    group_id: found.clone(),
                    member_id: member_id.to_string(),
                    instance_id: instance_id.as_deref().map(str::to_owned),
                })),
                // A group of the list may be gone meanwhile.
                None if group_id.is_none() => {}
                None => return Err(self.unknown_group(found)),
            }
        }
        Ok(members)
    }

    pub(super) fn unknown_group(&self, group_id: String) -> ServerError {
        let groups = self.groups().unwrap_or_default();
        let hint = Hint::new(&group_id, groups.iter().map(String::as_str));
        ServerError::UnknownGroup { group_id, hint }
    }

    /// Finds a member by id, or within a group also by `group.instance.id`.
    fn member(&self, name: &str, group_id: Option<&str>) -> Result<MemberName, ServerError> {
        let members = self.members(group_id)?;
        if let Some(member) = members.iter().find(|member| member.member_id == name) {
            return Ok(member.clone());
        }
        let by_instance = members.iter().find(|member| member.instance_id.as_deref() == Some(name));
        match (by_instance, group_id) {
            (Some(member), Some(_)) => Ok(member.clone()),
            (Some(member), None) => {
                let group_id = member.group_id.clone();
                Err(ServerError::InstanceWithoutGroup { instance_id: name.to_owned(), group_id })
            }
            (None, _) => {
                let names = members.iter().flat_map(|member| [Some(&member.member_id), member.instance_id.as_ref()]);
                let hint = Hint::new(name, names.flatten().map(String::as_str));
                let (name, group_id) = (name.to_owned(), group_id.map(str::to_owned));
                Err(ServerError::UnknownMember { name, group_id, hint })
            }
        }
    }

    /// Expires a member's session now. `member` is a member id, or with a group also a `group.instance.id`.
    pub fn expire(&self, member: &str, group_id: Option<&str>) -> Result<(), ServerError> {
        let MemberName { group_id, member_id, .. } = self.member(member, group_id)?;
        let partition = self.partition_of(&group_id);
        let what = format!("member `{member}` of group `{group_id}` cannot be made to expire");
        let lapsed = self.ask_owner(partition, move |node| {
            node.on_partition(partition, &Event::Lapsed { group_id: &group_id, member_id: &member_id })
        })?;
        done(lapsed, what)
    }

    /// Begins a rebalance of a group, as the expiry of a member does, without removing a member.
    pub fn rebalance(&self, group_id: &str) -> Result<(), ServerError> {
        if !self.groups()?.iter().any(|known| known == group_id) {
            return Err(self.unknown_group(group_id.to_owned()));
        }
        let partition = self.partition_of(group_id);
        let what = format!("group `{group_id}` cannot be made to rebalance");
        let group_id = group_id.to_owned();
        let begun = self.ask_owner(partition, move |node| {
            node.on_partition(partition, &Event::Rebalanced { group_id: &group_id })
        })?;
        done(begun, what)
    }

    /// Injects an error, by its Kafka name, into the next `times` answers of an API, by its Kafka name; optionally for
    /// one group.
    pub fn inject_error(
        &self,
        api: &str,
        error: &str,
        times: u32,
        group_id: Option<&str>,
    ) -> Result<InjectionId, ServerError> {
        let (api_key, error) = (injectable(api)?, error_named(error)?);
        self.check_running()?;
        Ok(self.shared.controls().inject(api_key, error, times, group_id))
    }

    /// Returns how many requests got the error of an injection, and how many still will.
    pub fn injection(&self, id: InjectionId) -> (u32, u32) {
        self.shared.controls().count(id)
    }

    /// Cancels an injection.
    pub fn cancel_injection(&self, id: InjectionId) {
        self.shared.controls().cancel(id);
    }

    /// Returns the number of answers with injected errors.
    pub fn injected(&self) -> u64 {
        self.shared.controls().given()
    }

    /// Pauses a member: its requests are not handled and no answers are written, on the connections of its requests.
    /// Returns its name, and what `resume` takes.
    pub fn pause(&self, member: &str, group_id: Option<&str>) -> Result<(MemberName, PauseId), ServerError> {
        let name = self.member(member, group_id)?;
        let key: MemberKey = (name.group_id.clone(), name.member_id.clone());
        let id = self.shared.controls().pause(key.clone());
        self.run_on_all_loops(move |event_loop: &Rc<EventLoop>| event_loop.pause(&key, true))?;
        Ok((name, id))
    }

    /// Loses the results of the next `times` appends to `__consumer_offsets`: they are stored, but waiting requests get
    /// this error, since the outcome is unknown.
    pub fn lose_append_answers(&self, error_name: &str, times: u32) -> Result<(), ServerError> {
        let error = error_named(error_name)?;
        self.check_running()?;
        self.shared.log().strike(Fault::LoseAnswer(LogError::Failed { code: error.code() }), u64::from(times));
        Ok(())
    }

    /// Stores each of the next `times` appends to `__consumer_offsets` twice.
    pub fn duplicate_appends(&self, times: u32) -> Result<(), ServerError> {
        self.check_running()?;
        self.shared.log().strike(Fault::Duplicate, u64::from(times));
        Ok(())
    }

    /// Opens the partition of each of the next `times` appends to `__consumer_offsets` under a newer epoch just before
    /// the append arrives. The partition refuses its coordinator until it is handed over.
    pub fn fence_appends(&self, times: u32) -> Result<(), ServerError> {
        self.check_running()?;
        self.shared.log().strike(Fault::Fence, u64::from(times));
        Ok(())
    }

    /// Delays the completion of each append by `ms` milliseconds on the coordinators' clock, from now on.
    pub fn delay_appends(&self, ms: u64) -> Result<(), ServerError> {
        self.check_running()?;
        self.shared.log().delay(ms);
        Ok(())
    }

    /// Holds the completion of every append to `__consumer_offsets` from now on.
    pub fn hold_appends(&self) -> Result<(), ServerError> {
        self.check_running()?;
        self.shared.log().hold();
        Ok(())
    }

    /// Releases the held appends, and returns how many there were.
    pub fn release_appends(&self) -> Result<usize, ServerError> {
        let held = self.shared.log().release_all();
        // The waiting requests have their answers when this returns.
        self.ask_all(Node::settle)?;
        Ok(held)
    }

    /// Fails the next `times` appends to `__consumer_offsets` with the error of this name.
    pub fn fail_appends(&self, error_name: &str, times: u32) -> Result<(), ServerError> {
        let error = error_named(error_name)?;
        self.check_running()?;
        self.shared.log().strike(Fault::Fail(LogError::Failed { code: error.code() }), u64::from(times));
        Ok(())
    }

    /// Ends a pause, unless it has ended. After the last one of a member, its requests are handled again, including those
    /// sent meanwhile.
    pub fn resume(&self, pause: PauseId) -> Result<(), ServerError> {
        if let Some(key) = self.shared.controls().resume(pause) {
            self.run_on_all_loops(move |event_loop: &Rc<EventLoop>| event_loop.pause(&key, false))?;
        }
        Ok(())
    }
}

fn done(outcome: Option<Result<(), rota_core::controls::NotDone>>, what: String) -> Result<(), ServerError> {
    // No partition moves meanwhile, so its owner has it.
    let outcome = outcome.unwrap_or(Err(rota_core::controls::NotDone::NotActive));
    outcome.map_err(|reason| ServerError::NotDone { what, reason })
}
