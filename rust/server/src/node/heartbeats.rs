//! The fast path of heartbeats: from the read buffer to answers in the connection's buffer, without ticket, journal or
//! allocation. It answers what `Coordinator::heartbeats` answers. Any other request is left to [`apis`](crate::apis).
//!
//! A heartbeat of a consumer group takes it if it equals the client's last one, which changed nothing, and nothing has
//! changed since. Then its answer is equal, too.

use rota_core::{Coordinator, ErrorCode, Now, PREFETCHED, Phase, partition_of_bytes, prefetch};
use rota_wire::{
    frame::{LENGTH_BYTES, frame_length},
    heartbeat_frame::HeartbeatFrame,
    repeated::RepeatedRequest,
};

use super::Node;
use crate::client::{Client, repeat::Repeat};

/// The handled part of a read buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    /// Bytes of the handled frames.
    pub bytes: usize,
    /// Number of heartbeats handled.
    pub count: u32,
}

/// Answers the heartbeats at the start of `bytes` in order, at most `max`. Stops at any other request.
pub fn take(node: &mut Node, client: &Client, bytes: &[u8], request_max_bytes: usize, max: u32) -> Taken {
    let mut taken = Taken::default();
    if max == 0 || client.trace().is_some() || !node.allows_fast_path() {
        return taken;
    }
    node.follow_acls();
    let mut batch = [None; PREFETCHED];
    let mut count = node.read_batch(bytes, request_max_bytes, &mut batch);
    if count == 0 {
        return node.take_repeated(client, bytes, request_max_bytes, max);
    }
    let now = node.clock.now();
    if client.session().is_over(now.mono_ms) {
        return taken;
    }
    let out = &mut *client.out();
    // The partition of the heartbeats whose deadlines the timer task does not know yet. One check serves all of them.
    let mut unarmed = None;
    'batches: while count > 0 {
        let read = batch[..count].iter().flatten();
        if count > 1 {
            prefetch(
                read.clone().filter_map(|read| Some((node.coordinator(read.partition)?, read.framed.heartbeat()))),
            );
        }
        for read in read {
            let may = taken.count < max && node.may_heartbeat(client, read.framed.group_id);
            let Some(error) = may.then(|| node.heartbeat(now, read)).flatten() else { break 'batches };
            let before = unarmed.replace(read.partition);
            if before != unarmed {
                node.arm_for(before);
            }
            read.framed.answer(out, error);
            taken = Taken { bytes: taken.bytes + read.bytes, count: taken.count + 1 };
        }
        count = node.read_batch(&bytes[taken.bytes..], request_max_bytes, &mut batch);
    }
    node.arm_for(unarmed);
    taken
}

/// A decoded heartbeat.
#[derive(Clone, Copy)]
struct Read<'a> {
    framed: HeartbeatFrame<'a>,
    /// Size of its frame with the length.
    bytes: usize,
    /// The partition of its group.
    partition: u32,
}

impl Node {
    /// Whether heartbeats may take the fast path: there is no journal and no control, and the clock is real.
    fn allows_fast_path(&self) -> bool {
        self.shared.journal.is_none() && self.shared.controls.are_idle() && !self.clock.is_virtual()
    }

    /// Decodes the heartbeats at the start of `bytes`, as many as fit. Returns their number.
    fn read_batch<'a>(
        &self,
        mut bytes: &'a [u8],
        request_max_bytes: usize,
        batch: &mut [Option<Read<'a>>; PREFETCHED],
    ) -> usize {
        for (at, place) in batch.iter_mut().enumerate() {
            let Some(read) = self.read_one(bytes, request_max_bytes) else { return at };
            bytes = &bytes[read.bytes..];
            *place = Some(read);
        }
        PREFETCHED
    }

