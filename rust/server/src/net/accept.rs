//! Accepting connections.

use std::{net::SocketAddr, rc::Rc, time::Duration};

use tokio::net::{TcpListener, TcpStream};

use super::{
    connection::{Channel, Connection},
    event_loop::EventLoop,
};
use crate::client::Client;

/// How long to wait before accepting again after an error, such as too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Accepts connections for as long as the node lives.
pub async fn accept(event_loop: Rc<EventLoop>, listener: TcpListener) {
    let max_connections = event_loop.shared.settings.max_connections();
    let mut id = 0;
    loop {
        match listener.accept().await {
            Ok(_) if event_loop.connection_count() >= max_connections => {}
            Ok((stream, peer)) => {
                id += 1;
                admit(&event_loop, id, stream, peer);
            }
            Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
        }
    }
}

fn admit(event_loop: &Rc<EventLoop>, id: u64, stream: TcpStream, peer: SocketAddr) {
    // Without it answers are late, not wrong.
    let _late = stream.set_nodelay(true);
    let Ok(local) = stream.local_addr() else { return };
    let trace = event_loop.shared.trace.as_ref().map(|trace| trace.of(event_loop.node.borrow().place(), id, peer));
    let connection = Rc::new(Connection::new(id, Client::new(peer, local, trace)));
    event_loop.remember(&connection);
    tokio::task::spawn_local(Channel::new(Rc::clone(event_loop), connection, stream).serve());
}
