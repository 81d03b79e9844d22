//! The client as the layers below the sockets see it: where its answers go, what it waits for, and for which member it
//! speaks. Nothing here reads or writes a socket; the task of the connection does that ([`crate::net`]).

use std::{
    cell::{Cell, RefCell, RefMut},
    net::{IpAddr, SocketAddr},
    rc::Rc,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use bytes::BytesMut;
use rota_wire::{frame::LENGTH_BYTES, write::end_answer};
use tokio::sync::Notify;

use self::{trace::ConnectionTrace, wake::Wake};

pub mod fan_out;
pub mod reply;
pub mod reply_to;
pub mod trace;
pub mod wake;

/// A group and a member of it.
pub type MemberKey = (String, String);

/// How a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ending {
    /// It goes on.
    No,
    /// When its answers are written.
    AfterWriting,
    /// At once.
    Now,
}

/// A yes or no of a client, which the task of its connection reads with every request.
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

/// A copy of a flag for other threads, which read it when a member moves to another node. It lies apart, so that the
/// task of the connection, which does not read it, loads one cache line less for each flag.
#[derive(Clone, Debug, Default)]
struct Seen(Arc<AtomicBool>);

impl Seen {
    fn get(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Whether a client is there, readable from any thread.
#[derive(Clone, Debug)]
pub struct Presence {
    gone: Seen,
    parked: Seen,
    paused: Seen,
}

impl Presence {
    /// The client has closed its side of the connection.
    pub fn is_gone(&self) -> bool {
        self.gone.get()
    }

    /// A request of it waits for its answer.
    pub fn is_parked(&self) -> bool {
        self.parked.get()
    }

    /// A test has paused the member for which it speaks.
    pub fn is_paused(&self) -> bool {
        self.paused.get()
    }
}

/// One client. What every request reads comes first and in this order, so that it takes few cache lines: with thousands
/// of connections each of them is a miss.
#[derive(Debug)]
#[repr(C)]
pub struct Client {
    /// Answers that are not written yet.
    out: RefCell<BytesMut>,
    /// Wakes the task of the connection.
    wake: Wake,
    /// A request waits for its answer.
    parked: Flag,
    /// A test has paused the member for which it speaks: nothing is handled, and nothing written.
    paused: Flag,
    /// The client has closed its side. It may still read, so answers are written as long as that works.
    gone: Flag,
    ending: Cell<Ending>,
    /// The task of the connection has ended: nothing is written any more.
    ended: Cell<bool>,
    /// The task of the connection waits for the answer of the parked request.
    awaiting: Cell<bool>,
    trace: Option<Box<ConnectionTrace>>,
    /// As `/127.0.0.1`, the way Java writes an address.
    host: Box<str>,
    /// Our side's address.
    local: SocketAddr,
    /// The group and member whose request came last.
    member: RefCell<MemberKey>,
    data: Arc<Notify>,
}

impl Client {
    /// The client behind a connection from `peer` to `local`.
    pub fn new(peer: SocketAddr, local: SocketAddr, trace: Option<ConnectionTrace>) -> Rc<Client> {
        Rc::new(Client {
            out: RefCell::default(),
            wake: Wake::default(),
            parked: Flag::default(),
            paused: Flag::default(),
            gone: Flag::default(),
            ending: Cell::new(Ending::No),
            ended: Cell::new(false),
            awaiting: Cell::new(false),
            trace: trace.map(Box::new),
            host: java_host(peer),
            local,
            member: RefCell::default(),
            data: Arc::default(),
        })
    }

    /// Answers that are not written yet.
    pub fn out(&self) -> RefMut<'_, BytesMut> {
        self.out.borrow_mut()
    }

    /// How many bytes of answers are not written yet.
    pub fn out_bytes(&self) -> usize {
        self.out.borrow().len()
    }

    /// Ends the answer that began at `start` of `out`, which is this client's.
    pub fn end_answer(&self, out: &mut BytesMut, start: usize) {
        end_answer(out, start);
        if let Some(trace) = &self.trace {
            trace.answer(&out[start + LENGTH_BYTES..]);
        }
    }

    /// What shows its requests and answers; `None`: nobody has asked for that.
    pub fn trace(&self) -> Option<&ConnectionTrace> {
        self.trace.as_deref()
    }

    /// Wakes the task of the connection.
    pub fn wake(&self) -> &Wake {
        &self.wake
    }

    /// Its address as Java's `InetAddress` prints it: `/127.0.0.1`.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The address of ours that it has reached.
    pub fn reached_ip(&self) -> IpAddr {
        self.local.ip().to_canonical()
    }

    /// Is notified when a partition that its Fetch waits for has data.
    pub fn data(&self) -> &Arc<Notify> {
        &self.data
    }

    /// Its request waits for the answer: nothing behind it is handled before.
    pub fn park(&self) {
        self.parked.set(true);
    }

    /// Whether a request waits for its answer.
    pub fn is_parked(&self) -> bool {
        self.parked.get()
    }

    /// The request that was parked has its answer in `out`.
    pub fn answered(&self) {
        self.parked.set(false);
        if self.awaiting.get() {
            self.wake.tell();
        }
    }

    /// Whether the task of the connection waits for the answer, and is to be woken by it.
    pub fn set_awaiting(&self, awaiting: bool) {
        self.awaiting.set(awaiting);
    }

    /// Ends the connection.
    pub fn end(&self, ending: Ending) {
        self.ending.set(self.ending.get().max(ending));
        self.wake.tell();
    }

    /// How the connection ends; the strongest of all calls of `end`.
    pub fn ending(&self) -> Ending {
        self.ending.get()
    }

    /// Whether the client has closed its side.
    pub fn set_gone(&self, gone: bool) {
        self.gone.set(gone);
    }

    /// Whether the client has closed its side.
    pub fn is_gone(&self) -> bool {
        self.gone.get()
    }

    /// The task of the connection has ended.
    pub fn set_ended(&self) {
        self.gone.set(true);
        self.ended.set(true);
    }

    /// A request of this member has come.
    pub fn speaks_for(&self, group_id: &str, member_id: &str) {
        let member = &mut *self.member.borrow_mut();
        if !member_id.is_empty() && (member.1 != member_id || member.0 != group_id) {
            *member = (group_id.to_owned(), member_id.to_owned());
        }
    }

    /// Pauses it as the client of this paused member, whose request has come.
    pub fn pause_as(&self, (group_id, member_id): &MemberKey) {
        self.speaks_for(group_id, member_id);
        self.paused.set(true);
    }

    /// Pauses it, or lets it go on, if it speaks for `member`.
    pub fn pause_if(&self, member: &MemberKey, paused: bool) {
        if *self.member.borrow() == *member {
            self.paused.set(paused);
            self.wake.tell();
        }
    }

    /// Whether the member for which it speaks is paused.
    pub fn is_paused(&self) -> bool {
        self.paused.get()
    }

    /// The same for other threads.
    pub fn presence(&self) -> Presence {
        let [gone, parked, paused] = [&self.gone, &self.parked, &self.paused].map(|flag| flag.seen.clone());
        Presence { gone, parked, paused }
    }
}

/// The peer as Java's `InetAddress` prints it: no host name, and IPv6 without `::`.
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

    /// A client without a connection.
    pub(crate) fn nowhere() -> Rc<Client> {
        let nowhere = ([127, 0, 0, 1], 0).into();
        Client::new(nowhere, nowhere, None)
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
