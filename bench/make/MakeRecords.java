import com.sleepycat.je.Database;
import com.sleepycat.je.DatabaseConfig;
import com.sleepycat.je.DatabaseEntry;
import com.sleepycat.je.Durability;
import com.sleepycat.je.Environment;
import com.sleepycat.je.EnvironmentConfig;
import java.io.File;
import java.util.Random;

/**
 * Writes an environment of one database with so many records, for the bench.
 *
 * <p>{@code java -cp JE_JAR bench/make/MakeRecords.java DIR RECORDS WRITES VALUE_BYTES closed|crashed}
 *
 * <p>Keys are written in an order that is not theirs, some of them more than once where there are
 * more WRITES than RECORDS. "crashed" writes no checkpoint and stops without closing.
 */
public final class MakeRecords {
    private static final long MIB = 1L << 20;

    private MakeRecords() {}

    public static void main(String[] args) {
        if (args.length != 5) {
            System.err.println("usage: MakeRecords DIR RECORDS WRITES VALUE_BYTES closed|crashed");
            System.exit(2);
        }
        boolean crashed = args[4].equals("crashed");
        int records = Integer.parseInt(args[1]);
        int writes = Integer.parseInt(args[2]);
        byte[] value = new byte[Integer.parseInt(args[3])];
        EnvironmentConfig config = new EnvironmentConfig();
        config.setAllowCreate(true);
        config.setTransactional(true);
        config.setDurability(Durability.COMMIT_NO_SYNC);
        config.setCacheSize(crashed ? 3072 * MIB : 512 * MIB);
        config.setConfigParam("je.env.runCleaner", "false");
        config.setConfigParam("je.env.runVerifier", "false");
        config.setConfigParam("je.env.runCheckpointer", crashed ? "false" : "true");
        config.setConfigParam("je.checkpointer.bytesInterval", Long.toString(512 * MIB));
        config.setConfigParam("je.freeDisk", "0");
        config.setConfigParam("je.log.fileMax", "100000000");
        Environment env = new Environment(new File(args[0]), config);
        DatabaseConfig dbConfig = new DatabaseConfig();
        dbConfig.setAllowCreate(true);
        dbConfig.setTransactional(true);
        Database db = env.openDatabase(null, "records", dbConfig);
        Random random = new Random(1);
        long step = 0x9E3779B1L;
        for (int i = 0; i < writes; i++) {
            long id = i < records ? i * step % records : random.nextInt(records);
            random.nextBytes(value);
            byte[] key = String.format("key:%012d", id).getBytes();
            db.put(null, new DatabaseEntry(key), new DatabaseEntry(value));
        }
        if (crashed) {
            env.flushLog(true);
            System.out.println(writes + " records written, not closed");
            System.out.flush();
            Runtime.getRuntime().halt(0);
        }
        db.close();
        env.close();
        System.out.println(writes + " records written");
    }
}
