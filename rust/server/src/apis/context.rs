//! What a handler may use: the node's methods, its request, and the reply path to its client.

use std::{cell::RefCell, rc::Rc};

use bytes::Bytes;
use kafka_protocol::protocol::{Decodable, Encodable};
use rota_core::{error::ErrorCode, request::Request};
use rota_security::acl::{Operation, ResourceType};
use rota_wire::{RequestHeader, WireError, answers, decode_body, write::Writer};

use super::Handled;
use crate::{
    base::place::Cluster,
    client::{
        Client,
        access::Access,
        fan_out::{FanOut, throttled},
        reply::{Beside, Reply},
        reply_to::ReplyTo,
    },
    node::Node,
};

/// The result of a handler. An error closes the connection: undecodable bytes get no answer.
pub type Outcome = Result<Handled, WireError>;

/// One request and its environment.
pub struct Context<'c> {
    /// The node that handles the request.
    pub node: &'c mut Node,
    client: &'c Rc<Client>,
    header: &'c RequestHeader<'c>,
    body: &'c [u8],
}

impl<'c> Context<'c> {
    /// Creates the context of a request of `client`: its header, and the body after it.
    pub fn new(
        node: &'c mut Node,
        client: &'c Rc<Client>,
        header: &'c RequestHeader<'c>,
        body: &'c [u8],
    ) -> Context<'c> {
        Context { node, client, header, body }
    }

    /// Returns the version of the request.
    pub fn version(&self) -> i16 {
        self.header.version
    }

    /// Returns the header of the request.
    pub fn header(&self) -> &'c RequestHeader<'c> {
        self.header
    }

    /// Returns the body of the request.
    pub fn body(&self) -> &'c [u8] {
        self.body
    }

    /// Decodes the body with the `kafka-protocol` crate. Record batches in it keep a copy of the body alive, not the
    /// read buffer.
    pub fn decode<T: Decodable>(&self) -> Result<T, WireError> {
        decode_body(self.header.api.key, self.header.version, &Bytes::copy_from_slice(self.body))
    }

    /// Returns the client that sent the request.
    pub fn client(&self) -> &'c Client {
        self.client
    }

    /// Returns the host at which the client reaches every node.
    pub fn host(&self) -> String {
        self.client.listener().host_for(self.client.reached_ip())
    }

    /// Returns the running nodes as the client reaches them. The first one is the controller.
    pub fn cluster(&self) -> Cluster {
        let (listener, reached_ip) = (self.client.listener(), self.client.reached_ip());
        if let Some(cluster) = self.node.cluster() {
            return cluster.nodes(listener, reached_ip);
        }
        let mut cluster = self.node.place().cluster(listener, reached_ip);
        cluster.nodes.retain(|node| !self.node.outages().is_down(node.id));
        cluster
    }

    /// Returns the reply path for a later answer.
    pub fn reply_to(&self) -> ReplyTo {
        ReplyTo::of(self.client, self.header)
    }

    /// Answers with a message of the `kafka-protocol` crate. A message that does not fit its layout closes the
    /// connection.
    pub fn answer(&self, response: &impl Encodable) -> Handled {
        self.reply_to().encode(response).map_or(Handled::Close, |()| Handled::Answered)
    }

    /// Answers with the bytes that `body` writes.
    pub fn write(&self, body: impl FnOnce(&mut Writer<'_>)) -> Handled {
        self.reply_to().answer(body);
        Handled::Answered
    }

    /// Returns what the client may do.
    pub fn access(&mut self) -> Access {
        self.node.access_of(self.client, self.header.api)
    }

    /// Answers the request with `GROUP_AUTHORIZATION_FAILED`, in the form of its API, if the client may not do this with
    /// the group.
    pub fn refuse_group(&mut self, operation: Operation, group_id: &str, request: &Request<'_>) -> Option<Handled> {
        let allowed = self.access().allows(operation, ResourceType::Group, group_id);
        (!allowed).then(|| self.refuse(Beside::Nothing, request, ErrorCode::GroupAuthorizationFailed))
    }

    /// Answers the request with an error, in the form of its API.
    pub fn refuse(&mut self, beside: Beside, request: &Request<'_>, error: ErrorCode) -> Handled {
        self.client.park();
        self.node.refuse_request(Reply::Whole(self.reply_to(), beside), request, error);
        self.handled()
    }

    /// Records that this client sent the last request of a member.
    pub fn record_sender(&mut self, group_id: Option<&str>, member_id: &str) {
        self.node.record_sender(group_id, member_id, self.client);
    }

    /// Submits the client's request as one request to the coordinator of the group.
    pub fn submit(&mut self, group_id: &str, beside: Beside, request: Request<'_>) -> Handled {
        let reply = Reply::Whole(self.reply_to(), beside);
        self.submit_whole(group_id, reply, request)
    }

    /// Like [`Context::submit`] with the reply path to the client.
    pub fn submit_whole(&mut self, group_id: &str, reply: Reply, request: Request<'_>) -> Handled {
        self.client.park();
        self.node.submit(self.node.partition_of(group_id), reply, request);
        self.handled()
    }

    /// Submits one part of the client's request to the coordinator of a group.
    pub fn submit_part(&mut self, group_id: &str, reply: Reply, request: Request<'_>) {
        self.node.submit(self.node.partition_of(group_id), reply, request);
    }

    /// Creates an answer of this number of parts. Without parts it answers at once and returns `None`.
    pub fn fan_out(&mut self, parts: usize, operations: i32) -> Option<Rc<RefCell<FanOut>>> {
        if parts == 0 {
            let throttled = throttled(self.header.api, self.header.version);
            self.reply_to().answer(|out| answers::multi(out, throttled, std::iter::empty::<&[u8]>()));
            return None;
        }
        self.client.park();
        let fan_out = FanOut::new(self.reply_to(), parts, operations);
        fan_out.borrow_mut().restrict_to(self.access());
        Some(fan_out)
    }

    /// Answers one part of the client's request, about a group that the client may not use.
    pub fn refuse_part(&mut self, reply: Reply, request: &Request<'_>) {
        self.node.refuse_request(reply, request, ErrorCode::GroupAuthorizationFailed);
    }

    /// Returns the state of a request after it was submitted to coordinators.
    pub fn handled(&self) -> Handled {
        if self.client.is_parked() { Handled::Parked } else { Handled::Answered }
    }
}
