import com.sleepycat.je.CheckpointConfig;
import com.sleepycat.je.Database;
import com.sleepycat.je.DatabaseConfig;
import com.sleepycat.je.DatabaseEntry;
import com.sleepycat.je.Durability;
import com.sleepycat.je.Environment;
import com.sleepycat.je.EnvironmentConfig;
import com.sleepycat.je.Transaction;
import java.io.File;
import java.nio.ByteBuffer;
import java.util.Random;

/**
 * Writes a standalone transactional environment of about a given size, for the bench.
 *
 * <p>{@code java -cp JE_JAR bench/make/MakeLog.java DIR MEGABYTES [SEED] [FILE_MAX_BYTES]}
 *
 * <p>The cache is small beside the data, so BINs are evicted and logged in full and as deltas; the
 * cleaner is off, so the log keeps every version and grows to the size asked for.
 */
public final class MakeLog {
    private static final long MIB = 1L << 20;
    private static final long CHECK_EVERY = 2048;

    private final Random random;
    private final byte[] words = new byte[1 << 20];
    private long accounts;
    private long events;

    private MakeLog(long seed) {
        random = new Random(seed);
        // Text-like bytes: a value is a slice of this pool, so making values costs next to nothing.
        for (int i = 0; i < words.length; i++) {
            words[i] = (byte) (random.nextInt(6) == 0 ? ' ' : 'a' + random.nextInt(26));
        }
    }

    public static void main(String[] args) {
        if (args.length < 2) {
            System.err.println("usage: MakeLog DIR MEGABYTES [SEED] [FILE_MAX_BYTES]");
            System.exit(2);
        }
        File home = new File(args[0]);
        long target = Long.parseLong(args[1]) * MIB;
        long seed = args.length > 2 ? Long.parseLong(args[2]) : 1;
        String fileMax = args.length > 3 ? args[3] : "10000000";
        if (!home.isDirectory() && !home.mkdirs()) {
            throw new IllegalStateException("cannot make " + home);
        }
        if (logBytes(home) > 0) {
            throw new IllegalStateException(home + " holds a log already");
        }
        new MakeLog(seed).fill(home, target, fileMax);
    }

    private void fill(File home, long target, String fileMax) {
        EnvironmentConfig config = new EnvironmentConfig();
        config.setAllowCreate(true);
        config.setTransactional(true);
        config.setDurability(Durability.COMMIT_NO_SYNC);
        // A cache in proportion to the log keeps the share of BINs alike at every size.
        config.setCacheSize(Math.max(4 * MIB, target / 24));
        config.setConfigParam("je.log.fileMax", fileMax);
        config.setConfigParam("je.env.runCleaner", "false");
        config.setConfigParam("je.env.runVerifier", "false");
        config.setConfigParam("je.freeDisk", "0");
        config.setConfigParam(
                "je.checkpointer.bytesInterval", Long.toString(Math.max(2 * MIB, target / 24)));
        config.setConfigParam("je.lock.nLockTables", "7");
        try (Environment env = new Environment(home, config)) {
            DatabaseConfig dbConfig = new DatabaseConfig();
            dbConfig.setAllowCreate(true);
            dbConfig.setTransactional(true);
            try (Database accountDb = env.openDatabase(null, "accounts", dbConfig);
                    Database eventDb = env.openDatabase(null, "events", dbConfig)) {
                for (long step = 0; ; step++) {
                    work(env, accountDb, eventDb);
                    if (step % CHECK_EVERY == 0 && logBytes(home) >= target) {
                        break;
                    }
                }
            }
            env.checkpoint(new CheckpointConfig().setForce(true));
        }
        System.out.println(
                home + ": " + logBytes(home) / MIB + " MiB, " + accounts + " accounts, "
                        + events + " events inserted");
    }

    /** One unit of work: mostly single operations, each its own transaction; some of many. */
    private void work(Environment env, Database accountDb, Database eventDb) {
        int kind = random.nextInt(100);
        if (kind < 40) {
            eventDb.put(null, eventKey(events++), value());
        } else if (kind < 55) {
            accountDb.put(null, accountKey(accounts++), value());
        } else if (kind < 80) {
            accountDb.put(null, accountKey(recent(accounts)), value());
        } else if (kind < 88) {
            eventDb.delete(null, eventKey(recent(events)));
        } else {
            many(env, accountDb, eventDb, 2 + random.nextInt(20), kind == 99);
        }
    }

    private void many(Environment env, Database accountDb, Database eventDb, int count, boolean abort) {
        Transaction txn = env.beginTransaction(null, null);
        for (int i = 0; i < count; i++) {
            if (random.nextInt(3) == 0) {
                accountDb.put(txn, accountKey(recent(accounts)), value());
            } else {
                eventDb.put(txn, eventKey(events++), value());
            }
        }
        if (abort) {
            txn.abort();
        } else {
            txn.commit();
        }
    }

    /** An id below {@code count}, most often a late one: hot keys are what a log repeats. */
    private long recent(long count) {
        if (count == 0) {
            return 0;
        }
        double skew = random.nextDouble();
        long back = (long) (skew * skew * skew * Math.min(count, 2_000_000L));
        return Math.max(0, count - 1 - back);
    }

    /** 24 bytes of text; ids are scattered, so inserts touch many BINs. */
    private DatabaseEntry accountKey(long id) {
        long scattered = id * 0x9E3779B97F4A7C15L;
        return new DatabaseEntry(String.format("account:%016x", scattered).getBytes());
    }

    /** 16 bytes: a device number, then a sequence number, both big-endian. */
    private DatabaseEntry eventKey(long id) {
        ByteBuffer key = ByteBuffer.allocate(16);
        key.putLong(id % 512).putLong(id);
        return new DatabaseEntry(key.array());
    }

    private DatabaseEntry value() {
        int size = 50 + random.nextInt(251);
        if (random.nextInt(200) == 0) {
            size = 1024 + random.nextInt(4096);
        }
        DatabaseEntry entry = new DatabaseEntry();
        entry.setData(words, random.nextInt(words.length - size), size);
        return entry;
    }

    private static long logBytes(File home) {
        long total = 0;
        File[] files = home.listFiles((dir, name) -> name.endsWith(".jdb"));
        if (files != null) {
            for (File file : files) {
                total += file.length();
            }
        }
        return total;
    }
}
