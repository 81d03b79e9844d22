//! A client, independent of its socket: where its answers go, what it waits for, and its member. Only the connection's
//! task in [`crate::net`] reads and writes the socket.

use std::{
    cell::{Cell, OnceCell, Ref, RefCell, RefMut},
    net::{IpAddr, SocketAddr},
    rc::Rc,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use bytes::BytesMut;
use rota_security::principal::ANONYMOUS;
use rota_wire::{frame::LENGTH_BYTES, write::end_answer};
use tokio::sync::Notify;

use self::{local_notify::LocalNotify, repeat::Repeat, session::Session, trace::ConnectionTrace};
use crate::base::listeners::Listener;

pub mod access;
pub mod caller_reply;
pub mod fan_out;
pub mod local_notify;
pub mod repeat;
pub mod reply;
pub mod reply_to;
pub mod session;
pub mod trace;

/// Group id and member id.
pub type MemberKey = (String, String);

/// How a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ending {
    /// It does not end.
    No,
    /// After its answers are written.
    AfterWriting,
    /// At once.
    Now,
}

/// A flag of a client, which its connection's task reads with every request.
#[derive(Debug, Default)]
struct Flag {
    here: Cell<bool>,
    seen: Seen,
}

impl Flag {
    fn get(&self) -> bool {
        self.here.get()
    }

    fn set(&self, value: bool) {
        if self.here.replace(value) != value {
            self.seen.0.store(value, Ordering::Relaxed);
        }
    }
}

/// A copy of a flag for other threads, which read it when a member moves to another node. It is stored apart, so that
/// the connection's task loads one cache line less.
#[derive(Clone, Debug, Default)]
struct Seen(Arc<AtomicBool>);

