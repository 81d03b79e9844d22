//! The listeners of a server, from its configuration to bound sockets.

use std::{io, net::TcpListener as StdListener, sync::Arc};

use rota_security::{
    sasl::Mechanism,
    tls::{BadTls, Tls, TlsFiles},
};

use super::ServerConfig;
use crate::{
    base::{
        between_servers::{self, BetweenServers},
        error::ServerError,
        listeners::{Endpoint, Listener, ListenerError, SecurityProtocol, advertise, endpoints},
        place::{default_host, is_loopback, reachable_host, split_address},
    },
    net::listening::{Bound, listen_all, ports_from},
};

/// A listener of a running server: its host, and the ports of its nodes.
#[derive(Clone, Debug)]
pub struct OpenListener {
    /// The listener as its clients see it.
    pub listener: Arc<Listener>,
    /// The listen host.
    pub host: String,
    /// The port of each node, in the order of node ids.
    pub ports: Vec<u16>,
    /// The id of the first node.
    pub first_node: i32,
}

impl OpenListener {
    /// Whether only this machine reaches it.
    pub fn is_local(&self) -> bool {
        is_loopback(&self.host)
    }

    /// Listens on the port of the node with this index again.
    pub(super) fn reopen(&self, at: usize) -> Result<Bound<StdListener>, ServerError> {
        let socket = listen_all(&self.host, &self.ports[at..=at])?.remove(0);
        Ok(Bound { listener: Arc::clone(&self.listener), socket })
    }

    /// Returns id, host and port of every node, as this machine reaches it.
    pub fn addresses(&self) -> Vec<(i32, String, u16)> {
        let host = reachable_host(&self.host);
        (self.first_node..).zip(&self.ports).map(|(node_id, port)| (node_id, host.clone(), *port)).collect()
    }
}

/// The sockets of one node.
type Sockets = Vec<Bound<StdListener>>;

/// Listens, and returns the listeners and the sockets of each node.
pub(super) fn open(
    endpoints: Vec<Endpoint>,
    nodes: u32,
    first_node: i32,
) -> Result<(Vec<OpenListener>, Vec<Sockets>), ServerError> {
    let mut sockets: Vec<Sockets> = (0..nodes).map(|_| Vec::new()).collect();
    let mut opened = Vec::new();
    for endpoint in endpoints {
        let found = listen_all(&endpoint.host, &ports_from(endpoint.port, nodes)?)?;
        let port = |socket: &StdListener| socket.local_addr().map(|address| address.port());
        let ports: io::Result<Vec<u16>> = found.iter().map(port).collect();
        let ports = ports.map_err(|source| ServerError::CannotRun { source })?;
        let (host, advertised) = match endpoint.advertised {
            None => (default_host(&endpoint.host), ports.clone()),
            Some((host, 0)) => (host, ports.clone()),
            Some((host, port)) => (host, ports_from(port, nodes)?),
        };
        let listener = Arc::new(Listener {
            name: endpoint.name,
            protocol: endpoint.protocol,
            host,
            ports: advertised,
            listen_host: endpoint.host.clone(),
            listen_ports: ports.clone(),
        });
        for (of_node, socket) in sockets.iter_mut().zip(found) {
            of_node.push(Bound { listener: Arc::clone(&listener), socket });
        }
        opened.push(OpenListener { listener, host: endpoint.host, ports, first_node });
    }
    Ok((opened, sockets))
}

/// Returns the listeners of `listeners`, or the one of `listen`, with the addresses that are advertised.
pub(super) fn configured(config: &ServerConfig, has_tls: bool) -> Result<Vec<Endpoint>, ServerError> {
    // Their number is known to be right before it is compared with ports.
    ports_from(0, config.nodes)?;
    let texts = config.settings.listeners();
    let mut found = endpoints(texts, config.nodes)?;
    let from_setting = !found.is_empty();
    if !from_setting {
        found.push(from_listen(config, SecurityProtocol::of(has_tls, config.sasl.is_some()))?);
    }
    advertise(&mut found, texts)?;
    if let Some(address) = &config.advertise {
        if from_setting || !texts.advertised.is_empty() {
            let twice = "--advertise belongs to --listen: with `listeners`, give `advertised.listeners`";
            return Err(ListenerError::Conflict(twice.to_owned()).into());
        }
        let (host, port) = split_address("advertise", address)?;
        found[0].advertised = Some((Some(host), port));
    }
    Ok(found)
}

