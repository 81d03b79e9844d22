//! What a node's host and its serving thread share: until when reads are answered, and which partitions are served.
//!
//! The host decides and the serving thread carries out. The order of three things matters: a partition that is lost is
//! unloaded first, reads are answered longer after that (§3.1), and none is answered while there is mail: the host sends a
//! release as soon as it has posted the loss (§4.4).

use std::{
    fmt, mem,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use rota_engine::{Epoch, PartitionId};
use tokio::sync::mpsc::UnboundedSender;

use crate::{clock::SessionClock, messages::Message};

/// What the serving thread has to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// The node owns the partition: load it, then serve it.
    Take(PartitionId, Epoch),
    /// The node does not own the partition under this epoch any more: answer nothing from it.
    Lose(PartitionId, Epoch),
}

#[derive(Debug, Default)]
struct Mail {
    changes: Vec<Change>,
    until_ms: u64,
    /// The number of the last question whether the serving thread still takes turns.
    asked: u64,
}

/// See the module.
pub struct Session {
    clock: SessionClock,
    /// Reads are answered before this time.
    until_ms: AtomicU64,
    /// The last question that the serving thread has answered.
    answered: AtomicU64,
    /// Whether there are changes that the serving thread has yet to carry out. Written under the lock of the mail.
    has_mail: AtomicBool,
    mail: Mutex<Mail>,
    wake: OnceLock<Box<dyn Fn() + Send + Sync>>,
    host: UnboundedSender<Message>,
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Session(until {} ms)", self.until_ms.load(Ordering::Relaxed))
    }
}

impl Session {
    pub(crate) fn new(clock: SessionClock, host: UnboundedSender<Message>) -> Arc<Session> {
        Arc::new(Session {
            clock,
            until_ms: AtomicU64::new(0),
            answered: AtomicU64::new(0),
            has_mail: AtomicBool::new(false),
            mail: Mutex::default(),
            wake: OnceLock::new(),
            host,
        })
    }

    fn mail(&self) -> MutexGuard<'_, Mail> {
        self.mail.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The time by the session's clock in milliseconds.
    pub fn now_ms(&self) -> u64 {
        self.clock.now_ms()
    }

    /// Sets what wakes the serving thread, once.
    pub fn on_mail(&self, wake: impl Fn() + Send + Sync + 'static) {
        // A second one would wake a thread that serves nothing.
        let _once = self.wake.set(Box::new(wake));
    }

    /// Whether reads may be answered: there is no mail, and the session lasts. The caller has taken the bytes of its
    /// requests before this looks (§5.2).
    pub fn is_valid(&self) -> bool {
        let is_followed = !self.has_mail.load(Ordering::Acquire);
        is_followed && self.clock.now_ms() < self.until_ms.load(Ordering::Acquire)
    }

    /// Whether the session lasts, whatever mail there is: for what answers nothing from a partition.
    pub fn lasts(&self) -> bool {
        self.is_valid() || self.clock.now_ms() < self.mail().until_ms
    }

    /// The serving thread takes what it has to do, and does it before this returns. Partitions that are lost come before
    /// the time that they would have been answered in. Returns whether reads may be answered then: the mail may have
    /// prolonged a session that was over without it.
    pub fn follow(&self, mut carry_out: impl FnMut(Change)) -> bool {
        let mut mail = self.mail();
        while !mail.changes.is_empty() {
            let changes = mem::take(&mut mail.changes);
            drop(mail);
            changes.into_iter().for_each(&mut carry_out);
            mail = self.mail();
        }
        self.answered.store(mail.asked, Ordering::Release);
        self.until_ms.store(mail.until_ms, Ordering::Release);
        self.has_mail.store(false, Ordering::Release);
        drop(mail);
        self.is_valid()
    }

    /// The serving thread waits for the engine, which answers it: it takes no turns, and is not stuck. It answers no reads
    /// meanwhile, and follows later.
    pub fn waits(&self) {
        let asked = self.mail().asked;
        self.answered.store(asked, Ordering::Release);
    }

    /// Whether the node has lost a partition, which the serving thread has yet to follow.
    pub fn has_lost(&self, partition: PartitionId, epoch: Epoch) -> bool {
        self.mail().changes.contains(&Change::Lose(partition, epoch))
    }

    /// The serving thread has unloaded a partition by itself, because the session was over.
    pub fn dropped(&self, partition: PartitionId, epoch: Epoch) {
        // The host may have ended.
        let _gone = self.host.send(Message::Dropped(partition, epoch));
    }

