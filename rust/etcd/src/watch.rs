//! The watch: whole images of what nodes watch, each of one revision.
//!
//! A watcher reads everything below `v/` at a revision and follows the changes after it. One stream carries all of them,
//! so that an image is of one revision: etcd does not split the changes of a revision. A stream that ends, shows nothing
//! for [`Config::stall`](crate::url::Config::stall), or fell behind a compaction begins anew on the next member.

use std::{sync::Arc, time::Duration};

use rota_engine::{Revision, View};
use tokio::{
    sync::watch,
    time::{sleep, timeout},
};

use crate::{
    grpc::{Answers, Connection, Failure},
    image::Image,
    keys::Keys,
    line::{Line, Shared},
    proto::{EventType, RangeRequest, RangeResponse, WatchCreateRequest, WatchRequest, WatchResponse},
};

/// After a stream that showed nothing new. Doubled up to the maximum.
const PAUSE_MIN: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// Follows the keys of one cluster.
#[derive(Debug)]
pub struct Watcher {
    shared: Arc<Shared>,
    keys: Keys,
    line: Line,
    views: watch::Sender<Option<Arc<View>>>,
}

impl Watcher {
    /// A watcher that shows its images here.
    pub fn new(shared: Arc<Shared>, keys: Keys, views: watch::Sender<Option<Arc<View>>>) -> Watcher {
        let line = Line::new(&shared, 0);
        Watcher { shared, keys, line, views }
    }

    /// Follows for ever.
    pub async fn run(self) {
        let mut pause = PAUSE_MIN;
        loop {
            let shown = self.views.borrow().as_ref().map(|view| view.revision);
            if let Err(failure) = self.follow().await {
                self.shared.note::<()>(&Err(failure));
            }
            let is_new = self.views.borrow().as_ref().map(|view| view.revision) != shown;
            pause = if is_new { PAUSE_MIN } else { (pause * 2).min(PAUSE_MAX) };
            sleep(pause).await;
        }
    }

    /// Reads everything and follows it until the stream ends or stalls.
    async fn follow(&self) -> Result<(), Failure> {
        let within = self.shared.config.timeout;
        let connection = timeout(within, self.line.connection()).await.unwrap_or(Err(Failure::Timeout))?;
        let ended = self.follow_on(&connection).await;
        self.line.give_up(&connection).await;
        ended
    }

    async fn follow_on(&self, connection: &Connection) -> Result<(), Failure> {
        let within = self.shared.config.timeout;
        let (mut image, revision) = timeout(within, self.list(connection)).await.unwrap_or(Err(Failure::Timeout))?;
        self.show(&image, revision)?;
        let mut changes = timeout(within, self.open(connection, revision)).await.unwrap_or(Err(Failure::Timeout))?;
        loop {
            // Nodes beat all the time: silence is the watch's.
            let Ok(next) = timeout(self.shared.config.stall, changes.next()).await else { return Ok(()) };
            let Some(change) = next? else { return Ok(()) };
            if change.canceled || change.compact_revision != 0 {
                return Ok(());
            }
            if let Some(revision) = self.change(&mut image, &change) {
                self.show(&image, revision)?;
            }
        }
    }

    async fn list(&self, connection: &Connection) -> Result<(Image, Revision), Failure> {
        let view = self.keys.view();
        let request = RangeRequest { key: view.start, range_end: view.end, ..RangeRequest::default() };
        let answer: RangeResponse = self.shared.unary(connection, "/etcdserverpb.KV/Range", &request).await?;
        let header = answer.header.as_ref().ok_or(Failure::Malformed("a range without a header"))?;
        Ok((Image::read(&self.keys, &answer.kvs), Revision(header.revision as u64)))
    }

    async fn open(&self, connection: &Connection, after: Revision) -> Result<Answers<WatchResponse>, Failure> {
        let view = self.keys.view();
        let start_revision = after.0 as i64 + 1;
        let create = WatchCreateRequest { key: view.start, range_end: view.end, start_revision };
        let request = WatchRequest { create_request: Some(create) };
        self.shared.stream(connection, "/etcdserverpb.Watch/Watch", &request).await
    }

    /// The revision of the last change; `None` if there was none.
    fn change(&self, image: &mut Image, change: &WatchResponse) -> Option<Revision> {
        let mut last = None;
        for event in &change.events {
            let Some(kv) = &event.kv else { continue };
            let value = (event.r#type == EventType::Put as i32).then(|| kv.value.clone());
            image.change(&self.keys, &kv.key, value);
            last = last.max(Some(Revision(kv.mod_revision as u64)));
        }
        last
    }

    fn show(&self, image: &Image, revision: Revision) -> Result<(), Failure> {
        let view = image.view(revision)?;
        self.views.send_replace(Some(Arc::new(view)));
        Ok(())
    }
}
