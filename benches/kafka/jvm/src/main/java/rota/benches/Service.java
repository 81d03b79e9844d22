package rota.benches;

import java.util.Map;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.message.HeartbeatResponseData;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.coordinator.common.runtime.CoordinatorLoader;
import org.apache.kafka.coordinator.common.runtime.CoordinatorPlayback;
import org.apache.kafka.coordinator.common.runtime.CoordinatorRecord;
import org.apache.kafka.coordinator.common.runtime.PartitionWriter;
import org.apache.kafka.coordinator.group.GroupConfigManager;
import org.apache.kafka.coordinator.group.GroupCoordinatorConfig;
import org.apache.kafka.coordinator.group.GroupCoordinatorService;
import org.apache.kafka.coordinator.group.metrics.GroupCoordinatorMetrics;
import org.apache.kafka.coordinator.group.metrics.GroupCoordinatorRuntimeMetrics;
import org.apache.kafka.coordinator.group.modern.share.ShareGroupConfig;
import org.apache.kafka.server.metrics.KafkaYammerMetrics;
import org.apache.kafka.server.share.persister.NoOpStatePersister;
import org.apache.kafka.server.util.PartitionMetadataClient;
import org.apache.kafka.server.util.timer.SystemTimer;
import org.apache.kafka.server.util.timer.SystemTimerReaper;

/**
 * Heartbeats of a {@link Crowd} in shuffled order: a frame is read on the calling thread and given to the coordinator's
 * service, whose runtime hands it to one of its own threads, as {@code BrokerServer} puts them together. Answers do not
 * become bytes. Nothing is asked of a log: groups come from records as at a start, and heartbeats write none.
 */
final class Service implements Main.Job {
    private static final int PARTITIONS = GroupCoordinatorConfig.OFFSETS_TOPIC_PARTITIONS_DEFAULT;
    /** The longest there is: no session ends while others have their turn. */
    private static final int SESSION_MS = 1_800_000;
    /** Half of what is in flight: it is waited for at once, so that not every answer wakes the one who sends. */
    private static final int HALF_WINDOW = 512;
    private static final int SINGLY_RUN = 20_000;

    private final Crowd crowd;
    private final GroupCoordinatorService service;

    Service(int count) throws Exception {
        crowd = new Crowd(count, SESSION_MS);
        var config = GroupCoordinatorConfig.fromProps(Map.of());
        var metrics = new Metrics();
        service = new GroupCoordinatorService.Builder(0, config)
            .withTime(Time.SYSTEM)
            .withTimer(new SystemTimerReaper("group-coordinator-reaper", new SystemTimer("group-coordinator")))
            .withLoader(new Loader())
            .withWriter(Unasked.as(PartitionWriter.class))
            .withCoordinatorRuntimeMetrics(new GroupCoordinatorRuntimeMetrics(metrics))
            .withGroupCoordinatorMetrics(new GroupCoordinatorMetrics(KafkaYammerMetrics.defaultRegistry(), metrics))
            .withGroupConfigManager(new GroupConfigManager(config, ShareGroupConfig.fromProps(Map.of())))
            .withPersister(new NoOpStatePersister())
            .withAuthorizerPlugin(Optional.empty())
            .withPartitionMetadataClient(Unasked.as(PartitionMetadataClient.class))
            .build();
        service.startup(() -> PARTITIONS);
        for (int partition = 0; partition < PARTITIONS; partition++) {
            service.onElection(partition, 0);
        }
        for (int group = 0; group < crowd.groups(); group++) {
            loaded(group);
        }
    }

    private void loaded(int group) {
        short error = Errors.COORDINATOR_LOAD_IN_PROGRESS.code();
        while (error == Errors.COORDINATOR_LOAD_IN_PROGRESS.code()) {
            error = send(crowd.first(group)).join().errorCode();
        }
        Crowd.check(error);
    }

    private CompletableFuture<HeartbeatResponseData> send(Crowd.Heartbeat heartbeat) {
        return service.heartbeat(heartbeat.context(), heartbeat.data());
    }

    @Override
    public int work() {
        int operations = Main.runOf(crowd.members());
        CompletableFuture<HeartbeatResponseData>[] sent = half();
        CompletableFuture<HeartbeatResponseData>[] before = half();
        int length = 0;
        for (int done = 0; done < operations; done += length) {
            int waiting = length;
            length = Math.min(HALF_WINDOW, operations - done);
            for (int at = 0; at < length; at++) {
                sent[at] = send(crowd.next());
            }
            await(before, waiting);
            var swap = sent;
            sent = before;
            before = swap;
        }
        await(before, length);
        return operations;
    }

    @SuppressWarnings("unchecked")
    private static CompletableFuture<HeartbeatResponseData>[] half() {
        return (CompletableFuture<HeartbeatResponseData>[]) new CompletableFuture<?>[HALF_WINDOW];
    }

    private static void await(CompletableFuture<HeartbeatResponseData>[] sent, int length) {
        // The last one first: when it is there, most others are.
        for (int at = length - 1; at >= 0; at--) {
            Crowd.check(sent[at].join().errorCode());
        }
    }

    @Override
    public int singly() {
        for (int done = 0; done < SINGLY_RUN; done++) {
            Crowd.check(send(crowd.next()).join().errorCode());
        }
        return SINGLY_RUN;
    }

    /** Has the groups of each partition. */
    private final class Loader implements CoordinatorLoader<CoordinatorRecord> {
        @Override
        public CompletableFuture<LoadSummary> load(
            TopicPartition partition, CoordinatorPlayback<CoordinatorRecord> coordinator) {
            long records = 0;
            for (int group = 0; group < crowd.groups(); group++) {
                if (service.partitionFor(Crowd.group(group)) == partition.partition()) {
                    coordinator.replay(records++, -1, (short) -1, crowd.settled(group));
                }
            }
            coordinator.updateLastWrittenOffset(records);
            coordinator.updateLastCommittedOffset(records);
            long now = Time.SYSTEM.milliseconds();
            return CompletableFuture.completedFuture(new LoadSummary(now, now, 0, records, 0));
        }

        @Override
        public void close() {
        }
    }
}
