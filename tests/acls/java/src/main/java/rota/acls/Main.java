package rota.acls;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.net.InetAddress;
import java.net.URLDecoder;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.metrics.internals.PluginMetricsImpl;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.metadata.authorizer.StandardAcl;
import org.apache.kafka.metadata.authorizer.StandardAuthorizer;
import org.apache.kafka.server.authorizer.Action;
import org.apache.kafka.server.authorizer.AuthorizableRequestContext;
import org.apache.kafka.server.authorizer.AuthorizationResult;

/** Asks Kafka's StandardAuthorizer for every decision on standard input, and prints those that differ. */
public final class Main {
    private record Client(KafkaPrincipal principal, InetAddress address) implements AuthorizableRequestContext {
        @Override public String listenerName() { return "PLAINTEXT"; }
        @Override public SecurityProtocol securityProtocol() { return SecurityProtocol.PLAINTEXT; }
        @Override public InetAddress clientAddress() { return address; }
        @Override public KafkaPrincipal principal() { return principal; }
        @Override public int requestType() { return 0; }
        @Override public int requestVersion() { return 0; }
        @Override public String clientId() { return ""; }
        @Override public int correlationId() { return 0; }
    }

    private static KafkaPrincipal principal(String text) {
        String[] parts = text.split(":", 2);
        return new KafkaPrincipal(parts[0], parts[1]);
    }

    private static String unescaped(String word) {
        return URLDecoder.decode(word.replace("+", "%2b"), StandardCharsets.UTF_8);
    }

    private static StandardAcl acl(String line) {
        String[] words = line.split(" ");
        return new StandardAcl(
            ResourceType.valueOf(words[4]), unescaped(words[6]), PatternType.valueOf(words[5]), unescaped(words[1]),
            words[2], AclOperation.valueOf(words[3]), AclPermissionType.valueOf(words[0]));
    }

    private static StandardAuthorizer authorizer(String superUsers, String open, String acls) {
        StandardAuthorizer authorizer = new StandardAuthorizer();
        authorizer.configure(Map.of(
            "node.id", "1", "super.users", superUsers, StandardAuthorizer.ALLOW_EVERYONE_IF_NO_ACL_IS_FOUND_CONFIG, open));
        authorizer.withPluginMetrics(new PluginMetricsImpl(new Metrics(), Map.of()));
        Map<Uuid, StandardAcl> snapshot = new HashMap<>();
        long id = 1;
        for (String line : acls.isEmpty() ? new String[0] : acls.split("\\|")) {
            StandardAcl acl = acl(line);
            if (!snapshot.containsValue(acl)) {
                snapshot.put(new Uuid(1, id++), acl);
            }
        }
        authorizer.loadSnapshot(snapshot);
        authorizer.completeInitialLoad();
        return authorizer;
    }

    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        int decisions = 0;
        int differing = 0;
        int allowed = 0;
        int departures = 0;
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] fields = line.split("\t", -1);
            StandardAuthorizer authorizer = authorizer(fields[0], fields[1], fields[2]);
            for (int at = 3; at < fields.length; at++) {
                String[] parts = fields[at].split("\\|", -1);
                String[] words = parts[0].split(" ", 5);
                Client client = new Client(principal(words[0]), InetAddress.getByName(words[1]));
                AclOperation operation = AclOperation.valueOf(words[2]);
                ResourceType type = ResourceType.valueOf(words[3]);
                Action action = new Action(
                    operation, new ResourcePattern(type, words[4], PatternType.LITERAL), 1, false, false);
                boolean allows = authorizer.authorize(client, List.of(action)).get(0) == AuthorizationResult.ALLOWED;
                boolean somewhere =
                    authorizer.authorizeByResourceType(client, operation, type) == AuthorizationResult.ALLOWED;
                decisions++;
                allowed += allows ? 1 : 0;
                if (words[4].length() > 1 && words[4].startsWith("*")) {
                    // Kafka's class leaves the ACLs of all resources out for such a name (docs/departures.md).
                    departures++;
                } else if (allows != Boolean.parseBoolean(parts[1]) || somewhere != Boolean.parseBoolean(parts[2])) {
                    differing++;
                    System.out.println(
                        "Kafka decides " + allows + " and " + somewhere + ": " + parts[0] + " with " + fields[0] + " "
                            + fields[1] + " " + fields[2] + ", rota " + parts[1] + " and " + parts[2]);
                }
            }
            authorizer.close();
        }
        System.out.println(
            decisions + " decisions, " + allowed + " allowed, " + differing + " differ; not compared: " + departures);
        System.exit(differing == 0 && decisions > 0 ? 0 : 1);
    }
}
