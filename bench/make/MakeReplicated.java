import com.sleepycat.je.Database;
import com.sleepycat.je.DatabaseConfig;
import com.sleepycat.je.DatabaseEntry;
import com.sleepycat.je.Durability;
import com.sleepycat.je.EnvironmentConfig;
import com.sleepycat.je.Transaction;
import com.sleepycat.je.rep.ReplicatedEnvironment;
import com.sleepycat.je.rep.ReplicationConfig;
import java.io.File;
import java.net.ServerSocket;
import java.util.Random;

/**
 * Writes the log of a node that is alone in its group, for the bench.
 *
 * <p>{@code java -cp JE_JAR bench/make/MakeReplicated.java DIR MEGABYTES SEED FILE_MAX}
 *
 * <p>Each transaction writes ten records of 300 bytes with ascending keys, as journals have.
 */
public final class MakeReplicated {
    private static final long MIB = 1L << 20;
    private static final int BATCH = 10;
    private static final int VALUE_BYTES = 300;
    private static final int ASKED = 1000;

    private MakeReplicated() {}

    public static void main(String[] args) throws Exception {
        if (args.length != 4) {
            System.err.println("usage: MakeReplicated DIR MEGABYTES SEED FILE_MAX");
            System.exit(2);
        }
        File home = new File(args[0]);
        long wanted = Long.parseLong(args[1]) * MIB;
        EnvironmentConfig config = new EnvironmentConfig();
        config.setAllowCreate(true);
        config.setTransactional(true);
        config.setCacheSize(256 * MIB);
        config.setConfigParam("je.env.runCleaner", "false");
        config.setConfigParam("je.env.runVerifier", "false");
        config.setConfigParam("je.freeDisk", "0");
        config.setConfigParam("je.log.fileMax", args[3]);
        Durability.SyncPolicy none = Durability.SyncPolicy.NO_SYNC;
        config.setDurability(
                new Durability(none, none, Durability.ReplicaAckPolicy.NONE));
        String address = "localhost:" + freePort();
        ReplicationConfig replicated = new ReplicationConfig("bench", "node1", address);
        replicated.setHelperHosts(address);
        ReplicatedEnvironment env = new ReplicatedEnvironment(home, replicated, config);
        DatabaseConfig dbConfig = new DatabaseConfig();
        dbConfig.setAllowCreate(true);
        dbConfig.setTransactional(true);
        Database db = env.openDatabase(null, "1", dbConfig);
        Random random = new Random(Long.parseLong(args[2]));
        byte[] value = new byte[VALUE_BYTES];
        long id = 0;
        for (int batch = 0; batch % ASKED != 0 || size(home) < wanted; batch++) {
            Transaction txn = env.beginTransaction(null, null);
            for (int i = 0; i < BATCH; i++) {
                random.nextBytes(value);
                byte[] key = String.format("%016d", id++).getBytes();
                db.put(txn, new DatabaseEntry(key), new DatabaseEntry(value));
            }
            txn.commit();
        }
        db.close();
        env.close();
        System.out.println(id + " records written");
    }

    private static int freePort() throws Exception {
        try (ServerSocket socket = new ServerSocket(0)) {
            return socket.getLocalPort();
        }
    }

    private static long size(File home) {
        long sum = 0;
        for (File file : home.listFiles()) {
            sum += file.length();
        }
        return sum;
    }
}
