package rota.clients;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ConsumerGroupDescription;
import org.apache.kafka.clients.admin.GroupListing;
import org.apache.kafka.clients.admin.MemberDescription;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.OffsetAndTimestamp;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** The requests that need no group membership: producing, reading a partition, asking the admin client. */
final class Tools {
    private static final String ADMIN_TIMEOUT_MS = "10000";

    private Tools() { }

    private static Properties config(JsonNode request) {
        Properties config = new Properties();
        config.put("bootstrap.servers", request.get("bootstrap").asText());
        request.path("properties").properties().forEach(one -> config.put(one.getKey(), one.getValue().asText()));
        config.put("client.id", request.path("client_id").asText("java-tools"));
        return config;
    }

    private static Properties producerConfig(JsonNode request) {
        Properties config = config(request);
        config.put("key.serializer", StringSerializer.class.getName());
        config.put("value.serializer", StringSerializer.class.getName());
        return config;
    }

    static ArrayNode produce(JsonNode request) throws Exception {
        Properties config = producerConfig(request);
        config.put("compression.type", request.path("compression").asText("none"));
        config.put("enable.idempotence", request.path("idempotent").asText("false"));
        ArrayNode offsets = Lines.JSON.createArrayNode();
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(config)) {
            List<Future<RecordMetadata>> sent = new ArrayList<>();
            JsonNode values = request.get("values");
            for (int i = 0; i < values.size(); i++) {
                Long timestamp = request.hasNonNull("timestamps_ms") ? request.get("timestamps_ms").get(i).asLong() : null;
                sent.add(producer.send(new ProducerRecord<>(
                    request.get("topic").asText(), request.get("partition").asInt(), timestamp, null, values.get(i).asText())));
            }
            producer.flush();
            for (Future<RecordMetadata> one : sent) {
                offsets.add(one.get().offset());
            }
        }
        return offsets;
    }

    static void transact(JsonNode request) {
        Properties config = producerConfig(request);
        config.put("transactional.id", request.get("transactional_id").asText());
        config.put("max.block.ms", request.get("within_ms").asText());
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(config)) {
            producer.initTransactions();
            TopicPartition source = new TopicPartition(request.get("topic").asText(), 0);
            ConsumerGroupMetadata group = new ConsumerGroupMetadata(request.get("group").asText());
            long offset = 0;
            for (String value : List.of("committed", "aborted")) {
                offset++;
                producer.beginTransaction();
                producer.send(new ProducerRecord<>(source.topic(), 0, null, value));
                producer.sendOffsetsToTransaction(Map.of(source, new OffsetAndMetadata(offset)), group);
                if (value.equals("committed")) {
                    producer.commitTransaction();
                } else {
                    producer.flush();
                    producer.abortTransaction();
                }
            }
        }
    }

    private static KafkaConsumer<String, String> reader(JsonNode request) {
        Properties config = config(request);
        config.put("key.deserializer", StringDeserializer.class.getName());
        config.put("value.deserializer", StringDeserializer.class.getName());
        config.put("auto.offset.reset", "earliest");
        config.put("enable.auto.commit", "false");
        return new KafkaConsumer<>(config);
    }

    private static TopicPartition partition(JsonNode request) {
        return new TopicPartition(request.get("topic").asText(), request.get("partition").asInt());
    }

    static ArrayNode fetch(JsonNode request) {
        ArrayNode messages = Lines.JSON.createArrayNode();
        long deadline = System.nanoTime() + request.get("within_ms").asLong() * 1_000_000;
        try (KafkaConsumer<String, String> reader = reader(request)) {
            reader.assign(List.of(partition(request)));
            reader.seekToBeginning(List.of(partition(request)));
            while (messages.size() < request.get("count").asInt() && System.nanoTime() < deadline) {
                for (ConsumerRecord<String, String> message : reader.poll(Duration.ofMillis(200))) {
                    messages.addObject().put("offset", message.offset()).put("value", message.value())
                        .put("timestamp_ms", message.timestamp());
                }
            }
        }
        return messages;
    }

    static ArrayNode offsetsForTimes(JsonNode request) {
        ArrayNode offsets = Lines.JSON.createArrayNode();
        try (KafkaConsumer<String, String> reader = reader(request)) {
            for (JsonNode timestamp : request.get("timestamps_ms")) {
                Map<TopicPartition, Long> asked = new HashMap<>();
                asked.put(partition(request), timestamp.asLong());
                OffsetAndTimestamp found = reader.offsetsForTimes(asked).get(partition(request));
                if (found == null) {
                    offsets.addNull();
                } else {
                    offsets.add(found.offset());
                }
            }
        }
        return offsets;
    }

    private static Admin admin(JsonNode request) {
        Properties config = config(request);
        config.put("request.timeout.ms", ADMIN_TIMEOUT_MS);
        config.put("default.api.timeout.ms", ADMIN_TIMEOUT_MS);
        return Admin.create(config);
    }

    static ObjectNode describe(JsonNode request) throws Exception {
        String group = request.get("group").asText();
        try (Admin admin = admin(request)) {
            ConsumerGroupDescription found = admin.describeConsumerGroups(List.of(group)).all().get().get(group);
            ObjectNode told = Lines.JSON.createObjectNode()
                .put("state", found.groupState().toString())
                .put("protocol", found.partitionAssignor());
            ArrayNode members = told.putArray("members");
            for (MemberDescription member : found.members()) {
                members.addObject().put("member_id", member.consumerId()).put("client_id", member.clientId())
                    .put("host", member.host())
                    .set("owned", Lines.partitions(member.assignment().topicPartitions()));
            }
            return told;
        }
    }

    static ArrayNode list(JsonNode request) throws Exception {
        ArrayNode groups = Lines.JSON.createArrayNode();
        try (Admin admin = admin(request)) {
            for (GroupListing listing : admin.listGroups().all().get()) {
                groups.addObject().put("group", listing.groupId())
                    .put("state", listing.groupState().map(Object::toString).orElse(null));
            }
        }
        return groups;
    }

    /** Sets, reads and deletes an offset of a group without members, then deletes the group. */
    static ObjectNode tidy(JsonNode request) throws Exception {
        String group = request.get("group").asText();
        TopicPartition partition = new TopicPartition(request.get("topic").asText(), 0);
        ObjectNode told = Lines.JSON.createObjectNode();
        try (Admin admin = admin(request)) {
            admin.alterConsumerGroupOffsets(group, Map.of(partition, new OffsetAndMetadata(41))).all().get();
            told.put("offset", admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get()
                .get(partition).offset());
            admin.deleteConsumerGroupOffsets(group, Set.of(partition)).all().get();
            told.put("offsets_left", admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get().size());
            try {
                admin.deleteConsumerGroups(List.of(group + "-nobody")).all().get();
            } catch (ExecutionException refused) {
                told.put("refused", refused.getCause().getClass().getSimpleName());
            }
            admin.alterConsumerGroupOffsets(group, Map.of(partition, new OffsetAndMetadata(41))).all().get();
            admin.deleteConsumerGroups(List.of(group)).all().get();
            told.put("left", admin.listGroups().all().get().stream().anyMatch(each -> each.groupId().equals(group)));
        }
        return told;
    }

    static ObjectNode cluster(JsonNode request) throws Exception {
        ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, request.get("topic").asText());
        ObjectNode told = Lines.JSON.createObjectNode();
        try (Admin admin = admin(request)) {
            ArrayNode nodes = told.putArray("nodes");
            admin.describeCluster().nodes().get().forEach(node -> nodes.add(node.host() + ":" + node.port()));
            told.put("cleanup_policy", admin.describeConfigs(List.of(resource)).all().get().get(resource)
                .get("cleanup.policy").value());
        }
        return told;
    }
}
