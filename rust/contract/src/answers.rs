//! The same request on a store in memory and on a real engine, and whether both say the same.
//!
//! Revisions are other numbers in a real engine. A revision that the store has given to a write stands for the one that the
//! engine has given to the same write: requests and answers are translated.

use std::collections::{BTreeMap, BTreeSet};

use rota_cluster::Engine;
use rota_engine::{
    Answer, Body, HistoryId, Memory, Outcome, Prev, Request, Revision, Token,
    requests::{Appended, Claimed, Content, Fence, HeadPut, NotePut, Registered, append::Verdict},
};

/// A store and an engine that get the same requests.
pub struct Both<E> {
    /// The store.
    pub memory: Memory,
    /// The engine.
    pub engine: E,
    /// The engine's revisions by the store's.
    revisions: BTreeMap<Revision, Revision>,
    /// The engine's before the call, and after it: appends that go together may have one revision.
    last: Revision,
    newest: Revision,
    /// What happened: a suite in which a kind of answer never occurs says nothing about it.
    pub events: BTreeSet<String>,
}

impl<E: Engine> Both<E> {
    /// Both without content.
    pub fn new(history: HistoryId, engine: E) -> Both<E> {
        let memory = Memory::new(history);
        Both {
            memory,
            engine,
            revisions: BTreeMap::new(),
            last: Revision(0),
            newest: Revision(0),
            events: BTreeSet::new(),
        }
    }

    /// Sends one request to both.
    pub async fn ask(&mut self, request: &Request) -> Answer {
        let mut sent = vec![self.for_the_engine(request)];
        let outcome = self.engine.call(&sent[0]).await;
        let answer = self.compare(request, &sent.remove(0), outcome);
        self.last = self.newest;
        answer
    }

    /// Sends appends to both; the engine gets them together.
    pub async fn ask_all(&mut self, requests: &[Request]) -> Vec<Answer> {
        let sent: Vec<Request> = requests.iter().map(|request| self.for_the_engine(request)).collect();
        let outcomes = self.engine.append_all(0, &sent).await;
        assert_eq!(outcomes.len(), requests.len());
        let asked = requests.iter().zip(&sent).zip(outcomes);
        let answers = asked.map(|((request, sent), outcome)| self.compare(request, sent, outcome)).collect();
        self.last = self.newest;
        answers
    }

    fn compare(&mut self, request: &Request, sent: &Request, outcome: Outcome) -> Answer {
        let before = self.memory.store().view.revision;
        let expected = self.memory.call(request);
        let Outcome::Answered(answer) = outcome else {
            panic!("{request:?}: no answer of the engine: {outcome:?}, {:?}", self.engine.trouble())
        };
        assert!(answer.revision >= self.last, "{request:?}: the engine's revision fell from {:?}", self.last);
        if expected.revision > before {
            assert!(answer.revision > self.last || is_deletion(&request.body), "{request:?}: the engine wrote nothing");
            self.revisions.insert(expected.revision, answer.revision);
        }
        self.newest = answer.revision;
        let translated = self.content_for_the_engine(&expected.content);
        if !matches!((&translated, &answer.content), (Content::Used(_), Content::Used(_))) {
            assert_eq!(answer.content, translated, "{request:?}, sent as {sent:?}");
        }
        self.events.insert(name_of(request, &expected.content));
        expected
    }

    /// The engine's revision of a write. One that no write has is one of no write in the engine.
    fn revision(&self, revision: Revision) -> Revision {
        self.revisions.get(&revision).copied().unwrap_or(Revision(revision.0 + (1 << 40)))
    }

    fn prev(&self, prev: Prev) -> Prev {
        match prev {
            Prev::Nothing => Prev::Nothing,
            Prev::Head(revision) => Prev::Head(self.revision(revision)),
            Prev::Entry(base_offset, revision) => Prev::Entry(base_offset, self.revision(revision)),
        }
    }

