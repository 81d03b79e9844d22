//! Servers of PostgreSQL as processes. PostgreSQL refuses to run as root, so root runs it as the user `postgres`.

use std::{
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use rota_postgres::Endpoint;
use tempfile::TempDir;

/// A test waits for a condition for so long.
pub const PATIENCE: Duration = Duration::from_mins(2);
const USER: &str = "postgres";

/// Where the programs are: Debian has them beside the `PATH`.
fn programs() -> Option<PathBuf> {
    let of = |version: std::fs::DirEntry| {
        let programs = version.path().join("bin");
        let number: u32 = version.file_name().to_str()?.parse().ok()?;
        programs.join("initdb").is_file().then_some((number, programs))
    };
    let packaged = std::fs::read_dir("/usr/lib/postgresql").ok().into_iter().flatten().filter_map(Result::ok);
    if let Some((_, newest)) = packaged.filter_map(of).max() {
        return Some(newest);
    }
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).find(|programs| programs.join("initdb").is_file())
}

/// Whether PostgreSQL can be started. Says why not.
pub fn is_installed() -> bool {
    if programs().is_some() {
        return true;
    }
    let is_required = std::env::var("TEST_POSTGRES").is_ok_and(|value| value == "required");
    assert!(!is_required, "PostgreSQL is not installed, and TEST_POSTGRES=required");
    eprintln!("skipped: initdb is not installed (Debian: postgresql)");
    false
}

fn is_root() -> bool {
    Command::new("id").arg("-u").output().is_ok_and(|output| output.stdout.starts_with(b"0\n"))
}

/// A program of PostgreSQL, as a user that may run it.
fn program(name: &str) -> Command {
    let path = programs().expect("PostgreSQL").join(name);
    let mut command = if is_root() {
        let mut command = Command::new("setpriv");
        command.args(["--reuid", USER, "--regid", USER, "--clear-groups", "--"]).arg(path);
        command
    } else {
        Command::new(path)
    };
    command.stdin(Stdio::null()).stdout(Stdio::null()).current_dir("/");
    command
}

