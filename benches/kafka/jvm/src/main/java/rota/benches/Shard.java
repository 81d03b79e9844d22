package rota.benches;

import java.net.InetAddress;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.message.HeartbeatRequestData;
import org.apache.kafka.common.network.ClientInformation;
import org.apache.kafka.common.network.ListenerName;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.requests.HeartbeatRequest;
import org.apache.kafka.common.requests.RequestContext;
import org.apache.kafka.common.requests.RequestHeader;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.common.utils.internals.LogContext;
import org.apache.kafka.coordinator.common.runtime.CoordinatorExecutor;
import org.apache.kafka.coordinator.common.runtime.CoordinatorMetadataImage;
import org.apache.kafka.coordinator.common.runtime.CoordinatorRecord;
import org.apache.kafka.coordinator.common.runtime.CoordinatorTimerImpl;
import org.apache.kafka.coordinator.group.GroupConfigManager;
import org.apache.kafka.coordinator.group.GroupCoordinatorConfig;
import org.apache.kafka.coordinator.group.GroupCoordinatorShard;
import org.apache.kafka.coordinator.group.generated.GroupMetadataKey;
import org.apache.kafka.coordinator.group.generated.GroupMetadataValue;
import org.apache.kafka.coordinator.group.metrics.GroupCoordinatorMetrics;
import org.apache.kafka.coordinator.group.modern.share.ShareGroupConfig;
import org.apache.kafka.server.common.ApiMessageAndVersion;
import org.apache.kafka.server.util.timer.SystemTimer;
import org.apache.kafka.timeline.SnapshotRegistry;

/**
 * Heartbeats of members in Stable groups of a hundred, in shuffled order: a frame is read as the broker's network threads
 * do it, and given to the coordinator's shard with its own timer. No runtime, no queue; answers do not become bytes.
 */
final class Shard implements Main.Job {
    private static final int GROUP_MEMBERS = 100;
    private static final int SESSION_MS = 45_000;
    private static final short RECORD_VERSION = 3;
    /** As the load of {@code rota bench} sends them. */
    private static final short HEARTBEAT_VERSION = 2;
    private static final int ARRAY_HEADER_BYTES = 16;
    private static final int REFERENCE_BYTES = 4;
    private static final byte[] SUBSCRIPTION = new byte[24];
    private static final byte[] ASSIGNMENT = new byte[32];

    private final SystemTimer timer = new SystemTimer("benches");
    private final GroupCoordinatorShard shard;
    private final byte[][] frames;
    private final InetAddress client = InetAddress.getLoopbackAddress();
    private final ListenerName listener = new ListenerName("PLAINTEXT");
    private final long emptyHeap;
    private long next;

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
        frames = new byte[count][];
        for (int group = 0; group * GROUP_MEMBERS < count; group++) {
            settle("group-" + group, group * GROUP_MEMBERS, Math.min(count, (group + 1) * GROUP_MEMBERS));
        }
        snapshots.idempotentCreateSnapshot(count);
        snapshots.deleteSnapshotsUpTo(count);
        shard.onLoaded(CoordinatorMetadataImage.EMPTY);
    }
    /** A group as the log has it, Stable, and the heartbeats of its members. */
    private void settle(String group, int from, int to) {
        List<GroupMetadataValue.MemberMetadata> members = new ArrayList<>();
        for (int at = from; at < to; at++) {
            String id = "consumer-1-" + new UUID(at * Main.STRIDE, at);
            members.add(new GroupMetadataValue.MemberMetadata()
                .setMemberId(id)
                .setClientId("consumer-1")
                .setClientHost("/127.0.0.1")
                .setRebalanceTimeout(60_000)
                .setSessionTimeout(SESSION_MS)
                .setSubscription(SUBSCRIPTION.clone())
                .setAssignment(ASSIGNMENT.clone()));
            frames[at] = frame(group, id);
        }
        var value = new GroupMetadataValue()
            .setProtocolType("consumer")
            .setGeneration(1)
            .setProtocol("range")
            .setLeader(members.get(0).memberId())
            .setCurrentStateTimestamp(Time.SYSTEM.milliseconds())
            .setMembers(members);
        var record = CoordinatorRecord.record(
            new GroupMetadataKey().setGroup(group), new ApiMessageAndVersion(value, RECORD_VERSION));
        shard.replay(0, -1, (short) -1, record);
    }

    /** A heartbeat as it is behind its length. */
    private static byte[] frame(String group, String member) {
        var data = new HeartbeatRequestData().setGroupId(group).setGenerationId(1).setMemberId(member);
        var header = new RequestHeader(ApiKeys.HEARTBEAT, HEARTBEAT_VERSION, "rota-bench", 0);
        ByteBuffer bytes = new HeartbeatRequest.Builder(data).build(HEARTBEAT_VERSION).serializeWithHeader(header);
        byte[] frame = new byte[bytes.remaining()];
        bytes.get(frame);
        return frame;
    }

    private short heartbeat(byte[] frame) {
        ByteBuffer bytes = ByteBuffer.wrap(frame);
        var context = new RequestContext(
            RequestHeader.parse(bytes), "connection", client, KafkaPrincipal.ANONYMOUS, listener,
            SecurityProtocol.PLAINTEXT, ClientInformation.EMPTY, false);
        var request = (HeartbeatRequest) context.parseRequest(bytes).request;
        return shard.classicGroupHeartbeat(context, request.data()).response().errorCode();
    }

    @Override
    public void prepare() throws Exception {
        while (timer.advanceClock(0)) {
            // One bucket at a time.
        }
    }

    @Override
    public int work() {
        int operations = Main.runOf(frames.length);
        for (int done = 0; done < operations; done++) {
            short error = heartbeat(frames[Main.shuffled(next++, frames.length)]);
            if (error != 0) {
                throw new IllegalStateException("a heartbeat was refused with error " + error);
            }
        }
        return operations;
    }

    /** Without the frames, which are not the shard's. */
    @Override
    public long bytes() {
        long ofFrames = 0;
        for (byte[] frame : frames) {
            ofFrames += (frame.length + ARRAY_HEADER_BYTES + 7) / 8 * 8 + REFERENCE_BYTES;
        }
        return Main.liveHeap() - emptyHeap - ofFrames;
    }

    /** Nothing is to be done beside heartbeats. */
    private static final class NoExecutor implements CoordinatorExecutor<CoordinatorRecord> {
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
