import com.sleepycat.je.CheckpointConfig;
import com.sleepycat.je.CommitToken;
import com.sleepycat.je.Database;
import com.sleepycat.je.DatabaseConfig;
import com.sleepycat.je.DatabaseEntry;
import com.sleepycat.je.Durability;
import com.sleepycat.je.EnvironmentConfig;
import com.sleepycat.je.Transaction;
import com.sleepycat.je.TransactionConfig;
import com.sleepycat.je.rep.CommitPointConsistencyPolicy;
import com.sleepycat.je.rep.InsufficientLogException;
import com.sleepycat.je.rep.NetworkRestore;
import com.sleepycat.je.rep.NetworkRestoreConfig;
import com.sleepycat.je.rep.NoConsistencyRequiredPolicy;
import com.sleepycat.je.rep.ReplicatedEnvironment;
import com.sleepycat.je.rep.ReplicationConfig;
import com.sleepycat.je.rep.ReplicationNode;
import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.io.PrintWriter;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;

/**
 * Runs the nodes of a replication group in one process, on this machine.
 *
 * <p>{@code java -cp JE_JAR:CLASSES Group}, compiled with Records.
 *
 * <p>A line of standard input asks for one thing. The answer is any number of lines, then {@code
 * done}, or {@code failed TAB REASON}.
 *
 * <ul>
 *   <li>{@code open NAME HOME GROUP HOST:PORT HELPER [leads]}: begins to open a node; one that leads
 *       becomes the master without asking others; if it lacks the log that it needs, it copies that
 *       of another one (network restore);
 *   <li>{@code ready}: waits until all nodes are open; a line NAME TAB STATE for each;
 *   <li>{@code put DATABASE FIRST COUNT}: the master writes records, acknowledged by all nodes, and
 *       each node waits until it has them;
 *   <li>{@code leave DATABASE FIRST COUNT}: the master writes half of the records in a transaction,
 *       commits a record of another one, writes the other half, deletes one of the first, and after
 *       a checkpoint writes one more; the transaction stays open, and the master's log is durable;
 *   <li>{@code records NAME FILE}: what Records prints of a node;
 *   <li>{@code members NAME}: a line NAME TAB TYPE TAB HOST:PORT for each node of the group;
 *   <li>{@code close NAME}.
 * </ul>
 */
public final class Group {
    private static final long PATIENCE_S = 120;
    private static final Durability BY_ALL =
            new Durability(
                    Durability.SyncPolicy.SYNC,
                    Durability.SyncPolicy.SYNC,
                    Durability.ReplicaAckPolicy.ALL);
    private static final int RECORDS_PER_TRANSACTION = 5;

    private final Map<String, ReplicatedEnvironment> nodes = new TreeMap<>();
    private final Map<String, Future<ReplicatedEnvironment>> opening = new TreeMap<>();
    private final ExecutorService threads = Executors.newCachedThreadPool();

    private Group() {}

