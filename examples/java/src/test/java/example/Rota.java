package example;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.net.URI;
import java.net.URLEncoder;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import java.util.stream.StreamSupport;

/** A server of one test. */
final class Rota implements AutoCloseable {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final HttpClient HTTP = HttpClient.newHttpClient();

    /** For Kafka clients. */
    final String bootstrap;

    private final String control;
    private final Process process;

    /** Starts {@code rota serve} on free ports and on a clock that stands still, so that no session ends by itself. */
    Rota() throws IOException {
        process = new ProcessBuilder("rota", "serve", "--listen", "127.0.0.1:0", "--control", "127.0.0.1:0",
                        "--virtual-clock", "--set", "group.initial.rebalance.delay.ms=0", "--json")
                .redirectError(ProcessBuilder.Redirect.INHERIT)
                .start();
        // The first line says where it listens, as soon as it does.
        JsonNode ready = JSON.readTree(process.inputReader().readLine());
        bootstrap = ready.get("listen").asText();
        control = "http://" + ready.get("control").asText() + "/control/";
    }

    @Override
    public void close() {
        process.destroy();
    }

    /** Carries out a control. */
    JsonNode run(String name, Map<String, ?> fields) throws IOException, InterruptedException {
        String body = JSON.writeValueAsString(fields);
        return send(HttpRequest.newBuilder(URI.create(control + name)).POST(HttpRequest.BodyPublishers.ofString(body)));
    }

    /** Looks at something. */
    JsonNode ask(String name, String field, String value) throws IOException, InterruptedException {
        String query = field + "=" + URLEncoder.encode(value, StandardCharsets.UTF_8);
        return send(HttpRequest.newBuilder(URI.create(control + name + "?" + query)).GET());
    }

    /** The member ids of a group. */
    List<String> members(String group) throws IOException, InterruptedException {
        JsonNode members = ask("members", "group", group).get("members");
        return StreamSupport.stream(members.spliterator(), false)
                .map(member -> member.get("member_id").asText())
                .collect(Collectors.toList());
    }

    private static JsonNode send(HttpRequest.Builder request) throws IOException, InterruptedException {
        HttpResponse<String> answer = HTTP.send(request.build(), HttpResponse.BodyHandlers.ofString());
        JsonNode told = JSON.readTree(answer.body());
        if (answer.statusCode() != 200) {
            throw new IllegalStateException(answer.uri() + ": " + told.get("message").asText());
        }
        return told;
    }
}
