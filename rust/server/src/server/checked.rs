//! A configuration before anything is opened: what a start refuses, and what it then opens.

use std::sync::Arc;

use rota_security::{
    acl::{Authorizer, Binding},
    principal::MappingRules,
    sasl::Sasl,
    tls::{BadTls, Tls, TlsFiles},
};

use super::{ServerConfig, listeners, reload::Reloader, tokens};
use crate::base::{between_servers::BetweenServers, error::ServerError, listeners::Endpoint, settings::Settings};

/// What a configuration says, with its files read. Nothing is opened yet.
pub(super) struct Checked {
    pub reloader: Arc<Reloader>,
    pub sasl: Option<Sasl>,
    pub tls: Option<Tls>,
    pub endpoints: Vec<Endpoint>,
    pub between: Result<BetweenServers, String>,
    pub mapping: MappingRules,
    pub authorizer: Option<Authorizer>,
}

impl Checked {
    /// Reads the files. Errors: what the configuration says cannot be.
    pub fn of(config: &ServerConfig) -> Result<Checked, ServerError> {
        config.settings.check()?;
        check_engine(config)?;
        let files = match (&config.tls, config.settings.tls()?) {
            (Some(_), Some(_)) => {
                let both = "the server's certificate is given twice: use --tls-cert or `ssl.keystore.*`, not both";
                return Err(BadTls::Settings(both.to_owned()).into());
            }
            (given, set) => given.clone().or(set),
        };
        let source = config.settings.key_source()?;
        let reloader = Arc::new(Reloader::new(files.as_ref(), config.users_file.as_deref(), source.as_ref()));
        let sasl = tokens::with_tokens(config, source.as_ref())?;
        let tls = files.as_ref().map(TlsFiles::load).transpose()?;
        let endpoints = listeners::configured(config, tls.is_some())?;
        listeners::check(&endpoints, config, tls.as_ref())?;
        let between = listeners::between_servers(&endpoints, config, files.as_ref())?;
        let mapping = config.settings.principal_mapping()?;
        let authorizer = authorizer_of(&config.settings, config.acls.clone())?;
        Ok(Checked { reloader, sasl, tls, endpoints, between, mapping, authorizer })
    }
}

/// Refuses what a node of a cluster cannot do. Errors: `OfCluster`.
fn check_engine(config: &ServerConfig) -> Result<(), ServerError> {
    let Some(engine) = &config.engine else { return Ok(()) };
    let conflicts = [
        (config.nodes != 1, "each server of a cluster has one node: leave `nodes` out"),
        (
            config.data.as_ref().is_some_and(|data| data.take_over),
            "a server of a cluster needs a directory of its own: leave `take_over` out",
        ),
        (config.virtual_clock.is_some(), "a cluster has no virtual clock"),
        (engine.node_id < 0, "the node id must not be negative"),
    ];
    match conflicts.iter().find(|(is_there, _)| *is_there) {
        None => Ok(()),
        Some((_, reason)) => Err(ServerError::OfCluster(reason)),
    }
}

/// Returns the authorizer with its first ACLs; `None`: everyone may do everything.
fn authorizer_of(settings: &Settings, acls: Option<Vec<Binding>>) -> Result<Option<Authorizer>, BadTls> {
    let authorizer = settings.authorizer(acls.is_some())?;
    let table = Arc::new(acls.unwrap_or_default().into_iter().collect());
    Ok(authorizer.map(|authorizer| Authorizer { table, ..authorizer }))
}
