//! Heartbeats of all members that the clients know, in every way in which they can come: each has to give the same codes
//! and leave the same state.

use rota_core::{
    Answer, AppendId, Coordinator, Entropy, ErrorCode, Record, Request, Sink, Ticket,
    request::{BatchedHeartbeat, Heartbeat, Sender},
};

use super::World;

/// Keeps the code of the last answer.
#[derive(Default)]
struct Code(Option<ErrorCode>);

impl Sink for Code {
    fn answer(&mut self, _: Ticket, answer: Answer<'_>) {
        let Answer::Heartbeat(error) = answer else { panic!("a heartbeat was answered {answer:?}") };
        assert!(self.0.replace(error).is_none(), "a heartbeat was answered twice");
    }

    fn append(&mut self, _: AppendId, records: &[Record]) {
        panic!("a heartbeat appended {records:?}");
    }
}

/// A group, a member, and the generation that it names.
type Named = (&'static str, String, i32);

impl World {
    /// Compares the ways; returns how many heartbeats came from members.
    pub fn compare_ways_of_beating(&self) -> usize {
        let named: Vec<Named> = (self.known.iter())
            .flat_map(|known| {
                let generation = self.coordinator.project(known.group).map_or(0, |group| group.generation);
                [generation, generation - 1].map(|number| (known.group, known.member_id.clone(), number))
            })
            .collect();
        let restored = Coordinator::restore(&self.coordinator.snapshot()).expect("its own snapshot");
        let (expected, state) = self.one_by_one(restored, &named);
        let by_ids = named.iter().map(|(group_id, member_id, generation)| {
            let (group_id, member_id) = (group_id.as_bytes(), member_id.as_bytes());
            BatchedHeartbeat { sender: Sender::Ids { group_id, member_id, instance_id: None }, generation: *generation }
        });
        assert_eq!(self.at_once(by_ids), (expected.clone(), state.clone()), "all at once, by ids");
        assert_eq!(self.by_handle(&named), (expected.iter().map(|code| code.code()).collect(), state), "by handle");
        expected.iter().filter(|code| **code != ErrorCode::UnknownMemberId).count()
    }

    fn one_by_one(&self, mut coordinator: Coordinator, named: &[Named]) -> (Vec<ErrorCode>, Vec<u8>) {
        let codes = named.iter().map(|(group_id, member_id, generation)| {
            let (group_id, generation, instance_id) = (Some(*group_id), *generation, None);
            let request = Request::Heartbeat(Heartbeat { group_id, generation, member_id, instance_id });
            let mut sink = Code::default();
            coordinator.submit(self.now, Ticket(0), Entropy(0), request, &mut sink);
            sink.0.expect("a heartbeat is answered at once")
        });
        (codes.collect(), coordinator.snapshot())
    }

    fn at_once<'a>(
        &self,
        beats: impl ExactSizeIterator<Item = BatchedHeartbeat<'a>> + Clone,
    ) -> (Vec<ErrorCode>, Vec<u8>) {
        let (mut coordinator, mut codes) = (self.coordinator.clone(), Vec::new());
        coordinator.heartbeats(self.now, beats.map(|beat| (beat, ())), |(), error| codes.push(error));
        (codes, coordinator.snapshot())
    }

    fn by_handle(&self, named: &[Named]) -> (Vec<i16>, Vec<u8>) {
        let mut coordinator = self.coordinator.clone();
        let handle = |(group_id, member_id, _): &Named| coordinator.member_handle(group_id, member_id);
        let handles: Vec<u64> = named.iter().map(|named| handle(named).unwrap_or(u64::MAX)).collect();
        let generations: Vec<i32> = named.iter().map(|(_, _, generation)| *generation).collect();
        let mut codes = vec![i16::MIN; named.len()];
        coordinator.heartbeats_by_handle(self.now, &handles, &generations, &mut codes);
        (codes, coordinator.snapshot())
    }
}
