//! Notes that the server writes, such as those of topics.

use std::{
    rc::Rc,
    sync::{Arc, mpsc::Sender},
    time::Duration,
};

use rota_engine::{
    HistoryId, Outcome, Request, Revision, View,
    requests::{Body, Content, NotePut, PutNote},
};
use tokio::task::JoinSet;

use super::Running;
use crate::{engine::Engine, messages::Written};

/// The writer of notes waits so long for the view that shows them.
const SHOWN_WITHIN: Duration = Duration::from_secs(1);

impl Running<'_> {
    pub(super) fn put_notes(&self, notes: Vec<PutNote>, answers: Sender<Written>) {
        let (engine, mut views, shared) = (Arc::clone(&self.engine), self.views.clone(), Rc::clone(&self.shared));
        let history = self.node.inspect().history;
        tokio::task::spawn_local(async move {
            let written = put_all(&engine, history, notes, &answers).await;
            if let Ok(revision) = written {
                shared.show_from(history, revision);
                let seen = |view: &Option<Arc<View>>| view.as_ref().is_some_and(|view| view.revision >= revision);
                // A stalled watch shows it later.
                let _stalled = tokio::time::timeout(SHOWN_WITHIN, views.wait_for(seen)).await;
            }
            // The caller may have given up.
            let _gone = answers.send(Written::All(written));
        });
    }
}

/// Writes notes until one is not written. Those that are under way then are waited for. Returns a revision that has all.
async fn put_all(
    engine: &Arc<dyn Engine>,
    history: HistoryId,
    notes: Vec<PutNote>,
    answers: &Sender<Written>,
) -> Result<Revision, String> {
    let (mut notes, mut under_way) = (notes.into_iter(), JoinSet::new());
    let mut written = Ok(Revision(0));
    loop {
        while written.is_ok() && under_way.len() < engine.small_at_once() {
            let Some(note) = notes.next() else { break };
            let (engine, request) = (Arc::clone(engine), Request { history, body: Body::Note(note) });
            under_way.spawn_local(async move { put_note(&*engine, &request).await });
        }
        let Some(ended) = under_way.join_next().await else { return written };
        let ended = ended.unwrap_or_else(|error| Err(error.to_string()));
        written = written.and_then(|before| ended.map(|revision| revision.max(before)));
        if answers.send(Written::One).is_err() {
            written = written.and(Err("the server does not wait for it any more".to_owned()));
        }
    }
}

/// Writes a note. An unknown outcome is resolved by the same request again.
async fn put_note(engine: &dyn Engine, request: &Request) -> Result<Revision, String> {
    for _ in 0..3 {
        match engine.call(request).await {
            Outcome::Answered(answer) => {
                return match answer.content {
                    Content::NotePut(NotePut::Written) => Ok(answer.revision),
                    Content::NotePut(NotePut::Refused(_)) => Err("another node changed it meanwhile".to_owned()),
                    _ => Err("the engine has another history".to_owned()),
                };
            }
            Outcome::Unknown | Outcome::SpaceExhausted => {}
        }
    }
    Err(engine.trouble().unwrap_or_else(|| "the engine does not answer".to_owned()))
}
