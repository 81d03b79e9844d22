package rota.assignors;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.BufferedWriter;
import java.io.InputStreamReader;
import java.io.OutputStreamWriter;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.StickyAssignor;
import org.apache.kafka.clients.consumer.internals.ConsumerProtocol;
import org.apache.kafka.common.TopicPartition;

/** One question a line on stdin, one answer a line on stdout: plans and bytes by Kafka's own classes. */
public final class Main {
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] arguments) throws Exception {
        if (arguments.length > 0 && arguments[0].equals("bench")) {
            Bench.run(List.of(arguments).subList(1, arguments.length));
            return;
        }
        var lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        var answers = new BufferedWriter(new OutputStreamWriter(System.out, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            ObjectNode answer = JSON.createObjectNode();
            try {
                answer(JSON.readTree(line), answer);
            } catch (Exception | StackOverflowError error) {
                answer.put("error", error.toString());
            }
            answers.write(JSON.writeValueAsString(answer));
            answers.newLine();
            answers.flush();
        }
    }

    private static void answer(JsonNode question, ObjectNode answer) {
        switch (question.get("question").asText()) {
            case "plan" -> put(answer.putObject("plan"), Plans.plan(question));
            case "subscription" -> {
                var subscription = Plans.subscription(question.get("member"));
                short version = (short) question.get("version").asInt();
                answer.put("bytes", hex(ConsumerProtocol.serializeSubscription(subscription, version)));
            }
            case "assignment" -> {
                var assigned = new ConsumerPartitionAssignor.Assignment(partitions(question.get("partitions")));
                answer.put("bytes", hex(ConsumerProtocol.serializeAssignment(assigned, (short) question.get("version").asInt())));
            }
            case "read subscription" -> {
                var bytes = ByteBuffer.wrap(HexFormat.of().parseHex(question.get("bytes").asText()));
                var read = ConsumerProtocol.deserializeSubscription(bytes);
                ArrayNode topics = answer.putArray("topics");
                read.topics().forEach(topics::add);
                put(answer.putArray("owned"), read.ownedPartitions());
                answer.put("generation", read.generationId().orElse(-1));
                answer.put("rack", read.rackId().orElse(null));
                answer.put("user_data", read.userData() == null ? null : hex(read.userData()));
            }
            case "user data" -> {
                var assignor = question.get("assignor").asText().equals("sticky")
                    ? new StickyAssignor() : new CooperativeStickyAssignor();
                answer.put("bytes", hex(userData(assignor, partitions(question.get("partitions")), question.get("generation").asInt())));
            }
            default -> throw new IllegalArgumentException(question.get("question").asText());
        }
    }

    static ByteBuffer userData(ConsumerPartitionAssignor assignor, List<TopicPartition> partitions, int generation) {
        assignor.onAssignment(
            new ConsumerPartitionAssignor.Assignment(partitions),
            new ConsumerGroupMetadata("group", generation, "member", Optional.empty()));
        return assignor.subscriptionUserData(java.util.Set.of());
    }

    static List<TopicPartition> partitions(JsonNode pairs) {
        List<TopicPartition> partitions = new ArrayList<>();
        pairs.forEach(pair -> partitions.add(new TopicPartition(pair.get(0).asText(), pair.get(1).asInt())));
        return partitions;
    }

    private static void put(ObjectNode plan, Map<String, List<TopicPartition>> lists) {
        lists.forEach((member, partitions) -> put(plan.putArray(member), partitions));
    }

    private static void put(ArrayNode list, List<TopicPartition> partitions) {
        partitions.forEach(partition -> list.addArray().add(partition.topic()).add(partition.partition()));
    }

    private static String hex(ByteBuffer buffer) {
        byte[] bytes = new byte[buffer.remaining()];
        buffer.duplicate().get(bytes);
        return HexFormat.of().formatHex(bytes);
    }

    private Main() {}
}
