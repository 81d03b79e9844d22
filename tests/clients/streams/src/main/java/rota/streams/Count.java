package rota.streams;

import java.io.IOException;
import java.util.Properties;
import java.util.concurrent.locks.LockSupport;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.Materialized;

/**
 * One instance of an application with exactly-once processing: it copies each input, and counts the inputs by their
 * words, which takes a repartition topic and a changelog. Each count is written, none is left out by a cache.
 *
 * <p>Arguments: bootstrap servers, application id, directory of the state, and the topics of inputs ("word-number"),
 * copies, and counts ("word=count"). It ends with its standard input; exit code 1: it failed.
 */
public final class Count {
    private static final long WORK_NS = 1_000_000;

    private Count() { }

    private static Properties config(String bootstrap, String application, String directory) {
        Properties config = new Properties();
        config.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, bootstrap);
        config.put(StreamsConfig.APPLICATION_ID_CONFIG, application);
        config.put(StreamsConfig.STATE_DIR_CONFIG, directory);
        config.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
        config.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, 100);
        config.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, 0);
        config.put(StreamsConfig.REPLICATION_FACTOR_CONFIG, 1);
        config.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.String().getClass());
        config.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.String().getClass());
        config.put(StreamsConfig.consumerPrefix(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG), "earliest");
        // A killed instance loses its tasks soon.
        config.put(StreamsConfig.consumerPrefix(ConsumerConfig.SESSION_TIMEOUT_MS_CONFIG), 6_000);
        config.put(StreamsConfig.consumerPrefix(ConsumerConfig.HEARTBEAT_INTERVAL_MS_CONFIG), 500);
        // Many small transactions, not one with everything.
        config.put(StreamsConfig.consumerPrefix(ConsumerConfig.MAX_POLL_RECORDS_CONFIG), 10);
        // Records are written at once, not when their transaction is about to be committed.
        config.put(StreamsConfig.producerPrefix(ProducerConfig.LINGER_MS_CONFIG), 0);
        return config;
    }

    public static void main(String[] arguments) throws IOException {
        StreamsBuilder builder = new StreamsBuilder();
        KStream<String, String> inputs = builder.stream(arguments[3]);
        // An input takes a while, so that transactions are open most of the time.
        inputs.peek((key, value) -> LockSupport.parkNanos(WORK_NS)).mapValues(value -> value + ", copied").to(arguments[4]);
        inputs.selectKey((key, value) -> value.substring(0, value.indexOf('-')))
            .groupByKey()
            .count(Materialized.as("words"))
            .toStream()
            .mapValues((word, count) -> word + "=" + count)
            .to(arguments[5]);
        KafkaStreams streams = new KafkaStreams(builder.build(), config(arguments[0], arguments[1], arguments[2]));
        streams.setStateListener((state, before) -> {
            System.err.println(before + " -> " + state);
            if (state == KafkaStreams.State.ERROR) {
                Runtime.getRuntime().halt(1);
            }
        });
        streams.start();
        while (System.in.read() >= 0) {
            continue;
        }
        streams.close();
    }
}
