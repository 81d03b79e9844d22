//! Engines on members of etcd.

use std::{
    future::Future,
    process::Command,
    sync::atomic::{AtomicU32, Ordering},
    time::{Duration, Instant},
};

pub use rota_contract::sequences::history;
use rota_etcd::{Config, EtcdEngine};

use crate::etcd::{Etcd, PATIENCE, is_installed};

/// Runs a test on a runtime, if etcd is installed.
pub fn run<F: Future<Output = ()>>(test: impl FnOnce() -> F) {
    if is_installed() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(test());
    }
}

impl Etcd {
    /// How to reach it, with another prefix each time. Attempts wait long, so that a busy machine makes no difference.
    pub fn config(&self) -> Config {
        static PREFIXES: AtomicU32 = AtomicU32::new(0);
        let prefix = format!("/rota/{}", PREFIXES.fetch_add(1, Ordering::Relaxed));
        let mut config = Config::parse(&format!("etcd://127.0.0.1:1{prefix}"), None).expect("a URL");
        config.endpoints = self.endpoints();
        config.timeout = Duration::from_secs(30);
        // Else a watch that shows too little is begun anew before a test sees it.
        config.stall = PATIENCE;
        config.keep = None;
        config
    }

    /// An engine on it, as soon as it answers.
    pub async fn engine(&self) -> EtcdEngine {
        open(&self.config()).await
    }

    /// `etcdctl` with arguments, on the first member.
    pub fn control(&self, arguments: &[&str]) {
        let output = Command::new("etcdctl")
            .env("ETCDCTL_API", "3")
            .args(["--endpoints", &self.endpoints()[0].to_string(), "--command-timeout", "60s"])
            .args(arguments)
            .output()
            .expect("etcdctl (Debian: etcd-client)");
        assert!(output.status.success(), "etcdctl {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

/// An engine, as soon as etcd answers.
pub async fn open(config: &Config) -> EtcdEngine {
    let began = Instant::now();
    loop {
        match EtcdEngine::open(config.clone()).await {
            Ok(engine) => return engine,
            Err(error) => assert!(began.elapsed() < PATIENCE, "{error}"),
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
