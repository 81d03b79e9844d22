package rota.clients;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Collection;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.LinkedBlockingQueue;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.ApiException;
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.protocol.Errors;

/** Requests in and replies and events out, one JSON object a line. */
final class Lines {
    static final ObjectMapper JSON = new ObjectMapper();
    private static final int UNKNOWN_SERVER_ERROR = -1;

    /** Requests read so far and not yet handled; filled by a thread of its own. */
    final LinkedBlockingQueue<JsonNode> requests = new LinkedBlockingQueue<>();

    /** Opened by the request give_up, for which a callback of a consumer that keeps its partitions waits. */
    final CountDownLatch giveUp = new CountDownLatch(1);

    /** Starts reading; the process ends with its standard input, so that it never outlives its test. */
    void start() {
        Thread reader = new Thread(() -> {
            BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
            try {
                for (String line = in.readLine(); line != null; line = in.readLine()) {
                    JsonNode request = JSON.readTree(line);
                    if (request.get("do").asText().equals("give_up")) { // The thread that polls is in a callback.
                        giveUp.countDown();
                        write(JSON.createObjectNode().put("id", request.get("id").asInt()).put("ok", true));
                    } else {
                        requests.add(request);
                    }
                }
            } catch (IOException broken) {
                System.err.println("standard input broke: " + broken);
            }
            Runtime.getRuntime().halt(0);
        }, "stdin");
        reader.setDaemon(true);
        reader.start();
    }

    synchronized void write(ObjectNode line) {
        // nanoTime is CLOCK_MONOTONIC here, the clock that Python's time.monotonic() reads.
        line.put("at_ms", System.nanoTime() / 1_000_000.0);
        System.out.println(line);
        System.out.flush();
    }

    ObjectNode event(String name) {
        return JSON.createObjectNode().put("event", name);
    }

    static ArrayNode partitions(Collection<TopicPartition> partitions) {
        ArrayNode all = JSON.createArrayNode();
        partitions.forEach(p -> all.addArray().add(p.topic()).add(p.partition()));
        return all;
    }

    static ObjectNode error(Throwable thrown) {
        Throwable cause = thrown instanceof ExecutionException && thrown.getCause() != null ? thrown.getCause() : thrown;
        int code = cause instanceof ApiException ? Errors.forException(cause).code() : UNKNOWN_SERVER_ERROR;
        return JSON.createObjectNode()
            .put("name", cause.getClass().getSimpleName())
            .put("code", code)
            .put("fatal", !(cause instanceof RetriableException))
            .put("text", String.valueOf(cause.getMessage()));
    }
}
