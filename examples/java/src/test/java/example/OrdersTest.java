package example;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.FencedInstanceIdException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

@Timeout(120)
class OrdersTest {
    private static final TopicPartition ORDERS = new TopicPartition("orders", 0);

    private Rota rota;

    @BeforeEach
    void start() throws Exception {
        rota = new Rota();
        rota.run("create_topic", Map.of("topic", "orders"));
    }

    @AfterEach
    void stop() {
        rota.close();
    }

    /** A member of {@code shipping} that reads {@code orders}. */
    private KafkaConsumer<String, String> worker(String instanceId) {
        Properties settings = new Properties();
        settings.put(ConsumerConfig.BOOTSTRAP_SERVERS_CONFIG, rota.bootstrap);
        settings.put(ConsumerConfig.GROUP_ID_CONFIG, "shipping");
        settings.put(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG, "earliest");
        settings.put(ConsumerConfig.ENABLE_AUTO_COMMIT_CONFIG, false);
        settings.put(ConsumerConfig.HEARTBEAT_INTERVAL_MS_CONFIG, 100);
        if (instanceId != null) {
            settings.put(ConsumerConfig.GROUP_INSTANCE_ID_CONFIG, instanceId);
        }
        var consumer = new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer());
        consumer.subscribe(List.of("orders"));
        return consumer;
    }

    private static ConsumerRecord<String, String> read(KafkaConsumer<String, String> consumer) {
        while (true) {
            for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(100))) {
                return record;
            }
        }
    }

    private static void pollUntilAssigned(KafkaConsumer<String, String> consumer) {
        while (consumer.assignment().isEmpty()) {
            consumer.poll(Duration.ofMillis(100));
        }
    }

    @Test
    void aConsumerSurvivesTheEndOfItsSession() throws Exception {
        try (var worker = worker(null)) {
            rota.run("produce", Map.of("topic", "orders", "values", List.of("first")));
            assertEquals("first", read(worker).value());
            worker.commitSync();

            String before = rota.members("shipping").get(0);
            rota.run("expire", Map.of("member", before));
            rota.run("produce", Map.of("topic", "orders", "values", List.of("second")));
            assertEquals("second", read(worker).value());
            // It may have read that before it learned that its session was over.
            while (rota.members("shipping").isEmpty()) {
                worker.poll(Duration.ofMillis(100));
            }
            assertNotEquals(before, rota.members("shipping").get(0));
        }
    }

    @Test
    void theOlderOfTwoProcessesWithOneInstanceIdIsFenced() throws Exception {
        try (var older = worker("worker-1"); var newer = worker("worker-1")) {
            pollUntilAssigned(older);
            String first = rota.members("shipping").get(0);
            pollUntilAssigned(newer);
            assertThrows(FencedInstanceIdException.class, () -> {
                while (true) {
                    older.poll(Duration.ofMillis(100));
                }
            });
            assertEquals(1, rota.members("shipping").size());
            assertNotEquals(first, rota.members("shipping").get(0));
        }
    }

    @Test
    void aCommitThatFailsIsTriedAgain() throws Exception {
        rota.run("produce", Map.of("topic", "orders", "values", List.of("one", "two")));
        try (var worker = worker(null)) {
            read(worker);
            rota.run("fail_appends", Map.of("error", "NOT_ENOUGH_REPLICAS"));
            rota.run("drop_answers", Map.of("api", "OffsetCommit"));
            worker.commitSync(Map.of(ORDERS, new OffsetAndMetadata(1)));
            var offsets = rota.ask("committed", "group", "shipping").get("offsets");
            assertEquals(1, offsets.get(0).get("offset").asLong());
        }
    }
}
