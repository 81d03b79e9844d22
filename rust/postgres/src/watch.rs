//! Follows the small keys: they are read when the database notifies of a change, and now and then anyway.

use std::{sync::Arc, time::Duration};

use rota_engine::View;
use tokio::{
    sync::watch,
    time::{sleep, timeout},
};

use crate::{
    failure::Failure,
    image::{self, META},
    line::Shared,
    requests::BARRIER,
    session::Session,
    settings::Isolation,
};

/// After a connection that showed nothing new. Doubled up to the maximum.
const PAUSE_MIN: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(1);
/// Changes that come close together are read once.
const GATHER: Duration = Duration::from_millis(10);

/// Reads all small keys at one revision. The session's transactions have to see snapshots.
pub async fn image(session: &Session) -> Result<View, Failure> {
    let told = session.ask(&format!("{META}{}", image::statements())).await?;
    let (meta, revision) = image::meta(told.row(0)?)?;
    image::view(&told, 1, meta, revision)
}

/// Follows for ever, and shows each image.
pub async fn follow(shared: Arc<Shared>, views: watch::Sender<Option<Arc<View>>>) {
    let mut pause = PAUSE_MIN;
    loop {
        let shown = views.borrow().as_ref().map(|view| view.revision);
        if let Err(failure) = follow_one(&shared, &views).await {
            shared.note::<()>(&Err(failure));
        }
        let is_new = views.borrow().as_ref().map(|view| view.revision) != shown;
        pause = if is_new { PAUSE_MIN } else { (pause * 2).min(PAUSE_MAX) };
        sleep(pause).await;
    }
}

/// Follows on one connection, until it fails.
async fn follow_one(shared: &Shared, views: &watch::Sender<Option<Arc<View>>>) -> Result<(), Failure> {
    let (within, poll) = (shared.config.timeout, shared.config.poll);
    let session = in_time(within, shared.connect(Isolation::Snapshot)).await?;
    in_time(within, session.ask(&format!("LISTEN \"{}\";", shared.config.schema))).await?;
    loop {
        let view = in_time(within, image(&session)).await?;
        if views.borrow().as_deref() != Some(&view) {
            in_time(within, replicated(&session)).await.inspect_err(|failure| {
                // The database waits for its standbys as long as they take: sessions would pile up there.
                if *failure == Failure::Timeout {
                    session.cancel();
                }
            })?;
            views.send_replace(Some(Arc::new(view)));
        }
        if timeout(poll, session.news()).await.is_ok() {
            sleep(GATHER).await;
        }
    }
}

/// Waits until the standbys have what was read before. A host that lost them, or was replaced, shows changes that the next
/// host never had: a node that has seen them takes that host for one that went back.
async fn replicated(session: &Session) -> Result<(), Failure> {
    session.confirmed(session.ask(BARRIER).await).map(drop)
}

async fn in_time<T>(within: Duration, work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    timeout(within, work).await.unwrap_or(Err(Failure::Timeout))
}
