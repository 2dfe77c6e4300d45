import com.sleepycat.je.CheckpointConfig;
import com.sleepycat.je.Cursor;
import com.sleepycat.je.Database;
import com.sleepycat.je.DatabaseConfig;
import com.sleepycat.je.DatabaseEntry;
import com.sleepycat.je.DatabaseNotFoundException;
import com.sleepycat.je.Durability;
import com.sleepycat.je.Environment;
import com.sleepycat.je.EnvironmentConfig;
import com.sleepycat.je.LockConflictException;
import com.sleepycat.je.LockMode;
import com.sleepycat.je.OperationStatus;
import com.sleepycat.je.Transaction;
import java.io.File;
import java.io.PrintWriter;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Deque;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.TreeMap;
import java.util.TreeSet;

/**
 * Works on an environment, and compares it with a model of what it should contain.
 *
 * <p>All its databases are written to, and two new ones, in transactions of which some are aborted,
 * by an engine that cleans its log and writes checkpoints all the while and has room for little of
 * it in memory. Then it is closed, opened again and compared, and all that a second time. Databases
 * with an order of their own are left alone.
 */
final class Workload {
    static final Durability UNSYNCED =
            new Durability(
                    Durability.SyncPolicy.NO_SYNC,
                    Durability.SyncPolicy.NO_SYNC,
                    Durability.ReplicaAckPolicy.NONE);
    private static final int ROUNDS = 2;
    private static final int MOST_OPERATIONS = 12;
    private static final int PAUSES = 4;
    private static final int MOST_CLEANED = 60;

    private final File home;
    private final String node;
    private final Random random;
    private final PrintWriter out;
    private final Map<String, Table> tables = new TreeMap<>();
    private Environment env;

    Workload(File home, String node, long seed, PrintWriter out) {
        this.home = home;
        this.node = node;
        this.out = out;
        random = new Random(seed);
    }

    void run(int transactions) {
        try {
            runAll(transactions);
        } finally {
            if (env != null) {
                closeAfterFailure();
            }
        }
    }

    private void runAll(int transactions) {
        open();
        Records.print(env, false, out);
        for (String name : env.getDatabaseNames()) {
            try {
                add(name, Acceptance.openAsItIs(env, name));
            } catch (DatabaseNotFoundException onlyItsName) {
                continue;
            }
        }
        add("acceptance", create("acceptance", false));
        add("acceptance dups", create("acceptance dups", true));
        for (int round = 1; round <= ROUNDS; round++) {
            work(transactions);
            close();
            open();
            for (Map.Entry<String, Table> each : tables.entrySet()) {
                each.getValue().db = Acceptance.openAsItIs(env, each.getKey());
                each.getValue().compare("round " + round + " " + each.getKey());
            }
        }
        close();
    }

    private void open() {
        EnvironmentConfig config = new EnvironmentConfig();
        config.setTransactional(true);
        Acceptance.listen(config);
        config.setConfigParam("je.maxMemory", "" + (300_000 + random.nextInt(3) * 300_000));
        config.setConfigParam("je.log.fileMax", "1000000");
        config.setConfigParam("je.log.totalBufferBytes", "60000");
        config.setConfigParam("je.checkpointer.bytesInterval", "100000");
        config.setConfigParam("je.cleaner.minUtilization", "80");
        config.setConfigParam("je.cleaner.minFileUtilization", "50");
        config.setConfigParam("je.cleaner.bytesInterval", "100000");
        config.setConfigParam("je.env.dbEviction", "false");
        Records.set(config, "je.freeDisk", "0");
        Records.set(config, "je.reservedDisk", "0");
        Records.set(config, "je.cleaner.minAge", "2");
        Records.set(config, "je.env.runVerifier", "false");
        // A close can wait ten seconds for the thread that does this.
        Records.set(config, "je.env.runExtinctRecordScanner", "false");
        env = node == null ? new Environment(home, config) : Nodes.open(home, config, node, true);
    }

    private void close() {
        for (Table table : tables.values()) {
            table.db.close();
        }
        env.close();
        env = null;
    }

    /** Closes the environment, whose threads would otherwise continue to write to its directory. */
    private void closeAfterFailure() {
        try {
            env.close();
        } catch (Exception | Error e) {
            // The failure is already reported.
            return;
        }
    }

    private Database create(String name, boolean dups) {
        DatabaseConfig config = new DatabaseConfig();
        config.setAllowCreate(true);
        config.setTransactional(true);
        config.setSortedDuplicates(dups);
        config.setNodeMaxEntries(4 + random.nextInt(20));
        return env.openDatabase(null, name, config);
    }

    private void add(String name, Database db) {
        DatabaseConfig config = db.getConfig();
        if (config.getBtreeComparator() != null || config.getDuplicateComparator() != null) {
            db.close();
            return;
        }
        Table table = new Table(db, config.getSortedDuplicates());
        tables.put(name, table);
        table.load(name);
    }

    private void work(int transactions) {
        List<Table> all = new ArrayList<>(tables.values());
        for (int i = 0; i < transactions; i++) {
            if (i % (transactions / PAUSES + 1) == transactions / PAUSES) {
                pause();
            }
            Transaction txn = env.beginTransaction(null, null);
            Deque<Runnable> undo = new ArrayDeque<>();
            boolean commits = random.nextInt(4) > 0;
            try {
                for (int left = random.nextInt(MOST_OPERATIONS); left >= 0; left--) {
                    all.get(random.nextInt(all.size())).change(txn, undo);
                }
            } catch (LockConflictException met) {
                // The cleaner holds what it migrates.
                commits = false;
            }
            if (commits) {
                txn.commit(UNSYNCED);
            } else {
                txn.abort();
                undo.forEach(Runnable::run);
            }
        }
    }

