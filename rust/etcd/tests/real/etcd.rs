//! Members of etcd as processes.

use std::{
    net::TcpListener,
    path::Path,
    process::{Child, Command, Stdio},
    time::Duration,
};

use rota_etcd::Endpoint;
use tempfile::TempDir;

/// A test waits for a condition for so long.
pub const PATIENCE: Duration = Duration::from_mins(2);

/// Whether etcd can be started. Says why not.
pub fn is_installed() -> bool {
    let found = Command::new("etcd").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    if found.is_ok_and(|status| status.success()) {
        return true;
    }
    let is_required = std::env::var("TEST_ETCD").is_ok_and(|value| value == "required");
    assert!(!is_required, "etcd is not installed, and TEST_ETCD=required");
    eprintln!("skipped: etcd is not on the PATH (Debian: etcd-server)");
    false
}

/// One process.
struct Process {
    child: Child,
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A cluster of etcd on the loopback interface. Its members end with it.
pub struct Etcd {
    directory: TempDir,
    members: Vec<Option<Process>>,
    clients: Vec<u16>,
    peers: Vec<u16>,
    flags: Vec<String>,
    scheme: &'static str,
}

fn free_ports(count: usize) -> Vec<u16> {
    let listeners: Vec<TcpListener> = (0..count).map(|_| TcpListener::bind("127.0.0.1:0").expect("a port")).collect();
    listeners.iter().map(|listener| listener.local_addr().expect("an address").port()).collect()
}

impl Etcd {
    /// Starts members with further flags.
    pub fn start(members: usize, flags: &[&str]) -> Etcd {
        Etcd::start_with(members, flags.iter().map(|flag| (*flag).to_owned()).collect(), "http")
    }

    /// As [`start`](Etcd::start), with the scheme of the members' addresses for clients.
    pub fn start_with(members: usize, flags: Vec<String>, scheme: &'static str) -> Etcd {
        let memory = Path::new("/dev/shm");
        let directory = if memory.is_dir() { TempDir::new_in(memory) } else { TempDir::new() }.expect("a directory");
        let ports = free_ports(2 * members);
        let (clients, peers) = (ports[..members].to_vec(), ports[members..].to_vec());
        let mut etcd = Etcd { directory, members: Vec::new(), clients, peers, flags, scheme };
        for member in 0..members {
            let process = etcd.spawn(member);
            etcd.members.push(Some(process));
        }
        etcd
    }

    fn spawn(&self, member: usize) -> Process {
        let scheme = self.scheme;
        let client = format!("{scheme}://127.0.0.1:{}", self.clients[member]);
        let peer = format!("http://127.0.0.1:{}", self.peers[member]);
        let cluster = self.peers.iter().enumerate().map(|(member, port)| format!("m{member}=http://127.0.0.1:{port}"));
        let cluster = cluster.collect::<Vec<_>>().join(",");
        let log = std::fs::File::options()
            .create(true)
            .append(true)
            .open(self.directory.path().join(format!("m{member}.log")));
        let child = Command::new("etcd")
            .args(["--name", &format!("m{member}"), "--log-level", "error", "--logger", "zap"])
            .args(["--listen-client-urls", &client, "--advertise-client-urls", &client])
            .args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer])
            .args(["--initial-cluster", &cluster, "--max-txn-ops", "128"])
            .arg("--data-dir")
            .arg(self.data(member))
            .args(&self.flags)
            .env("ETCD_UNSUPPORTED_ARCH", "arm64")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log.expect("a log"))
            .spawn();
        Process { child: child.expect("etcd starts") }
    }

    /// The directory of a member's data.
    pub fn data(&self, member: usize) -> std::path::PathBuf {
        self.directory.path().join(format!("m{member}"))
    }

    /// Members' addresses for clients.
    pub fn endpoints(&self) -> Vec<Endpoint> {
        self.clients.iter().map(|port| Endpoint { host: "127.0.0.1".to_owned(), port: *port }).collect()
    }

    /// Kills a member as `kill -9` does.
    pub fn kill(&mut self, member: usize) {
        self.members[member] = None;
    }

    /// Starts a member again.
    pub fn restart(&mut self, member: usize) {
        let process = self.spawn(member);
        self.members[member] = Some(process);
    }

    /// Sends a signal, such as `STOP` or `CONT`.
    pub fn signal(&self, member: usize, signal: &str) {
        let process = self.members[member].as_ref().expect("a member that runs");
        let pid = process.child.id().to_string();
        let sent = Command::new("kill").args([format!("-{signal}"), pid]).status();
        assert!(sent.is_ok_and(|status| status.success()));
    }
}
