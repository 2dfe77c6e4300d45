import com.sleepycat.je.Database;
import com.sleepycat.je.DatabaseConfig;
import com.sleepycat.je.DatabaseEntry;
import com.sleepycat.je.Environment;
import com.sleepycat.je.EnvironmentConfig;
import com.sleepycat.je.Put;
import com.sleepycat.je.WriteOptions;
import java.io.File;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.TimeUnit;

/**
 * Writes records that expire, some in hours and some in days, over several files.
 *
 * <p>{@code java -cp JE_JAR tests/engine/Expiring.java DIR}
 */
public final class Expiring {
    private static final int RECORDS = 9_000;
    private static final int UPDATED = 3;
    private static final int LENGTH = 400;

    private Expiring() {}

    public static void main(String[] args) {
        EnvironmentConfig config = new EnvironmentConfig();
        config.setAllowCreate(true);
        config.setConfigParam("je.log.fileMax", "1000000");
        config.setConfigParam("je.env.runCleaner", "false");
        DatabaseConfig created = new DatabaseConfig();
        created.setAllowCreate(true);
        try (Environment env = new Environment(new File(args[0]), config);
                Database db = env.openDatabase(null, "expiring", created)) {
            for (int i = 0; i < RECORDS; i++) {
                put(db, i, i);
                if (i % UPDATED == 0) {
                    put(db, i / 2, i + 1);
                }
            }
        }
    }

    private static void put(Database db, int key, int lives) {
        WriteOptions options = new WriteOptions().setUpdateTTL(true);
        if (key < RECORDS / 2) {
            options.setTTL(1 + lives % 50, TimeUnit.HOURS);
        } else if (key % 2 == 0) {
            options.setTTL(1 + lives % 9, TimeUnit.DAYS);
        }
        byte[] name = String.format("key%08d", key).getBytes(StandardCharsets.UTF_8);
        DatabaseEntry data = new DatabaseEntry(new byte[LENGTH]);
        db.put(null, new DatabaseEntry(name), data, Put.OVERWRITE, options);
    }
}
