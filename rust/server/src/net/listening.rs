//! Ports and listening sockets.

use std::{
    io,
    net::{SocketAddr, TcpListener},
    sync::Arc,
};

use socket2::{Domain, Protocol, Socket, Type};

use crate::base::{error::ServerError, listeners::Listener, owners::NODES_MAX, place::resolve};

/// The socket of a listener on one node.
#[derive(Debug)]
pub struct Bound<S> {
    /// The listener.
    pub listener: Arc<Listener>,
    /// The socket.
    pub socket: S,
}

/// Connections that the kernel may complete before they are accepted.
const BACKLOG: i32 = 4_096;

/// Returns the ports of `nodes` nodes: `port` and the following ones, or free ports for 0.
pub fn ports_from(port: u16, nodes: u32) -> Result<Vec<u16>, ServerError> {
    if !(1..=NODES_MAX).contains(&nodes) {
        return Err(ServerError::BadNodes { nodes });
    }
    if port == 0 {
        return Ok(vec![0; nodes as usize]);
    }
    let last = u16::try_from(u32::from(port) + nodes - 1).map_err(|_| ServerError::TooFewPorts { port, nodes })?;
    Ok((port..=last).collect())
}

/// Listens on all of these ports of `host`.
pub fn listen_all(host: &str, ports: &[u16]) -> Result<Vec<TcpListener>, ServerError> {
    let listen_one = |port: &u16| {
        let address = if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") };
        listen(&address, &resolve(host, *port)?)
    };
    ports.iter().map(listen_one).collect()
}

/// Listens on the first available of `addresses`.
fn listen(address: &str, addresses: &[SocketAddr]) -> Result<TcpListener, ServerError> {
    let mut refused = io::Error::new(io::ErrorKind::AddrNotAvailable, "the host has no address");
    for socket_address in addresses {
        match listen_on(*socket_address) {
            Ok(listener) => return Ok(listener),
            Err(error) => refused = error,
        }
    }
    let address = address.to_owned();
    if refused.kind() == io::ErrorKind::AddrInUse {
        return Err(ServerError::AddressInUse { address });
    }
    Err(ServerError::CannotListen { address, source: refused })
}

fn listen_on(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}