    public static void main(String[] args) throws Exception {
        PrintStream answers = System.out;
        // The engine prints to standard output, too.
        System.setOut(System.err);
        Records.setClock();
        Group group = new Group();
        BufferedReader asked =
                new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = asked.readLine(); line != null; line = asked.readLine()) {
            try {
                group.answer(line.split("\t"), answers);
                answers.println("done");
            } catch (Exception | Error thrown) {
                Throwable cause = thrown.getCause() == null ? thrown : thrown.getCause();
                answers.println("failed\t" + String.valueOf(cause).replaceAll("\\s+", " "));
            }
            answers.flush();
        }
        Runtime.getRuntime().halt(0);
    }

    private void answer(String[] words, PrintStream out) throws Exception {
        switch (words[0]) {
            case "open":
                opening.put(words[1], threads.submit(() -> open(words)));
                break;
            case "ready":
                for (Map.Entry<String, Future<ReplicatedEnvironment>> each : opening.entrySet()) {
                    nodes.put(each.getKey(), each.getValue().get(PATIENCE_S, TimeUnit.SECONDS));
                }
                opening.clear();
                nodes.forEach((name, env) -> out.println(name + "\t" + env.getState()));
                break;
            case "put":
                put(words[1], Integer.parseInt(words[2]), Integer.parseInt(words[3]));
                break;
            case "leave":
                leave(words[1], Integer.parseInt(words[2]), Integer.parseInt(words[3]));
                break;
            case "records":
                try (PrintWriter file = new PrintWriter(words[2], StandardCharsets.UTF_8)) {
                    Records.print(nodes.get(words[1]), false, file);
                }
                break;
            case "members":
                for (ReplicationNode each : nodes.get(words[1]).getGroup().getNodes()) {
                    String address = each.getHostName() + ":" + each.getPort();
                    out.println(each.getName() + "\t" + each.getType() + "\t" + address);
                }
                break;
            case "close":
                nodes.remove(words[1]).close();
                break;
            default:
                throw new IllegalArgumentException(words[0]);
        }
    }

    private static ReplicatedEnvironment open(String[] words) {
        File home = new File(words[2]);
        EnvironmentConfig config = new EnvironmentConfig();
        config.setTransactional(true);
        config.setAllowCreate(true);
        config.setDurability(BY_ALL);
        config.setConfigParam("je.maxMemory", "32000000");
        Records.set(config, "je.freeDisk", "0");
        Records.set(config, "je.env.runVerifier", "false");
        ReplicationConfig replicated = new ReplicationConfig(words[3], words[1], words[4]);
        replicated.setHelperHosts(words[5]);
        replicated.setConsistencyPolicy(NoConsistencyRequiredPolicy.NO_CONSISTENCY);
        replicated.setConfigParam("je.rep.envSetupTimeout", PATIENCE_S + " s");
        replicated.setConfigParam("je.rep.replicaAckTimeout", "60 s");
        // Nodes that start at once may elect two masters, of which one then rolls back.
        replicated.setConfigParam(
                "je.rep.electableGroupSizeOverride", words.length > 6 ? "1" : "0");
        try {
            return new ReplicatedEnvironment(home, replicated, config);
        } catch (InsufficientLogException lacking) {
            new NetworkRestore().execute(lacking, new NetworkRestoreConfig());
            return new ReplicatedEnvironment(home, replicated, config);
        }
    }

    private ReplicatedEnvironment master() {
        return nodes.values().stream().filter(e -> e.getState().isMaster()).findFirst().get();
    }

    private static Database database(ReplicatedEnvironment master, String name) {
        DatabaseConfig config = new DatabaseConfig();
        config.setTransactional(true);
        config.setAllowCreate(true);
        return master.openDatabase(null, name, config);
    }

    private void leave(String name, int first, int count) {
        ReplicatedEnvironment master = master();
        Database db = database(master, name);
        Transaction left = master.beginTransaction(null, null);
        for (int i = first; i < first + count; i++) {
            db.put(left, entry("key " + i), entry("never committed " + i));
            if (i == first + count / 2) {
                Transaction other = master.beginTransaction(null, null);
                db.put(other, entry("other " + first), entry("committed"));
                other.commit();
            }
        }
        db.delete(left, entry("key " + first));
        // Slots of the open transaction are in logged nodes then, and its VLSNs in the index.
        master.checkpoint(new CheckpointConfig().setForce(true));
        db.put(left, entry("key " + (first + count)), entry("after the checkpoint"));
        master.flushLog(true);
    }

    private void put(String name, int first, int count) {
        ReplicatedEnvironment master = master();
        CommitToken token = null;
        try (Database db = database(master, name)) {
            for (int i = first; i < first + count; ) {
                Transaction txn = master.beginTransaction(null, null);
                int stop = Math.min(first + count, i + RECORDS_PER_TRANSACTION);
                for (; i < stop; i++) {
                    db.put(txn, entry("key " + i), entry("data of record " + i));
                }
                txn.commit();
                token = txn.getCommitToken();
            }
        }
        TransactionConfig reading = new TransactionConfig();
        reading.setConsistencyPolicy(
                new CommitPointConsistencyPolicy(token, PATIENCE_S, TimeUnit.SECONDS));
        for (ReplicatedEnvironment each : nodes.values()) {
            if (!each.getState().isMaster()) {
                each.beginTransaction(null, reading).commit();
            }
        }
    }

    private static DatabaseEntry entry(String text) {
        return new DatabaseEntry(text.getBytes(StandardCharsets.UTF_8));
    }
}