    /** Does at once what threads of the engine do at times of their own. */
    private void pause() {
        int cleaned = 0;
        for (int files = env.cleanLog(); files > 0 && cleaned < MOST_CLEANED; ) {
            cleaned += files;
            files = env.cleanLog();
        }
        if (random.nextBoolean()) {
            env.compress();
        }
        CheckpointConfig config = new CheckpointConfig().setForce(true);
        env.checkpoint(config.setMinimizeRecoveryTime(random.nextInt(4) == 0));
        env.evictMemory();
    }

    private void problem(String text) {
        out.print("#problem\twork: " + text + "\n");
    }

    /** A database, and what it should contain. */
    private final class Table {
        final boolean dups;
        final TreeMap<byte[], TreeSet<byte[]>> model = new TreeMap<>(Arrays::compareUnsigned);
        Database db;

        Table(Database db, boolean dups) {
            this.db = db;
            this.dups = dups;
        }

        void load(String name) {
            walk(
                    (key, data) -> {
                        TreeSet<byte[]> set = model.computeIfAbsent(key, Workload::newSet);
                        if (!set.add(data) || !dups && set.size() > 1) {
                            problem("a record twice in " + name);
                        }
                    });
        }

        void compare(String where) {
            List<byte[][]> expected = new ArrayList<>();
            model.forEach((key, set) -> set.forEach(data -> expected.add(new byte[][] {key, data})));
            int[] at = {0, 0};
            walk(
                    (key, data) -> {
                        byte[][] pair = at[0] < expected.size() ? expected.get(at[0]) : null;
                        boolean equal =
                                pair != null
                                        && Arrays.equals(pair[0], key)
                                        && Arrays.equals(pair[1], data);
                        if (!equal && at[1]++ == 0) {
                            problem(where + ": record " + at[0] + " differs");
                        }
                        at[0]++;
                    });
            if (at[0] != expected.size()) {
                problem(where + ": " + at[0] + " records for " + expected.size());
            }
        }

        private void walk(Visitor visitor) {
            Cursor cursor = db.openCursor(null, null);
            try {
                DatabaseEntry key = new DatabaseEntry(), data = new DatabaseEntry();
                while (cursor.getNext(key, data, LockMode.READ_UNCOMMITTED)
                        == OperationStatus.SUCCESS) {
                    visitor.visit(key.getData(), data.getData());
                }
            } finally {
                cursor.close();
            }
        }

        void change(Transaction txn, Deque<Runnable> undo) {
            byte[] key = key();
            TreeSet<byte[]> had = model.get(key);
            TreeSet<byte[]> has = newSet(key);
            if (had != null) {
                has.addAll(had);
            }
            int kind = random.nextInt(10);
            if (kind < 7) {
                byte[] data = value();
                db.put(txn, new DatabaseEntry(key), new DatabaseEntry(data));
                if (!dups) {
                    has.clear();
                }
                has.add(data);
            } else if (kind < 8 && had != null) {
                deleteOne(txn, key, had.first());
                has.remove(had.first());
            } else {
                OperationStatus status = db.delete(txn, new DatabaseEntry(key));
                if ((status == OperationStatus.SUCCESS) != (had != null)) {
                    problem("a deletion gives " + status);
                }
                has.clear();
            }
            put(key, has);
            undo.push(() -> put(key, had));
        }

        private void put(byte[] key, TreeSet<byte[]> set) {
            if (set == null || set.isEmpty()) {
                model.remove(key);
            } else {
                model.put(key, set);
            }
        }

        private void deleteOne(Transaction txn, byte[] key, byte[] data) {
            Cursor cursor = db.openCursor(txn, null);
            try {
                OperationStatus status =
                        cursor.getSearchBoth(
                                new DatabaseEntry(key), new DatabaseEntry(data), LockMode.RMW);
                if (status != OperationStatus.SUCCESS) {
                    problem("a search gives " + status);
                } else {
                    cursor.delete();
                }
            } finally {
                cursor.close();
            }
        }

        /** Returns a key: half of them exist, and others are beside existing ones. */
        private byte[] key() {
            int kind = random.nextInt(10);
            if (kind < 3 || model.isEmpty()) {
                return bytes(1 + random.nextInt(6));
            }
            byte[] first = model.firstKey(), last = model.lastKey();
            byte[] probe = Arrays.copyOf(random.nextBoolean() ? first : last, 1 + random.nextInt(8));
            probe[random.nextInt(probe.length)] = (byte) random.nextInt(256);
            byte[] found = model.ceilingKey(probe);
            found = found == null ? last : found;
            return kind < 8 ? found : Arrays.copyOf(found, found.length + 1);
        }

        private byte[] value() {
            return bytes(random.nextInt(random.nextInt(20) == 0 ? 3_000 : 40));
        }
    }

    private static TreeSet<byte[]> newSet(byte[] key) {
        return new TreeSet<>(Arrays::compareUnsigned);
    }

    private byte[] bytes(int size) {
        byte[] made = new byte[size];
        random.nextBytes(made);
        return made;
    }

    private interface Visitor {
        void visit(byte[] key, byte[] data);
    }
}
