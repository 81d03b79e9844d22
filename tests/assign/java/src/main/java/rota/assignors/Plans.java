package rota.assignors;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.clients.consumer.RoundRobinAssignor;
import org.apache.kafka.clients.consumer.StickyAssignor;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.group.api.assignor.PartitionAssignor;
import org.apache.kafka.coordinator.group.api.assignor.SubscribedTopicDescriber;
import org.apache.kafka.coordinator.group.api.assignor.SubscriptionType;
import org.apache.kafka.coordinator.group.assignor.UniformAssignor;
import org.apache.kafka.coordinator.group.modern.Assignment;
import org.apache.kafka.coordinator.group.modern.GroupSpecImpl;
import org.apache.kafka.coordinator.group.modern.MemberSubscriptionAndAssignmentImpl;

/** Groups as JSON, assigned by Kafka's classes in the way in which its clients and servers call them. */
final class Plans {
    static Map<String, List<TopicPartition>> plan(JsonNode question) {
        return switch (question.get("assignor").asText()) {
            case "range" -> client(new RangeAssignor(), question);
            case "roundrobin" -> client(new RoundRobinAssignor(), question);
            case "sticky" -> client(new StickyAssignor(), question);
            case "cooperative_sticky" -> client(new CooperativeStickyAssignor(), question);
            case "uniform" -> server(new UniformAssignor(), question);
            case "server_range" -> server(new org.apache.kafka.coordinator.group.assignor.RangeAssignor(), question);
            default -> throw new IllegalArgumentException(question.get("assignor").asText());
        };
    }

    static Subscription subscription(JsonNode member) {
        List<String> topics = new ArrayList<>();
        member.get("topics").forEach(topic -> topics.add(topic.asText()));
        List<TopicPartition> owned = Main.partitions(member.get("owned"));
        Optional<String> rack = Optional.ofNullable(member.get("rack").textValue());
        var subscription = new Subscription(topics, null, owned, member.get("generation").asInt(), rack);
        subscription.setGroupInstanceId(Optional.ofNullable(member.get("instance_id").textValue()));
        return subscription;
    }

    private static Map<String, List<TopicPartition>> client(ConsumerPartitionAssignor assignor, JsonNode question) {
        Map<String, Subscription> subscriptions = new HashMap<>();
        question.get("members").forEach(member -> {
            var said = subscription(member);
            if (assignor instanceof StickyAssignor) {
                // An eager member has given everything up; its memory is in the user data.
                var remembered = Main.userData(new StickyAssignor(), said.ownedPartitions(), said.generationId().orElse(-1));
                var instance = said.groupInstanceId();
                said = new Subscription(said.topics(), remembered, List.of(), said.generationId().orElse(-1), said.rackId());
                said.setGroupInstanceId(instance);
            }
            subscriptions.put(member.get("id").asText(), said);
        });
        var result = assignor.assign(cluster(question), new ConsumerPartitionAssignor.GroupSubscription(subscriptions));
        Map<String, List<TopicPartition>> plan = new HashMap<>();
        result.groupAssignment().forEach((member, assigned) -> plan.put(member, assigned.partitions()));
        return plan;
    }

    private static Cluster cluster(JsonNode question) {
        Map<String, Node> nodes = new HashMap<>();
        List<PartitionInfo> partitions = new ArrayList<>();
        question.get("partitions").fields().forEachRemaining(topic -> {
            JsonNode racks = question.get("racks").get(topic.getKey());
            for (int index = 0; index < topic.getValue().asInt(); index++) {
                List<Node> replicas = new ArrayList<>();
                if (racks != null) {
                    racks.get(index).forEach(rack -> replicas.add(
                        nodes.computeIfAbsent(rack.asText(), name -> new Node(nodes.size(), "host", 9092, name))));
                }
                Node[] all = replicas.toArray(new Node[0]);
                partitions.add(new PartitionInfo(topic.getKey(), index, all.length == 0 ? Node.noNode() : all[0], all, all));
            }
        });
        return new Cluster("cluster", nodes.values(), partitions, Set.of(), Set.of());
    }

    private static Map<String, List<TopicPartition>> server(PartitionAssignor assignor, JsonNode question) {
        Map<String, Uuid> ids = new HashMap<>();
        Map<Uuid, String> names = new HashMap<>();
        Map<Uuid, Integer> counts = new HashMap<>();
        question.get("partitions").fields().forEachRemaining(topic -> {
            Uuid id = new Uuid(0x1234_5678_9abc_def0L * (ids.size() + 1), ids.size() + 1L);
            ids.put(topic.getKey(), id);
            names.put(id, topic.getKey());
            counts.put(id, topic.getValue().asInt());
        });
        Map<String, MemberSubscriptionAndAssignmentImpl> members = new HashMap<>();
        Map<Uuid, Map<Integer, String>> owners = new HashMap<>();
        Map<Uuid, Integer> subscribers = new HashMap<>();
        question.get("members").forEach(member -> {
            Set<Uuid> topics = new HashSet<>();
            member.get("topics").forEach(topic -> topics.add(ids.get(topic.asText())));
            topics.forEach(topic -> subscribers.merge(topic, 1, Integer::sum));
            Map<Uuid, Set<Integer>> target = new HashMap<>();
            for (TopicPartition owned : Main.partitions(member.get("owned"))) {
                Uuid id = ids.get(owned.topic());
                target.computeIfAbsent(id, unused -> new HashSet<>()).add(owned.partition());
                owners.computeIfAbsent(id, unused -> new HashMap<>()).put(owned.partition(), member.get("id").asText());
            }
            members.put(member.get("id").asText(), new MemberSubscriptionAndAssignmentImpl(
                Optional.ofNullable(member.get("rack").textValue()),
                Optional.ofNullable(member.get("instance_id").textValue()),
                topics,
                new Assignment(target)));
        });
        boolean equal = subscribers.values().stream().allMatch(count -> count == members.size());
        var type = equal ? SubscriptionType.HOMOGENEOUS : SubscriptionType.HETEROGENEOUS;
        var result = assignor.assign(new GroupSpecImpl(members, type, owners), describer(counts));
        Map<String, List<TopicPartition>> plan = new HashMap<>();
        members.keySet().forEach(member -> plan.put(member, new ArrayList<>()));
        result.members().forEach((member, assigned) -> assigned.partitions().forEach((topic, indices) ->
            indices.forEach(index -> plan.get(member).add(new TopicPartition(names.get(topic), index)))));
        return plan;
    }

    static SubscribedTopicDescriber describer(Map<Uuid, Integer> counts) {
        return new SubscribedTopicDescriber() {
            @Override
            public int numPartitions(Uuid topic) {
                return counts.getOrDefault(topic, -1);
            }

            @Override
            public Set<String> racksForPartition(Uuid topic, int partition) {
                return Set.of();
            }
        };
    }

    private Plans() {}
}
