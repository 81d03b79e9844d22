//! `rota._rota.ServerConfig`: the options of a server, to check or to start it with.

use std::{collections::BTreeMap, path::PathBuf};

use pyo3::prelude::*;
use rota_server::{DataConfig, Durability, JournalConfig, Server, ServerConfig, Settings};

use crate::{cluster, security, server_error::raised};

/// The options of a server.
#[pyclass(frozen, name = "ServerConfig", module = "rota._rota")]
pub struct Config {
    pub config: ServerConfig,
}

#[pymethods]
impl Config {
    /// Reads the options of a server. Nothing is opened.
    #[new]
    #[pyo3(signature = (
        listen = "127.0.0.1:0", advertise = None, settings = None, virtual_clock = None, nodes = 1, data = None,
        journal = None, tls = None, sasl = None, allow_plaintext_passwords = false, acls = None, keys = None,
        allow_unsecured_tokens = false, shares_certificate = false, engine = None, peer_access = None
    ))]
    #[expect(clippy::too_many_arguments, reason = "named options in Python")]
    fn new(
        listen: &str,
        advertise: Option<String>,
        settings: Option<BTreeMap<String, String>>,
        virtual_clock: Option<i64>,
        nodes: u32,
        data: Option<(PathBuf, bool, bool)>,
        journal: Option<(Option<PathBuf>, Option<u64>, Option<u64>)>,
        tls: Option<(String, String, Option<String>, String)>,
        sasl: Option<security::SaslArguments>,
        allow_plaintext_passwords: bool,
        acls: Option<Vec<String>>,
        keys: Option<&str>,
        allow_unsecured_tokens: bool,
        shares_certificate: bool,
        engine: Option<cluster::EngineArguments<'_>>,
        peer_access: Option<cluster::PeerArguments>,
    ) -> PyResult<Config> {
        let mut chosen = Settings::default();
        for (name, value) in settings.unwrap_or_default() {
            chosen.set(&name, &value).map_err(|error| raised(error.into()))?;
        }
        let data = data.map(|(dir, syncs, take_over)| {
            let durability = if syncs { Durability::Fsync } else { Durability::Os };
            DataConfig { durability, take_over, ..DataConfig::at(dir) }
        });
        let journal =
            journal.map(|(dir, retention_bytes, retention_ms)| JournalConfig { dir, retention_bytes, retention_ms });
        let config = ServerConfig {
            listen: listen.to_owned(),
            advertise,
            nodes,
            settings: chosen,
            tls: tls.map(security::tls_files).transpose()?,
            shares_certificate,
            users_file: sasl.as_ref().and_then(|(_, file, _)| file.clone()),
            sasl: sasl.map(security::sasl).transpose()?,
            keys: keys.map(security::keys).transpose()?,
            allow_unsecured_tokens,
            allow_plaintext_passwords,
            acls: acls.map(|lines| security::bindings(&lines)).transpose()?,
            virtual_clock,
            data,
            journal,
            engine: engine.map(cluster::engine).transpose()?,
            peer_access: peer_access.map(cluster::peer_access).transpose()?.unwrap_or_default(),
            ..ServerConfig::default()
        };
        Ok(Config { config })
    }

    /// Checks what a start refuses before it opens an address, a directory or an engine. Returns the value of every
    /// setting, by its Kafka name.
    fn check(&self, py: Python<'_>) -> PyResult<BTreeMap<&'static str, String>> {
        let rows = py.detach(|| Server::check(&self.config)).map_err(raised)?;
        Ok(rows.into_iter().map(|(name, _, value)| (name, value)).collect())
    }
}
