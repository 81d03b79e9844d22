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

    /// Like [`ReplyTo::encode`], but closes the connection if the message cannot be encoded: its client would wait for an
    /// answer until its own timeout.
    pub fn encode_or_close(&self, response: &impl Encodable) {
        if self.encode(response).is_err() {
            self.client.end(Ending::Now);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use kafka_protocol::{
        messages::{ProduceResponse, TopicName, produce_response::TopicProduceResponse},
        protocol::StrBytes,
    };
    use rota_wire::versions;

    use super::*;

    #[test]
    fn an_answer_that_cannot_be_encoded_closes_the_connection() {
        let address = ([127, 0, 0, 1], 1).into();
        let client = Rc::new(Client::new(address, address, Arc::default(), None));
        let api = versions::find(versions::PRODUCE).unwrap();
        let reply_to = ReplyTo { client: Rc::clone(&client), api, version: 8, correlation_id: 7 };
        let named = |chars| {
            let name = TopicName(StrBytes::from_string("t".repeat(chars)));
            ProduceResponse::default().with_responses(vec![TopicProduceResponse::default().with_name(name)])
        };
        client.park();
        reply_to.encode_or_close(&named(1));
        let answered_bytes = client.out_bytes();
        assert_eq!((client.ending(), client.is_parked(), answered_bytes > 0), (Ending::No, false, true));
        client.park();
        reply_to.encode_or_close(&named(40_000));
        assert_eq!((client.ending(), client.is_parked(), client.out_bytes()), (Ending::Now, false, answered_bytes));
    }
}
