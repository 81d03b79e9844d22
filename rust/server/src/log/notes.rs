//! Notes of the engine: what all servers of a cluster know, besides groups and transactions.

use std::{
    fmt,
    sync::{
        Mutex, MutexGuard, PoisonError,
        mpsc::{Receiver, RecvTimeoutError},
    },
    time::{Duration, Instant},
};

use rota_cluster::Written;
use rota_engine::{Revision, requests::PutNote};

/// A change waits so long for the engine's next answer. The node serves nothing else meanwhile, so after a change that
/// waited in vain others are refused as long: clients ask for a topic again and again.
const WAIT: Duration = Duration::from_secs(2);

const NO_ANSWER: &str = "the engine does not answer";

type Put = Box<dyn Fn(Vec<PutNote>) -> Receiver<Written> + Send + Sync>;
type IsReachable = Box<dyn Fn() -> bool + Send + Sync>;
type OnAnswer = Box<dyn Fn() + Send + Sync>;

/// The way to change notes.
pub struct Notes {
    put: Put,
    /// Whether the engine has answered this server lately.
    is_reachable: IsReachable,
    /// Called after each answer of the engine.
    on_answer: OnAnswer,
    /// How long a change waits for an answer.
    wait: Duration,
    /// Until when changes are refused.
    refused_until: Mutex<Option<Instant>>,
}

impl fmt::Debug for Notes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Notes")
    }
}

impl Notes {
    /// Notes that `put` writes, while the engine is reachable. `on_answer` is called after each of its answers.
    pub fn new(put: Put, is_reachable: IsReachable, on_answer: OnAnswer) -> Notes {
        Notes { put, is_reachable, on_answer, wait: WAIT, refused_until: Mutex::default() }
    }

    /// Changes these notes of different names, until the engine refuses one. Returns a revision that has them all. Errors:
    /// why they are not all written, or may not be; those that are arrive with the next image of the engine.
    pub fn write(&self, notes: Vec<PutNote>) -> Result<Revision, String> {
        self.write_at(notes, Instant::now)
    }

    fn write_at(&self, notes: Vec<PutNote>, now: impl Fn() -> Instant) -> Result<Revision, String> {
        if !(self.is_reachable)() || self.refused_until().is_some_and(|until| now() < until) {
            return Err(NO_ANSWER.to_owned());
        }
        let answers = (self.put)(notes);
        loop {
            match answers.recv_timeout(self.wait) {
                Ok(Written::One) => (self.on_answer)(),
                Ok(Written::All(written)) => return written,
                Err(RecvTimeoutError::Timeout) => {
                    *self.refused_until() = Some(now() + WAIT);
                    return Err(NO_ANSWER.to_owned());
                }
                Err(RecvTimeoutError::Disconnected) => return Err("the server stops".to_owned()),
            }
        }
    }

    fn refused_until(&self) -> MutexGuard<'_, Option<Instant>> {
        self.refused_until.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc::{Sender, channel},
    };

    use super::*;

    /// An engine that does not answer.
    #[derive(Clone, Default)]
    struct Silent {
        asked: Arc<AtomicU64>,
        is_away: Arc<AtomicBool>,
        unanswered: Arc<Mutex<Vec<Sender<Written>>>>,
        /// What it answers before it falls silent.
        answers: Arc<Mutex<Vec<Written>>>,
        heard: Arc<AtomicU64>,
    }

    impl Silent {
        fn notes(&self) -> Notes {
            let (asked, reached, heard) = (self.clone(), self.clone(), self.clone());
            let put = move |_| {
                let (sender, receiver) = channel();
                asked.asked.fetch_add(1, Ordering::Relaxed);
                asked.answers.lock().unwrap().drain(..).for_each(|answer| sender.send(answer).unwrap());
                asked.unanswered.lock().unwrap().push(sender);
                receiver
            };
            let is_reachable = move || !reached.is_away.load(Ordering::Relaxed);
            // The test does not wait for an answer that does not come.
            let on_answer = move || {
                heard.heard.fetch_add(1, Ordering::Relaxed);
            };
            Notes { wait: Duration::ZERO, ..Notes::new(Box::new(put), Box::new(is_reachable), Box::new(on_answer)) }
        }

        fn asked(&self) -> u64 {
            self.asked.load(Ordering::Relaxed)
        }
    }

    #[test]
    fn an_engine_that_did_not_answer_is_not_asked_again_at_once() {
        let engine = Silent::default();
        let (notes, start) = (engine.notes(), Instant::now());
        for (after_ms, asked) in [(0, 1), (0, 1), (1_999, 1), (2_000, 2), (3_999, 2), (4_000, 3)] {
            let written = notes.write_at(Vec::new(), || start + Duration::from_millis(after_ms));
            assert_eq!((written, engine.asked()), (Err(NO_ANSWER.to_owned()), asked), "{after_ms}");
        }
    }

    #[test]
    fn an_engine_that_answers_one_note_after_the_other_has_as_long_for_each() {
        let (engine, start) = (Silent::default(), Instant::now());
        let notes = engine.notes();
        let now = |after_ms| move || start + Duration::from_millis(after_ms);
        engine.answers.lock().unwrap().extend([Written::One, Written::One, Written::All(Ok(Revision(7)))]);
        assert_eq!(notes.write_at(Vec::new(), now(0)), Ok(Revision(7)));
        assert_eq!(engine.heard.load(Ordering::Relaxed), 2);
        engine.answers.lock().unwrap().push(Written::One);
        assert_eq!(notes.write_at(Vec::new(), now(0)), Err(NO_ANSWER.to_owned()), "it fell silent");
        assert_eq!((engine.heard.load(Ordering::Relaxed), engine.asked()), (3, 2));
    }

    #[test]
    fn an_engine_that_is_away_is_not_asked() {
        let engine = Silent::default();
        let notes = engine.notes();
        engine.is_away.store(true, Ordering::Relaxed);
        assert_eq!((notes.write(Vec::new()), engine.asked()), (Err(NO_ANSWER.to_owned()), 0));
        engine.is_away.store(false, Ordering::Relaxed);
        assert_eq!((notes.write(Vec::new()), engine.asked()), (Err(NO_ANSWER.to_owned()), 1));
    }
}
