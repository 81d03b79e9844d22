package rota.benches;

import java.util.HashMap;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.kafka.server.util.timer.SystemTimer;
import org.apache.kafka.server.util.timer.TimerTask;

/** Kafka's timer: what a heartbeat does to it, and what it does when sessions end. */
final class Timers {
    static final long SESSION_MS = 45_000;
    static final int SPREAD_MS = 2_000;

    /** A task that counts. */
    static final class Task extends TimerTask {
        private final AtomicInteger fired;

        Task(long delayMs, AtomicInteger fired) {
            super(delayMs);
            this.fired = fired;
        }

        @Override
        public void run() {
            fired.incrementAndGet();
        }
    }

    /** Timers of 45 s, in a timer whose time passes between the runs. */
    private abstract static class Armed implements Main.Job {
        final SystemTimer timer = new SystemTimer("benches");
        private final AtomicInteger fired = new AtomicInteger();
        private final int count;
        private long next;

        Armed(int count) {
            this.count = count;
        }

        /** Timer number {@code at} gets 45 s, as a heartbeat does it: cancel, if it is armed, and add a new task. */
        abstract void restart(int at);

        Task task() {
            return new Task(SESSION_MS, fired);
        }

        void armAll() {
            for (int at = 0; at < count; at++) {
                restart(at);
            }
        }

        @Override
        public void prepare() throws Exception {
            while (timer.advanceClock(0)) {
                // One bucket at a time.
            }
        }

        @Override
        public int work() {
            int operations = Main.runOf(count);
            for (int done = 0; done < operations; done++) {
                restart(Main.shuffled(next++, count));
            }
            return operations;
        }
    }

    /** Found by number. */
    static final class Restart extends Armed {
        private final Task[] tasks;

        Restart(int count) {
            super(count);
            tasks = new Task[count];
            armAll();
        }

        @Override
        void restart(int at) {
            if (tasks[at] != null) {
                tasks[at].cancel();
            }
            tasks[at] = task();
            timer.add(tasks[at]);
        }
    }

    /** Found by key, as the coordinator finds them. The keys are not made anew: their hashes are known. */
    static final class Keyed extends Armed {
        private final Map<String, Task> byKey = new HashMap<>();
        private final String[] keys;

        Keyed(int count) {
            super(count);
            keys = new String[count];
            for (int at = 0; at < count; at++) {
                keys[at] = "heartbeat-group-" + at / 100 + "-consumer-1-" + new UUID(at * Main.STRIDE, at);
            }
            armAll();
        }

        @Override
        void restart(int at) {
            Task task = task();
            Task before = byKey.put(keys[at], task);
            if (before != null) {
                before.cancel();
            }
            timer.add(task);
        }
    }

    /** So many timers that are due within two seconds; all of them late, they fire. */
    static final class Expiry implements Main.Job {
        private final AtomicInteger fired = new AtomicInteger();
        private final int count;
        private SystemTimer timer;

        Expiry(int count) {
            this.count = count;
        }

        @Override
        public void prepare() throws Exception {
            if (timer != null) {
                timer.close();
            }
            timer = new SystemTimer("benches");
            fired.set(0);
            for (int at = 0; at < count; at++) {
                timer.add(new Task(1 + at * Main.STRIDE % SPREAD_MS, fired));
            }
            Thread.sleep(SPREAD_MS + 1);
        }

        @Override
        public int work() throws Exception {
            while (fired.get() < count) {
                timer.advanceClock(0);
            }
            return count;
        }
    }

    private Timers() {
    }
}
