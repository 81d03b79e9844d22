//! The invariants that one state of a consumer group shows, each under its id (docs/consumer-protocol.md).

use std::collections::BTreeMap;

use crate::{
    consumer_group::{
        group::{AWAY, ConsumerGroup, Current, MemberState},
        partitions::Partition,
    },
    coordinator::Coordinator,
    in_flight::Purpose,
    invariants::Violation,
    operations::Operation,
};

type Check = fn(&ConsumerGroup) -> Result<(), String>;

const CHECKS: [(&str, Check); 5] = [
    ("C1", one_owner),
    ("C3", epochs_in_order),
    ("C6", pending_where_unrevoked),
    ("C10", instances_mirror),
    ("S21", counts_of_members),
];

impl Coordinator {
    /// Checks every consumer group.
    pub(crate) fn check_consumer_groups(&self) -> Result<(), Violation> {
        for (group_id, group) in self.consumer_groups.iter() {
            let violation = |id, detail| Violation { id, group_id: group_id.to_string(), detail };
            CHECKS.iter().try_for_each(|(id, check)| check(group).map_err(|detail| violation(*id, detail)))?;
            self.check_consumer_timers(group).map_err(|detail| violation("C16", detail))?;
        }
        Ok(())
    }

    /// Every member that is not leaving has the deadlines that it should have, and an append is in flight where the group
    /// says so.
    fn check_consumer_timers(&self, group: &ConsumerGroup) -> Result<(), String> {
        let expires = |wanted: &str| {
            let waits = group.waiting.iter();
            waits.map(|waiting| format!("{:?}", waiting.what)).any(|what| what.contains(wanted))
        };
        if !self.is_active() {
            return Ok(());
        }
        for (id, member, _) in group.members() {
            let session = member.session.and_then(|session| self.purgatory.get(session));
            let is_its_own = |operation: &Operation| matches!(operation, Operation::ConsumerSession(name) if name.0 == group.id && name.1 == *id);
            if !session.is_some_and(is_its_own) && !expires("SessionEnded") && !group.is_leaving(id) {
                return Err(format!("member {id} has no session deadline"));
            }
            let owes = member.current.as_ref().is_some_and(|current| current.state == MemberState::Unrevoked);
            if member.rebalance.is_some() && !owes {
                return Err(format!("member {id} has a rebalance deadline and nothing to give up"));
            }
        }
        match &group.write {
            Some(write)
                if !self.appends.get(&write.append_id).is_some_and(|append| {
                    matches!(append.purpose, Purpose::Consumer) && append.group_id == group.id
                }) =>
            {
                Err("its append is not in flight".to_owned())
            }
            None if !group.waiting.is_empty() => Err("something waits for no append".to_owned()),
            None if group.is_gone() => Err("nothing is left of it".to_owned()),
            _ => Ok(()),
        }
    }
}

fn one_owner(group: &ConsumerGroup) -> Result<(), String> {
    let mut held: BTreeMap<Partition, &str> = BTreeMap::new();
    for (id, member, _) in group.members() {
        for (partition, _) in member.current.iter().flat_map(Current::held) {
            if let Some(other) = held.insert(*partition, id) {
                return Err(format!("{other} and {id} hold partition {} of topic {:032x}", partition.1, partition.0));
            }
        }
    }
    let owners = group.owners().iter().map(|(partition, owner)| (*partition, &**owner));
    if owners.eq(held) { Ok(()) } else { Err("the table of owners differs from what members hold".to_owned()) }
}

fn epochs_in_order(group: &ConsumerGroup) -> Result<(), String> {
    if group.target_epoch() > group.epoch() {
        return Err(format!("the target is of epoch {}, the group at {}", group.target_epoch(), group.epoch()));
    }
    let ahead = group.members().find(|(_, member, _)| member.epoch() > group.target_epoch() || member.epoch() < AWAY);
    ahead.map_or(Ok(()), |(id, member, _)| Err(format!("member {id} is at epoch {}", member.epoch())))
}

fn pending_where_unrevoked(group: &ConsumerGroup) -> Result<(), String> {
    let fits = |current: &Current| match current.state {
        MemberState::Unrevoked => !current.pending.is_empty() || current.epoch <= 0,
        _ => current.pending.is_empty(),
    };
    let broken = group.members().find(|(_, member, _)| member.current.as_ref().is_some_and(|current| !fits(current)));
    broken.map_or(Ok(()), |(id, ..)| Err(format!("member {id} has partitions to give up in the wrong state")))
}