    /// The serving thread cannot read what the engine has of a partition: the node releases it, and does not claim it
    /// again. `reason` follows "this server".
    pub fn damaged(&self, partition: PartitionId, epoch: Epoch, reason: String) {
        // The host may have ended.
        let _gone = self.host.send(Message::Damaged(partition, epoch, reason));
    }

    /// The host leaves work, and says until when reads are answered. From then on none is answered before the work is done.
    pub(crate) fn post(&self, changes: impl IntoIterator<Item = Change>, until_ms: u64) {
        let mut mail = self.mail();
        mail.changes.extend(changes);
        mail.until_ms = until_ms;
        if mail.changes.is_empty() {
            self.until_ms.store(until_ms, Ordering::Release);
            return;
        }
        self.has_mail.store(true, Ordering::Release);
        drop(mail);
        self.wake();
    }

    /// Asks the serving thread whether it still takes turns.
    pub(crate) fn ask(&self) {
        self.mail().asked += 1;
        self.wake();
    }

    /// Whether the serving thread has answered the last question.
    pub(crate) fn is_answered(&self) -> bool {
        self.answered.load(Ordering::Acquire) == self.mail().asked
    }

    fn wake(&self) {
        if let Some(wake) = self.wake.get() {
            wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::mpsc::unbounded_channel;

    use super::*;

    #[test]
    fn reads_are_answered_longer_only_after_lost_partitions_are_unloaded() {
        let (host, _messages) = unbounded_channel();
        let session = Session::new(SessionClock::new(|| 50), host);
        assert!(!session.is_valid());
        session.post([], 100);
        assert!(session.is_valid());
        session.post([], 20);
        session.post([Change::Lose(PartitionId(3), Epoch(1))], 100);
        assert!(!session.is_valid(), "the partition is not unloaded yet");
        assert!(session.has_lost(PartitionId(3), Epoch(1)));
        assert!(!session.has_lost(PartitionId(3), Epoch(2)));
        let mut seen = Vec::new();
        session.follow(|change| {
            assert!(!session.is_valid());
            seen.push(change);
        });
        assert_eq!(seen, [Change::Lose(PartitionId(3), Epoch(1))]);
        assert!(!session.has_lost(PartitionId(3), Epoch(1)));
        assert!(session.is_valid());
    }

    #[test]
    fn nothing_is_answered_while_a_lost_partition_is_not_unloaded() {
        let (host, _messages) = unbounded_channel();
        let session = Session::new(SessionClock::new(|| 50), host);
        session.post([], 100);
        assert!(session.is_valid());
        session.post([Change::Lose(PartitionId(3), Epoch(1))], 100);
        assert!(!session.is_valid(), "its release is on its way");
        assert!(session.lasts());
        let mut seen = Vec::new();
        assert!(session.follow(|change| {
            if seen.is_empty() {
                session.post([Change::Lose(PartitionId(4), Epoch(1))], 100);
            }
            seen.push(change);
        }));
        assert_eq!(seen, [3, 4].map(|partition| Change::Lose(PartitionId(partition), Epoch(1))));
        assert!(session.is_valid());
    }

    #[test]
    fn a_session_that_the_mail_prolongs_is_not_over() {
        let now_ms = Arc::new(AtomicU64::new(50));
        let (clock, (host, _messages)) = (Arc::clone(&now_ms), unbounded_channel());
        let session = Session::new(SessionClock::new(move || clock.load(Ordering::Relaxed)), host);
        session.post([], 100);
        session.post([Change::Lose(PartitionId(3), Epoch(1))], 200);
        now_ms.store(150, Ordering::Relaxed);
        assert!(session.lasts(), "beats were answered meanwhile");
        assert!(session.follow(|_| ()));
        session.post([Change::Lose(PartitionId(4), Epoch(1))], 100);
        assert!(!session.lasts());
        assert!(!session.follow(|_| ()));
    }

    #[test]
    fn a_thread_that_takes_no_turns_answers_no_question() {
        let (host, _messages) = unbounded_channel();
        let session = Session::new(SessionClock::new(|| 50), host);
        assert!(session.is_answered());
        session.ask();
        assert!(!session.is_answered());
        session.follow(|_| ());
        assert!(session.is_answered());
    }

    #[test]
    fn a_thread_that_waits_for_the_engine_is_not_stuck_and_does_not_answer_longer() {
        let (host, _messages) = unbounded_channel();
        let session = Session::new(SessionClock::new(|| 50), host);
        session.ask();
        session.post([Change::Lose(PartitionId(3), Epoch(1))], 100);
        session.waits();
        assert!(session.is_answered());
        assert!(!session.is_valid(), "the partition is not unloaded yet");
        assert!(session.has_lost(PartitionId(3), Epoch(1)));
    }
}
