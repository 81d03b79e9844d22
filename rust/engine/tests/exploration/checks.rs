//! What must hold: E1 to E5, that no node raises a false alarm (E6), and none takes an image of an engine that went back (E7).

use rota_engine::{
    Command, Entry, Event, Log, PartitionId, Request, Store, Ticket,
    node::{Phase, Reason, Stop},
    requests::{Body, read::Damage},
};

use crate::world::{Broken, Seen, World, is_called_for};

/// The records of a log, as the next owner finds them.
fn records(log: &Log) -> Result<Vec<u8>, Damage> {
    log.end()?;
    let upto = log.head.as_ref().map_or(0, |head| head.value.upto);
    let snapshot = log.snapshot()?.into_iter().flat_map(|chunk| chunk.iter().skip(1));
    let tail = log.entries.iter().flat_map(|(base_offset, entry)| after(upto, *base_offset, &entry.value));
    Ok(snapshot.chain(tail).copied().collect())
}

/// The records of an entry that a snapshot does not have.
pub fn after(upto: i64, base_offset: i64, entry: &Entry) -> impl Iterator<Item = &u8> {
    entry.bytes.iter().skip((upto - base_offset).max(0) as usize)
}

/// The engine has carried a request out.
pub fn applied(world: &mut World, before: &Store, request: &Request, seen: &mut Seen) -> Result<(), Broken> {
    let partitions: Vec<PartitionId> = world.partitions().collect();
    for partition in partitions {
        let (old, new) = (before.log(partition), world.memory.store().log(partition));
        if old != new {
            fenced(world, before, partition, request)?;
            grown(world, partition, &old, &new)?;
        }
        let (old, new) = (before.part(partition), world.memory.store().part(partition));
        if old != new && new.is_some_and(|part| part.held) {
            world.left.epochs -= 1;
            seen.insert(if old.is_some_and(|part| part.held) {
                "an owner is replaced"
            } else {
                "a partition is taken"
            });
        }
    }
    refused(before, world.memory.store(), request, seen);
    Ok(())
}

/// E4: only the partition's owner changes its log.
fn fenced(world: &World, before: &Store, partition: PartitionId, request: &Request) -> Result<(), Broken> {
    let Some((of, token)) = request.body.fenced_by() else {
        return Err(("E4", format!("{request:?} changes a log")));
    };
    let part = before.part(partition);
    if of == partition && part == Some(token.part()) {
        return Ok(());
    }
    let now = world.memory.store().part(partition);
    Err(("E4", format!("{request:?} changes the log of {partition:?}, whose owner is {part:?}, then {now:?}")))
}

/// E2 and E3: what is new continues the log, and its epoch is not lower. Nothing that was there changes.
fn grown(world: &mut World, partition: PartitionId, old: &Log, new: &Log) -> Result<(), Broken> {
    for (base_offset, entry) in &new.entries {
        match old.entries.get(base_offset) {
            Some(known) if known == entry => {}
            Some(known) => return Err(("E3", format!("the entry at {base_offset}, {known:?}, becomes {entry:?}"))),
            None => {
                let truth = world.truths.get_mut(&partition).expect("a partition of the world");
                let epoch = entry.value.epoch;
                if truth.log.last().is_some_and(|(_, last)| *last > epoch) {
                    return Err(("E2", format!("{entry:?} follows {:?}", truth.log)));
                }
                if truth.log.len() as i64 != *base_offset {
                    return Err(("E3", format!("{entry:?} is written at {base_offset} after {:?}", truth.log)));
                }
                truth.log.extend(entry.value.bytes.iter().map(|record| (*record, epoch)));
            }
        }
    }
    Ok(())
}

fn refused(before: &Store, after: &Store, request: &Request, seen: &mut Seen) {
    let changed = before.logs != after.logs || before.view != after.view;
    match &request.body {
        Body::Append(append) if !changed => {
            let log = after.log(append.partition);
            let own = log.entries.get(&append.base_offset).is_some_and(|entry| entry.value.nonce == append.nonce);
            let is_owner = after.is_held(append.partition, &append.token);
            seen.insert(match (is_owner, own) {
                (true, true) => "a repeated append finds its own entry",
                (true, false) => "an append does not find what it follows",
                (false, _) => "an append is fenced",
            });
        }
        Body::Claim(claim) if !changed && after.part(claim.partition) == claim.seen => {
            seen.insert("a claim fails because the owner beats");
        }
        Body::Claim(_) if !changed => {
            seen.insert("a claim fails because the owner changed");
        }
        body @ (Body::Chunk(_) | Body::Head(_) | Body::Sweep(_)) if !changed => {
            let is_owner = body.fenced_by().is_some_and(|(partition, token)| after.is_held(partition, token));
            seen.insert(if is_owner {
                "a write of a snapshot is refused after a restore"
            } else {
                "a write of a snapshot is fenced"
            });
        }
        Body::Beat(_) if !changed => {
            seen.insert("a beat comes too late");
        }
        _ => {}
    }
}

