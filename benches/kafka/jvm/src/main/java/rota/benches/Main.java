package rota.benches;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.management.ManagementFactory;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;

/**
 * Kafka's own classes, one run for each line on stdin: {@code Main WHAT COUNT}. Answers with nanoseconds and operations,
 * as the examples of {@code benches/rust} do, so that rivals take turns. Whoever asks warms it up.
 *
 * <p>{@code restart}, {@code keyed}, {@code expiry}: timers ({@link Timers}). {@code shard}: heartbeats of so many members
 * ({@link Shard}); the line {@code bytes} is answered with the live heap that they take. {@code consumer-shard}:
 * heartbeats of so many members of consumer groups ({@link ConsumerShard}). {@code service}: the same through
 * its threads ({@link Service}); the line {@code singly} is another run, each heartbeat when the one before is answered.
 * The line {@code processor} is answered with what the run before took of the processor, in all of Java's threads.
 */
public final class Main {
    /** An odd multiplier, so that a walk by it visits every entry of an even count once, far from the one before. */
    static final long STRIDE = 0x9e3779b1L;
    /** Operations of a run. */
    static final int RUN_MIN = 100_000;
    static final int RUN_MAX = 1_000_000;

    /** What is measured. */
    interface Job {
        /** Not counted. */
        default void prepare() throws Exception {
        }

        /** Counted; how many operations it was. */
        int work() throws Exception;

        /** The same, one after the other. */
        default int singly() throws Exception {
            throw new UnsupportedOperationException();
        }

        /** Live bytes of all that it stands on. */
        default long bytes() {
            throw new UnsupportedOperationException();
        }
    }

    /** Place number {@code at} of the shuffled walk. */
    static int shuffled(long at, int count) {
        return (int) (at * STRIDE % count);
    }

    static int runOf(int count) {
        return Math.max(RUN_MIN, Math.min(RUN_MAX, count));
    }

    static long liveHeap() {
        Runtime runtime = Runtime.getRuntime();
        for (int time = 0; time < 3; time++) {
            System.gc();
        }
        return runtime.totalMemory() - runtime.freeMemory();
    }

    /** Of Java's own threads: neither the collector's nor the compiler's. */
    private static long processorNs() {
        var threads = (com.sun.management.ThreadMXBean) ManagementFactory.getThreadMXBean();
        return Arrays.stream(threads.getThreadCpuTime(threads.getAllThreadIds())).filter(ns -> ns > 0).sum();
    }

    private static Job job(String what, int count) throws Exception {
        return switch (what) {
            case "restart" -> new Timers.Restart(count);
            case "keyed" -> new Timers.Keyed(count);
            case "expiry" -> new Timers.Expiry(count);
            case "shard" -> new Shard(count);
            case "consumer-shard" -> new ConsumerShard(count);
            case "service" -> new Service(count);
            default -> throw new IllegalArgumentException(what);
        };
    }

    public static void main(String[] arguments) throws Exception {
        Job job = job(arguments[0], Integer.parseInt(arguments[1]));
        String ofProcessor = "";
        var lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            if (line.equals("bytes")) {
                System.out.println(job.bytes());
            } else if (line.equals("processor")) {
                System.out.println(ofProcessor);
            } else {
                job.prepare();
                long processor = processorNs();
                long began = System.nanoTime();
                int operations = line.equals("singly") ? job.singly() : job.work();
                System.out.println(System.nanoTime() - began + " " + operations);
                ofProcessor = processorNs() - processor + " " + operations;
            }
            System.out.flush();
        }
        System.exit(0);
    }

    private Main() {
    }
}
