//! The effect of each fault, and the end of all faults.

use super::{
    Fleet, Happening,
    faults::{Fault, Kind},
};

impl Fleet {
    pub(super) fn strike(&mut self, fault: Fault) {
        *self.figures.struck.entry(fault.kind).or_default() += 1;
        let Fault { for_ms, kind, whom, whence, .. } = fault;
        let (seat, node) = (whom % self.seats.len(), whence % self.nodes.len());
        let partition = whom % self.owners.len();
        match kind {
            Kind::NodeCrash => self.crash_node(node, for_ms),
            Kind::HandOver | Kind::Zombie => {
                let from = self.owners[partition];
                self.move_partition(partition, node, (kind == Kind::Zombie).then_some(for_ms));
                if kind == Kind::HandOver && self.owners[partition] != from {
                    self.effective(kind);
                }
            }
            Kind::LoadFails => {
                self.load_fails[partition] = true;
                self.load(partition);
            }
            Kind::Compaction => {
                if self.logs[partition].compact(self.now_ms) > 0 {
                    self.effective(kind);
                }
                self.load(partition);
            }
            Kind::LogSlow => self.logs[partition].slow_until_ms = self.now_ms + for_ms,
            Kind::LogFails => {
                self.logs[partition].fails_until_ms = self.now_ms + for_ms;
                self.logs[partition].error = whence;
            }
            Kind::EngineBack => self.go_back(fault),
            kind if kind.is_of_engine() => self.strike_link(fault, node),
            Kind::Cut => self.cut(seat, node),
            Kind::HalfOpen => self.swallow(seat, node),
            Kind::Delay => self.hold_up(seat, node, for_ms),
            Kind::Growth => self.grow(whence),
            Kind::Creation => self.create_topic(whence),
            Kind::Deletion => self.delete_topic(whence, for_ms),
            Kind::Drift => self.drift(node, whom, for_ms),
            _ => self.strike_process(fault, seat),
        }
    }

    fn strike_process(&mut self, fault: Fault, seat: usize) {
        let Fault { for_ms, kind, whence, .. } = fault;
        let runs = self.seats[seat].member.is_some();
        if self.seats[seat].crash_loop.is_some() {
            return;
        }
        match kind {
            Kind::ClientCrash | Kind::ClientAnew => {
                if self.stop(seat) {
                    self.effective(kind);
                    if kind == Kind::ClientAnew {
                        let anew = whence % 2 == 0;
                        self.seats[seat].instance_id = anew.then(|| format!("anew-{seat}-{}", self.now_ms));
                    }
                }
                self.queue.push(self.now_ms + for_ms, Happening::Start { seat });
            }
            Kind::ClientPause => self.seats[seat].paused_until_ms = self.now_ms + for_ms,
            Kind::ClientClose if runs => {
                self.effective(kind);
                self.close_member(seat);
                self.queue.push(self.now_ms + for_ms, Happening::Start { seat });
            }
            Kind::Roll => self.roll(seat, for_ms, whence % 2 == 1),
            Kind::SlowApply => self.seats[seat].slow_until_ms = self.now_ms + 2 * for_ms,
            // A consumer chooses its id itself.
            Kind::CrashLoop if self.seats[seat].is_consumer => {}
            Kind::CrashLoop => self.add_crash_loop(seat, for_ms),
            Kind::Twin => self.add_twin(seat),
            Kind::Busy => {
                if runs && for_ms > u64::from(self.shape.timeouts.rebalance_ms) {
                    self.effective(kind);
                }
                self.be_busy(seat, for_ms);
            }
            Kind::Subscribe if self.subscribe(seat, whence) && runs => self.effective(kind),
            _ => {}
        }
    }

    /// Makes a clock up to 5 % faster or slower, and moves its wall time by up to an hour.
    fn drift(&mut self, node: usize, whom: usize, for_ms: u64) {
        let drift_ppm = (whom as i64 * 7_919) % 50_000 * if for_ms.is_multiple_of(2) { 1 } else { -1 };
        let wall_ms = (for_ms as i64 * 977) % 3_600_000;
        self.nodes[node].clock.drift(self.now_ms, drift_ppm, wall_ms);
        self.effective(Kind::Drift);
        self.wake_all(node);
    }

    /// Ends all faults.
    pub(super) fn heal(&mut self) {
        for log in &mut self.logs {
            (log.slow_until_ms, log.fails_until_ms) = (0, 0);
        }
        self.load_fails.fill(false);
        if let Some(engine) = &mut self.engine {
            engine.heal();
        }
        self.accept_loss();
        self.recreate_topics();
        self.held_up.clear();
        for node in 0..self.nodes.len() {
            self.restart_node(node);
        }
        for seat in 0..self.seats.len() {
            if let Some(crash_loop) = &mut self.seats[seat].crash_loop {
                crash_loop.until_ms = 0;
                self.stop(seat);
            }
            self.seats[seat].paused_until_ms = 0;
            self.seats[seat].busy_until_ms = 0;
            self.seats[seat].slow_until_ms = 0;
            // Delayed events of the process happen now.
            let life = self.seats[seat].life;
            self.queue.push(self.now_ms, Happening::WakeMember { seat, life });
        }
        self.finish_rolls();
        for seat in 0..self.shape.seats.len() {
            let shape = self.seats[seat].shape;
            if !self.seats.iter().any(|other| other.shape == shape && other.member.is_some()) {
                self.start(seat);
            }
        }
    }
}
