package rota.benches;

import java.net.InetAddress;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.message.ConsumerGroupHeartbeatRequestData;
import org.apache.kafka.common.message.ConsumerGroupHeartbeatResponseData;
import org.apache.kafka.common.metadata.PartitionRecord;
import org.apache.kafka.common.metadata.TopicRecord;
import org.apache.kafka.common.network.ClientInformation;
import org.apache.kafka.common.network.ListenerName;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.requests.ConsumerGroupHeartbeatRequest;
import org.apache.kafka.common.requests.RequestContext;
import org.apache.kafka.common.requests.RequestHeader;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.common.utils.internals.LogContext;
import org.apache.kafka.coordinator.common.runtime.CoordinatorRecord;
import org.apache.kafka.coordinator.common.runtime.CoordinatorTimerImpl;
import org.apache.kafka.coordinator.common.runtime.KRaftCoordinatorMetadataImage;
import org.apache.kafka.coordinator.group.GroupConfigManager;
import org.apache.kafka.coordinator.group.GroupCoordinatorConfig;
import org.apache.kafka.coordinator.group.GroupCoordinatorShard;
import org.apache.kafka.coordinator.group.metrics.GroupCoordinatorMetrics;
import org.apache.kafka.coordinator.group.modern.share.ShareGroupConfig;
import org.apache.kafka.image.MetadataDelta;
import org.apache.kafka.image.MetadataImage;
import org.apache.kafka.image.MetadataProvenance;
import org.apache.kafka.server.util.timer.SystemTimer;
import org.apache.kafka.timeline.SnapshotRegistry;

/**
 * Heartbeats of consumer groups (KIP-848) of a hundred members and a hundred partitions each, which have reached their
 * targets, in shuffled order. As in {@link Shard}: frames are read, answers do not become bytes, no runtime.
 */
final class ConsumerShard implements Main.Job {
    private static final int GROUP_MEMBERS = 100;
    private static final int ROUNDS_MAX = 10;
    private static final short VERSION = 1;
    private static final String TOPIC = "orders";
    private static final Uuid TOPIC_ID = new Uuid(0, 1_000);

    private final SystemTimer timer = new SystemTimer("benches");
    private final SnapshotRegistry snapshots;
    private final GroupCoordinatorShard shard;
    private final InetAddress client = InetAddress.getLoopbackAddress();
    private final ListenerName listener = new ListenerName("PLAINTEXT");
    private final byte[][] frames;
    private long offset;
    private long next;

    /** A member while its group is built. */
    private static final class Joining {
        final String id;
        int epoch;
        List<Integer> assigned = List.of();
        boolean hasChanged = true;

        Joining(String id) {
            this.id = id;
        }
    }

    ConsumerShard(int count) {
        var logs = new LogContext();
        snapshots = new SnapshotRegistry(logs);
        var sessions = new CoordinatorTimerImpl<CoordinatorRecord>(
            logs, timer, (name, operation) -> CompletableFuture.completedFuture(null));
        // The target is computed at each join, so that groups reach theirs without waiting.
        var config = GroupCoordinatorConfig.fromProps(Map.of(
            "group.consumer.assignment.interval.ms", 0, "group.consumer.min.assignment.interval.ms", 0));
        var builder = new GroupCoordinatorShard.Builder(
            config, new GroupConfigManager(config, ShareGroupConfig.fromProps(Map.of())));
        builder.withLogContext(logs);
        builder.withTime(Time.SYSTEM);
        builder.withTimer(sessions);
        builder.withExecutor(new Shard.NoExecutor());
        builder.withCoordinatorMetrics(new GroupCoordinatorMetrics());
        builder.withTopicPartition(new TopicPartition("__consumer_offsets", 0));
        builder.withSnapshotRegistry(snapshots);
        builder.withAuthorizerPlugin(Optional.empty());
        shard = builder.build();
        shard.onLoaded(new KRaftCoordinatorMetadataImage(topics()));
        frames = new byte[count][];
        for (int first = 0; first < count; first += GROUP_MEMBERS) {
            String group = "group-" + first / GROUP_MEMBERS;
            var members = settled(group, first, Math.min(count, first + GROUP_MEMBERS));
            for (int at = 0; at < members.size(); at++) {
                frames[first + at] = frame(group, members.get(at));
            }
        }
    }

