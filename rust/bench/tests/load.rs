//! The load against servers whose answers are known.

use std::{
    io::{Read, Write},
    net::{Ipv4Addr, SocketAddr, TcpListener},
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

use rota_bench::{
    BenchError,
    core_path::Crowd,
    crowd::Seat,
    echo,
    load::{self, LoadPlan, LoadResult},
};

const ANYWHERE: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

fn seats(count: usize) -> Vec<Seat> {
    let seat = |at| Seat { group: "g".to_owned(), member_id: format!("m-{at}"), generation: 1 };
    (0..count).map(seat).collect()
}

fn plan(connections: usize, depth: usize, rate: Option<f64>) -> LoadPlan {
    let (warm_up, duration) = (Duration::from_millis(20), Duration::from_millis(200));
    LoadPlan { connections, depth, warm_up, duration, rate, tls: None }
}

fn against_the_echo(members: usize, plan: &LoadPlan) -> LoadResult {
    let stop = AtomicBool::new(false);
    let (listener, address) = echo::listen(ANYWHERE).unwrap();
    thread::scope(|scope| {
        let serving = scope.spawn(|| echo::serve(listener, &stop));
        let measured = load::run(address, &seats(members), plan);
        stop.store(true, Ordering::Relaxed);
        serving.join().unwrap().unwrap();
        measured.unwrap()
    })
}

#[test]
fn a_closed_loop_counts_every_answer_and_how_long_it_took() {
    for (connections, depth, members) in [(1, 1, 1), (4, 8, 16), (3, 2, 1)] {
        let measured = against_the_echo(members, &plan(connections, depth, None));
        assert!(measured.answers > 0 && measured.errors == 0);
        assert_eq!(measured.took_ns.len(), measured.answers);
        assert!(measured.elapsed >= Duration::from_millis(200));
    }
}

#[test]
fn an_open_loop_asks_no_more_often_than_it_was_told() {
    let measured = against_the_echo(4, &plan(4, 1, Some(1_000.0)));
    // 200 ms, and what was due within the warm-up and is answered after it.
    assert!((1..=221).contains(&measured.answers), "{}", measured.answers);
}

#[test]
fn an_open_loop_says_how_late_it_was_itself() {
    let measured = against_the_echo(4, &plan(4, 1, Some(1_000.0)));
    assert!((1..=201).contains(&measured.late_ns.len()), "{}", measured.late_ns.len());
    assert!(against_the_echo(4, &plan(4, 1, None)).late_ns.is_empty(), "a closed loop is never late");
}

/// A server that treats its first request so.
fn against(answer: impl Fn(&[u8]) -> Vec<u8> + Send) -> Result<LoadResult, BenchError> {
    let listener = TcpListener::bind(ANYWHERE).unwrap();
    let address = listener.local_addr().unwrap();
    thread::scope(|scope| {
        scope.spawn(move || {
            let (mut socket, _) = listener.accept().unwrap();
            let mut asked = [0; 256];
            let count = socket.read(&mut asked).unwrap();
            socket.write_all(&answer(&asked[..count])).unwrap();
        });
        load::run(address, &seats(1), &plan(1, 1, None))
    })
}

fn answered(correlation_id: &[u8], error: u8) -> Vec<u8> {
    [&[0, 0, 0, 10], correlation_id, &[0, 0, 0, 0, 0, error]].concat()
}

#[test]
fn an_answer_to_another_request_is_an_error() {
    let error = against(|_| answered(&[0, 0, 0, 9], 0)).unwrap_err();
    assert_eq!(error.to_string(), "an answer to request 9 came where 0 was due");
}

#[test]
fn an_answer_of_another_length_is_an_error() {
    let error = against(|_| vec![0, 0, 0, 4, 0, 0, 0, 0]).unwrap_err();
    assert_eq!(error.to_string(), "an answer to a heartbeat has 4 bytes, not 10");
}

#[test]
fn a_server_that_hangs_up_is_an_error() {
    let error = against(|asked| answered(&asked[8..12], 0)).unwrap_err();
    assert!(["closed", "reset", "pipe"].iter().any(|word| error.to_string().to_lowercase().contains(word)), "{error}");
}

#[test]
fn heartbeats_without_sockets_reach_every_member() {
    // Few, and so many that they are looked at ahead.
    for members in [250, 5_000] {
        let mut crowd = Crowd::assemble(members).unwrap();
        let few = Duration::from_millis(5);
        let ways = [Crowd::requests, Crowd::requests_singly, Crowd::requests_submitted, Crowd::handles];
        for beats in ways.map(|way| way(&mut crowd, few).unwrap()) {
            assert!(beats.count >= members as u64 && beats.count.is_multiple_of(members as u64));
        }
    }
}