    /// Decodes the heartbeat at the start of `bytes`.
    fn read_one<'a>(&self, bytes: &'a [u8], request_max_bytes: usize) -> Option<Read<'a>> {
        let end = LENGTH_BYTES + frame_length(bytes, request_max_bytes).ok()??;
        let framed = HeartbeatFrame::read(bytes.get(LENGTH_BYTES..end)?)?;
        Some(Read { framed, bytes: end, partition: partition_of_bytes(framed.group_id, self.partitions())? })
    }

    /// Handles one heartbeat; `None` if it needs the general path.
    fn heartbeat(&mut self, now: Now, read: &Read<'_>) -> Option<ErrorCode> {
        let coordinator = self.coordinators.get_mut(read.partition as usize)?.as_mut()?;
        if coordinator.phase() != Phase::Active {
            return None;
        }
        let error = coordinator.heartbeat(now, read.framed.heartbeat());
        // Nothing has changed. The codec and the gate decide whether the ids are illegal or unknown.
        if error == ErrorCode::UnknownMemberId {
            return None;
        }
        self.effects.metrics.refused("Heartbeat", error);
        Some(error)
    }

    /// Keeps the request of a client with its answer, which begins at `answer_start` of the client's buffer, if the
    /// request has left a receipt.
    pub fn keep_repeatable(&mut self, client: &Client, frame: &[u8], answer_start: usize) {
        let Some((partition, receipt)) = self.receipt.take() else { return };
        if client.trace().is_some() || !self.allows_fast_path() {
            return;
        }
        let mut slot = client.repeat();
        let new = || Repeat { request: RepeatedRequest::default(), receipt, partition, group_id: String::new() };
        let mut kept = slot.take().unwrap_or_else(|| Box::new(new()));
        if kept.request.keep(frame, &client.out()[answer_start..]) {
            (kept.receipt, kept.partition) = (receipt, partition);
            kept.group_id.clone_from(&client.member().0);
            *slot = Some(kept);
        }
    }

    /// Answers the heartbeats at the start of `bytes` that equal the client's last one, at most `max`.
    fn take_repeated(&mut self, client: &Client, bytes: &[u8], request_max_bytes: usize, max: u32) -> Taken {
        let mut taken = Taken::default();
        let slot = client.repeat();
        let Some(repeat) = slot.as_deref() else { return taken };
        let whole = |bytes: &[u8]| Some(LENGTH_BYTES + frame_length(bytes, request_max_bytes).ok()??);
        while taken.count < max {
            let rest = &bytes[taken.bytes..];
            let Some(end) = whole(rest) else { break };
            let Some(frame) = rest.get(LENGTH_BYTES..end).filter(|frame| repeat.request.is(frame)) else { break };
            if !self.repeat(client, repeat) {
                break;
            }
            repeat.request.answer(frame, &mut client.out());
            taken = Taken { bytes: taken.bytes + end, count: taken.count + 1 };
        }
        if taken.count > 0 {
            self.arm_for(Some(repeat.partition));
        }
        taken
    }

    /// Handles the client's last heartbeat again. Returns whether its answer is the same.
    fn repeat(&mut self, client: &Client, repeat: &Repeat) -> bool {
        self.catch_up();
        let now = self.clock.now();
        if client.session().is_over(now.mono_ms) || !self.may_heartbeat(client, repeat.group_id.as_bytes()) {
            return false;
        }
        let coordinator = self.coordinators.get_mut(repeat.partition as usize).and_then(Option::as_mut);
        coordinator.is_some_and(|coordinator| coordinator.repeat_heartbeat(now, &repeat.receipt))
    }

    /// Wakes the timer task if it sleeps beyond the next deadline of a partition.
    fn arm_for(&mut self, partition: Option<u32>) {
        let coordinator = partition.and_then(|partition| self.coordinator(partition));
        self.arm_earlier(coordinator.and_then(Coordinator::next_deadline));
    }
}

#[cfg(test)]
mod tests {
    use std::{rc::Rc, sync::Arc};

    use bytes::{Buf, BytesMut};
    use rota_core::SelfCheck;
    use rota_wire::{Reader, Writer, versions};

