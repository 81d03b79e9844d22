//! What the clients of a node may do.

use std::{rc::Rc, sync::Arc};

use rota_core::{
    error::ErrorCode,
    request::{JoinGroup, Request},
};
use rota_journal::Event;
use rota_security::acl::{Authorizer, Operation, ResourceType, Subject};
use rota_wire::versions::Api;

use super::{Node, effects::PartitionSink, shared_state::SharedState};
use crate::{
    client::{Client, access::Access, reply::Reply},
    log::{acls::Acls, users::UserStore},
};

/// The authorizer as the node knows it.
#[derive(Debug)]
pub(super) struct Known {
    authorizer: Arc<Authorizer>,
    version: u64,
}

impl Known {
    /// Creates the state of a node; `None`: without an authorizer.
    pub fn of(shared: &SharedState) -> Option<Known> {
        let acls = shared.acls.as_ref()?;
        Some(Known { version: acls.version(), authorizer: acls.authorizer() })
    }

    /// Follows changes of the ACLs.
    fn follow(&mut self, acls: &Acls) {
        let version = acls.version();
        if self.version != version {
            *self = Known { version, authorizer: acls.authorizer() };
        }
    }
}

impl Node {
    /// Returns the ACLs; `None`: without an authorizer.
    pub fn acls(&self) -> Option<&Acls> {
        self.shared.acls.as_ref()
    }

    /// Returns the users of the listeners with SASL.
    pub fn users(&self) -> &UserStore {
        &self.shared.users
    }

    /// Returns the monotonic time of the sessions of authenticated clients.
    pub fn now_ms(&self) -> u64 {
        self.clock.now().mono_ms
    }

    /// Returns what the client of a request may do.
    pub fn access_of(&mut self, client: &Rc<Client>, api: &'static Api) -> Access {
        let (Some(known), Some(acls)) = (&mut self.known_acls, &self.shared.acls) else { return Access::OPEN };
        known.follow(acls);
        Access::checked(Arc::clone(&known.authorizer), Arc::clone(&self.shared.denials), client, api)
    }

    /// Follows changes of the ACLs, for a batch of heartbeats.
    pub(super) fn follow_acls(&mut self) {
        if let (Some(known), Some(acls)) = (&mut self.known_acls, &self.shared.acls) {
            known.follow(acls);
        }
    }

    /// Whether the client may send heartbeats to a group. A verdict costs a comparison until the ACLs change. A denial
    /// is not logged: the general path does that.
    pub(super) fn may_heartbeat(&self, client: &Client, group_id: &[u8]) -> bool {
        let Some(known) = &self.known_acls else { return true };
        if client.was_allowed(known.version, group_id) {
            return true;
        }
        let Ok(name) = std::str::from_utf8(group_id) else { return false };
        let subject = Subject { principal: client.principal(), host: client.address() };
        let allowed = known.authorizer.allows(subject, Operation::Read, ResourceType::Group, name);
        if allowed {
            client.set_allowed(known.version, group_id);
        }
        allowed
    }

    /// Limits the patterns that are resolved next to the topics that the clients may describe whose requests have them
    /// resolved, as Kafka does. Nothing is logged: those clients have not named these topics.
    pub(super) fn limit_patterns(&mut self) {
        self.follow_acls();
        // An event may complete an append, behind which another group's request waits.
        while let Some((partition, group_id, client)) = self.effects.resolving.pop() {
            let Some(known) = &self.known_acls else { return };
            let authorizer = Arc::clone(&known.authorizer);
            let subject = Subject { principal: client.principal(), host: client.address() };
            let is_visible = |name: &str| authorizer.allows(subject, Operation::Describe, ResourceType::Topic, name);
            let visible: Vec<String> = self.known_topics.keys().filter(|name| is_visible(name)).cloned().collect();
            let topics: Vec<&str> = visible.iter().map(String::as_str).collect();
            self.on_partition(partition, &Event::PatternsLimited { group_id: &group_id, topics: &topics });
        }
    }

    /// Answers a request with an error, at the position that the answer of its API has for it. No coordinator is asked.
    pub fn refuse_request(&mut self, reply: Reply, request: &Request<'_>, error: ErrorCode) {
        let ticket = self.effects.tickets.issue(reply);
        let now = self.clock.now();
        self.effects.metrics.asked(ticket, request, now.mono_ms);
        let sink = &mut PartitionSink::of(&mut self.effects, &self.elsewhere, now);
        match request {
            // A refused join does not repeat the member id.
            Request::JoinGroup(join) => {
                let join = Request::JoinGroup(JoinGroup { member_id: "", ..*join });
                rota_core::controls::answer_error(now, ticket, &join, error, sink);
            }
            _ => rota_core::controls::answer_error(now, ticket, request, error, sink),
        }
    }
}
