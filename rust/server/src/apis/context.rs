//! What a handler may touch: the verbs of the node, its request, and the way back to its client.

use std::{cell::RefCell, rc::Rc};

use bytes::Bytes;
use kafka_protocol::protocol::{Decodable, Encodable};
use rota_core::request::Request;
use rota_wire::{RequestHeader, WireError, answers, decode_body, write::Writer};

use super::Handled;
use crate::{
    base::place::Cluster,
    client::{
        Client,
        fan_out::{FanOut, throttled},
        reply::{Beside, Reply},
        reply_to::ReplyTo,
    },
    node::Node,
};

/// What a handler returns. An error closes the connection: there is no answer to what cannot be read.
pub type Outcome = Result<Handled, WireError>;

/// One request, and what its handler may touch.
pub struct Context<'c> {
    /// The node that handles it.
    pub node: &'c mut Node,
    client: &'c Rc<Client>,
    header: &'c RequestHeader<'c>,
    body: &'c [u8],
}

impl<'c> Context<'c> {
    /// A request of `client`: its header, and the body behind it.
    pub fn new(
        node: &'c mut Node,
        client: &'c Rc<Client>,
        header: &'c RequestHeader<'c>,
        body: &'c [u8],
    ) -> Context<'c> {
        Context { node, client, header, body }
    }

    /// The version of the request.
    pub fn version(&self) -> i16 {
        self.header.version
    }

    /// The header of the request.
    pub fn header(&self) -> &'c RequestHeader<'c> {
        self.header
    }

    /// The body of the request.
    pub fn body(&self) -> &'c [u8] {
        self.body
    }

    /// The body, decoded by kafka-protocol. Record batches in it keep a copy of this body alive, not the read buffer.
    pub fn decode<T: Decodable>(&self) -> Result<T, WireError> {
        decode_body(self.header.api.key, self.header.version, &Bytes::copy_from_slice(self.body))
    }

    /// The client that has sent the request.
    pub fn client(&self) -> &'c Client {
        self.client
    }

    /// The host at which the client finds every node.
    pub fn host(&self) -> String {
        self.node.place().host_for(self.client.reached_ip())
    }

    /// The nodes that are up, as the client finds them. The first one is the controller.
    pub fn cluster(&self) -> Cluster {
        let mut cluster = self.node.place().cluster(self.client.reached_ip());
        cluster.nodes.retain(|node| !self.node.outages().is_down(node.id));
        cluster
    }

    /// The way back to the client, for an answer that comes later.
    pub fn reply_to(&self) -> ReplyTo {
        ReplyTo::of(self.client, self.header)
    }

    /// Answers with a message of kafka-protocol. One that does not fit its layout closes the connection.
    pub fn answer(&self, response: &impl Encodable) -> Handled {
        self.reply_to().encode(response).map_or(Handled::Close, |()| Handled::Answered)
    }

    /// Answers with what `body` writes.
    pub fn write(&self, body: impl FnOnce(&mut Writer<'_>)) -> Handled {
        self.reply_to().answer(body);
        Handled::Answered
    }

    /// The request is one of this member: its client speaks for it from now on.
    pub fn heard(&mut self, group_id: Option<&str>, member_id: &str) {
        self.node.heard(group_id, member_id, self.client);
    }

    /// Submits the one request to a coordinator that the client's request is.
    pub fn submit(&mut self, group_id: &str, beside: Beside, request: Request<'_>) -> Handled {
        self.client.park();
        let reply = Reply::Whole(self.reply_to(), beside);
        self.node.submit(self.node.partition_of(group_id), reply, request);
        self.handled()
    }

    /// Submits one part of a request to the coordinator of a group.
    pub fn submit_part(&mut self, group_id: &str, reply: Reply, request: Request<'_>) {
        self.node.submit(self.node.partition_of(group_id), reply, request);
    }

    /// An answer of so many parts; `None` if there are none and it has been given.
    pub fn fan_out(&mut self, parts: usize, operations: i32) -> Option<Rc<RefCell<FanOut>>> {
        if parts == 0 {
            let throttled = throttled(self.header.api, self.header.version);
            self.reply_to().answer(|out| answers::multi(out, throttled, std::iter::empty::<&[u8]>()));
            return None;
        }
        self.client.park();
        Some(FanOut::new(self.reply_to(), parts, operations))
    }

    /// What became of a request that was handed to coordinators.
    pub fn handled(&self) -> Handled {
        if self.client.is_parked() { Handled::Parked } else { Handled::Answered }
    }
}
