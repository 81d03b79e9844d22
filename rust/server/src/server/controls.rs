//! The server's handle, for tests: what they may make it do.

use std::rc::Rc;

use rota_core::error::ErrorCode;
use rota_journal::Event;
use rota_log::{Fault, LogError};
use rota_wire::versions::{self, APIS};

use super::Server;
use crate::{
    base::{error::ServerError, names::Hint},
    client::MemberKey,
    faults::InjectionId,
    net::event_loop::EventLoop,
    node::Node,
};

/// The APIs that can be made to answer an error, by key.
const INJECTABLE: [i16; 14] = [
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
];

/// One member of a group.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct MemberName {
    /// Its group.
    pub group_id: String,
    /// Its id.
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

/// The error of this name; NONE is none.
fn error_named(name: &str) -> Result<ErrorCode, ServerError> {
    let errors = || ErrorCode::ALL.iter().copied().filter(|error| *error != ErrorCode::None);
    if let Some(error) = errors().find(|error| error.name() == name) {
        return Ok(error);
    }
    Err(ServerError::UnknownErrorName { name: name.to_owned(), hint: Hint::new(name, errors().map(ErrorCode::name)) })
}

impl Server {
    /// The members of a group in joining order, or of all groups.
    pub fn members(&self, group_id: Option<&str>) -> Result<Vec<MemberName>, ServerError> {
        let group_ids = group_id.map_or_else(|| self.groups(), |group_id| Ok(vec![group_id.to_owned()]))?;
        let mut members = Vec::new();
        for found in group_ids {
            let partition = self.partition_of(&found);
            let asked = found.clone();
            let projection = self.ask_owner(partition, move |node| node.coordinator(partition)?.project(&asked))?;
            match projection {
                Some(projection) => members.extend(projection.members.iter().map(|member| MemberName {
                    group_id: found.clone(),
                    member_id: member.member_id.to_string(),
                    instance_id: member.instance_id.as_deref().map(str::to_owned),
                })),
                // One of all groups may have gone since they were listed.
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

    /// A member by its id; with its group also by its `group.instance.id`.
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

    /// The session of a member ends now, as if it had been silent. `member` is a member id, or with a group also a
    /// `group.instance.id`.
    pub fn expire(&self, member: &str, group_id: Option<&str>) -> Result<(), ServerError> {
        let MemberName { group_id, member_id, .. } = self.member(member, group_id)?;
        let partition = self.partition_of(&group_id);
        let what = format!("member `{member}` of group `{group_id}` cannot be made to expire");
        let lapsed = self.ask_owner(partition, move |node| {
            node.on_partition(partition, &Event::Lapsed { group_id: &group_id, member_id: &member_id })
        })?;
        done(lapsed, what)
    }

    /// A group rebalances, as when a member expires, though none has.
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

    /// The next `times` requests of an API, by its Kafka name, are answered with an error, by its Kafka name: those
    /// about one group, if it is given.
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

    /// Of an injection how many requests have been answered with it, and how many are still to be.
    pub fn injection(&self, id: InjectionId) -> (u32, u32) {
        self.shared.controls().count(id)
    }

    /// No more requests are answered with it.
    pub fn cancel_injection(&self, id: InjectionId) {
        self.shared.controls().cancel(id);
    }

    /// How many requests have been answered with injected errors.
    pub fn injected(&self) -> u64 {
        self.shared.controls().given()
    }

    /// From now on nothing that this member says is handled and nothing more is said to it, on the connections over
    /// which its group's requests come. Gives its name, for `resume`.
    pub fn pause(&self, member: &str, group_id: Option<&str>) -> Result<MemberName, ServerError> {
        let name = self.member(member, group_id)?;
        let key: MemberKey = (name.group_id.clone(), name.member_id.clone());
        self.shared.controls().pause(key.clone());
        self.look_all(move |event_loop: &Rc<EventLoop>| event_loop.pause(&key, true))?;
        Ok(name)
    }

    /// The next `times` appends to `__consumer_offsets` are stored, but whoever waits for them gets the error of this
    /// name: the outcome is unknown to them.
    pub fn lose_append_answers(&self, error_name: &str, times: u32) -> Result<(), ServerError> {
        let error = error_named(error_name)?;
        self.check_running()?;
        self.shared.log().strike(Fault::LoseAnswer(LogError::Failed { code: error.code() }), u64::from(times));
        Ok(())
    }

    /// From now on the end of each append is told so many milliseconds after it came, on the coordinators' clock.
    pub fn delay_appends(&self, ms: u64) -> Result<(), ServerError> {
        self.check_running()?;
        self.shared.log().delay(ms);
        Ok(())
    }

    /// From now on no append to `__consumer_offsets` ends.
    pub fn hold_appends(&self) -> Result<(), ServerError> {
        self.check_running()?;
        self.shared.log().hold();
        Ok(())
    }

    /// Appends end again, those that were held back first; returns how many those are.
    pub fn release_appends(&self) -> Result<usize, ServerError> {
        let held = self.shared.log().release_all();
        // Whoever waited has the answer when this returns.
        self.ask_all(Node::settle)?;
        Ok(held)
    }

    /// The next `times` appends to `__consumer_offsets` fail with the error of this name.
    pub fn fail_appends(&self, error_name: &str, times: u32) -> Result<(), ServerError> {
        let error = error_named(error_name)?;
        self.check_running()?;
        self.shared.log().strike(Fault::Fail(LogError::Failed { code: error.code() }), u64::from(times));
        Ok(())
    }

    /// One pause of the member ends. With the last one it is heard again: what it has said meanwhile is handled now.
    pub fn resume(&self, group_id: &str, member_id: &str) -> Result<(), ServerError> {
        let key: MemberKey = (group_id.to_owned(), member_id.to_owned());
        if self.shared.controls().resume(&key) {
            self.look_all(move |event_loop: &Rc<EventLoop>| event_loop.pause(&key, false))?;
        }
        Ok(())
    }
}

fn done(outcome: Option<Result<(), rota_core::controls::NotDone>>, what: String) -> Result<(), ServerError> {
    // Nobody moves a partition meanwhile, and the node that owns it has it.
    let outcome = outcome.unwrap_or(Err(rota_core::controls::NotDone::NotActive));
    outcome.map_err(|reason| ServerError::NotDone { what, reason })
}
