//! Producer ids that no other server of the cluster gives: each server takes blocks of them from the engine.

use std::{
    fmt,
    ops::Range,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicI64, Ordering},
    },
};

use rota_engine::{
    HistoryId, Incarnation, Outcome, Request, View,
    requests::{Body, Content, NotePut, PutNote},
};
use tokio::sync::mpsc::UnboundedSender;

use crate::{
    engine::Engine,
    messages::Message,
    notes::{self, PRODUCER_IDS},
};

/// Ids of a block, as in Kafka.
const BLOCK: i64 = 1_000;
/// With so few ids left, the next block is asked for.
const LOW: i64 = BLOCK / 10;
/// Requests to the engine for one block.
const ATTEMPTS: usize = 5;

/// The ids that a server may give.
pub struct ProducerIds {
    block: Mutex<Range<i64>>,
    /// The first id of the present history.
    first: AtomicI64,
    host: UnboundedSender<Message>,
}

impl fmt::Debug for ProducerIds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ProducerIds({:?})", self.lock())
    }
}

impl ProducerIds {
    pub(crate) fn new(host: UnboundedSender<Message>) -> ProducerIds {
        ProducerIds { block: Mutex::new(0..0), first: AtomicI64::new(0), host }
    }

    fn lock(&self) -> MutexGuard<'_, Range<i64>> {
        self.block.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes an id; `None`: the next block has not arrived yet.
    pub fn take(&self) -> Option<i64> {
        let mut block = self.lock();
        if block.end - block.start <= LOW {
            // The host may have ended.
            let _gone = self.host.send(Message::MoreProducerIds);
        }
        block.next()
    }

    /// A block has arrived. What is left of the one before is not given any more.
    pub(crate) fn put(&self, block: Range<i64>) {
        *self.lock() = block;
    }

    /// A history begins for this process. Gives none of the ids that are left: they may be given again.
    pub(crate) fn begin_history(&self, view: &View) {
        let mut block = self.lock();
        block.start = block.end;
        self.first.store(notes::first_producer_id(view), Ordering::Relaxed);
    }

    /// Returns the first id of the present history. The epochs of those below may have gone back.
    pub fn first_of_history(&self) -> i64 {
        self.first.load(Ordering::Relaxed)
    }

    /// Every id of this process is below.
    pub(crate) fn end(&self) -> i64 {
        self.lock().end
    }
}

/// Takes a block whose ids are at least `from`, and so above those that this process has taken; `None`: the engine did
/// not give one.
pub(crate) async fn reserve(
    engine: &dyn Engine,
    history: HistoryId,
    process: Incarnation,
    view: &View,
    from: i64,
) -> Option<Range<i64>> {
    let mut seen = view.notes.get(PRODUCER_IDS).cloned();
    for _ in 0..ATTEMPTS {
        let first = from.max(seen.as_deref().map_or(Some(0), notes::free_producer_id)?);
        // To the engine, a note that is there already is written. So no other process may write the same.
        let value = Some(format!("{} {:032x}", first + BLOCK, process.0).into_bytes());
        let put = PutNote { name: PRODUCER_IDS.to_owned(), seen: seen.clone(), value };
        match engine.call(&Request { history, body: Body::Note(put) }).await {
            Outcome::Answered(answer) => match answer.content {
                Content::NotePut(NotePut::Written) => return Some(first..first + BLOCK),
                Content::NotePut(NotePut::Refused(now)) => seen = now,
                _ => return None,
            },
            Outcome::Unknown | Outcome::SpaceExhausted => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use tokio::sync::mpsc::unbounded_channel;

    use super::*;
    use crate::memory::MemoryEngine;

    const HISTORY: HistoryId = HistoryId(1);

    async fn block(engine: &MemoryEngine, faults: impl FnOnce(&mut crate::Faults), from: i64) -> Option<Range<i64>> {
        let link = engine.link();
        link.set_faults(faults);
        reserve(&link, HISTORY, Incarnation(1), &engine.view(), from).await
    }

    #[tokio::test(start_paused = true)]
    async fn no_two_blocks_have_an_id_in_common() {
        let engine = MemoryEngine::new(HISTORY);
        let before = engine.view();
        assert_eq!(block(&engine, |_| (), 0).await, Some(0..BLOCK));
        // A server that has not seen that.
        let other = reserve(&engine.link(), HISTORY, Incarnation(2), &before, 0).await;
        assert_eq!(other, Some(BLOCK..2 * BLOCK));
        assert_eq!(block(&engine, |faults| faults.lost_answers = 1, 0).await, Some(2 * BLOCK..3 * BLOCK));
        assert_eq!(block(&engine, |faults| faults.lost_requests = 1, 0).await, Some(3 * BLOCK..4 * BLOCK));
        assert_eq!(block(&engine, |faults| faults.is_silent = true, 0).await, None);
        // After the loss of confirmed writes.
        assert_eq!(block(&engine, |_| (), 7 * BLOCK).await, Some(7 * BLOCK..8 * BLOCK));
        assert_eq!(block(&engine, |_| (), 0).await, Some(8 * BLOCK..9 * BLOCK));
    }

    #[test]
    fn ids_end_with_their_block_and_the_next_one_is_asked_for_before() {
        let (host, mut asked) = unbounded_channel();
        let ids = ProducerIds::new(host);
        assert_eq!(ids.take(), None);
        assert!(matches!(asked.try_recv(), Ok(Message::MoreProducerIds)));
        ids.put(50..50 + LOW + 2);
        assert_eq!((ids.take(), ids.take()), (Some(50), Some(51)));
        assert!(asked.try_recv().is_err());
        assert_eq!(ids.take(), Some(52));
        assert!(matches!(asked.try_recv(), Ok(Message::MoreProducerIds)));
    }
}
