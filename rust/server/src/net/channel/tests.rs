use std::{
    net::{TcpListener as StdTcpListener, TcpStream as StdTcpStream},
    panic,
    sync::Arc,
};

use kafka_protocol::{
    messages::{
        DeleteTopicsRequest, FetchRequest, JoinGroupRequest, ListOffsetsRequest, ListTransactionsRequest,
        ProduceRequest, RequestHeader, SyncGroupRequest, TopicName,
        fetch_request::{FetchPartition, FetchTopic},
        join_group_request::JoinGroupRequestProtocol,
        produce_request::{PartitionProduceData, TopicProduceData},
    },
    protocol::{Encodable, Request, StrBytes},
};
use rota_log::BatchWriter;

use super::*;

/// A channel of a new node. The runtime lives as long as its stream.
fn a_channel() -> (tokio::runtime::Runtime, Channel) {
    let (runtime, channel, _peer) = a_channel_and_its_peer();
    (runtime, channel)
}

/// A channel of a new node, and the client's end of its stream.
fn a_channel_and_its_peer() -> (tokio::runtime::Runtime, Channel, StdTcpStream) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let event_loop = crate::net::event_loop::tests::of_a_new_node();
    let listener = StdTcpListener::bind("127.0.0.1:0").unwrap();
    let channel = runtime.block_on(async {
        let stream = tokio::net::TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (peer, local) = (stream.peer_addr().unwrap(), stream.local_addr().unwrap());
        let connection = Rc::new(Connection::new(1, Client::new(peer, local, Arc::default(), None)));
        event_loop.remember(&connection);
        Channel::new(event_loop, connection, Transport::Plain(stream))
    });
    (runtime, channel, listener.accept().unwrap().0)
}

#[test]
fn of_many_requests_at_once_only_a_turn_is_handled_before_others_have_theirs() {
    let (_runtime, mut channel) = a_channel();
    // Heartbeat v0 of member `m` in group `g`, and the length of its answer.
    let (request, answer_bytes) = (b"\0\0\0\x14\0\x0c\0\0\0\0\0\x07\xff\xff\0\x01g\0\0\0\0\0\x01m", 10);
    let turn = TURN_HEARTBEATS as usize;
    channel.buffered.extend_from_slice(&request.repeat(2 * turn + 1));
    for turns in 1..=2 {
        assert!(matches!(channel.handle_buffered(), Next::Turn));
        assert_eq!(channel.client.out_bytes(), turns * turn * answer_bytes);
        // Until others have had their turns, it handles nothing more.
        assert!(matches!(channel.handle_buffered(), Next::Turn));
        assert_eq!(channel.client.out_bytes(), turns * turn * answer_bytes);
        channel.turn_heartbeats = 0;
    }
    assert!(matches!(channel.handle_buffered(), Next::Read));
    assert_eq!(channel.client.out_bytes(), (2 * turn + 1) * answer_bytes);
}

#[test]
fn a_turn_has_fewer_of_the_requests_that_take_longer() {
    let (_runtime, mut channel) = a_channel();
    // ApiVersions v0, which any connection may ask.
    channel.buffered.extend_from_slice(&b"\0\0\0\x0a\0\x12\0\0\0\0\0\x07\xff\xff".repeat(20));
    let handled = |channel: &Channel| 20 - channel.buffered.len() / 14;
    for turns in 1..=2 {
        assert!(matches!(channel.handle_buffered(), Next::Turn));
        assert_eq!(handled(&channel), turns * (TURN_HEARTBEATS / REQUEST_HEARTBEATS) as usize);
        channel.turn_heartbeats = 0;
    }
    assert!(matches!(channel.handle_buffered(), Next::Read));
}

