package rota.benches;

import java.net.InetAddress;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.UUID;
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
import org.apache.kafka.coordinator.common.runtime.CoordinatorRecord;
import org.apache.kafka.coordinator.group.generated.GroupMetadataKey;
import org.apache.kafka.coordinator.group.generated.GroupMetadataValue;
import org.apache.kafka.server.common.ApiMessageAndVersion;

/** Members in Stable groups of a hundred: their groups as the log has them, and the frames of their heartbeats. */
final class Crowd {
    private static final int GROUP_MEMBERS = 100;
    private static final short RECORD_VERSION = 3;
    /** As the load of {@code rota bench} sends them. */
    private static final short HEARTBEAT_VERSION = 2;
    private static final int ARRAY_HEADER_BYTES = 16;
    private static final int REFERENCE_BYTES = 4;
    private static final byte[] SUBSCRIPTION = new byte[24];
    private static final byte[] ASSIGNMENT = new byte[32];

    private final byte[][] frames;
    private final int sessionMs;
    private final InetAddress client = InetAddress.getLoopbackAddress();
    private final ListenerName listener = new ListenerName("PLAINTEXT");
    private long next;

    /** What a frame says. */
    record Heartbeat(RequestContext context, HeartbeatRequestData data) {
    }

    Crowd(int count, int sessionMs) {
        this.sessionMs = sessionMs;
        frames = new byte[count][];
        for (int at = 0; at < count; at++) {
            frames[at] = frame(group(at / GROUP_MEMBERS), member(at));
        }
    }

    int members() {
        return frames.length;
    }

    int groups() {
        return (frames.length + GROUP_MEMBERS - 1) / GROUP_MEMBERS;
    }

    static String group(int number) {
        return "group-" + number;
    }

    private static String member(int at) {
        return "consumer-1-" + new UUID(at * Main.STRIDE, at);
    }

    /** A group as the log has it, Stable. */
    CoordinatorRecord settled(int number) {
        List<GroupMetadataValue.MemberMetadata> members = new ArrayList<>();
        int end = Math.min(frames.length, (number + 1) * GROUP_MEMBERS);
        for (int at = number * GROUP_MEMBERS; at < end; at++) {
            members.add(new GroupMetadataValue.MemberMetadata()
                .setMemberId(member(at))
                .setClientId("consumer-1")
                .setClientHost("/127.0.0.1")
                .setRebalanceTimeout(60_000)
                .setSessionTimeout(sessionMs)
                .setSubscription(SUBSCRIPTION.clone())
                .setAssignment(ASSIGNMENT.clone()));
        }
        var value = new GroupMetadataValue()
            .setProtocolType("consumer")
            .setGeneration(1)
            .setProtocol("range")
            .setLeader(members.get(0).memberId())
            .setCurrentStateTimestamp(Time.SYSTEM.milliseconds())
            .setMembers(members);
        return CoordinatorRecord.record(
            new GroupMetadataKey().setGroup(group(number)), new ApiMessageAndVersion(value, RECORD_VERSION));
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

    /** The next member's of the shuffled walk, read from its frame as the broker's network threads do it. */
    Heartbeat next() {
        return read(frames[Main.shuffled(next++, frames.length)]);
    }

    /** That of a group's first member. */
    Heartbeat first(int group) {
        return read(frames[group * GROUP_MEMBERS]);
    }

    private Heartbeat read(byte[] frame) {
        ByteBuffer bytes = ByteBuffer.wrap(frame);
        var context = new RequestContext(
            RequestHeader.parse(bytes), "connection", client, KafkaPrincipal.ANONYMOUS, listener,
            SecurityProtocol.PLAINTEXT, ClientInformation.EMPTY, false);
        return new Heartbeat(context, ((HeartbeatRequest) context.parseRequest(bytes).request).data());
    }

    static void check(short error) {
        if (error != 0) {
            throw new IllegalStateException("a heartbeat was refused with error " + error);
        }
    }

    /** What the frames take of the heap. */
    long frameBytes() {
        long bytes = 0;
        for (byte[] frame : frames) {
            bytes += (frame.length + ARRAY_HEADER_BYTES + 7) / 8 * 8 + REFERENCE_BYTES;
        }
        return bytes;
    }
}
