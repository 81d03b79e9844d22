//! The reply path of one request.

use std::rc::Rc;

use kafka_protocol::protocol::Encodable;
use rota_wire::{
    header::RequestHeader,
    versions::Api,
    write::{Writer, begin_answer},
};

use super::{Client, Ending};

/// A message does not fit its layout, for example because of a string that is too long. Nothing of it was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unencodable;

/// The reply path of one request.
#[derive(Clone, Debug)]
pub struct ReplyTo {
    /// The client.
    pub client: Rc<Client>,
    /// The API of the request.
    pub api: &'static Api,
    /// The version of the request.
    pub version: i16,
    /// The id that the answer repeats.
    pub correlation_id: i32,
}

impl ReplyTo {
    /// Creates the reply path of the request with this header.
    pub fn of(client: &Rc<Client>, header: &RequestHeader<'_>) -> ReplyTo {
        let RequestHeader { api, version, correlation_id, .. } = *header;
        ReplyTo { client: Rc::clone(client), api, version, correlation_id }
    }

    /// Writes an answer to the client's buffer and wakes its task. An answer longer than its length field allows ends
    /// the connection.
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

    /// Like [`ReplyTo::answer`] with a message of the `kafka-protocol` crate. After an error the client gets no answer,
    /// unless the caller closes the connection. An answer longer than its length field allows is an error.
    pub fn encode(&self, response: &impl Encodable) -> Result<(), Unencodable> {
        let mut written = Ok(());
        if !self.client.ended.get() {
            let out = &mut *self.client.out.borrow_mut();
            let start = begin_answer(out, self.correlation_id, self.api.tagged_answer_header(self.version));
            if response.encode(out, self.version).is_ok() && i32::try_from(out.len() - start).is_ok() {
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