#[test]
fn a_request_that_may_take_long_ends_a_turn() {
    let (_runtime, mut channel) = a_channel();
    let long = frame(1, &ListOffsetsRequest::default());
    channel.buffered.extend_from_slice(&long.repeat(3));
    for left in [2, 1] {
        assert!(matches!(channel.handle_buffered(), Next::Turn));
        assert_eq!(channel.buffered.len(), left * long.len());
        channel.turn_heartbeats = 0;
    }
    assert!(matches!(channel.handle_buffered(), Next::Read));
    let other = frame(0, &ListTransactionsRequest::default());
    assert_eq!(heartbeats_in(&other[LENGTH_BYTES..]), TURN_HEARTBEATS);
}

#[test]
fn what_a_parked_request_brought_is_counted_until_it_is_answered() {
    let (_runtime, mut channel) = a_channel();
    a_waiting_join(&mut channel);
    let frame_bytes = channel.buffered.len() - LENGTH_BYTES;
    assert!(matches!(channel.handle_buffered(), Next::Parked));
    let of_ids = channel.client.id_bytes();
    assert_eq!(channel.connection.held_bytes.get(), frame_bytes + of_ids);
    channel.client.answered();
    channel.account();
    assert_eq!(channel.connection.held_bytes.get(), of_ids);
}

#[test]
fn the_ids_that_a_connection_keeps_are_counted() {
    let (_runtime, mut channel) = a_channel();
    let id = StrBytes::from_string("i".repeat(30_000));
    let request = SyncGroupRequest::default().with_group_id(id.clone().into()).with_member_id(id);
    channel.buffered.extend_from_slice(&frame(0, &request));
    assert!(matches!(channel.handle_buffered(), Next::Read));
    assert_eq!(channel.connection.held_bytes.get() - channel.client.out_bytes(), 60_000);
    channel.client.set_allowed(1, &[b'g'; 1_000]);
    assert_eq!(channel.client.id_bytes(), 61_000);
}

/// A frame with a request.
fn frame<Q: Request + Encodable>(version: i16, request: &Q) -> BytesMut {
    let mut frame = BytesMut::from(&[0; LENGTH_BYTES][..]);
    let header = RequestHeader::default().with_request_api_key(Q::KEY).with_request_api_version(version);
    header.encode(&mut frame, Q::header_version(version)).unwrap();
    request.encode(&mut frame, version).unwrap();
    let length = (frame.len() - LENGTH_BYTES) as u32;
    frame[..LENGTH_BYTES].copy_from_slice(&length.to_be_bytes());
    frame
}

