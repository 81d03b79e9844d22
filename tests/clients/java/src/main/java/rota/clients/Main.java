package rota.clients;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.concurrent.TimeUnit;

/** A Kafka client driven over standard input and output; README.md of tests/clients lists the requests. */
public final class Main {
    private Main() { }

    public static void main(String[] arguments) throws InterruptedException {
        Lines lines = new Lines();
        lines.start();
        GroupConsumer consumer = null;
        while (true) {
            JsonNode request = consumer == null ? lines.requests.take() : lines.requests.poll(0, TimeUnit.MILLISECONDS);
            if (request == null) {
                consumer.turn();
                continue;
            }
            ObjectNode reply = Lines.JSON.createObjectNode().put("id", request.get("id").asInt());
            boolean last = false;
            try {
                switch (request.get("do").asText()) {
                    case "consume" -> consumer = new GroupConsumer(lines, request);
                    case "commit" -> reply.set("offsets", consumer.commit(request.get("offsets")));
                    case "close" -> {
                        if (consumer != null) {
                            consumer.close();
                        }
                        last = true;
                    }
                    case "produce" -> reply.set("result", Tools.produce(request));
                    case "transact" -> Tools.transact(request);
                    case "fetch" -> reply.set("result", Tools.fetch(request));
                    case "offsets_for_times" -> reply.set("result", Tools.offsetsForTimes(request));
                    case "describe" -> reply.set("result", Tools.describe(request));
                    case "tidy" -> reply.set("result", Tools.tidy(request));
                    case "cluster" -> reply.set("result", Tools.cluster(request));
                    case "list" -> reply.set("result", Tools.list(request));
                    default -> throw new IllegalArgumentException("no such request: " + request);
                }
                reply.put("ok", true);
            } catch (Exception failed) {
                reply.put("ok", false).set("error", Lines.error(failed));
            }
            lines.write(reply);
            if (last) {
                Runtime.getRuntime().halt(0);
            }
        }
    }
}