fn instances_mirror(group: &ConsumerGroup) -> Result<(), String> {
    let mut named: Vec<(&str, &str)> = group
        .members()
        .filter_map(|(id, _, subscription)| Some((subscription.instance_id.as_deref()?, &**id)))
        .collect();
    named.sort_unstable();
    let mapped = group.instances().iter().map(|(instance, id)| (&**instance, &**id));
    if mapped.eq(named) { Ok(()) } else { Err("the table of instances differs from the members".to_owned()) }
}

fn counts_of_members(group: &ConsumerGroup) -> Result<(), String> {
    if group.counts_are_right() { Ok(()) } else { Err("what it counts of its members differs from a scan".to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Answer, AppendId, Config, Entropy, Now, Phase, Record, Request, Sink, Ticket,
        consumer_group::{
            config::ConsumerConfig,
            waiting::{Later, Waiting},
        },
        request::ConsumerGroupHeartbeat,
    };

    const NOW: Now = Now { mono_ms: 1_000, wall_ms: 1_700_000_000_000 };

    struct Quiet;

    impl Sink for Quiet {
        fn answer(&mut self, _: Ticket, _: Answer<'_>) {}

        fn append(&mut self, _: AppendId, _: &[Record]) {}
    }

    /// The group "g" of the member m1, whose records are in flight.
    fn in_flight() -> Coordinator {
        let mut coordinator = Coordinator::new(Config::default(), 0, 0);
        coordinator.configure_consumer_groups(ConsumerConfig { enabled: true, ..ConsumerConfig::default() });
        coordinator.loaded(NOW, &mut Quiet);
        let join = ConsumerGroupHeartbeat {
            version: 1,
            member_epoch: 0,
            rebalance_timeout_ms: 60_000,
            subscribed_topic_names: Some(&[]),
            topic_partitions: Some(&[]),
            ..ConsumerGroupHeartbeat::keeping("g", "m1")
        };
        coordinator.submit(NOW, Ticket(1), Entropy(0), Request::ConsumerGroupHeartbeat(join), &mut Quiet);
        coordinator
    }

    /// The same group when they are durable.
    fn durable() -> Coordinator {
        let mut coordinator = in_flight();
        coordinator.appended(AppendId(0), Ok(0), NOW, &mut Quiet);
        coordinator
    }

    fn group(coordinator: &mut Coordinator) -> &mut ConsumerGroup {
        coordinator.consumer_groups.get_mut("g").unwrap()
    }

    fn end_session(coordinator: &mut Coordinator) {
        group(coordinator).member_mut("m1").unwrap().session = None;
    }

    /// What is broken, and how it is broken.
    type Damage = (&'static str, fn(&mut Coordinator));

    fn each_breaks_c16(sound: &Coordinator, all: &[Damage]) {
        assert_eq!(sound.check_consumer_groups(), Ok(()));
        for (at, (detail, damage)) in all.iter().enumerate() {
            let mut damaged = sound.clone();
            damage(&mut damaged);
            let violation = damaged.check_consumer_groups().expect_err(detail);
            assert_eq!((violation.id, &*violation.detail), ("C16", *detail), "damage {at}");
        }
    }

    fn append(coordinator: &mut Coordinator) -> &mut crate::in_flight::Append {
        coordinator.appends.get_mut(&AppendId(0)).unwrap()
    }

    #[test]
    fn an_append_in_flight_is_one_of_the_group() {
        each_breaks_c16(
            &in_flight(),
            &[
                ("its append is not in flight", |one| one.appends.clear()),
                ("its append is not in flight", |one| append(one).group_id = "h".into()),
                ("its append is not in flight", |one| append(one).purpose = Purpose::Unattended),
            ],
        );
    }

    #[test]
    fn a_group_without_an_append_has_something_and_keeps_nothing_waiting() {
        each_breaks_c16(
            &durable(),
            &[
                ("something waits for no append", |one| {
                    group(one).waiting.push_back(Waiting { deadline: None, what: Later::ResolutionDue });
                }),
                ("nothing is left of it", |one| {
                    one.consumer_groups.insert("h".into(), ConsumerGroup::new("h".into()));
                }),
            ],
        );
    }

    #[test]
    fn a_member_has_a_session_deadline_from_the_end_of_the_load_on() {
        each_breaks_c16(&durable(), &[("member m1 has no session deadline", end_session)]);
        let mut loading = durable();
        end_session(&mut loading);
        loading.phase = Phase::Loading;
        assert_eq!(loading.check_consumer_groups(), Ok(()));
    }
}
