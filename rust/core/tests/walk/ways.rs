//! Heartbeats of everybody whom the clients know of, every way in which they can come: each has to give the same codes
//! and leave the same state.

use rota_core::{
    Answer, AppendId, Coordinator, Entropy, ErrorCode, Record, Request, Sink, Ticket,
    request::{Beat, Heartbeat},
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
    /// Compares the ways; how many heartbeats went by the slot in an id.
    pub fn compare_ways_of_beating(&self) -> usize {
        let named: Vec<Named> = (self.known.iter())
            .flat_map(|known| {
                let generation = self.coordinator.project(known.group).map_or(0, |group| group.generation);
                [generation, generation - 1].map(|number| (known.group, known.member_id.clone(), number))
            })
            .collect();
        let restored = Coordinator::restore(&self.coordinator.snapshot()).expect("its own snapshot");
        let (expected, state, _) = self.one_by_one(restored, &named, false);
        let (by_hint, hinted_state, hinted) = self.one_by_one(self.coordinator.clone(), &named, true);
        assert_eq!((by_hint, hinted_state == state), (expected.clone(), true), "by the slot in the id");
        let (at_once, at_once_state) = self.at_once(self.coordinator.clone(), &named);
        assert_eq!((at_once, at_once_state == state), (expected, true), "all at once, by handle");
        hinted
    }

    fn one_by_one(&self, mut coordinator: Coordinator, named: &[Named], by_hint: bool) -> (Vec<i16>, Vec<u8>, usize) {
        let (mut codes, mut hinted) = (Vec::new(), 0);
        for (group_id, member_id, generation) in named {
            let (group, member, generation) = (group_id.as_bytes(), member_id.as_bytes(), *generation);
            let beat = Beat { group_id: group, generation, member_id: member };
            let short = if by_hint { coordinator.beat_by_hint(self.now, &beat) } else { None };
            hinted += usize::from(short.is_some());
            let code = short.unwrap_or_else(|| {
                let (group_id, instance_id) = (Some(*group_id), None);
                let request = Request::Heartbeat(Heartbeat { group_id, generation, member_id, instance_id });
                let mut sink = Code::default();
                coordinator.submit(self.now, Ticket(0), Entropy(0), request, &mut sink);
                sink.0.expect("a heartbeat is answered at once")
            });
            codes.push(code.code());
        }
        (codes, coordinator.snapshot(), hinted)
    }

    fn at_once(&self, mut coordinator: Coordinator, named: &[Named]) -> (Vec<i16>, Vec<u8>) {
        let handle = |(group_id, member_id, _): &Named| coordinator.member_handle(group_id, member_id);
        let handles: Vec<u64> = named.iter().map(|named| handle(named).unwrap_or(u64::MAX)).collect();
        let generations: Vec<i32> = named.iter().map(|(_, _, generation)| *generation).collect();
        let mut codes = vec![i16::MIN; named.len()];
        coordinator.heartbeats(self.now, &handles, &generations, &mut codes);
        (codes, coordinator.snapshot())
    }
}