    private static MetadataImage topics() {
        var delta = new MetadataDelta.Builder().setImage(MetadataImage.EMPTY).build();
        delta.replay(new TopicRecord().setName(TOPIC).setTopicId(TOPIC_ID));
        for (int partition = 0; partition < GROUP_MEMBERS; partition++) {
            delta.replay(new PartitionRecord().setTopicId(TOPIC_ID).setPartitionId(partition)
                .setReplicas(List.of(0)).setIsr(List.of(0)).setLeader(0));
        }
        return delta.apply(MetadataProvenance.EMPTY);
    }

    /** Joins the members of a group, and sends heartbeats until none changes anything. */
    private List<Joining> settled(String group, int first, int end) {
        List<Joining> members = new ArrayList<>();
        for (int at = first; at < end; at++) {
            members.add(new Joining(new UUID(at * Main.STRIDE, at).toString()));
        }
        for (int round = 0; round < ROUNDS_MAX; round++) {
            members.forEach(member -> ask(group, member));
            if (members.stream().noneMatch(member -> member.hasChanged)) {
                return members;
            }
        }
        throw new IllegalStateException(group + " has not reached its target");
    }

    private void ask(String group, Joining member) {
        var owned = new ConsumerGroupHeartbeatRequestData.TopicPartitions()
            .setTopicId(TOPIC_ID).setPartitions(member.assigned);
        var data = new ConsumerGroupHeartbeatRequestData()
            .setGroupId(group).setMemberId(member.id).setMemberEpoch(member.epoch)
            .setRebalanceTimeoutMs(60_000).setSubscribedTopicNames(List.of(TOPIC))
            .setTopicPartitions(member.assigned.isEmpty() ? List.of() : List.of(owned));
        var read = read(serialized(data));
        var result = shard.consumerGroupHeartbeat(read.context(), read.data());
        for (var record : result.records()) {
            shard.replay(offset++, -1, (short) -1, record);
        }
        snapshots.idempotentCreateSnapshot(offset);
        snapshots.deleteSnapshotsUpTo(offset);
        var answer = checked(result.response());
        List<Integer> assigned = answer.assignment() == null ? member.assigned
            : answer.assignment().topicPartitions().stream().flatMap(topic -> topic.partitions().stream()).toList();
        member.hasChanged = answer.memberEpoch() != member.epoch || !assigned.equals(member.assigned);
        member.epoch = answer.memberEpoch();
        member.assigned = assigned;
    }

    private static byte[] frame(String group, Joining member) {
        return serialized(new ConsumerGroupHeartbeatRequestData()
            .setGroupId(group).setMemberId(member.id).setMemberEpoch(member.epoch));
    }

    private static byte[] serialized(ConsumerGroupHeartbeatRequestData data) {
        var header = new RequestHeader(ApiKeys.CONSUMER_GROUP_HEARTBEAT, VERSION, "rota-bench", 0);
        ByteBuffer bytes =
            new ConsumerGroupHeartbeatRequest.Builder(data, true).build(VERSION).serializeWithHeader(header);
        return Arrays.copyOfRange(bytes.array(), bytes.position(), bytes.limit());
    }

    /** What a frame says. */
    private record Heartbeat(RequestContext context, ConsumerGroupHeartbeatRequestData data) {
    }

    private Heartbeat read(byte[] frame) {
        ByteBuffer bytes = ByteBuffer.wrap(frame);
        var context = new RequestContext(
            RequestHeader.parse(bytes), "connection", client, KafkaPrincipal.ANONYMOUS, listener,
            SecurityProtocol.PLAINTEXT, ClientInformation.EMPTY, false);
        return new Heartbeat(context, ((ConsumerGroupHeartbeatRequest) context.parseRequest(bytes).request).data());
    }

    private static ConsumerGroupHeartbeatResponseData checked(ConsumerGroupHeartbeatResponseData answer) {
        if (answer.errorCode() != 0) {
            throw new IllegalStateException("a heartbeat was refused: " + answer.errorMessage());
        }
        return answer;
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
            var heartbeat = read(frames[Main.shuffled(next++, frames.length)]);
            var result = shard.consumerGroupHeartbeat(heartbeat.context(), heartbeat.data());
            checked(result.response());
            if (!result.records().isEmpty()) {
                throw new IllegalStateException("a heartbeat wrote to the log");
            }
        }
        return operations;
    }
}
