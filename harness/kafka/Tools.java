import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Base64;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.locks.LockSupport;
import org.apache.kafka.common.utils.Exit;

/**
 * Runs Kafka's command-line tools one after the other. A request is a line of words in base64: the tool's class, its
 * standard input, and its options. The reply is its exit code, what it wrote to stdout, and to stderr.
 */
public final class Tools {
    /** Passes everything on to where the current tool writes. Loggers keep the first stream that they see. */
    private static final class Current extends OutputStream {
        private volatile ByteArrayOutputStream at = new ByteArrayOutputStream();

        @Override
        public void write(int one) {
            at.write(one);
        }

        @Override
        public void write(byte[] many, int from, int count) {
            at.write(many, from, count);
        }
    }

    private static volatile CompletableFuture<Integer> ended;

    private Tools() { }

    private static void exit(int code, String message) {
        ended.complete(code);
        // What follows an exit must not run.
        while (true) {
            LockSupport.park();
        }
    }

    private static void run(String name, String[] options) {
        try {
            Class.forName(name).getMethod("main", String[].class).invoke(null, (Object) options);
            ended.complete(0);
        } catch (InvocationTargetException failed) {
            failed.getCause().printStackTrace();
            ended.complete(1);
        } catch (ReflectiveOperationException failed) {
            failed.printStackTrace();
            ended.complete(1);
        }
    }

    private static String encoded(Current written) {
        return "=" + Base64.getEncoder().encodeToString(written.at.toByteArray());
    }

    public static void main(String[] arguments) throws Exception {
        PrintStream replies = System.out;
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        Current out = new Current();
        Current err = new Current();
        System.setOut(new PrintStream(out, true, StandardCharsets.UTF_8));
        System.setErr(new PrintStream(err, true, StandardCharsets.UTF_8));
        Exit.setExitProcedure(Tools::exit);
        Exit.setHaltProcedure(Tools::exit);
        for (String line = requests.readLine(); line != null; line = requests.readLine()) {
            byte[][] words = Arrays.stream(line.split(" "))
                .map(word -> Base64.getDecoder().decode(word.substring(1)))
                .toArray(byte[][]::new);
            String[] options = Arrays.stream(words).skip(2)
                .map(word -> new String(word, StandardCharsets.UTF_8))
                .toArray(String[]::new);
            out.at = new ByteArrayOutputStream();
            err.at = new ByteArrayOutputStream();
            System.setIn(new ByteArrayInputStream(words[1]));
            ended = new CompletableFuture<>();
            Thread tool = new Thread(() -> run(new String(words[0], StandardCharsets.UTF_8), options));
            tool.setDaemon(true);
            tool.start();
            int code = ended.get();
            System.out.flush();
            System.err.flush();
            replies.println(code + " " + encoded(out) + " " + encoded(err));
        }
        Runtime.getRuntime().halt(0);
    }
}
