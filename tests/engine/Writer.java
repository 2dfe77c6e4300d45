import com.sleepycat.je.CheckpointConfig;
import com.sleepycat.je.Database;
import com.sleepycat.je.DatabaseConfig;
import com.sleepycat.je.DatabaseEntry;
import com.sleepycat.je.Durability;
import com.sleepycat.je.Environment;
import com.sleepycat.je.EnvironmentConfig;
import com.sleepycat.je.Transaction;
import java.io.File;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.Random;

/**
 * Writes a log slowly enough to be watched: transactions, aborts, checkpoints, many file flips.
 *
 * <p>{@code java -cp JE_JAR tests/engine/Writer.java DIR ROUNDS PAUSE_MS}
 *
 * <p>Prints "ready" when its databases are there, writes at least ROUNDS rounds, and until
 * its standard input ends, and prints "done" when the log is complete and closed.
 */
public final class Writer {
    private static final int RECORDS = 20;
    private static final int CHECKPOINT_EVERY = 60;

    private Writer() {}

    public static void main(String[] args) throws Exception {
        File home = new File(args[0]);
        int rounds = Integer.parseInt(args[1]);
        long pause = Long.parseLong(args[2]);
        EnvironmentConfig config = new EnvironmentConfig();
        config.setAllowCreate(true);
        config.setTransactional(true);
        config.setDurability(Durability.COMMIT_WRITE_NO_SYNC);
        config.setConfigParam("je.log.fileMax", "1000000");
        config.setConfigParam("je.freeDisk", "0");
        config.setConfigParam("je.env.runCleaner", "false");
        try (Environment env = new Environment(home, config)) {
            DatabaseConfig dbConfig = new DatabaseConfig();
            dbConfig.setAllowCreate(true);
            dbConfig.setTransactional(true);
            try (Database db = env.openDatabase(null, "watched", dbConfig)) {
                System.out.println("ready");
                Thread asked = new Thread(Writer::waitForEnd);
                asked.setDaemon(true);
                asked.start();
                for (int round = 0; round < rounds || asked.isAlive(); round++) {
                    write(env, db, round);
                    Thread.sleep(pause);
                }
            }
        }
        System.out.println("done");
    }

    private static void waitForEnd() {
        try {
            System.in.readAllBytes();
        } catch (IOException gone) {
            return;
        }
    }

    private static void write(Environment env, Database db, int round) {
        Random random = new Random(round);
        Transaction txn = env.beginTransaction(null, null);
        for (int i = 0; i < RECORDS; i++) {
            byte[] key = ("key" + random.nextInt(5000)).getBytes(StandardCharsets.UTF_8);
            byte[] value = new byte[random.nextInt(10) == 0 ? 9000 : random.nextInt(500)];
            random.nextBytes(value);
            db.put(txn, new DatabaseEntry(key), new DatabaseEntry(value));
        }
        if (round % 9 == 0) {
            txn.abort();
        } else {
            txn.commit();
        }
        if (round % CHECKPOINT_EVERY == CHECKPOINT_EVERY - 1) {
            env.checkpoint(new CheckpointConfig().setForce(true));
        }
    }
}
