//! Addresses at which clients reach the nodes.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs},
    sync::Arc,
};

pub use rota_wire::show::kafka_uuid;

use super::{error::ServerError, listeners::Listener, owners::FIRST_NODE};

/// A node's address for clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// The node id.
    pub id: i32,
    /// Host name or address.
    pub host: String,
    /// The port.
    pub port: i32,
}

/// The nodes of a cluster. The first one is the controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cluster {
    /// The cluster id; `None`: this server is of a cluster that it does not know yet.
    pub id: Option<String>,
    /// The nodes; never empty.
    pub nodes: Vec<Node>,
}

/// Identity and addresses of a node.
#[derive(Clone, Debug)]
pub struct Place {
    /// The cluster id, a UUID in Kafka's notation.
    pub cluster_id: String,
    /// The id of this node.
    pub node_id: i32,
    /// The number of nodes.
    pub nodes: u32,
    /// The listeners, which every node has.
    pub listeners: Arc<[Arc<Listener>]>,
}

impl Place {
    /// Returns all nodes for a client that reached `listener` at `reached_ip`. The first one is the controller.
    pub fn cluster(&self, listener: &Listener, reached_ip: IpAddr) -> Cluster {
        let host = listener.host_for(reached_ip);
        let node = |(id, port): (i32, &u16)| Node { id, host: host.clone(), port: i32::from(*port) };
        Cluster { id: Some(self.cluster_id.clone()), nodes: (FIRST_NODE..).zip(&listener.ports).map(node).collect() }
    }
}

/// Splits `HOST:PORT`. An IPv6 address must be in brackets.
pub fn split_address(what: &'static str, address: &str) -> Result<(String, u16), ServerError> {
    let bad = || ServerError::BadAddress { what, address: address.to_owned() };
    let (host, port) = address.rsplit_once(':').ok_or_else(bad)?;
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    let host = bare.unwrap_or(host);
    if host.is_empty() || (bare.is_none() && host.contains(':')) {
        return Err(bad());
    }
    Ok((host.to_owned(), port.parse().map_err(|_| bad())?))
}

/// Resolves `HOST:PORT` to socket addresses.
pub fn resolve(host: &str, port: u16) -> Result<Vec<SocketAddr>, ServerError> {
    match (host, port).to_socket_addrs() {
        Ok(addresses) => Ok(addresses.collect()),
        Err(source) => Err(ServerError::UnknownHost { address: format!("{host}:{port}"), source }),
    }
}

/// Whether only this machine reaches a listen host.
pub fn is_loopback(host: &str) -> bool {
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

/// Returns the host at which this machine reaches a listen host.
pub fn reachable_host(listen_host: &str) -> String {
    match listen_host.parse() {
        Ok(IpAddr::V4(Ipv4Addr::UNSPECIFIED)) => Ipv4Addr::LOCALHOST.to_string(),
        Ok(IpAddr::V6(Ipv6Addr::UNSPECIFIED)) => Ipv6Addr::LOCALHOST.to_string(),
        _ => listen_host.to_owned(),
    }
}

/// Returns the default of the advertised host: the listen host, unless it is a wildcard.
pub fn default_host(listen_host: &str) -> Option<String> {
    let all = listen_host.parse::<IpAddr>().is_ok_and(|ip| ip.is_unspecified());
    (!all).then(|| listen_host.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_host_and_a_port() {
        assert_eq!(split_address("listen", "localhost:0").unwrap(), ("localhost".to_owned(), 0));
        assert_eq!(split_address("listen", "[::1]:9092").unwrap(), ("::1".to_owned(), 9092));
        for bad in ["localhost", ":9092", "::1:9092", "host:port", "host:70000", "", "[]:1"] {
            let error = split_address("listen", bad).unwrap_err();
            assert!(error.to_string().contains("expected HOST:PORT"), "{bad}");
        }
    }

    #[test]
    fn an_address_that_stands_for_all_is_not_advertised() {
        assert_eq!(default_host("0.0.0.0"), None);
        assert_eq!(default_host("::"), None);
        assert_eq!(default_host("localhost"), Some("localhost".to_owned()));
    }

    #[test]
    fn a_uuid_is_written_in_kafkas_notation() {
        assert_eq!(kafka_uuid(0), "AAAAAAAAAAAAAAAAAAAAAA");
        assert_eq!(kafka_uuid(u128::MAX), "_____________________w");
        // From Java: Uuid.fromString("...").
        assert_eq!(kafka_uuid(0x0011_2233_4455_6677_8899_aabb_ccdd_eeff), "ABEiM0RVZneImaq7zN3u_w");
    }
}