    use super::*;
    use crate::{
        apis,
        base::{clock::Clock, owners::FIRST_NODE, place::Place, settings::Settings},
        client::tests::nowhere,
        node::shared_state::SharedState,
    };

    const ENOUGH_BYTES: usize = 1_000_000;

    fn frame(api_key: i16, version: i16, correlation_id: i32, body: impl FnOnce(&mut Writer<'_>)) -> BytesMut {
        let mut bytes = BytesMut::from(&[0; LENGTH_BYTES][..]);
        let mut header = Writer::new(&mut bytes, false);
        header.i16(api_key);
        header.i16(version);
        header.i32(correlation_id);
        header.str("c");
        let mut out = Writer::new(&mut bytes, versions::find(api_key).unwrap().flexible(version));
        out.no_tags();
        body(&mut out);
        let length = (bytes.len() - LENGTH_BYTES) as u32;
        bytes[..LENGTH_BYTES].copy_from_slice(&length.to_be_bytes());
        bytes
    }

    fn heartbeat(version: i16, group_id: &str, generation: i32, member_id: &str) -> BytesMut {
        frame(versions::HEARTBEAT, version, i32::from(version) + generation, |out| {
            out.str(group_id);
            out.i32(generation);
            out.str(member_id);
            if version >= 3 {
                out.nullable_str(None);
            }
            out.no_tags();
        })
    }

    /// A node in real time, a client, and the member of a Stable group in generation 1.
    struct Scene {
        node: Node,
        client: Rc<Client>,
        member_id: String,
    }

    impl Scene {
        fn new(clock: Clock) -> Scene {
            let mut settings = Settings::default();
            settings.set("group.initial.rebalance.delay.ms", "0").unwrap();
            let place = Place { cluster_id: String::new(), node_id: FIRST_NODE, nodes: 1, listeners: Arc::default() };
            let node = Node::new(&Arc::new(SharedState::new(settings, place, clock)), FIRST_NODE);
            let mut scene = Scene { node, client: nowhere(), member_id: String::new() };
            scene.dispatch(&frame(versions::JOIN_GROUP, 0, 1, |out| {
                out.str("g");
                out.i32(10_000);
                out.str("");
                out.str("consumer");
                out.count(1);
                out.str("range");
                out.bytes(b"");
            }));
            scene.node.advance_due();
            let joined = scene.written();
            let mut answer = Reader::new(&joined[2 * LENGTH_BYTES..], false);
            assert_eq!((answer.i16("error").unwrap(), answer.i32("generation").unwrap()), (0, 1));
            answer.str("protocol").unwrap();
            answer.str("leader").unwrap().clone_into(&mut scene.member_id);
            let sync = frame(versions::SYNC_GROUP, 0, 2, |out| {
                out.str("g");
                out.i32(1);
                out.str(&scene.member_id);
                out.count(0);
            });
            scene.dispatch(&sync);
            assert!(!scene.written().is_empty());
            scene
        }

        fn written(&self) -> BytesMut {
            std::mem::take(&mut *self.client.out())
        }

        /// Handles whole frames on the general path.
        fn dispatch(&mut self, mut bytes: &[u8]) {
            while let Ok(Some(length)) = frame_length(bytes, ENOUGH_BYTES) {
                bytes.advance(LENGTH_BYTES);
                assert!(apis::handle(&mut self.node, &self.client, &bytes[..length]).is_ok());
                bytes.advance(length);
            }
        }

        fn take(&mut self, bytes: &[u8], max: u32) -> Taken {
            take(&mut self.node, &self.client, bytes, ENOUGH_BYTES, max)
        }
    }

    #[test]
    fn the_fast_path_answers_byte_for_byte_like_the_general_path() {
        let mut scene = Scene::new(Clock::real());
        let member_id = scene.member_id.clone();
        let mut pipeline = BytesMut::new();
        for version in [0, 4, 1, 3, 2].repeat(5) {
            pipeline.extend_from_slice(&heartbeat(version, "g", 1, &member_id));
            pipeline.extend_from_slice(&heartbeat(version, "g", 7, &member_id));
        }
        assert_eq!(scene.take(&pipeline, u32::MAX), Taken { bytes: pipeline.len(), count: 50 });
        let short = scene.written();
        assert_eq!(scene.node.effects.metrics.refusals[&("Heartbeat", "ILLEGAL_GENERATION")], 25);
        scene.dispatch(&pipeline);
        assert_eq!(short, scene.written());
        assert_eq!(scene.node.effects.metrics.refusals[&("Heartbeat", "ILLEGAL_GENERATION")], 50);
    }

    #[test]
    fn whatever_is_not_a_heartbeat_of_a_known_member_ends_it_there() {
        let mut scene = Scene::new(Clock::real());
        let good = heartbeat(2, "g", 1, &scene.member_id);
        let listing = frame(versions::LIST_GROUPS, 0, 1, |_| {});
        let static_member = frame(versions::HEARTBEAT, 3, 1, |out| {
            out.str("g");
            out.i32(1);
            out.str(&scene.member_id);
            out.nullable_str(Some("i"));
        });
        let others = [
            heartbeat(2, "g", 1, "nobody-00000000-0000-4000-8000-000000000000"),
            heartbeat(2, "h", 1, &scene.member_id),
            heartbeat(2, "", 1, &scene.member_id),
            heartbeat(2, "größe", 1, &scene.member_id),
            listing,
            static_member,
            BytesMut::from(&good[..good.len() - 1]),
            BytesMut::from(&[0xff; 20][..]),
        ];
        for other in others {
            let pipeline = [&good[..], &good, &other, &good].concat();
            assert_eq!(scene.take(&pipeline, u32::MAX), Taken { bytes: 2 * good.len(), count: 2 }, "{other:?}");
            assert_eq!(scene.take(&other, u32::MAX), Taken::default());
        }
        let pipeline = good.repeat(5);
        assert_eq!(scene.take(&pipeline, 3), Taken { bytes: 3 * good.len(), count: 3 });
        assert_eq!(scene.take(&pipeline, 0), Taken::default());
    }

    #[test]
    fn the_fast_path_is_off_on_a_virtual_clock_and_during_injections_and_pauses() {
        let mut scene = Scene::new(Clock::standing());
        let good = heartbeat(2, "g", 1, &scene.member_id);
        assert_eq!(scene.take(&good, 1), Taken::default(), "a standing clock asks who was heard");
        let mut scene = Scene::new(Clock::real());
        let good = heartbeat(2, "g", 1, &scene.member_id);
        let shared = Arc::clone(&scene.node.shared);
        let injection = shared.controls.inject(versions::HEARTBEAT, ErrorCode::NotCoordinator, 1, None);
        assert_eq!(scene.take(&good, 1), Taken::default(), "an error is to be injected");
        shared.controls.cancel(injection);
        assert_eq!(scene.take(&good, 1).count, 1);
        let somebody = ("g".to_owned(), "m".to_owned());
        let pause = shared.controls.pause(somebody.clone());
        assert_eq!(scene.take(&good, 1), Taken::default(), "a member is paused");
        assert_eq!(shared.controls.resume(pause), Some(somebody));
        assert_eq!(scene.take(&good, 1).count, 1);
    }

    #[test]
    fn a_heartbeat_keeps_its_member_for_a_whole_session() {
        let mut scene = Scene::new(Clock::real());
        let good = heartbeat(2, "g", 1, &scene.member_id);
        let before_ms = scene.node.clock.now().mono_ms;
        while scene.node.clock.now().mono_ms == before_ms {}
        assert_eq!(scene.take(&good, 1).count, 1);
        let coordinator = scene.node.coordinator(scene.node.partition_of("g")).unwrap();
        let heard_ms = coordinator.now().mono_ms;
        assert!(heard_ms > before_ms);
        assert_eq!(coordinator.project("g").unwrap().members[0].deadline_ms, Some(heard_ms + 10_000));
    }

    #[test]
    fn the_timer_task_is_woken_for_a_deadline_that_a_batch_has_made_earlier() {
        let mut scene = Scene::new(Clock::real());
        let good = heartbeat(2, "g", 1, &scene.member_id);
        let far = heartbeat(2, "g", 7, &scene.member_id);
        let partition = scene.node.partition_of("g");
        scene.node.armed_ms = u64::MAX;
        let pipeline = [&good[..], &good, &far, &heartbeat(2, "h", 1, "nobody")].concat();
        assert_eq!(scene.take(&pipeline, u32::MAX).count, 3);
        let deadline_ms = scene.node.coordinator(partition).unwrap().next_deadline();
        assert!(deadline_ms.is_some());
        assert_eq!(Some(scene.node.armed_ms), deadline_ms);
    }

    /// A heartbeat of a consumer group. Epoch 0 joins.
    fn consumer_heartbeat(correlation_id: i32, member_id: &str, epoch: i32) -> BytesMut {
        const NULL: &[u8] = &[0];
        frame(versions::CONSUMER_GROUP_HEARTBEAT, 1, correlation_id, |out| {
            out.str("consumers");
            out.str(member_id);
            out.i32(epoch);
            out.nullable_str(None);
            out.nullable_str(None);
            out.i32(if epoch == 0 { 60_000 } else { -1 });
            if epoch == 0 {
                out.count(1);
                out.str("orders");
            } else {
                out.raw(NULL);
            }
            out.nullable_str(None);
            out.nullable_str(None);
            if epoch == 0 {
                out.count(0);
            } else {
                out.raw(NULL);
            }
            out.no_tags();
        })
    }

    /// The epoch of a first member.
    const EPOCH: i32 = 2;

    /// A scene with the only member `m` of a consumer group.
    fn consumer_scene(clock: Clock) -> Scene {
        let mut scene = Scene::new(clock);
        scene.dispatch(&consumer_heartbeat(1, "m", 0));
        scene.node.settle();
        let joined = scene.written();
        let mut answer = Reader::new(&joined[2 * LENGTH_BYTES..], true);
        answer.skip_tags().unwrap();
        answer.i32("throttle_time_ms").unwrap();
        assert_eq!(answer.i16("error").unwrap(), 0, "{joined:?}");
        scene
    }

    #[test]
    fn a_repeated_heartbeat_of_a_consumer_group_takes_it_until_the_group_changes() {
        let mut scene = consumer_scene(Clock::real());
        let beat = |correlation_id| consumer_heartbeat(correlation_id, "m", EPOCH);
        assert_eq!(scene.take(&beat(2), 1), Taken::default(), "the first one needs the general path");
        scene.dispatch(&beat(2));
        scene.dispatch(&beat(7));
        scene.dispatch(&beat(8));
        let long = scene.written();
        let pipeline = [beat(2), beat(7), beat(8)].concat();
        assert_eq!(scene.take(&pipeline, u32::MAX), Taken { bytes: pipeline.len(), count: 3 });
        assert_eq!(scene.written(), long);
        assert_eq!(scene.take(&pipeline, 2).count, 2);
        let other = consumer_heartbeat(9, "m", EPOCH + 1);
        let mixed = [&beat(2)[..], &other, &beat(3)].concat();
        assert_eq!(scene.take(&mixed, u32::MAX).count, 1, "another epoch");
        assert_eq!(scene.take(&beat(2)[..20], 1), Taken::default(), "a part of a frame");
        // Another member joins.
        scene.dispatch(&consumer_heartbeat(4, "n", 0));
        scene.node.settle();
        assert_eq!(scene.take(&beat(5), 1), Taken::default(), "the group has changed");
    }

    #[test]
    fn the_timer_task_is_woken_for_a_deadline_that_repeated_heartbeats_have_made_earlier() {
        let mut scene = consumer_scene(Clock::real());
        let beat = consumer_heartbeat(2, "m", EPOCH);
        scene.dispatch(&beat);
        scene.node.armed_ms = u64::MAX;
        assert_eq!(scene.take(&beat, 1).count, 1);
        let coordinator = scene.node.coordinator(scene.node.partition_of("consumers")).unwrap();
        assert!(coordinator.next_deadline().is_some());
        assert_eq!(Some(scene.node.armed_ms), coordinator.next_deadline());
    }

    #[test]
    fn repeated_heartbeats_take_the_general_path_after_the_end_of_the_authentication() {
        let mut scene = consumer_scene(Clock::real());
        let beat = consumer_heartbeat(2, "m", EPOCH);
        scene.dispatch(&beat);
        assert_eq!(scene.take(&beat, 1).count, 1);
        scene.client.session().set_lifetime(0, Some(0));
        while scene.node.clock.now().mono_ms == 0 {}
        assert_eq!(scene.take(&beat, 1), Taken::default());
    }

    #[test]
    fn repeated_heartbeats_take_the_general_path_on_a_virtual_clock_and_after_a_deleted_topic() {
        let beat = consumer_heartbeat(2, "m", EPOCH);
        let mut scene = consumer_scene(Clock::standing());
        scene.dispatch(&beat);
        assert_eq!(scene.take(&beat, 1), Taken::default(), "a standing clock asks who was heard");
        let mut scene = consumer_scene(Clock::real());
        scene.dispatch(&beat);
        assert_eq!(scene.take(&beat, 1).count, 1);
        scene.node.topics_deleted(&["orders"]);
        assert_eq!(scene.take(&beat, 1), Taken::default());
        assert_eq!(scene.node.coordinators.iter().flatten().count(), 50);
        scene.dispatch(&beat);
        scene.node.unload();
        assert_eq!(scene.take(&beat, 1), Taken::default(), "its coordinator is elsewhere");
    }

    #[test]
    fn the_fast_path_ends_with_the_session() {
        let mut scene = Scene::new(Clock::real());
        let good = heartbeat(2, "g", 1, &scene.member_id);
        scene.client.session().set_lifetime(scene.node.clock.now().mono_ms, Some(1_000_000));
        assert_eq!(scene.take(&good, 1).count, 1);
        while scene.node.clock.now().mono_ms == 0 {}
        scene.client.session().set_lifetime(0, Some(0));
        assert_eq!(scene.take(&good, 1), Taken::default());
        let general = apis::handle(&mut scene.node, &scene.client, &good[LENGTH_BYTES..]);
        assert!(matches!(general, Ok(apis::Handled::Expired)));
    }

    #[test]
    fn no_heartbeat_allocates() {
        let mut scene = Scene::new(Clock::real());
        for coordinator in scene.node.coordinators.iter_mut().flatten() {
            // The invariants are checked elsewhere; checking them allocates.
            coordinator.check_itself(SelfCheck::Never);
        }
        let pipeline = heartbeat(2, "g", 1, &scene.member_id).repeat(64);
        let rounds = |scene: &mut Scene, rounds: u32| {
            for _ in 0..rounds {
                assert_eq!(scene.take(&pipeline, u32::MAX).count, 64);
                scene.client.out().clear();
            }
        };
        rounds(&mut scene, 1);
        let counted = allocation_counter::measure(|| rounds(&mut scene, 100));
        assert_eq!(counted.count_total, 0);
    }

    #[test]
    fn no_repeated_heartbeat_allocates() {
        let mut scene = consumer_scene(Clock::real());
        let beat = consumer_heartbeat(2, "m", EPOCH);
        scene.dispatch(&beat);
        let pipeline = beat.repeat(64);
        let rounds = |scene: &mut Scene, rounds: u32| {
            for _ in 0..rounds {
                assert_eq!(scene.take(&pipeline, u32::MAX).count, 64);
                scene.client.out().clear();
            }
        };
        rounds(&mut scene, 1);
        let counted = allocation_counter::measure(|| rounds(&mut scene, 100));
        assert_eq!(counted.count_total, 0);
    }
}