fn run(mut command: Command) {
    let output = command.stderr(Stdio::piped()).output().expect("a program");
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

fn copied(from: &Path, to: &Path) {
    let mut copy = Command::new("cp");
    copy.arg("-a").args([from, to]);
    run(copy);
}

/// One process with its children.
struct Process {
    child: Child,
}

impl Drop for Process {
    fn drop(&mut self) {
        // `SIGQUIT` ends it as a crash does, with its children: they would keep the port, and its memory.
        signal(&self.child, "CONT");
        signal(&self.child, "QUIT");
        let _ = self.child.wait();
    }
}

fn signal(child: &Child, name: &str) {
    let _ = Command::new("kill").args([format!("-{name}"), child.id().to_string()]).status();
}

/// A server on the loopback interface. It ends with its value.
pub struct Server {
    directory: TempDir,
    process: Option<Process>,
    pub port: u16,
    settings: Vec<String>,
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port").port()
}

/// A directory that the server's user may write.
fn directory() -> TempDir {
    let memory = Path::new("/dev/shm");
    let directory = if memory.is_dir() { TempDir::new_in(memory) } else { TempDir::new() }.expect("a directory");
    if is_root() {
        let mut own = Command::new("chown");
        own.arg(format!("{USER}:{USER}")).arg(directory.path());
        run(own);
    }
    directory
}

impl Server {
    /// A server with settings such as `fsync=off`.
    pub fn start(settings: &[&str]) -> Server {
        let directory = directory();
        let mut initdb = program("initdb");
        initdb.args(["--auth", "trust", "--username", USER, "--no-sync", "--encoding", "UTF8", "--locale", "C", "-D"]);
        initdb.arg(directory.path().join("data"));
        run(initdb);
        Server::at(directory, settings)
    }

    /// A copy of another server that follows it, under the name `standby`.
    pub fn start_standby(of: &Server, settings: &[&str]) -> Server {
        let directory = directory();
        let mut backup = program("pg_basebackup");
        backup.args(["--write-recovery-conf", "--checkpoint", "fast", "--no-sync", "-d"]);
        backup.arg(format!("host=127.0.0.1 port={} user={USER} application_name=standby", of.port)).arg("-D");
        backup.arg(directory.path().join("data"));
        run(backup);
        Server::at(directory, settings)
    }

    fn at(directory: TempDir, settings: &[&str]) -> Server {
        let settings = settings.iter().map(|setting| (*setting).to_owned()).collect();
        let mut server = Server { directory, process: None, port: free_port(), settings };
        server.restart();
        server
    }

    /// Starts it again, and waits until it answers.
    pub fn restart(&mut self) {
        let log = std::fs::File::options().create(true).append(true).open(self.directory.path().join("log"));
        let mut command = program("postgres");
        command.args(["-p", &self.port.to_string(), "-D"]).arg(self.data());
        for setting in
            ["listen_addresses=127.0.0.1", "unix_socket_directories=", "shared_buffers=16MB", "max_connections=60"]
        {
            command.args(["-c", setting]);
        }
        for setting in &self.settings {
            command.args(["-c", setting]);
        }
        self.process = Some(Process { child: command.stderr(log.expect("a log")).spawn().expect("PostgreSQL starts") });
        let began = Instant::now();
        loop {
            let mut ready = program("pg_isready");
            ready.args(["-q", "-h", "127.0.0.1", "-p", &self.port.to_string()]);
            if ready.status().is_ok_and(|status| status.success()) {
                return;
            }
            assert!(began.elapsed() < PATIENCE, "{}", self.log());
        }
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.directory.path().join("log")).unwrap_or_default()
    }

    fn data(&self) -> PathBuf {
        self.directory.path().join("data")
    }

    /// Ends it as a crash does.
    pub fn kill(&mut self) {
        self.process = None;
    }

    /// Copies the content of a server that has ended.
    pub fn back_up(&self) {
        copied(&self.data(), &self.directory.path().join("backup"));
    }

    /// Goes back to the copy.
    pub fn restore(&self) {
        std::fs::remove_dir_all(self.data()).expect("the data goes");
        copied(&self.directory.path().join("backup"), &self.data());
    }

    /// Stops the server with all its sessions, or lets them go on.
    pub fn signal_all(&self, name: &str) {
        let process = self.process.as_ref().expect("a server that runs");
        let leader = process.child.id();
        let children = Command::new("pgrep").args(["-P", &leader.to_string()]).output().expect("pgrep").stdout;
        for pid in String::from_utf8_lossy(&children).split_whitespace().map(str::to_owned).chain([leader.to_string()])
        {
            // A session may have ended meanwhile.
            let _ = Command::new("kill").args([format!("-{name}"), pid]).stderr(Stdio::null()).status();
        }
    }

    /// Makes a standby the server that takes writes.
    pub fn promote(&self) {
        self.sql("SELECT pg_promote()");
    }

    /// Carries a statement out.
    pub fn sql(&self, statement: &str) -> String {
        let mut psql = program("psql");
        psql.args([
            "-h",
            "127.0.0.1",
            "-p",
            &self.port.to_string(),
            "-U",
            USER,
            "-d",
            USER,
            "-X",
            "-A",
            "-t",
            "-c",
            statement,
        ]);
        let output = psql.stdout(Stdio::piped()).stderr(Stdio::piped()).output().expect("psql");
        assert!(output.status.success(), "{statement}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    /// How many sessions wait for locks.
    pub fn waiting(&self) -> u32 {
        let waiting = self.sql("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'");
        waiting.parse().expect("a number")
    }

    /// Where clients find it.
    pub fn endpoint(&self) -> Endpoint {
        Endpoint { host: "127.0.0.1".to_owned(), port: self.port }
    }
}