/// A Fetch of partition 0 of these topics that waits long for data.
fn a_waiting_fetch(channel: &mut Channel, names: &[&'static str]) -> FetchWait {
    channel.buffered.extend_from_slice(&a_fetch(names));
    let Next::Fetch(wait) = channel.handle_buffered() else { panic!("it waits for data") };
    *wait
}

/// The frame of such a Fetch.
fn a_fetch(names: &[&'static str]) -> BytesMut {
    let partition = FetchPartition::default().with_current_leader_epoch(-1).with_partition_max_bytes(1 << 20);
    let topic = |name: &&'static str| {
        let name = TopicName(StrBytes::from_static_str(name));
        FetchTopic::default().with_topic(name).with_partitions(vec![partition.clone()])
    };
    let request = FetchRequest::default()
        .with_max_wait_ms(i32::MAX)
        .with_min_bytes(1)
        .with_max_bytes(1 << 20)
        .with_session_epoch(-1)
        .with_topics(names.iter().map(topic).collect());
    frame(12, &request)
}

fn create(channel: &Channel, name: &str) {
    let node = &mut channel.event_loop.node.borrow_mut();
    let (topics, random) = node.topics_mut();
    topics.create(name, 1, random).unwrap();
}

fn produce(channel: &Channel) {
    let mut writer = BatchWriter::default();
    writer.push(0, None, Some(b"v"));
    let data = PartitionProduceData::default().with_records(Some(writer.finish()));
    let name = TopicName(StrBytes::from_static_str("t"));
    let topic = TopicProduceData::default().with_name(name).with_partition_data(vec![data]);
    let request = ProduceRequest::default().with_acks(-1).with_topic_data(vec![topic]);
    let node = &mut channel.event_loop.node.borrow_mut();
    assert!(!node.topics_mut().0.produce(&request, 9, 0).has_error);
}

#[test]
fn a_fetch_sees_data_that_came_before_it_watches() {
    for comes_before in [true, false] {
        let (runtime, mut channel) = a_channel();
        let _guard = runtime.enter();
        create(&channel, "t");
        let wait = a_waiting_fetch(&mut channel, &["t"]);
        if comes_before {
            produce(&channel);
        }
        let at_once = &mut Context::from_waker(std::task::Waker::noop());
        let answered = pin!(channel.wait_for_data(wait)).poll(at_once).is_ready();
        assert_eq!((answered, channel.client.out_bytes() > 0), (comes_before, comes_before));
    }
}

#[test]
fn a_waiting_fetch_is_answered_when_one_of_its_topics_is_deleted() {
    let (runtime, mut channel) = a_channel();
    let _guard = runtime.enter();
    create(&channel, "t");
    create(&channel, "u");
    let client = Rc::clone(&channel.client);
    let event_loop = Rc::clone(&channel.event_loop);
    // A topic that was not there at first is waited for.
    let wait = a_waiting_fetch(&mut channel, &["t", "u", "v"]);
    let mut answered = pin!(channel.wait_for_data(wait));
    let context = &mut Context::from_waker(std::task::Waker::noop());
    assert!(answered.as_mut().poll(context).is_pending());
    let deletion = DeleteTopicsRequest::default().with_topic_names(vec![TopicName(StrBytes::from_static_str("u"))]);
    event_loop.node.borrow_mut().topics_mut().0.delete_topics(&deletion, 3);
    assert!(answered.as_mut().poll(context).is_ready());
    assert!(client.out_bytes() > 0);
}

#[test]
fn a_waiting_fetch_costs_what_it_waits_for_and_counts_what_it_keeps() {
    let (runtime, mut channel) = a_channel();
    let _guard = runtime.enter();
    create(&channel, "t");
    let body_bytes = |names: &[&'static str]| a_fetch(names).len();
    for (name, each_bytes) in [("t", 0..1), ("u", 40..200)] {
        let [few, many] = [2, 1_002].map(|count| {
            let mut names = vec![name; count];
            names.push("t");
            a_waiting_fetch(&mut channel, &names).size_bytes() - body_bytes(&names)
        });
        assert!(each_bytes.contains(&((many - few) / 1_000)), "{name}: {few} {many}");
    }
}

/// ApiVersions v0 with so many bytes behind its body, which are ignored.
fn padded(bytes: usize) -> Vec<u8> {
    let mut frame = b"\0\0\0\0\0\x12\0\0\0\0\0\x07\xff\xff".to_vec();
    frame.resize(frame.len() + bytes, 0);
    let length = (frame.len() - LENGTH_BYTES) as u32;
    frame[..LENGTH_BYTES].copy_from_slice(&length.to_be_bytes());
    frame
}

#[test]
fn the_memory_of_handled_requests_is_not_kept_behind_a_part_of_the_next() {
    let (_runtime, mut channel) = a_channel();
    channel.buffered.extend_from_slice(&padded(1 << 20));
    channel.buffered.extend_from_slice(b"\0");
    assert!(matches!(channel.handle_buffered(), Next::Read));
    assert!(channel.client.out_bytes() > 0);
    assert_eq!(&channel.buffered[..], b"\0");
    assert!(!channel.buffered.try_reclaim(2 * KEPT_BYTES_MAX));
}

#[test]
fn nor_is_that_of_many_small_ones() {
    let (_runtime, mut channel) = a_channel();
    let frame = padded(1_000);
    channel.buffered.extend_from_slice(&frame.repeat(100));
    channel.buffered.extend_from_slice(b"\0");
    while matches!(channel.handle_buffered(), Next::Turn) {
        channel.turn_heartbeats = 0;
        let left = channel.buffered.len();
        assert!(channel.passed_bytes <= KEPT_BYTES_MAX.max(left), "{left}");
    }
    assert_eq!(&channel.buffered[..], b"\0");
    assert!(!channel.buffered.try_reclaim(4 * KEPT_BYTES_MAX));
}

#[test]
fn the_memory_of_answers_that_are_written_is_not_kept() {
    let (runtime, mut channel, _peer) = a_channel_and_its_peer();
    let mut answer = BytesMut::with_capacity(2 * KEPT_BYTES_MAX);
    answer.resize(answer.capacity(), 0);
    *channel.client.out() = answer;
    runtime.block_on(channel.write()).unwrap();
    assert_eq!(channel.client.out_bytes(), 0);
    assert!(!channel.client.out().try_reclaim(2 * KEPT_BYTES_MAX));
}

/// A JoinGroup that waits for other members.
fn a_waiting_join(channel: &mut Channel) {
    let protocol = JoinGroupRequestProtocol::default().with_name(StrBytes::from_static_str("range"));
    let request = JoinGroupRequest::default()
        .with_group_id(StrBytes::from_static_str("g").into())
        .with_session_timeout_ms(10_000)
        .with_rebalance_timeout_ms(10_000)
        .with_protocol_type(StrBytes::from_static_str("consumer"))
        .with_protocols(vec![protocol]);
    channel.buffered.extend_from_slice(&frame(2, &request));
}

#[test]
fn an_answer_that_comes_while_others_have_their_turn_is_written_before_the_end() {
    for waits_for_data in [false, true] {
        let (runtime, mut channel, peer) = a_channel_and_its_peer();
        let guard = runtime.enter();
        let (event_loop, client) = (Rc::clone(&channel.event_loop), Rc::clone(&channel.client));
        if waits_for_data {
            create(&channel, "t");
            channel.buffered.extend_from_slice(&a_fetch(&["t"]));
        } else {
            a_waiting_join(&mut channel);
        }
        // More of it is there to read, so others have their turn first.
        channel.has_more = true;
        let mut run = Box::pin(channel.run());
        assert!(run.as_mut().poll(&mut Context::from_waker(std::task::Waker::noop())).is_pending());
        assert_eq!((client.is_parked(), client.out_bytes()), (!waits_for_data, 0));
        event_loop.node.borrow_mut().unload();
        client.end(Ending::AfterWriting);
        drop(guard);
        runtime.block_on(run).unwrap();
        assert_eq!(client.out_bytes(), 0);
        drop(runtime);
        drop(channel);
        assert!(std::io::Read::read(&mut &peer, &mut [0; 4]).unwrap() > 0, "{waits_for_data}");
    }
}

#[test]
fn a_request_that_waits_for_the_disk_is_answered_while_the_server_stops() {
    let (runtime, mut channel) = a_channel();
    let _guard = runtime.enter();
    let client = Rc::clone(&channel.client);
    client.park();
    let mut waiting = pin!(channel.wait_for_answer());
    let context = &mut Context::from_waker(std::task::Waker::noop());
    for (ending, ends) in [(Ending::No, false), (Ending::AfterWriting, false), (Ending::Now, true)] {
        client.end(ending);
        assert_eq!(waiting.as_mut().poll(context).is_ready(), ends, "{ending:?}");
    }
}

#[test]
fn behind_a_request_that_waits_only_so_much_is_read() {
    let (_runtime, mut channel) = a_channel();
    channel.buffered.extend_from_slice(&vec![0; AHEAD_BYTES_MAX - 1]);
    assert!(channel.may_read_ahead());
    channel.buffered.extend_from_slice(b"0");
    assert!(!channel.may_read_ahead());
}

#[test]
fn a_panic_while_a_request_is_handled_is_counted_and_forgets_the_connection() {
    let (_runtime, channel) = a_channel();
    let event_loop = Rc::clone(&channel.event_loop);
    let shared = Arc::clone(&event_loop.shared);
    let outcome = panic::catch_unwind(panic::AssertUnwindSafe(|| {
        let _serving = channel;
        panic!("as a handler would");
    }));
    assert!(outcome.is_err());
    assert_eq!(shared.panics(), 1);
    assert_eq!(event_loop.connection_count(), 0);
}
