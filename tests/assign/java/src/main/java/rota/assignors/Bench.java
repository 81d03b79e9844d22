package rota.assignors;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.function.Supplier;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.internals.AbstractStickyAssignor;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.group.api.assignor.PartitionAssignor;
import org.apache.kafka.coordinator.group.api.assignor.SubscriptionType;
import org.apache.kafka.coordinator.group.assignor.RangeAssignor;
import org.apache.kafka.coordinator.group.assignor.UniformAssignor;
import org.apache.kafka.coordinator.group.modern.Assignment;
import org.apache.kafka.coordinator.group.modern.GroupSpecImpl;
import org.apache.kafka.coordinator.group.modern.MemberSubscriptionAndAssignmentImpl;

/**
 * One group, prepared once, assigned once for each line on stdin: `bench ASSIGNOR TOPICS PARTITIONS MEMBERS PERCENT LEAVES`,
 * the percentage of topics that a member subscribes to, and 1 if the group has a plan and its last member leaves. Answers
 * with nanoseconds; the line `figures` is answered with min load, max load, sum of squared loads and partitions kept.
 */
final class Bench {
    private final int topics;
    private final int partitions;
    private final int members;
    private final int percent;
    private final List<String> names = new ArrayList<>();

    private Bench(List<String> arguments) {
        topics = Integer.parseInt(arguments.get(1));
        partitions = Integer.parseInt(arguments.get(2));
        members = Integer.parseInt(arguments.get(3));
        percent = Integer.parseInt(arguments.get(4));
        for (int member = 0; member < members; member++) {
            names.add(String.format("member-%06d", member));
        }
    }

    static void run(List<String> arguments) throws Exception {
        var bench = new Bench(arguments);
        boolean leaves = arguments.get(5).equals("1");
        Supplier<Map<String, long[]>> assign = switch (arguments.get(0)) {
            case "sticky" -> bench.sticky(leaves);
            case "uniform" -> bench.server(new UniformAssignor(), leaves);
            case "server_range" -> bench.server(new RangeAssignor(), leaves);
            default -> throw new IllegalArgumentException(arguments.get(0));
        };
        var lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            Map<String, long[]> answer = assign.get();
            System.out.println(line.equals("figures") ? figures(answer) : Long.toString(answer.get("")[0]));
            System.out.flush();
        }
    }

    private static String figures(Map<String, long[]> answer) {
        long[] loads = answer.get("loads");
        long squares = Arrays.stream(loads).map(load -> load * load).sum();
        return Arrays.stream(loads).min().orElse(0) + " " + Arrays.stream(loads).max().orElse(0) + " " + squares
            + " " + answer.get("kept")[0];
    }

    /** The same coin in both languages. */
    private boolean subscribes(int member, int topic) {
        if (percent == 100) {
            return true;
        }
        long value = ((long) member * topics + topic) + 0x9e3779b97f4a7c15L;
        value = (value ^ (value >>> 30)) * 0xbf58476d1ce4e5b9L;
        value = (value ^ (value >>> 27)) * 0x94d049bb133111ebL;
        value ^= value >>> 31;
        return Long.remainderUnsigned(value, 100) < percent;
    }

    /** The engine of both sticky assignors, which reads claims where they are. */
    private static final class Engine extends AbstractStickyAssignor {
        @Override
        public String name() {
            return "engine";
        }

        @Override
        protected MemberData memberData(Subscription subscription) {
            return new MemberData(subscription.ownedPartitions(), subscription.generationId(), subscription.rackId());
        }
    }

    private Supplier<Map<String, long[]>> sticky(boolean leaves) {
        Map<String, List<PartitionInfo>> metadata = new HashMap<>();
        Node[] none = new Node[0];
        for (int topic = 0; topic < topics; topic++) {
            String name = String.format("topic-%06d", topic);
            List<PartitionInfo> infos = new ArrayList<>();
            for (int index = 0; index < partitions; index++) {
                infos.add(new PartitionInfo(name, index, Node.noNode(), none, none));
            }
            metadata.put(name, infos);
        }
        Map<String, Subscription> group = new HashMap<>();
        for (int member = 0; member < members; member++) {
            List<String> subscribed = new ArrayList<>();
            for (int topic = 0; topic < topics; topic++) {
                if (subscribes(member, topic)) {
                    subscribed.add(String.format("topic-%06d", topic));
                }
            }
            group.put(names.get(member), new Subscription(subscribed, null, List.of(), -1, Optional.empty()));
        }
        if (leaves) {
            var plan = new Engine().assignPartitions(metadata, group);
            group.remove(names.get(members - 1));
            group.replaceAll((member, said) ->
                new Subscription(said.topics(), null, plan.get(member), 1, Optional.empty()));
        }
        return () -> {
            var engine = new Engine();
            long began = System.nanoTime();
            var plan = engine.assignPartitions(metadata, group);
            long took = System.nanoTime() - began;
            long kept = 0;
            for (var entry : plan.entrySet()) {
                Set<TopicPartition> owned = new HashSet<>(group.get(entry.getKey()).ownedPartitions());
                kept += entry.getValue().stream().filter(owned::contains).count();
            }
            long[] loads = plan.values().stream().mapToLong(List::size).toArray();
            return Map.of("", new long[] {took}, "loads", loads, "kept", new long[] {kept});
        };
    }

    private Supplier<Map<String, long[]>> server(PartitionAssignor assignor, boolean leaves) {
        Map<Uuid, Integer> counts = new HashMap<>();
        Set<Uuid> subscribed = new HashSet<>();
        for (int topic = 0; topic < topics; topic++) {
            Uuid id = new Uuid(0x1234_5678_9abc_def0L * (topic + 1), topic + 1L);
            counts.put(id, partitions);
            subscribed.add(id);
        }
        var describer = Plans.describer(counts);
        Map<String, MemberSubscriptionAndAssignmentImpl> group = new HashMap<>();
        for (String name : names) {
            group.put(name, new MemberSubscriptionAndAssignmentImpl(
                Optional.empty(), Optional.empty(), subscribed, Assignment.EMPTY));
        }
        Map<Uuid, Map<Integer, String>> owners = new HashMap<>();
        if (leaves) {
            var cold = assignor.assign(new GroupSpecImpl(group, SubscriptionType.HOMOGENEOUS, owners), describer);
            group.remove(names.get(members - 1));
            group.replaceAll((name, unused) -> {
                var target = cold.members().get(name).partitions();
                target.forEach((topic, indices) -> indices.forEach(index ->
                    owners.computeIfAbsent(topic, none -> new HashMap<>()).put(index, name)));
                return new MemberSubscriptionAndAssignmentImpl(
                    Optional.empty(), Optional.empty(), subscribed, new Assignment(target));
            });
        }
        return () -> {
            long began = System.nanoTime();
            var plan = assignor.assign(new GroupSpecImpl(group, SubscriptionType.HOMOGENEOUS, owners), describer);
            long took = System.nanoTime() - began;
            long kept = 0;
            List<Long> loads = new ArrayList<>();
            for (var entry : plan.members().entrySet()) {
                long load = 0;
                var had = group.get(entry.getKey()).partitions();
                for (var assigned : entry.getValue().partitions().entrySet()) {
                    load += assigned.getValue().size();
                    Set<Integer> owned = had.getOrDefault(assigned.getKey(), Set.of());
                    kept += assigned.getValue().stream().filter(owned::contains).count();
                }
                loads.add(load);
            }
            return Map.of("", new long[] {took}, "loads", loads.stream().mapToLong(load -> load).toArray(),
                "kept", new long[] {kept});
        };
    }
}
