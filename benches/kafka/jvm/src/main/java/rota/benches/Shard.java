package rota.benches;

import java.util.Map;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.common.utils.internals.LogContext;
import org.apache.kafka.coordinator.common.runtime.CoordinatorExecutor;
import org.apache.kafka.coordinator.common.runtime.CoordinatorMetadataImage;
import org.apache.kafka.coordinator.common.runtime.CoordinatorRecord;
import org.apache.kafka.coordinator.common.runtime.CoordinatorTimerImpl;
import org.apache.kafka.coordinator.group.GroupConfigManager;
import org.apache.kafka.coordinator.group.GroupCoordinatorConfig;
import org.apache.kafka.coordinator.group.GroupCoordinatorShard;
import org.apache.kafka.coordinator.group.metrics.GroupCoordinatorMetrics;
import org.apache.kafka.coordinator.group.modern.share.ShareGroupConfig;
import org.apache.kafka.server.util.timer.SystemTimer;
import org.apache.kafka.timeline.SnapshotRegistry;

/**
 * Heartbeats of a {@link Crowd} in shuffled order: a frame is read as the broker's network threads do it, and given to the
 * coordinator's shard with its own timer. No runtime, no queue; answers do not become bytes.
 */
final class Shard implements Main.Job {
    private static final int SESSION_MS = 45_000;

    private final SystemTimer timer = new SystemTimer("benches");
    private final GroupCoordinatorShard shard;
    private final Crowd crowd;
    private final long emptyHeap;

    Shard(int count) {
        var logs = new LogContext();
        var snapshots = new SnapshotRegistry(logs);
        // When a session ends nobody is asked to do anything about it: every member is heard of again.
        var sessions = new CoordinatorTimerImpl<CoordinatorRecord>(
            logs, timer, (name, operation) -> CompletableFuture.completedFuture(null));
        var config = GroupCoordinatorConfig.fromProps(Map.of());
        var builder = new GroupCoordinatorShard.Builder(
            config, new GroupConfigManager(config, ShareGroupConfig.fromProps(Map.of())));
        builder.withLogContext(logs);
        builder.withTime(Time.SYSTEM);
        builder.withTimer(sessions);
        builder.withExecutor(new NoExecutor());
        builder.withCoordinatorMetrics(new GroupCoordinatorMetrics());
        builder.withTopicPartition(new TopicPartition("__consumer_offsets", 0));
        builder.withSnapshotRegistry(snapshots);
        builder.withAuthorizerPlugin(Optional.empty());
        shard = builder.build();
        emptyHeap = Main.liveHeap();
        crowd = new Crowd(count, SESSION_MS);
        for (int group = 0; group < crowd.groups(); group++) {
            shard.replay(0, -1, (short) -1, crowd.settled(group));
        }
        snapshots.idempotentCreateSnapshot(count);
        snapshots.deleteSnapshotsUpTo(count);
        shard.onLoaded(CoordinatorMetadataImage.EMPTY);
    }

    @Override
    public void prepare() throws Exception {
        while (timer.advanceClock(0)) {
            // One bucket at a time.
        }
    }

    @Override
    public int work() {
        int operations = Main.runOf(crowd.members());
        for (int done = 0; done < operations; done++) {
            var heartbeat = crowd.next();
            Crowd.check(shard.classicGroupHeartbeat(heartbeat.context(), heartbeat.data()).response().errorCode());
        }
        return operations;
    }

    /** Without the frames, which are not the shard's. */
    @Override
    public long bytes() {
        return Main.liveHeap() - emptyHeap - crowd.frameBytes();
    }

    /** Nothing is to be done beside heartbeats. */
    static final class NoExecutor implements CoordinatorExecutor<CoordinatorRecord> {
        @Override
        public <R> boolean schedule(String key, TaskRunnable<R> task, TaskOperation<CoordinatorRecord, R> operation) {
            return false;
        }

        @Override
        public boolean isScheduled(String key) {
            return false;
        }

        @Override
        public void cancel(String key) {
        }
    }
}