impl Seen {
    fn get(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// The state of a client, readable from any thread.
#[derive(Clone, Debug)]
pub struct Presence {
    gone: Seen,
    parked: Seen,
    paused: Seen,
}

impl Presence {
    /// Whether the client has closed its side of the connection.
    pub fn is_gone(&self) -> bool {
        self.gone.get()
    }

    /// Whether a request of the client waits for its answer.
    pub fn is_parked(&self) -> bool {
        self.parked.get()
    }

    /// Whether a test has paused the client's member.
    pub fn is_paused(&self) -> bool {
        self.paused.get()
    }
}

/// A client. The fields that every request reads come first, in this order, to share few cache lines: with thousands of
/// connections each line is a cache miss.
#[derive(Debug)]
#[repr(C)]
pub struct Client {
    /// Unwritten answers.
    out: RefCell<BytesMut>,
    /// Wakes the connection's task.
    notify: LocalNotify,
    /// Whether a request waits for its answer.
    parked: Flag,
    /// Whether a test has paused the client's member. Then no request is handled and no answer written.
    paused: Flag,
    /// Whether the client has closed its side. It may still read, so answers are written as long as possible.
    gone: Flag,
    ending: Cell<Ending>,
    /// How long the client's authentication counts.
    session: Session,
    /// Whether the connection's task has ended. Then no answer is written.
    ended: Cell<bool>,
    /// Whether the connection's task waits for the parked request's answer.
    awaiting: Cell<bool>,
    /// Bytes of the ids in `member` and `allowed`.
    id_bytes: Cell<u32>,
    trace: Option<Box<ConnectionTrace>>,
    /// The peer in Java's notation, such as `/127.0.0.1`.
    host: Box<str>,
    /// The server's address of the connection.
    local: SocketAddr,
    /// The listener that accepted the connection.
    listener: Arc<Listener>,
    /// The group and member of the last request.
    member: RefCell<MemberKey>,
    data: Arc<Notify>,
    /// Who the client is: `User:` and a name.
    principal: OnceCell<Box<str>>,
    /// The last heartbeat that left a receipt.
    repeat: RefCell<Option<Box<Repeat>>>,
    /// The group that the client may send heartbeats to, with the version of the ACLs that say so.
    allowed: RefCell<(u64, Vec<u8>)>,
    /// Whether the engine has confirmed what the next request reads.
    confirmed: Cell<bool>,
}

impl Client {
    /// Creates the client of a connection from `peer` to `local`, which `listener` accepted.
    pub fn new(
        peer: SocketAddr,
        local: SocketAddr,
        listener: Arc<Listener>,
        trace: Option<ConnectionTrace>,
    ) -> Rc<Client> {
        Rc::new(Client {
            out: RefCell::default(),
            notify: LocalNotify::default(),
            parked: Flag::default(),
            paused: Flag::default(),
            gone: Flag::default(),
            ending: Cell::new(Ending::No),
            session: Session::default(),
            ended: Cell::new(false),
            awaiting: Cell::new(false),
            id_bytes: Cell::new(0),
            trace: trace.map(Box::new),
            host: java_host(peer),
            local,
            listener,
            member: RefCell::default(),
            data: Arc::default(),
            principal: OnceCell::new(),
            repeat: RefCell::default(),
            allowed: RefCell::default(),
            confirmed: Cell::new(false),
        })
    }

    /// The engine has confirmed what the next request reads.
    pub fn confirm(&self) {
        self.confirmed.set(true);
    }

    /// Whether the engine has confirmed what this request reads. It counts once.
    pub fn take_confirmed(&self) -> bool {
        self.confirmed.take()
    }

    /// Borrows the unwritten answers.
    pub fn out(&self) -> RefMut<'_, BytesMut> {
        self.out.borrow_mut()
    }

    /// Returns the size of the unwritten answers in bytes.
    pub fn out_bytes(&self) -> usize {
        self.out.borrow().len()
    }

    /// Completes the answer that began at `start` of `out`, the buffer of this client.
    pub fn end_answer(&self, out: &mut BytesMut, start: usize) {
        end_answer(out, start);
        if let Some(trace) = &self.trace {
            trace.answer(&out[start + LENGTH_BYTES..]);
        }
    }

    /// Returns the trace of the connection; `None` if it is not traced.
    pub fn trace(&self) -> Option<&ConnectionTrace> {
        self.trace.as_deref()
    }

    /// Returns the notification of the connection's task.
    pub fn notify(&self) -> &LocalNotify {
        &self.notify
    }

    /// Returns the peer in the notation of Java's `InetAddress`: `/127.0.0.1`.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Returns the peer's address, such as `127.0.0.1`.
    pub fn address(&self) -> &str {
        &self.host[1..]
    }

    /// Returns who the client is, such as `User:ana`.
    pub fn principal(&self) -> &str {
        self.principal.get().map_or(ANONYMOUS, |principal| principal)
    }

    /// Records who the client is, once it is known.
    pub fn set_principal(&self, principal: &str) {
        // A connection does not change its principal.
        let _first_stays = self.principal.set(principal.into());
    }

    /// Borrows the last heartbeat that left a receipt.
    pub fn repeat(&self) -> RefMut<'_, Option<Box<Repeat>>> {
        self.repeat.borrow_mut()
    }

    /// Returns how long the client's authentication counts.
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// Whether the client was allowed to send heartbeats to a group by this version of the ACLs.
    pub fn was_allowed(&self, version: u64, group_id: &[u8]) -> bool {
        let (known, group) = &*self.allowed.borrow();
        *known == version && group == group_id
    }

    /// Records that the client may send heartbeats to a group by this version of the ACLs.
    pub fn set_allowed(&self, version: u64, group_id: &[u8]) {
        let (known, group) = &mut *self.allowed.borrow_mut();
        *known = version;
        if group.as_slice() != group_id {
            self.count_ids(group.len(), group_id.len());
            // An id that was long does not keep its memory.
            *group = group_id.to_vec();
        }
    }

    /// Returns the server's address of the connection.
    pub fn reached_ip(&self) -> IpAddr {
        self.local.ip().to_canonical()
    }

    /// Returns the listener that accepted the connection.
    pub fn listener(&self) -> &Arc<Listener> {
        &self.listener
    }

    /// Returns the notification for data of a waiting fetch.
    pub fn data(&self) -> &Arc<Notify> {
        &self.data
    }

    /// Marks the request as parked: no later request is handled before its answer.
    pub fn park(&self) {
        self.parked.set(true);
    }

    /// Whether a request waits for its answer.
    pub fn is_parked(&self) -> bool {
        self.parked.get()
    }

