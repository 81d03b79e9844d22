package rota.clients;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.regex.Pattern;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.clients.consumer.RoundRobinAssignor;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.InterruptException;
import org.apache.kafka.common.errors.UnknownMemberIdException;
import org.apache.kafka.common.serialization.StringDeserializer;

/** A member of a group: polls, and says what it owns, what its callbacks were told and what it read. */
final class GroupConsumer implements ConsumerRebalanceListener {
    private static final Map<String, String> ASSIGNORS = Map.of(
        "range", RangeAssignor.class.getName(),
        "roundrobin", RoundRobinAssignor.class.getName(),
        "cooperative-sticky", CooperativeStickyAssignor.class.getName());

    private final Lines lines;
    private final KafkaConsumer<String, String> consumer;
    private final Map<TopicPartition, OffsetAndMetadata> read = new HashMap<>();
    private Set<TopicPartition> owned = new HashSet<>();
    private final Duration poll;
    private final boolean keepsRevoked;
    private boolean failed;

    GroupConsumer(Lines lines, JsonNode request) {
        this.lines = lines;
        poll = Duration.ofMillis(request.get("poll_ms").asLong());
        keepsRevoked = request.get("keeps_revoked").asBoolean();
        Properties config = new Properties();
        config.put("bootstrap.servers", request.get("bootstrap").asText());
        request.path("properties").properties().forEach(one -> config.put(one.getKey(), one.getValue().asText()));
        config.put("group.id", request.get("group").asText());
        config.put("client.id", request.get("client_id").asText());
        config.put("key.deserializer", StringDeserializer.class.getName());
        config.put("value.deserializer", StringDeserializer.class.getName());
        config.put("auto.offset.reset", "earliest");
        config.put("enable.auto.commit", "false");
        config.put("allow.auto.create.topics", "false");
        config.put("metadata.max.age.ms", request.get("metadata_max_age_ms").asText());
        if (request.get("group_protocol").asText().equals("consumer")) {
            config.put("group.protocol", "consumer");
        } else {
            config.put("session.timeout.ms", request.get("session_timeout_ms").asText());
            config.put("heartbeat.interval.ms", request.get("heartbeat_interval_ms").asText());
            config.put("partition.assignment.strategy", ASSIGNORS.get(request.get("assignor").asText()));
        }
        if (request.hasNonNull("max_poll_interval_ms")) {
            config.put("max.poll.interval.ms", request.get("max_poll_interval_ms").asText());
        }
        if (request.hasNonNull("instance_id")) {
            config.put("group.instance.id", request.get("instance_id").asText());
        }
        consumer = new KafkaConsumer<>(config);
        if (request.hasNonNull("pattern")) {
            consumer.subscribe(Pattern.compile(request.get("pattern").asText()), this);
        } else {
            List<String> topics = new ArrayList<>();
            request.get("topics").forEach(topic -> topics.add(topic.asText()));
            consumer.subscribe(topics, this);
        }
    }

    /** One poll; a consumer that failed for good is not polled again. */
    void turn() throws InterruptedException {
        if (failed) {
            lines.requests.add(lines.requests.take());
            return;
        }
        try {
            for (ConsumerRecord<String, String> message : consumer.poll(poll)) {
                TopicPartition partition = new TopicPartition(message.topic(), message.partition());
                read.put(partition, new OffsetAndMetadata(message.offset() + 1));
                lines.write(lines.event("message")
                    .put("topic", message.topic()).put("partition", message.partition())
                    .put("offset", message.offset()).put("value", message.value()));
            }
        } catch (RuntimeException thrown) {
            ObjectNode error = Lines.error(thrown);
            // With the newer protocol a poll throws this if a fetch of offsets learns first that the session has ended; the
            // next poll calls onPartitionsLost and joins again.
            failed = error.get("fatal").asBoolean() && !(thrown instanceof UnknownMemberIdException);
            ObjectNode event = lines.event("error");
            event.setAll(error);
            lines.write(event);
        }
        tellOwned(consumer.assignment());
    }

    private void tellOwned(Set<TopicPartition> now) {
        if (!now.equals(owned)) {
            owned = new HashSet<>(now);
            ObjectNode event = lines.event("owned");
            event.set("partitions", Lines.partitions(owned));
            lines.write(event);
        }
    }

    JsonNode commit(JsonNode explicit) {
        Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
        if (explicit == null || explicit.isNull()) {
            offsets.putAll(read);
            offsets.keySet().retainAll(consumer.assignment());
        } else {
            explicit.forEach(row -> offsets.put(
                new TopicPartition(row.get(0).asText(), row.get(1).asInt()), new OffsetAndMetadata(row.get(2).asLong())));
        }
        consumer.commitSync(offsets);
        var committed = Lines.JSON.createArrayNode();
        offsets.forEach((p, o) -> committed.addArray().add(p.topic()).add(p.partition()).add(o.offset()));
        return committed;
    }

    void close() {
        consumer.close();
    }

    private void told(String callback, Collection<TopicPartition> partitions) {
        ObjectNode event = lines.event("callback").put("name", callback);
        event.set("partitions", Lines.partitions(partitions));
        lines.write(event);
    }

    @Override
    public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
        told("assigned", partitions);
    }

    @Override
    public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
        told("revoked", partitions);
        if (keepsRevoked) {
            try {
                lines.giveUp.await();
            } catch (InterruptedException interrupted) {
                throw new InterruptException(interrupted);
            }
        }
    }

    @Override
    public void onPartitionsLost(Collection<TopicPartition> partitions) {
        told("lost", partitions);
    }
}
