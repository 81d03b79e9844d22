//! Heartbeats over TLS, for `benches/ratios/security.py`. Servers and loads are processes of their own:
//!
//! ```text
//! tls certificate DIR                      ca.pem, and server.pem with certificate and key, for this machine
//! tls serve DIR                            a rota server; prints the addresses of its listeners, plain and TLS
//! tls echo DIR                             the bare echo over TLS; prints its address
//! tls load DIR OPEN TLS CONNECTIONS SECONDS RATE
//! tls reconnect DIR TLS COUNT              COUNT clients that connect at once, each with a whole handshake
//! ```
//!
//! `load` joins over the listener without TLS (`-`: it makes its members up), and sends heartbeats over the other one, in a
//! closed loop, or RATE a second. It prints `ready`, and starts with a line of standard input. Its result is a line:
//! answers, errors, seconds, nanoseconds of the median and of 99 %. Servers end with their standard input.

use std::{
    env, error, fs,
    io::{self, BufRead, Read},
    net::{SocketAddr, TcpStream},
    path::Path,
    sync::{Arc, atomic::AtomicBool},
    thread,
    time::{Duration, Instant},
};

use rota_bench::{
    crowd::{self, CrowdPlan, Seat},
    echo,
    load::{self, LoadPlan},
};
use rota_security::{
    authority::Authority,
    pem::Source,
    tls::{ClientAuth, TlsFiles},
};
use rota_server::{Server, ServerConfig, Settings};
use rustls::{ClientConfig, ClientConnection, RootCertStore, client::Resumption, crypto::ring};
use rustls_pki_types::{CertificateDer, ServerName, pem::PemObject};

type Outcome<T> = Result<T, Box<dyn error::Error>>;

const GROUP_MEMBERS: usize = 100;
const SESSION_TIMEOUT_MS: i32 = 300_000;
const HOST: &str = "127.0.0.1";
/// Clients of `reconnect` that one thread waits for.
const THREADS: usize = 16;

fn main() -> Outcome<()> {
    let words: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["certificate", dir] => certificate(Path::new(dir)),
        ["serve", dir] => serve(Path::new(dir)),
        ["echo", dir] => echoes(Path::new(dir)),
        ["load", dir, open, tls, connections, seconds, rate] => {
            let rate: f64 = rate.parse()?;
            let (warm_up, duration) = (Duration::from_secs_f64(0.2), Duration::from_secs_f64(seconds.parse()?));
            let name = ServerName::try_from(HOST)?;
            let plan = LoadPlan {
                connections: connections.parse()?,
                depth: 1,
                warm_up,
                duration,
                rate: (rate > 0.0).then_some(rate),
                tls: Some((client(Path::new(dir))?, name)),
            };
            loaded(open, tls.parse()?, &plan)
        }
        ["reconnect", dir, tls, count] => reconnect(Path::new(dir), tls.parse()?, count.parse()?),
        _ => Err("see the first lines of benches/rust/examples/tls.rs".into()),
    }
}

fn certificate(dir: &Path) -> Outcome<()> {
    let authority = Authority::new()?;
    let issued = authority.issue(&[HOST.to_owned()], "bench", false)?;
    fs::write(dir.join("ca.pem"), authority.certificate())?;
    fs::write(dir.join("server.pem"), issued.certificate + &issued.key)?;
    Ok(())
}

fn files(dir: &Path) -> TlsFiles {
    let store = || Source::File(dir.join("server.pem"));
    TlsFiles { chain: store(), key: store(), client_ca: None, client_auth: ClientAuth::None }
}

/// Without resumption: each connection has a whole handshake.
fn client(dir: &Path) -> Outcome<Arc<ClientConfig>> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(dir.join("ca.pem"))? {
        roots.add(certificate?)?;
    }
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let builder = builder.with_safe_default_protocol_versions()?;
    let mut config = builder.with_root_certificates(roots).with_no_client_auth();
    config.resumption = Resumption::disabled();
    Ok(Arc::new(config))
}

fn until_closed() -> Outcome<()> {
    io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}

fn serve(dir: &Path) -> Outcome<()> {
    let mut settings = Settings::default();
    for (name, value) in [
        ("group.initial.rebalance.delay.ms", "0"),
        ("listeners", "PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:0"),
        ("max.connections", "10000"),
    ] {
        settings.set(name, value)?;
    }
    let server = Server::start(ServerConfig { settings, tls: Some(files(dir)), ..ServerConfig::default() })?;
    let addresses: Vec<String> = server
        .listeners()
        .iter()
        .flat_map(|open| open.addresses().into_iter().map(|(_, host, port)| format!("{host}:{port}")))
        .collect();
    println!("{}", addresses.join(" "));
    until_closed()
}

fn echoes(dir: &Path) -> Outcome<()> {
    let (listening, address) = echo::listen(format!("{HOST}:0").parse()?)?;
    let listening = listening.secured(files(dir).load()?.config);
    println!("{address}");
    thread::spawn(|| echo::serve(listening, &AtomicBool::new(false)));
    until_closed()
}

fn seats(open: &str, members: usize) -> Outcome<Vec<Seat>> {
    if open == "-" {
        let seat =
            |at| Seat { group: format!("bench-{}", at / GROUP_MEMBERS), member_id: "m".repeat(46), generation: 1 };
        return Ok((0..members).map(seat).collect());
    }
    let prefix = format!("bench-{}", std::process::id());
    let plan = CrowdPlan { members, group_members: GROUP_MEMBERS, session_timeout_ms: SESSION_TIMEOUT_MS, prefix };
    Ok(crowd::assemble(open.parse()?, &plan)?)
}

fn loaded(open: &str, tls: SocketAddr, plan: &LoadPlan) -> Outcome<()> {
    let seats = seats(open, plan.connections)?;
    println!("ready");
    io::stdin().lock().read_line(&mut String::new())?;
    let done = load::run(tls, &seats, plan)?;
    let ns = |share| done.took_ns.value_at_quantile(share);
    let seconds = done.elapsed.as_secs_f64();
    println!("{} {} {seconds} {} {}", done.answers, done.errors, ns(0.5), ns(0.99));
    if open != "-" {
        crowd::dismiss(open.parse()?, &seats)?;
    }
    Ok(())
}

/// Prints how many handshakes were completed, and in how many seconds.
fn reconnect(dir: &Path, tls: SocketAddr, count: usize) -> Outcome<()> {
    let config = client(dir)?;
    let began = Instant::now();
    let done: usize = thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|at| {
                let config = &config;
                scope.spawn(move || connected(config, tls, (at..count).step_by(THREADS).count()).unwrap_or(0))
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap_or(0)).sum()
    });
    println!("{done} {}", began.elapsed().as_secs_f64());
    Ok(())
}

/// All of them are connected before the first handshake is waited for.
fn connected(config: &Arc<ClientConfig>, tls: SocketAddr, count: usize) -> Outcome<usize> {
    let mut begun = Vec::new();
    for _ in 0..count {
        let mut socket = TcpStream::connect(tls)?;
        let mut connection = ClientConnection::new(Arc::clone(config), ServerName::try_from(HOST)?)?;
        while connection.wants_write() {
            connection.write_tls(&mut socket)?;
        }
        begun.push((socket, connection));
    }
    for (socket, connection) in &mut begun {
        while connection.is_handshaking() {
            connection.complete_io(socket)?;
        }
    }
    Ok(begun.len())
}
