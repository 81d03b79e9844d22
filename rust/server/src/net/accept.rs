//! The task that accepts the connections of a node.

use std::{io, net::SocketAddr, rc::Rc, time::Duration};

use tokio::{
    net::{TcpListener, TcpStream},
    select,
};

use super::{channel::Channel, connection::Connection, event_loop::EventLoop};
use crate::client::Client;

/// How long to wait before accepting again after an error, such as too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Accepts connections for as long as the node lives, where it listens.
pub async fn accept(event_loop: Rc<EventLoop>, listener: TcpListener) {
    let mut listener = Some(listener);
    let max_connections = event_loop.shared.settings().max_connections();
    let mut id = 0;
    loop {
        let accepted = select! {
            biased;
            () = event_loop.listening.given() => None,
            accepted = next(listener.as_ref()) => Some(accepted),
        };
        match accepted {
            None => event_loop.listening.follow(&mut listener),
            Some(Ok(_)) if event_loop.connection_count() >= max_connections => {}
            Some(Ok((stream, peer))) => {
                id += 1;
                admit(&event_loop, id, stream, peer);
            }
            Some(Err(_)) => tokio::time::sleep(ACCEPT_PAUSE).await,
        }
    }
}

/// The next connection; never one while the node does not listen.
async fn next(listener: Option<&TcpListener>) -> io::Result<(TcpStream, SocketAddr)> {
    match listener {
        Some(listener) => listener.accept().await,
        None => std::future::pending().await,
    }
}

fn admit(event_loop: &Rc<EventLoop>, id: u64, stream: TcpStream, peer: SocketAddr) {
    // Without it answers are late, not wrong.
    let _late = stream.set_nodelay(true);
    let Ok(local) = stream.local_addr() else { return };
    let trace = event_loop.shared.trace_of(event_loop.node.borrow().place(), id, peer);
    let connection = Rc::new(Connection::new(id, Client::new(peer, local, trace)));
    event_loop.remember(&connection);
    tokio::task::spawn_local(Channel::new(Rc::clone(event_loop), connection, stream).serve());
}
