//! The thread of one node: its event loop, timer and orders.

use std::{
    io,
    net::TcpListener as StdListener,
    rc::Rc,
    sync::{
        Arc,
        mpsc::{Receiver, SyncSender, sync_channel},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use tokio::{
    runtime, select,
    sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
    task::LocalSet,
};

use super::{accept::accept, event_loop::EventLoop, listening::Bound, listening_orders::polled, loading};
use crate::{
    base::error::ServerError,
    client::Ending,
    node::{Node, shared_state::SharedState},
    topics::retention,
};

/// Time that `stop` gives the disk to end what requests wait for, and connections to write their answers, within its timeout.
const LAST_ANSWERS: Duration = Duration::from_millis(500);

/// An order for a node's thread, executed between two requests.
pub type Command = Box<dyn FnOnce(&Rc<EventLoop>) + Send>;

/// The thread of a running node.
pub struct Running {
    /// Stops the node.
    pub stop: tokio::sync::oneshot::Sender<()>,
    /// Receives a message when the thread has ended.
    pub ended: Receiver<()>,
    /// The thread.
    pub thread: JoinHandle<()>,
}

/// Starts the thread of one node. The node answers requests when this returns.
pub fn start_node(
    shared: &Arc<SharedState>,
    node_id: i32,
    sockets: Vec<Bound<StdListener>>,
    loads: SyncSender<Result<(), ServerError>>,
) -> Result<(UnboundedSender<Command>, Running), ServerError> {
    let (commands, orders) = unbounded_channel();
    let (stop, stopped) = tokio::sync::oneshot::channel();
    let (report, ended) = sync_channel(1);
    let (started, ready) = sync_channel(1);
    let shared = Arc::clone(shared);
    let thread = thread::Builder::new().name(format!("rota-node-{node_id}")).spawn(move || {
        run(&shared, node_id, sockets, orders, stopped, &started, loads);
        // The receiver may be gone.
        let _nobody = report.send(());
    });
    let thread = thread.map_err(|source| ServerError::CannotRun { source })?;
    ready.recv().map_err(|_| ServerError::Died)?.map_err(|source| ServerError::CannotRun { source })?;
    Ok((commands, Running { stop, ended, thread }))
}

/// Runs a node's thread.
fn run(
    shared: &Arc<SharedState>,
    node_id: i32,
    sockets: Vec<Bound<StdListener>>,
    orders: UnboundedReceiver<Command>,
    stopped: tokio::sync::oneshot::Receiver<()>,
    started: &SyncSender<io::Result<()>>,
    loads: SyncSender<Result<(), ServerError>>,
) {
    let built = runtime::Builder::new_current_thread().enable_io().enable_time().build();
    let runtime = match built {
        Ok(runtime) => runtime,
        Err(error) => return drop(started.send(Err(error))),
    };
    LocalSet::new().block_on(&runtime, async move {
        let sockets = match polled(sockets) {
            Ok(sockets) => sockets,
            Err(error) => return drop(started.send(Err(error))),
        };
        let event_loop = EventLoop::new(shared, Node::new(shared, node_id));
        loading::load_own(&event_loop, loads);
        let mut accepting = tokio::task::spawn_local(accept(Rc::clone(&event_loop), sockets));
        let mut timing = tokio::task::spawn_local(run_timers(Rc::clone(&event_loop)));
        let mut listening = tokio::task::spawn_local(run_wakeups(Rc::clone(&event_loop)));
        let max_idle_ms = event_loop.shared.settings().max_idle_ms();
        let sweeping = max_idle_ms.map(|max| tokio::task::spawn_local(Rc::clone(&event_loop).sweep_idle(max)));
        let retaining = keep_messages(&event_loop);
        let _waits = started.send(Ok(()));
        // Without timers or new connections, the server would look alive but not answer. Ending the process is better.
        let died = select! {
            () = follow(&event_loop, orders, stopped) => None,
            Err(error) = &mut timing => Some(error),
            Err(error) = &mut accepting => Some(error),
            Err(error) = &mut listening => Some(error),
        };
        if let Some(error) = died {
            std::panic::resume_unwind(error.into_panic());
        }
        accepting.abort();
        timing.abort();
        listening.abort();
        sweeping.inspect(tokio::task::JoinHandle::abort);
        retaining.inspect(tokio::task::JoinHandle::abort);
        // A client that does not read its last answers in time loses them.
        let _unread = tokio::time::timeout(LAST_ANSWERS, shut_down(&event_loop)).await;
    });
}

/// Runs retention of messages on disk, on one node for all.
fn keep_messages(event_loop: &EventLoop) -> Option<tokio::task::JoinHandle<()>> {
    let shared = &event_loop.shared;
    if shared.place_of(event_loop.node.borrow().id()) != 0 || shared.data().is_none() {
        return None;
    }
    let interval = Duration::from_millis(shared.settings().retention_check_interval_ms());
    Some(tokio::task::spawn_local(retention::run(Arc::clone(shared.topics()), shared.clock().clone(), interval)))
}

/// Handles what other threads leave for this node.
async fn run_wakeups(event_loop: Rc<EventLoop>) {
    let waker = event_loop.node.borrow().waker();
    loop {
        waker.notified().await;
        let taken = event_loop.node.borrow_mut().follow_cluster();
        for (partition, epoch) in taken {
            tokio::task::spawn_local(loading::load_taken(Rc::clone(&event_loop), partition, epoch));
        }
        event_loop.node.borrow_mut().handle_wakeup();
    }
}

/// Executes orders until the stop message.
async fn follow(
    event_loop: &Rc<EventLoop>,
    mut orders: UnboundedReceiver<Command>,
    mut stopped: tokio::sync::oneshot::Receiver<()>,
) {
    loop {
        select! {
            biased;
            _ = &mut stopped => return,
            order = orders.recv() => match order {
                Some(order) => order(event_loop),
                None => return,
            },
        }
    }
}

/// Answers all waiting requests, and lets connections write these answers before they are closed. Of those that wait for
/// another thread each is answered when that has done its part.
async fn shut_down(event_loop: &Rc<EventLoop>) {
    let waker = event_loop.node.borrow().waker();
    event_loop.node.borrow_mut().unload();
    event_loop.end_all(Ending::AfterWriting);
    loop {
        let is_connected = event_loop.connection_count() > 0;
        if !is_connected && !event_loop.node.borrow().has_produces() {
            return;
        }
        select! {
            () = event_loop.emptied(), if is_connected => {}
            () = waker.notified() => event_loop.node.borrow_mut().finish_waiting(),
        }
    }
}

/// Sleeps until the earliest deadline of all coordinators and fires what is due.
async fn run_timers(event_loop: Rc<EventLoop>) {
    let timer = event_loop.node.borrow().timer();
    loop {
        let until = event_loop.node.borrow_mut().arm();
        let Some(until) = until else {
            timer.notified().await;
            continue;
        };
        select! {
            () = timer.notified() => {}
            () = tokio::time::sleep_until(until) => {
                let node = &mut *event_loop.node.borrow_mut();
                node.check_session();
                node.advance_due();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use kafka_protocol::{
        messages::{
            ProduceRequest, TopicName,
            produce_request::{PartitionProduceData, TopicProduceData},
        },
        protocol::StrBytes,
    };
    use rota_log::BatchWriter;
    use rota_wire::versions;

    use super::*;
    use crate::{
        base::owners::FIRST_NODE,
        client::{reply_to::ReplyTo, tests::nowhere},
        node::shared_state::tests::on_disk,
    };

    #[test]
    fn a_produce_that_waits_for_the_disk_is_answered_before_the_node_ends() {
        let dir = tempfile::tempdir().unwrap();
        let shared = Arc::new(on_disk(dir.path()));
        let event_loop = EventLoop::new(&shared, Node::new(&shared, FIRST_NODE));
        let mut writer = BatchWriter::default();
        writer.push(0, None, Some(b"v"));
        let data = PartitionProduceData::default().with_records(Some(writer.finish()));
        let name = TopicName(StrBytes::from_static_str("t"));
        let topic = TopicProduceData::default().with_name(name).with_partition_data(vec![data]);
        let request = ProduceRequest::default().with_acks(-1).with_topic_data(vec![topic]);
        let client = nowhere();
        {
            let node = &mut *event_loop.node.borrow_mut();
            let (topics, random) = node.topics_mut();
            topics.create("t", 1, random).unwrap();
            let outcome = topics.produce(&request, 9, 0);
            assert_eq!((outcome.has_error, outcome.waiting.len()), (false, 1));
            let api = versions::find(versions::PRODUCE).unwrap();
            let reply_to = ReplyTo { client: Rc::clone(&client), api, version: 9, correlation_id: 7 };
            node.answer_when_durable(reply_to, outcome);
        }
        assert!(client.is_parked());
        let runtime = runtime::Builder::new_current_thread().enable_time().build().unwrap();
        LocalSet::new().block_on(&runtime, shut_down(&event_loop));
        assert_eq!((client.is_parked(), client.out_bytes() > 0), (false, true));
    }
}
