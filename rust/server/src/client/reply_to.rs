//! The way back to one request of a client.

use std::rc::Rc;

use kafka_protocol::protocol::Encodable;
use rota_wire::{
    header::RequestHeader,
    versions::Api,
    write::{Writer, begin_answer},
};

use super::{Client, Ending};

/// The answer does not fit its layout, such as a text that is too long. Nothing of it was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unencodable;

/// The way back to one request of a client.
#[derive(Clone, Debug)]
pub struct ReplyTo {
    /// The client.
    pub client: Rc<Client>,
    /// The API of the request.
    pub api: &'static Api,
    /// Its version.
    pub version: i16,
    /// Comes back with the answer.
    pub correlation_id: i32,
}

impl ReplyTo {
    /// The request with this header.
    pub fn of(client: &Rc<Client>, header: &RequestHeader<'_>) -> ReplyTo {
        let RequestHeader { api, version, correlation_id, .. } = *header;
        ReplyTo { client: Rc::clone(client), api, version, correlation_id }
    }

    /// Writes a whole answer into the client's buffer and wakes its task. One that is longer than its length field can
    /// say ends the connection.
    pub fn answer(&self, body: impl FnOnce(&mut Writer<'_>)) {
        if !self.client.ended.get() {
            let out = &mut *self.client.out.borrow_mut();
            let start = begin_answer(out, self.correlation_id, self.api.tagged_answer_header(self.version));
            body(&mut Writer::new(out, self.api.flexible(self.version)));
            if i32::try_from(out.len() - start).is_ok() {
                self.client.end_answer(out, start);
            } else {
                out.truncate(start);
                self.client.end(Ending::Now);
            }
        }
        self.client.answered();
    }

    /// The same with a message of kafka-protocol. After an error the client waits in vain: its own deadline ends that,
    /// unless the connection is closed.
    pub fn encode(&self, response: &impl Encodable) -> Result<(), Unencodable> {
        let mut written = Ok(());
        if !self.client.ended.get() {
            let out = &mut *self.client.out.borrow_mut();
            let start = begin_answer(out, self.correlation_id, self.api.tagged_answer_header(self.version));
            if response.encode(out, self.version).is_ok() {
                self.client.end_answer(out, start);
            } else {
                out.truncate(start);
                written = Err(Unencodable);
            }
        }
        self.client.answered();
        written
    }
}
