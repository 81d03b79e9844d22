//! Engines on servers.

use std::{
    future::Future,
    sync::atomic::{AtomicU32, Ordering},
    time::{Duration, Instant},
};

use rota_postgres::{Config, PostgresEngine};

use crate::server::{PATIENCE, Server, is_installed};

/// Runs a test on a runtime, if PostgreSQL is installed.
pub fn run<F: Future<Output = ()>>(test: impl FnOnce() -> F) {
    if is_installed() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(test());
    }
}

/// How to reach the server that takes writes, with another schema each time. Attempts wait long, so that a busy machine
/// makes no difference.
pub fn config(servers: &[&Server]) -> Config {
    static SCHEMAS: AtomicU32 = AtomicU32::new(0);
    let schema = format!("rota_{}", SCHEMAS.fetch_add(1, Ordering::Relaxed));
    let mut config = Config::parse("postgres://postgres@127.0.0.1:1/postgres", None).expect("a URL");
    config.endpoints = servers.iter().map(|server| server.endpoint()).collect();
    (config.schema, config.timeout) = (schema, Duration::from_secs(30));
    config
}

/// As nodes have it: an attempt ends after a second.
pub fn impatient(servers: &[&Server]) -> Config {
    Config { timeout: Duration::from_secs(1), ..config(servers) }
}

/// An engine with tables of its own.
pub async fn open(config: &Config) -> PostgresEngine {
    let began = Instant::now();
    loop {
        match PostgresEngine::prepare(config).await {
            Ok(_) => break,
            Err(error) => assert!(began.elapsed() < PATIENCE, "{error}"),
        }
    }
    loop {
        match PostgresEngine::open(config.clone()).await {
            Ok(engine) => return engine,
            Err(error) => assert!(began.elapsed() < PATIENCE, "{error}"),
        }
    }
}