    /// Marks the parked request as answered; its answer is in `out`.
    pub fn answered(&self) {
        self.parked.set(false);
        if self.awaiting.get() {
            self.notify.notify();
        }
    }

    /// Sets whether the connection's task waits for the answer and must be woken.
    pub fn set_awaiting(&self, awaiting: bool) {
        self.awaiting.set(awaiting);
    }

    /// Whether the connection's task waits for an answer, or has not yet seen that it is there.
    pub fn is_awaiting(&self) -> bool {
        self.awaiting.get()
    }

    /// Ends the connection.
    pub fn end(&self, ending: Ending) {
        self.ending.set(self.ending.get().max(ending));
        self.notify.notify();
    }

    /// Returns how the connection ends: the strongest call of `end`.
    pub fn ending(&self) -> Ending {
        self.ending.get()
    }

    /// Sets whether the client has closed its side.
    pub fn set_gone(&self, gone: bool) {
        self.gone.set(gone);
    }

    /// Whether the client has closed its side.
    pub fn is_gone(&self) -> bool {
        self.gone.get()
    }

    /// Records that the connection's task has ended.
    pub fn set_ended(&self) {
        self.gone.set(true);
        self.ended.set(true);
    }

    /// Records a request of this member.
    pub fn add_member(&self, group_id: &str, member_id: &str) {
        let member = &mut *self.member.borrow_mut();
        if !member_id.is_empty() && (member.1 != member_id || member.0 != group_id) {
            self.count_ids(member.0.len() + member.1.len(), group_id.len() + member_id.len());
            *member = (group_id.to_owned(), member_id.to_owned());
        }
    }

    fn count_ids(&self, before: usize, after: usize) {
        self.id_bytes.set(self.id_bytes.get() + after as u32 - before as u32);
    }

    /// Returns the bytes of the ids that the client keeps.
    pub fn id_bytes(&self) -> usize {
        self.id_bytes.get() as usize
    }

    /// Borrows the group and the member of the last request.
    pub fn member(&self) -> Ref<'_, MemberKey> {
        self.member.borrow()
    }

    /// Pauses the client, whose paused member has sent a request.
    pub fn pause_as(&self, (group_id, member_id): &MemberKey) {
        self.add_member(group_id, member_id);
        self.paused.set(true);
    }

    /// Pauses or resumes the client if `member` sent its last request.
    pub fn pause_if(&self, member: &MemberKey, paused: bool) {
        if *self.member.borrow() == *member {
            self.paused.set(paused);
            self.notify.notify();
        }
    }

    /// Whether the client's member is paused.
    pub fn is_paused(&self) -> bool {
        self.paused.get()
    }

    /// Returns the state for other threads.
    pub fn presence(&self) -> Presence {
        let [gone, parked, paused] = [&self.gone, &self.parked, &self.paused].map(|flag| flag.seen.clone());
        Presence { gone, parked, paused }
    }
}

/// Formats the peer like Java's `InetAddress`: no host name, and IPv6 without `::`.
fn java_host(peer: SocketAddr) -> Box<str> {
    match peer.ip().to_canonical() {
        IpAddr::V4(ip) => format!("/{ip}").into(),
        IpAddr::V6(ip) => {
            let groups: Vec<String> = ip.segments().iter().map(|group| format!("{group:x}")).collect();
            format!("/{}", groups.join(":")).into()
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Creates a client without a connection.
    pub(crate) fn nowhere() -> Rc<Client> {
        let nowhere = ([127, 0, 0, 1], 0).into();
        Client::new(nowhere, nowhere, Arc::default(), None)
    }

    #[test]
    fn other_threads_see_of_a_flag_what_was_set_last() {
        let flag = Flag::default();
        let seen = flag.seen.clone();
        for value in [true, true, false, true, false, false] {
            flag.set(value);
            assert_eq!((flag.get(), seen.get()), (value, value));
        }
    }

    #[test]
    fn a_client_host_is_written_as_java_writes_it() {
        let host = |address: &str| java_host(address.parse().unwrap());
        assert_eq!(&*host("127.0.0.1:1"), "/127.0.0.1");
        assert_eq!(&*host("[::1]:1"), "/0:0:0:0:0:0:0:1");
        assert_eq!(&*host("[::ffff:10.0.0.7]:1"), "/10.0.0.7");
    }
}