/// Returns the listener of `--listen`, which is `HOST:PORT` or `PROTOCOL://HOST:PORT`.
///
/// An address that others reach has TLS, or its protocol is named.
fn from_listen(config: &ServerConfig, protocol: SecurityProtocol) -> Result<Endpoint, ServerError> {
    let conflict = |reason: String| Err(ListenerError::Conflict(reason).into());
    let (named, address) = match config.listen.split_once("://") {
        Some((named, address)) => (Some(named), address),
        None => (None, config.listen.as_str()),
    };
    let (host, port) = split_address("listen on", address)?;
    let name = protocol.name();
    match named {
        Some(named) if !named.eq_ignore_ascii_case(name) => {
            let wanted = SecurityProtocol::named(named);
            if wanted.is_some_and(SecurityProtocol::has_tls) && !protocol.has_tls() {
                return conflict(format!("--listen names {named}, which needs a certificate: give --tls-cert"));
            }
            if wanted.is_some_and(SecurityProtocol::has_sasl) && !protocol.has_sasl() {
                return conflict(format!(
                    "--listen names {named}, which needs users: give --users, a file that `rota user add` writes, or \
                     --sasl OAUTHBEARER"
                ));
            }
            return conflict(format!(
                "--listen names {named}, but with this certificate and these users the listener is {name}: give \
                 {name}://{address}, or add or remove --tls-cert and --users"
            ));
        }
        None if !protocol.has_tls() && !is_loopback(&host) => {
            return conflict(format!(
                "others reach {address}, and connections to it are not encrypted: give --tls-cert, or ask for it by \
                 name: --listen {name}://{address}"
            ));
        }
        _ => {}
    }
    Ok(Endpoint { name: name.to_owned(), protocol, host, port, advertised: None })
}

/// Refuses listeners without what their protocol needs, and what no listener uses.
pub(super) fn check(endpoints: &[Endpoint], config: &ServerConfig, tls: Option<&Tls>) -> Result<(), ServerError> {
    let conflict = |reason: String| Err(ListenerError::Conflict(reason).into());
    let with = |has: fn(SecurityProtocol) -> bool| endpoints.iter().find(move |endpoint| has(endpoint.protocol));
    match (with(SecurityProtocol::has_tls), tls) {
        (Some(Endpoint { name, protocol, .. }), None) => {
            let protocol = protocol.name();
            return conflict(format!(
                "the listener {name} has the protocol {protocol}, which needs a certificate: give --tls-cert, or \
                 `ssl.keystore.location`"
            ));
        }
        (None, Some(_)) if !config.shares_certificate => {
            return conflict(
                "no listener uses the certificate: give one of `listeners` the protocol SSL or SASL_SSL in \
                 `listener.security.protocol.map`"
                    .to_owned(),
            );
        }
        _ => {}
    }
    match (with(SecurityProtocol::has_sasl), &config.sasl) {
        (Some(Endpoint { name, protocol, .. }), None) => {
            let protocol = protocol.name();
            return conflict(format!(
                "the listener {name} has the protocol {protocol}, which needs users: give --users, a file that `rota \
                 user add` writes, or --sasl OAUTHBEARER"
            ));
        }
        (None, Some(_)) => {
            return conflict(
                "no listener asks for users: give one of `listeners` the protocol SASL_SSL or SASL_PLAINTEXT in \
                 `listener.security.protocol.map`"
                    .to_owned(),
            );
        }
        _ => {}
    }
    let sends_passwords = config.sasl.as_ref().is_some_and(|sasl| sasl.mechanisms.contains(&Mechanism::Plain));
    let is_exposed =
        |endpoint: &Endpoint| endpoint.protocol == SecurityProtocol::SaslPlaintext && !is_loopback(&endpoint.host);
    if sends_passwords && !config.allow_plaintext_passwords && endpoints.iter().any(is_exposed) {
        let exposed = "PLAIN without TLS sends passwords over the network in plain text: give a certificate, or use \
                       SCRAM-SHA-512; to allow it nevertheless, give --allow-plaintext-passwords";
        return Err(BadTls::Settings(exposed.to_owned()).into());
    }
    Ok(())
}

/// Returns how the servers of a cluster ask each other, or why they cannot. Errors: they were to, and what is missing.
pub(super) fn between_servers(
    endpoints: &[Endpoint],
    config: &ServerConfig,
    own: Option<&TlsFiles>,
) -> Result<Result<BetweenServers, String>, ServerError> {
    let (settings, access) = (&config.settings, &config.peer_access);
    let refused = |reason| Err(ListenerError::Conflict(reason).into());
    if let Err(reason) = between_servers::listener(endpoints, settings) {
        return refused(reason);
    }
    match BetweenServers::new(endpoints, settings, access, own, config.sasl.as_ref()) {
        Err(reason) if config.engine.is_some() && BetweenServers::is_asked_for(settings, access) => refused(reason),
        found => Ok(found),
    }
}