    fn for_the_engine(&self, request: &Request) -> Request {
        let mut request = request.clone();
        match &mut request.body {
            Body::Append(append) => append.prev = self.prev(append.prev),
            Body::Head(head) => head.prev = self.prev(head.prev),
            _ => {}
        }
        if let Some(token) = token_of(&mut request.body) {
            token.claimed = self.revision(token.claimed);
        }
        request
    }

    fn content_for_the_engine(&self, content: &Content) -> Content {
        let mut content = content.clone();
        match &mut content {
            Content::Registered(Registered::As(view)) => view.revision = self.revision(view.revision),
            Content::Claimed(Claimed::Owner(token)) => token.claimed = self.revision(token.claimed),
            Content::Claimed(Claimed::Lost(Some((_, revision))))
            | Content::Appended(
                Appended::Written(revision) | Appended::Refused { entry: Some((_, revision)), part: _ },
            ) => *revision = self.revision(*revision),
            Content::Contents(contents) => {
                let head = contents.log.head.iter_mut().map(|head| &mut head.revision);
                let entries = contents.log.entries.values_mut().map(|entry| &mut entry.revision);
                head.chain(entries).for_each(|revision| *revision = self.revision(*revision));
            }
            _ => {}
        }
        content
    }
}

fn token_of(body: &mut Body) -> Option<&mut Token> {
    match body {
        Body::Append(request) => Some(&mut request.token),
        Body::Check(request) => Some(&mut request.token),
        Body::Chunk(request) => Some(&mut request.token),
        Body::Head(request) => Some(&mut request.token),
        Body::Trim(request) => Some(&mut request.token),
        Body::Sweep(request) => Some(&mut request.token),
        Body::Release(request) => Some(&mut request.token),
        _ => None,
    }
}

/// Deletions of nothing may give out no revision.
fn is_deletion(body: &Body) -> bool {
    matches!(body, Body::Trim(_) | Body::Sweep(_))
}

fn name_of(request: &Request, content: &Content) -> String {
    let what = match &request.body {
        Body::Register(_) => "register",
        Body::Beat(_) => "beat",
        Body::Claim(_) => "claim",
        Body::Append(_) => "append",
        Body::Read(_) => "read",
        Body::Check(_) => "check",
        Body::Chunk(_) => "chunk",
        Body::Head(_) => "head",
        Body::Trim(_) => "trim",
        Body::Sweep(_) => "sweep",
        Body::Release(_) => "release",
        Body::Usage(_) => "usage",
        Body::Note(_) => "note",
        Body::AcceptLoss(_) => "loss",
    };
    let how = match content {
        Content::OtherHistory(_) => "other history".to_owned(),
        Content::Registered(Registered::As(_)) | Content::HistoryBegun => "done".to_owned(),
        Content::Registered(Registered::Taken(_)) => "taken".to_owned(),
        Content::Beaten(beaten) => format!("{beaten:?}").split('(').next().unwrap_or_default().to_owned(),
        Content::Claimed(Claimed::Owner(_)) => "owner".to_owned(),
        Content::Claimed(Claimed::Lost(_)) => "lost".to_owned(),
        Content::Appended(appended) => {
            let Body::Append(append) = &request.body else { return String::new() };
            let verdict = match append.verdict(appended) {
                Verdict::Applied(_) => "applied",
                Verdict::Fenced => "fenced",
                Verdict::WentBack => "went back",
            };
            let is_written = matches!(appended, Appended::Written(_));
            if is_written { "written".to_owned() } else { format!("refused, {verdict}") }
        }
        Content::Contents(contents) if contents.log.head.is_some() => "snapshot".to_owned(),
        Content::Contents(_) => "tail".to_owned(),
        Content::Fence(Fence::Held) | Content::HeadPut(HeadPut::Written) | Content::NotePut(NotePut::Written) => {
            "held".to_owned()
        }
        Content::Fence(Fence::Refused(_))
        | Content::HeadPut(HeadPut::Refused(_))
        | Content::NotePut(NotePut::Refused(_)) => "refused".to_owned(),
        Content::Used(_) => "used".to_owned(),
    };
    format!("{what}: {how}")
}