/// E1: what was acknowledged is in the log, and the host's state is the log's beginning.
pub fn acknowledged(world: &World, at: usize, partition: PartitionId, records: &[u8]) -> Result<(), Broken> {
    let truth = &world.truths[&partition];
    // The answer was under way when the engine went back.
    if records.iter().all(|record| truth.lost.contains(record)) {
        return Ok(());
    }
    begins(world, at, partition)
}

/// The host that has just loaded a partition knows what the log has. It may have been fenced meanwhile.
pub fn knows(world: &World, at: usize, partition: PartitionId) -> Result<(), Broken> {
    if world.is_restored { Ok(()) } else { begins(world, at, partition) }
}

fn begins(world: &World, at: usize, partition: PartitionId) -> Result<(), Broken> {
    let truth = &world.truths[&partition];
    let log: Vec<u8> = truth.log.iter().map(|(record, _)| *record).collect();
    let folded = &world.hosts[at].folded[&partition];
    if log.starts_with(folded) {
        return Ok(());
    }
    Err(("E1", format!("node {at} holds {folded:?} of {partition:?}, whose log has {log:?}")))
}

/// E6: a node stops only after something happened that it must stop for.
pub fn stopped(world: &World, at: usize, stop: Stop, seen: &mut Seen) -> Result<(), Broken> {
    if !is_called_for(world, stop) {
        return Err(("E6", format!("node {at} stops without a reason: {stop:?}")));
    }
    seen.insert(match stop {
        Stop::WentBack => "a node finds that the engine went back",
        Stop::OtherHistory(_) => "a node finds another history",
        Stop::Replaced => "a node finds itself replaced",
    });
    Ok(())
}

/// E7: a node whose answered beat is lost does not take the engine's image for its cluster's.
pub fn shown(world: &World, at: usize) -> Result<(), Broken> {
    let host = &world.hosts[at];
    let state = host.node.inspect();
    if host.has_lost && state.stopped.is_none() && state.view == world.memory.view() {
        return Err(("E7", format!("node {at} follows an engine that has lost its beat: {:?}", state.view)));
    }
    Ok(())
}

/// In every state.
pub fn state(world: &World, seen: &mut Seen) -> Result<(), Broken> {
    for (partition, truth) in &world.truths {
        let log: Vec<u8> = truth.log.iter().map(|(record, _)| *record).collect();
        match records(&world.memory.store().log(*partition)) {
            Ok(found) if found == log => {}
            found => return Err(("E1", format!("{partition:?} reads as {found:?} and was written as {log:?}"))),
        }
        let kept = |record: &&u8| !log.contains(record) && !truth.lost.contains(record);
        if let Some(record) = truth.acknowledged.iter().find(kept) {
            return Err(("E1", format!("record {record} was acknowledged and is not in the log {log:?}")));
        }
        if let Some(record) = world.truths.values().flat_map(|truth| &truth.refused).find(|one| log.contains(one)) {
            return Err(("E1", format!("record {record} was refused for good and is in the log {log:?}")));
        }
        // What was lost takes a node's time with it: the promise about reads is one of an engine that never went back.
        if world.left.is_timed && !world.is_restored {
            alone(world, *partition, truth.acknowledged.as_slice(), seen)?;
        }
    }
    Ok(())
}

/// E5: if a client asked every node now, one at most would answer, with everything that was acknowledged.
fn alone(world: &World, partition: PartitionId, acknowledged: &[u8], seen: &mut Seen) -> Result<(), Broken> {
    let answering: Vec<usize> = (0..world.hosts.len()).filter(|at| answers(world, *at, partition, seen)).collect();
    if answering.len() > 1 {
        return Err(("E5", format!("nodes {answering:?} answer reads of {partition:?} at one instant")));
    }
    for at in answering {
        let folded = &world.hosts[at].folded[&partition];
        if let Some(record) = acknowledged.iter().find(|record| !folded.contains(record)) {
            return Err(("E5", format!("node {at} answers a read without record {record}, acknowledged before")));
        }
    }
    Ok(())
}

/// The bytes of a read are taken now, and the clock is read after that.
fn answers(world: &World, at: usize, partition: PartitionId, seen: &mut Seen) -> bool {
    let host = &world.hosts[at];
    if !matches!(host.node.inspect().partitions.get(&partition), Some(Phase::Serving(_))) {
        return false;
    }
    let mut node = host.node.clone();
    let mut commands = Vec::new();
    node.take(Ticket(u64::MAX), partition);
    node.step(host.clock, Event::Turn, &mut commands);
    let is_answered = commands.contains(&Command::Read(Ticket(u64::MAX), Ok(())));
    seen.insert(if is_answered { "a read is answered" } else { "a read is refused past the session's end" });
    is_answered
}

/// The name of what happened.
pub fn unloaded(reason: Reason) -> &'static str {
    match reason {
        Reason::Fenced => "an owner finds itself fenced",
        Reason::Expired => "a session expires",
        Reason::Leaving => "an owner leaves",
        Reason::Stopping => "an owner stops",
    }
}
