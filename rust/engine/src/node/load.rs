//! Load: an owner reads what its predecessors left. No predecessor can add to it: all are fenced.

use super::{
    Command, Node,
    state::{Phase, Purpose, Serving, Step},
};
use crate::{
    entry::Prev,
    ids::PartitionId,
    requests::{Body, Contents, Read, read::Damage},
    store::Log,
    view::Token,
};

impl Node {
    pub(super) fn read(&mut self, partition: PartitionId, commands: &mut Vec<Command>) {
        self.send(Purpose::Of(partition, Step::Load), Body::Read(Read { partition }), commands);
    }

    pub(super) fn load(
        &mut self,
        partition: PartitionId,
        token: Token,
        contents: Contents,
        commands: &mut Vec<Command>,
    ) {
        if contents.part != Some(token.part()) {
            return self.lost(partition, token.part(), contents.part, commands);
        }
        match loaded(partition, token, contents.log) {
            Ok((serving, command)) => {
                self.state.partitions.insert(partition, Phase::Serving(Box::new(serving)));
                commands.push(command);
            }
            Err(damage) => {
                commands.push(Command::Damaged(partition, damage));
                self.release(partition, commands);
            }
        }
    }
}

fn loaded(partition: PartitionId, token: Token, log: Log) -> Result<(Serving, Command), Damage> {
    let chunks = log.snapshot()?.into_iter().cloned().collect();
    let next_offset = log.end()?;
    let upto = log.head.as_ref().map_or(0, |head| head.value.upto);
    let newest = log.entries.last_key_value().map(|(base_offset, entry)| Prev::Entry(*base_offset, entry.revision));
    let head = log.head.as_ref().map(|head| Prev::Head(head.revision));
    let serving = Serving {
        token,
        next_offset,
        prev: newest.or(head).unwrap_or(Prev::Nothing),
        outstanding: None,
        waiting: Vec::new(),
        head: log.head.map(|head| head.value),
        snapshot: None,
    };
    let tail = log.entries.into_iter().filter(|(base_offset, entry)| base_offset + entry.value.count > upto);
    let entries = tail.map(|(base_offset, entry)| (base_offset, entry.value)).collect();
    Ok((serving, Command::Loaded { partition, epoch: token.epoch, upto, chunks, entries }))
}
