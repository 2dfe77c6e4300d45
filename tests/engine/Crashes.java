import com.sleepycat.je.CheckpointConfig;
import com.sleepycat.je.Database;
import com.sleepycat.je.DatabaseConfig;
import com.sleepycat.je.DatabaseEntry;
import com.sleepycat.je.DbInternal;
import com.sleepycat.je.Environment;
import com.sleepycat.je.EnvironmentConfig;
import com.sleepycat.je.Transaction;
import java.io.File;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;

/**
 * Leaves an environment as a crash does, in a state that the workloads do not reach.
 *
 * <p>The engine writes it in another directory. A crash leaves what has reached the log: this is
 * copied, and then the environment is given up. The state is one of
 *
 * <ul>
 *   <li>{@code unfinished NODE}: a transaction of a group is open that has deleted, changed and
 *       inserted records; NODE is as Nodes expects it;
 *   <li>{@code temporary RECORDS}: a temporary database is open, beside one that stays, with so many
 *       records in each, and there is a checkpoint in the middle;
 *   <li>{@code checkpointed RECORDS}: the last checkpoint, made by hand, did not write the upper
 *       nodes of a tree of small nodes, and no other followed on close; files are small.
 * </ul>
 */
public final class Crashes {
    private static final int CACHE_BYTES = 1_200_000;

    private Crashes() {}

    /** Leaves a state in the empty directory {@code home}, by way of another one beside it. */
    static void leave(File home, String state, String argument) throws IOException {
        File used = new File(home.getPath() + ".used");
        Files.createDirectory(used.toPath());
        Environment env = written(used, state, argument);
        for (File file : used.listFiles((folder, name) -> name.endsWith(".jdb"))) {
            Files.copy(file.toPath(), home.toPath().resolve(file.getName()));
        }
        try {
            DbInternal.getEnvironmentImpl(env).abnormalClose();
        } catch (RuntimeException open) {
            // Its databases and transactions are open, as they were at the crash.
            return;
        }
    }

    private static Environment written(File home, String state, String argument) {
        switch (state) {
            case "unfinished":
                return leaveUnfinished(home, argument);
            case "temporary":
                return leaveTemporary(home, Integer.parseInt(argument));
            case "checkpointed":
                return leaveCheckpointed(home, Integer.parseInt(argument));
            default:
                throw new IllegalArgumentException(state);
        }
    }

    private static Environment leaveUnfinished(File home, String node) {
        Environment env = Nodes.open(home, config(), node, true);
        Database db = env.openDatabase(null, "people", transactional());
        for (int i = 0; i < 200; i++) {
            put(db, null, i, "first");
        }
        checkpoint(env);
        Transaction open = env.beginTransaction(null, null);
        for (int i = 0; i < 20; i++) {
            db.delete(open, entry(i));
        }
        for (int i = 20; i < 40; i++) {
            put(db, open, i, "unfinished");
        }
        for (int i = 300; i < 320; i++) {
            put(db, open, i, "unfinished");
        }
        for (int i = 100; i < 150; i++) {
            put(db, null, i, "second");
        }
        env.flushLog(true);
        return env;
    }

    private static Environment leaveTemporary(File home, int records) {
        EnvironmentConfig config = config();
        // Nodes of the temporary database are logged only for lack of memory.
        config.setCacheSize(CACHE_BYTES);
        Environment env = new Environment(home, config);
        Database kept = env.openDatabase(null, "people", transactional());
        DatabaseConfig temporary = new DatabaseConfig();
        temporary.setAllowCreate(true);
        temporary.setTemporary(true);
        Database scratch = env.openDatabase(null, "scratch", temporary);
        String value = "v".repeat(400);
        for (int i = 0; i < records; i++) {
            put(scratch, null, i, value);
            put(kept, null, i, value);
            if (i == records * 3 / 4) {
                checkpoint(env);
            }
        }
        env.flushLog(true);
        return env;
    }

    private static Environment leaveCheckpointed(File home, int records) {
        EnvironmentConfig config = config();
        config.setConfigParam("je.log.fileMax", "1000000");
        Environment env = new Environment(home, config);
        DatabaseConfig small = transactional();
        small.setNodeMaxEntries(8);
        Database db = env.openDatabase(null, "people", small);
        for (String value : new String[] {"first", "second"}) {
            for (int i = 0; i < records; i++) {
                put(db, null, i, value);
            }
            checkpoint(env);
        }
        return env;
    }

    private static EnvironmentConfig config() {
        EnvironmentConfig config = new EnvironmentConfig();
        config.setAllowCreate(true);
        config.setTransactional(true);
        config.setConfigParam("je.freeDisk", "0");
        for (String daemon : new String[] {"Checkpointer", "Cleaner", "INCompressor"}) {
            config.setConfigParam("je.env.run" + daemon, "false");
        }
        return config;
    }

    private static DatabaseConfig transactional() {
        DatabaseConfig config = new DatabaseConfig();
        config.setAllowCreate(true);
        config.setTransactional(true);
        return config;
    }

    private static void checkpoint(Environment env) {
        env.checkpoint(new CheckpointConfig().setForce(true));
    }

    private static void put(Database db, Transaction txn, int number, String value) {
        db.put(txn, entry(number), new DatabaseEntry(value.getBytes(StandardCharsets.UTF_8)));
    }

    private static DatabaseEntry entry(int number) {
        return new DatabaseEntry(String.format("key%06d", number).getBytes(StandardCharsets.UTF_8));
    }
}
