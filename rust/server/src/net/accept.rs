//! Accepts the connections of a node.

use std::{io, net::SocketAddr, rc::Rc, time::Duration};

use tokio::{
    net::{TcpListener, TcpStream},
    select,
};

use super::{
    channel::Channel, connection::Connection, event_loop::EventLoop, tls_stream::TlsStream, transport::Transport,
};
use crate::client::Client;

/// Pause after a failed accept, such as with too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Accepts connections while the node lives and listens.
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

/// Waits for the next connection; never returns while the node does not listen.
async fn next(listener: Option<&TcpListener>) -> io::Result<(TcpStream, SocketAddr)> {
    match listener {
        Some(listener) => listener.accept().await,
        None => std::future::pending().await,
    }
}

fn admit(event_loop: &Rc<EventLoop>, id: u64, stream: TcpStream, peer: SocketAddr) {
    // Without the option, answers are late but correct.
    let _late = stream.set_nodelay(true);
    let Ok(local) = stream.local_addr() else { return };
    let transport = match event_loop.shared.tls() {
        None => Transport::Plain(stream),
        Some(tls) => match TlsStream::new(stream, &tls.config) {
            Ok(stream) => Transport::Tls(Box::new(stream)),
            // Only wrong configurations are refused, and those do not load.
            Err(_) => return,
        },
    };
    let trace = event_loop.shared.trace_of(event_loop.node.borrow().place(), id, peer);
    let connection = Rc::new(Connection::new(id, Client::new(peer, local, trace)));
    event_loop.remember(&connection);
    tokio::task::spawn_local(Channel::new(Rc::clone(event_loop), connection, transport).serve());
}
