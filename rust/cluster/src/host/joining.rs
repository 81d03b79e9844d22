//! A process joins: it connects, agrees with the cluster's settings and registers.

use std::{rc::Rc, sync::Arc, time::Duration};

use rota_engine::{
    Body, HistoryId, Incarnation, NodeId, Outcome, Request, View,
    requests::{Content, NotePut, PutNote, Register, Registered},
};
use tokio::sync::{mpsc::UnboundedReceiver, watch};

use super::{Connect, HostConfig, Shared, appends, past::Past};
use crate::{
    engine::Engine,
    messages::Message,
    notes::{self, ClusterSettings, NodeState, Partitions},
    table::{ClusterTable, Standing},
};

/// Between two attempts.
const PAUSE: Duration = Duration::from_millis(200);

/// The engine's watch shows its first image within this time, or the operator sees why not.
const FIRST_VIEW: Duration = Duration::from_secs(5);

/// A process that the engine has registered.
pub(super) struct Joined {
    pub engine: Arc<dyn Engine>,
    pub views: watch::Receiver<Option<Arc<View>>>,
    pub view: View,
    pub settings: ClusterSettings,
    pub incarnation: Incarnation,
}

/// Why a process did not join.
enum Obstacle {
    /// Try again.
    Trouble(String),
    /// An operator has to change something.
    Refused(String),
}

/// Joins, however long it takes; `None`: the handle has ended the host.
pub(super) async fn join(
    connect: &Connect,
    config: &mut HostConfig,
    past: &mut Past,
    shared: &Rc<Shared>,
    inbox: &mut UnboundedReceiver<Message>,
) -> Option<Joined> {
    let mut said = None;
    loop {
        let obstacle = {
            let attempt = attempt(connect, config, past);
            tokio::pin!(attempt);
            let joined = loop {
                tokio::select! {
                    biased;
                    joined = &mut attempt => break joined,
                    message = inbox.recv() => answer(shared, message)?,
                }
            };
            match joined {
                Ok(joined) => return Some(joined),
                Err(obstacle) => obstacle,
            }
        };
        // An operator takes longer than an engine, and each attempt has connections of its own.
        let (reason, pause) = match obstacle {
            Obstacle::Trouble(reason) => (reason, PAUSE),
            Obstacle::Refused(reason) if said.as_ref() != Some(&reason) => (reason, PAUSE * 5),
            Obstacle::Refused(reason) => (reason, PAUSE * 25),
        };
        if said.as_ref() != Some(&reason) {
            eprintln!("rota: waits to join the cluster: {reason}");
            show(config, shared, &reason);
            said = Some(reason);
        }
        let wait = tokio::time::sleep(pause);
        tokio::pin!(wait);
        loop {
            tokio::select! {
                () = &mut wait => break,
                message = inbox.recv() => answer(shared, message)?,
            }
        }
    }
}

/// Refuses what a node that has not joined cannot do; `None`: the host ends.
fn answer(shared: &Shared, message: Option<Message>) -> Option<()> {
    match message? {
        Message::End => None,
        Message::Leave(done) => {
            // The caller may have given up.
            let _gone = done.send(());
            None
        }
        message => {
            appends::refuse(&shared.shelf, message);
            Some(())
        }
    }
}

fn show(config: &HostConfig, shared: &Shared, trouble: &str) {
    let mut table = shared.table.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let next =
        ClusterTable { standing: Standing::Joining, trouble: Some(trouble.to_owned()), ..ClusterTable::clone(&table) };
    *table = Arc::new(next);
    let shown = Arc::clone(&table);
    drop(table);
    (config.on_table)(&shown, rota_engine::Revision(0));
}

async fn attempt(connect: &Connect, config: &mut HostConfig, past: &mut Past) -> Result<Joined, Obstacle> {
    let engine = connect().await.map_err(Obstacle::Trouble)?;
    let mut views = engine.views();
    let shown = tokio::time::timeout(FIRST_VIEW, views.wait_for(Option::is_some)).await;
    shown
        .map_err(|_late| trouble(&*engine, "the engine's watch shows nothing"))?
        .map_err(|_gone| trouble(&*engine, "the engine is gone"))?;
    let view = present(&*engine).await?;
    if let Some(reason) = past.refusal(config.node, &view) {
        return Err(Obstacle::Refused(reason.to_owned()));
    }
    let before = view.nodes.get(&config.node).map(|known| known.incarnation);
    let history = view.meta.history;
    let settings = agree(&*engine, history, &view, config).await?;
    let silence_ms = past.silence_ms(before, settings.ttl_ms);
    wait_for_silence(&*engine, &mut views, &view, config.node, silence_ms).await?;
    let incarnation = past.registers(before, || Incarnation((config.random)()));
    let register = Register { node: config.node, directory: config.directory, incarnation };
    let registered = ask(&*engine, history, Body::Register(register)).await?;
    let view = match registered {
        Content::Registered(Registered::As(view)) => view,
        Content::Registered(Registered::Taken(_)) => {
            let id = config.node.0;
            return Err(Obstacle::Refused(format!(
                "node id {id} belongs to another data directory: give this server an id of its own, or free {id} with \
                 `rota cluster forget {id}`"
            )));
        }
        other => return Err(Obstacle::Trouble(format!("the engine answered {other:?}"))),
    };
    past.joined(&view);
    introduce(&*engine, history, &view, config).await?;
    Ok(Joined { engine, views, view, settings, incarnation })
}

