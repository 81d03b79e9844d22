//! A server and a client that speaks to it in typed requests.

use std::{
    io::{Read, Write},
    net::TcpStream,
    time::Duration,
};

use bytes::{Bytes, BytesMut};
use kafka_protocol::{
    messages::{GroupId, RequestHeader, ResponseHeader, TopicName},
    protocol::{Decodable, Encodable, HeaderVersion, Request, StrBytes},
};
use rota_server::{Server, ServerConfig};

pub const PATIENCE: Duration = Duration::from_secs(10);
const CORRELATION_ID: i32 = 7;

pub struct Scene {
    pub server: Server,
    pub client: TcpStream,
}

/// One more connection to a server.
pub fn connected(server: &Server) -> TcpStream {
    let client = TcpStream::connect(server.address()).expect("the server listens");
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    client
}

impl Scene {
    pub fn of(config: ServerConfig) -> Scene {
        let server = Server::start(config).expect("the server starts");
        let client = connected(&server);
        Scene { server, client }
    }

    /// Sends a request of `version` and reads its answer.
    pub fn ask<Q: Request + Encodable>(&mut self, version: i16, request: &Q) -> Q::Response
    where
        Q::Response: Decodable + HeaderVersion,
    {
        send(&mut self.client, version, request);
        answer::<Q>(&mut self.client, version)
    }
}

pub fn send<Q: Request + Encodable>(client: &mut TcpStream, version: i16, request: &Q) {
    let mut frame = BytesMut::from(&[0; 4][..]);
    let header = RequestHeader::default()
        .with_request_api_key(Q::KEY)
        .with_request_api_version(version)
        .with_correlation_id(CORRELATION_ID)
        .with_client_id(Some(StrBytes::from_static_str("c")));
    header.encode(&mut frame, Q::header_version(version)).unwrap();
    request.encode(&mut frame, version).unwrap();
    let length = (frame.len() - 4) as u32;
    frame[..4].copy_from_slice(&length.to_be_bytes());
    client.write_all(&frame).unwrap();
}

pub fn answer<Q: Request>(client: &mut TcpStream, version: i16) -> Q::Response
where
    Q::Response: Decodable + HeaderVersion,
{
    let mut length = [0; 4];
    client.read_exact(&mut length).unwrap();
    let mut answer = vec![0; u32::from_be_bytes(length) as usize];
    client.read_exact(&mut answer).unwrap();
    let mut answer = Bytes::from(answer);
    let header = ResponseHeader::decode(&mut answer, Q::Response::header_version(version)).unwrap();
    assert_eq!(header.correlation_id, CORRELATION_ID);
    let response = Q::Response::decode(&mut answer, version).unwrap();
    assert!(answer.is_empty(), "{version} leaves {answer:?}");
    response
}

pub fn group(id: &str) -> GroupId {
    GroupId(text(id))
}

pub fn topic(name: &str) -> TopicName {
    TopicName(text(name))
}

pub fn text(text: &str) -> StrBytes {
    StrBytes::from_string(text.to_owned())
}
