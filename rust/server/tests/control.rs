//! The handle of a server: what it starts, refuses, controls and ends.

use std::{
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    time::Duration,
};

use rota_server::{Server, ServerConfig, ServerError, Settings};

const PATIENCE: Duration = Duration::from_secs(10);

fn started(config: ServerConfig) -> Server {
    Server::start(config).expect("the server starts")
}

fn on(listen: &str) -> ServerConfig {
    ServerConfig { listen: listen.to_owned(), ..ServerConfig::default() }
}

fn connected(server: &Server) -> TcpStream {
    let stream = TcpStream::connect(server.address()).expect("the server listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a socket takes a timeout");
    stream
}

/// `JoinGroup` v0 of a first member, which is parked for the initial delay.
fn join() -> Vec<u8> {
    let mut frame = b"\0\0\0\0\0\x0b\0\0\0\0\0\x07\0\x01c\0\x01g\0\0\x27\x10\0\0\0\x08consumer".to_vec();
    frame.extend_from_slice(b"\0\0\0\x01\0\x05range\0\0\0\0");
    let length = (frame.len() - 4) as u32;
    frame[..4].copy_from_slice(&length.to_be_bytes());
    frame
}

#[test]
fn a_server_on_port_zero_says_which_port_it_has() {
    let server = started(on("127.0.0.1:0"));
    let (host, port) = server.address();
    assert_eq!(host, "127.0.0.1");
    assert_ne!(port, 0);
    connected(&server);
}

#[test]
fn an_address_in_use_is_named_with_what_to_do() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let error = Server::start(on(&address)).unwrap_err();
    assert!(matches!(&error, ServerError::AddressInUse { address: named } if *named == address), "{error:?}");
    assert!(error.to_string().contains("choose another port"));
}

#[test]
fn an_address_of_another_machine_or_none_at_all_is_refused() {
    assert!(matches!(Server::start(on("PLAINTEXT://192.0.2.1:0")), Err(ServerError::CannotListen { .. })));
    assert!(matches!(Server::start(on("PLAINTEXT://no-such-host.invalid:0")), Err(ServerError::UnknownHost { .. })));
    for bad in ["127.0.0.1", "", ":1", "127.0.0.1:high"] {
        assert!(matches!(Server::start(on(bad)), Err(ServerError::BadAddress { .. })), "{bad}");
    }
    let config = ServerConfig { advertise: Some("nowhere".to_owned()), ..ServerConfig::default() };
    assert!(matches!(Server::start(config), Err(ServerError::BadAddress { what: "advertise", .. })));
}

#[test]
fn a_port_is_free_again_when_its_server_has_stopped() {
    let first = started(on("127.0.0.1:0"));
    let (host, port) = first.address();
    let client = connected(&first);
    first.stop(PATIENCE).unwrap();
    drop(client);
    assert_eq!(started(on(&format!("{host}:{port}"))).address(), (host, port));
}

#[test]
fn a_parked_request_is_answered_when_the_server_stops() {
    let server = started(on("127.0.0.1:0"));
    let mut client = connected(&server);
    client.write_all(&join()).unwrap();
    while server.load().unwrap() != (1, 1) {
        std::thread::yield_now();
    }
    server.stop(PATIENCE).unwrap();
    let mut answer = Vec::new();
    client.read_to_end(&mut answer).unwrap();
    // The correlation id, and NOT_COORDINATOR.
    assert_eq!(answer[4..10], [0, 0, 0, 7, 0, 16]);
}

#[test]
fn a_client_that_reads_nothing_does_not_keep_the_server_from_stopping() {
    let server = started(on("127.0.0.1:0"));
    let client = connected(&server);
    client.set_write_timeout(Some(Duration::from_millis(100))).unwrap();
    // ApiVersions v0, until neither side takes any more.
    let request = b"\0\0\0\x0a\0\x12\0\0\0\0\0\x07\xff\xff";
    while (&client).write_all(&request.repeat(1_000)).is_ok() {}
    server.stop(PATIENCE).unwrap();
}

#[test]
fn a_stopped_server_says_so_and_stopping_it_again_does_nothing() {
    let server = started(on("127.0.0.1:0"));
    server.stop(PATIENCE).unwrap();
    server.stop(PATIENCE).unwrap();
    assert!(matches!(server.groups(), Err(ServerError::Stopped)));
    assert!(matches!(server.create_topic("t", 1), Err(ServerError::Stopped)));
    assert!(TcpStream::connect(server.address()).is_err());
}

#[test]
fn a_clock_is_advanced_only_if_it_is_virtual() {
    let real = started(on("127.0.0.1:0"));
    assert!(matches!(real.advance(1, Vec::new()), Err(ServerError::ClockIsReal)));
    let standing = started(ServerConfig { virtual_clock: Some(1_700_000_000_000), ..ServerConfig::default() });
    assert_eq!(standing.now_ms().unwrap(), 0);
    assert_eq!(standing.advance(45_000, Vec::new()).unwrap(), 45_000);
    assert_eq!(standing.now_ms().unwrap(), 45_000);
}

#[test]
fn an_append_fails_only_with_an_error_that_the_protocol_has() {
    let server = started(on("127.0.0.1:0"));
    for bad in ["NOT_AN_ERROR", "none", "NONE", ""] {
        assert!(matches!(server.fail_appends(bad, 1), Err(ServerError::UnknownErrorName { .. })), "{bad}");
    }
    server.fail_appends("NOT_ENOUGH_REPLICAS", 1).unwrap();
}

#[test]
fn a_topic_that_cannot_be_is_refused_with_the_reason() {
    let server = started(on("127.0.0.1:0"));
    server.create_topic("orders", 3).unwrap();
    let error = server.create_topic("orders", 3).unwrap_err();
    assert!(error.to_string().contains("TOPIC_ALREADY_EXISTS"), "{error}");
    let error = server.create_topic("a/b", 1).unwrap_err();
    assert!(error.to_string().contains("INVALID_TOPIC_EXCEPTION"), "{error}");
}

#[test]
fn a_group_is_explained_while_it_is_there() {
    let mut settings = Settings::default();
    settings.set("group.initial.rebalance.delay.ms", "60000").unwrap();
    let server = started(ServerConfig { settings, ..ServerConfig::default() });
    assert!(matches!(server.explain("g"), Err(ServerError::UnknownGroup { .. })));
    let mut client = connected(&server);
    client.write_all(&join()).unwrap();
    while server.load().unwrap().1 == 0 {
        std::thread::yield_now();
    }
    assert_eq!(server.groups().unwrap(), ["g"]);
    let (explanation, now_ms) = server.explain("g").unwrap();
    assert_eq!(explanation.state, "PreparingRebalance");
    assert!(explanation.since_ms <= now_ms);
}