/// The small keys at present: the watch may be late.
async fn present(engine: &dyn Engine) -> Result<View, Obstacle> {
    engine.image().await.map_err(|error| trouble(engine, &error))
}

/// What the engine says of itself, or else this.
fn trouble(engine: &dyn Engine, otherwise: &str) -> Obstacle {
    Obstacle::Trouble(engine.trouble().unwrap_or_else(|| otherwise.to_owned()))
}

async fn ask(engine: &dyn Engine, history: HistoryId, body: Body) -> Result<Content, Obstacle> {
    match engine.call(&Request { history, body }).await {
        Outcome::Answered(answer) => Ok(answer.content),
        Outcome::SpaceExhausted => Err(Obstacle::Trouble("the engine's space is exhausted".to_owned())),
        Outcome::Unknown => Err(trouble(engine, "the engine does not answer")),
    }
}

/// The cluster's settings, which the first node writes.
async fn agree(
    engine: &dyn Engine,
    history: HistoryId,
    view: &View,
    config: &HostConfig,
) -> Result<ClusterSettings, Obstacle> {
    let seen = view.notes.get(notes::CLUSTER);
    let bad = || {
        let is_import = seen.is_some_and(|note| note.starts_with(notes::IMPORTING));
        Obstacle::Refused(String::from(if is_import {
            "an import into the engine is under way, or was interrupted: begin `rota cluster import` again"
        } else {
            "the engine's note `cluster` is not one of this version of rota"
        }))
    };
    let known = match seen.map(|note| ClusterSettings::read(note).ok_or_else(bad)).transpose()? {
        Some(known) if known.partitions.transactions > 0 => known,
        begun => {
            let first = begun.unwrap_or_else(|| ClusterSettings {
                id: config.cluster_id.clone(),
                partitions: config.partitions,
                ttl_ms: config.ttl_ms,
            });
            // A version of rota without transactions may have begun the cluster.
            let transactions = config.partitions.transactions;
            let mine = ClusterSettings { partitions: Partitions { transactions, ..first.partitions }, ..first };
            let value = Some(mine.written());
            let put = PutNote { name: notes::CLUSTER.to_owned(), seen: seen.cloned(), value };
            match ask(engine, history, Body::Note(put)).await? {
                Content::NotePut(NotePut::Written) => mine,
                Content::NotePut(NotePut::Refused(Some(note))) => ClusterSettings::read(&note).ok_or_else(bad)?,
                other => return Err(Obstacle::Trouble(format!("the engine answered {other:?}"))),
            }
        }
    };
    let (has, mine) = (known.partitions, config.partitions);
    for (has, mine, topic, setting) in [
        (has.groups, mine.groups, "__consumer_offsets", notes::OFFSETS_PARTITIONS),
        (has.transactions, mine.transactions, "__transaction_state", notes::TRANSACTION_PARTITIONS),
    ] {
        if has != mine {
            return Err(Obstacle::Refused(format!(
                "the cluster has {has} partitions of {topic}, this server {mine}: set {setting}={has}"
            )));
        }
    }
    if known.ttl_ms != config.ttl_ms {
        let (has, mine) = (known.ttl_ms, config.ttl_ms);
        return Err(Obstacle::Refused(format!(
            "the cluster's nodes have a TTL of {has} ms, this server {mine} ms: give it the same"
        )));
    }
    Ok(known)
}

/// A process under this id that still beats is another server: it would lose its partitions to this one. One that was
/// killed is silent, and one that has left says so.
async fn wait_for_silence(
    engine: &dyn Engine,
    views: &mut watch::Receiver<Option<Arc<View>>>,
    view: &View,
    node: NodeId,
    silence_ms: u64,
) -> Result<(), Obstacle> {
    let look = |view: &View| {
        let has_left = notes::nodes(view).get(&node).is_some_and(|info| info.state == NodeState::Left);
        if has_left { None } else { view.beats.get(&node).copied() }
    };
    let Some(seen) = look(view).filter(|_| silence_ms > 0) else { return Ok(()) };
    let is_other = |view: &View| look(view).is_some_and(|beat| beat != seen);
    let is_news = |shown: &Option<Arc<View>>| {
        shown.as_ref().is_some_and(|shown| shown.revision > view.revision && is_other(shown))
    };
    let is_silent = tokio::time::timeout(Duration::from_millis(silence_ms), views.wait_for(is_news)).await.is_err();
    // A watch that is late shows no beats.
    if is_silent && !is_other(&present(engine).await?) {
        return Ok(());
    }
    let id = node.0;
    Err(Obstacle::Refused(format!("another server runs as node {id}: give this one an id of its own")))
}

/// Writes what the node says of itself.
async fn introduce(engine: &dyn Engine, history: HistoryId, view: &View, config: &HostConfig) -> Result<(), Obstacle> {
    let name = notes::node(config.node);
    let seen = view.notes.get(&name).cloned();
    let put = PutNote { name, seen, value: Some(config.info.written()) };
    match ask(engine, history, Body::Note(put)).await? {
        Content::NotePut(NotePut::Written) => Ok(()),
        _ => Err(Obstacle::Trouble(format!("another process writes the note of node {}", config.node.0))),
    }
}
