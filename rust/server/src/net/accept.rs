//! Accepts the connections of a node.

use std::{
    future::poll_fn,
    io,
    net::SocketAddr,
    rc::Rc,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use tokio::{
    net::{TcpListener, TcpStream},
    select,
};

use super::{
    channel::Channel, connection::Connection, event_loop::EventLoop, listening::Bound, listening_orders::Sockets,
    tls_stream::TlsStream, transport::Transport,
};
use crate::{base::listeners::Listener, client::Client};

/// Pause after a failed accept, such as with too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Accepts connections while the node lives and listens.
pub async fn accept(event_loop: Rc<EventLoop>, sockets: Vec<Bound<TcpListener>>) {
    let mut sockets = Sockets(sockets);
    let max_connections = event_loop.shared.settings().max_connections();
    let (mut id, mut turn) = (0, 0);
    loop {
        let accepted = select! {
            biased;
            () = event_loop.listening.given() => None,
            accepted = poll_fn(|context| poll_accept(&sockets.0, &mut turn, context)) => Some(accepted),
        };
        match accepted {
            None => event_loop.listening.follow(&mut sockets),
            Some(Ok(_)) if event_loop.connection_count() >= max_connections => {}
            Some(Ok((listener, stream, peer))) => {
                id += 1;
                admit(&event_loop, id, listener, stream, peer);
            }
            Some(Err(_)) => tokio::time::sleep(ACCEPT_PAUSE).await,
        }
    }
}

/// Accepts the next connection. The listeners have turns, so that many connections on one do not keep out those of
/// another.
fn poll_accept(
    sockets: &[Bound<TcpListener>],
    turn: &mut usize,
    context: &mut Context<'_>,
) -> Poll<io::Result<(Arc<Listener>, TcpStream, SocketAddr)>> {
    for offset in 0..sockets.len() {
        let at = (*turn + offset) % sockets.len();
        let Bound { listener, socket } = &sockets[at];
        if let Poll::Ready(accepted) = socket.poll_accept(context) {
            *turn = at + 1;
            return Poll::Ready(accepted.map(|(stream, peer)| (Arc::clone(listener), stream, peer)));
        }
    }
    Poll::Pending
}

fn admit(event_loop: &Rc<EventLoop>, id: u64, listener: Arc<Listener>, stream: TcpStream, peer: SocketAddr) {
    // Without the option, answers are late but correct.
    let _late = stream.set_nodelay(true);
    let Ok(local) = stream.local_addr() else { return };
    let transport = match (listener.protocol.has_tls(), event_loop.shared.tls()) {
        (false, _) => Transport::Plain(stream),
        (true, Some(tls)) => match TlsStream::new(stream, &tls.config) {
            Ok(stream) => Transport::Tls(Box::new(stream)),
            // Only wrong configurations are refused, and those do not load.
            Err(_) => return,
        },
        // A server with such a listener does not start without a certificate.
        (true, None) => return,
    };
    let trace = event_loop.shared.trace_of(event_loop.node.borrow().place(), id, peer);
    let connection = Rc::new(Connection::new(id, Client::new(peer, local, listener, trace)));
    event_loop.remember(&connection);
    tokio::task::spawn_local(Channel::new(Rc::clone(event_loop), connection, transport).serve());
}
