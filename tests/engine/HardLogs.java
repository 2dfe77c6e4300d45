import com.sleepycat.je.CheckpointConfig;
import com.sleepycat.je.Cursor;
import com.sleepycat.je.Database;
import com.sleepycat.je.DatabaseConfig;
import com.sleepycat.je.DatabaseEntry;
import com.sleepycat.je.DbInternal;
import com.sleepycat.je.Environment;
import com.sleepycat.je.EnvironmentConfig;
import com.sleepycat.je.LockConflictException;
import com.sleepycat.je.OperationStatus;
import com.sleepycat.je.Transaction;
import java.io.File;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.concurrent.TimeUnit;

/**
 * Writes small logs that are hard on recovery, and stops without closing them.
 *
 * <p>{@code java -ea:com.sleepycat.je.recovery.Checkpointer -cp JE_JAR:CLASSES HardLogs FOLDER
 * SEED...}
 *
 * <p>Each seed makes FOLDER/SEED, an environment of 50 to 150 KB: databases with 4 to 8 records a
 * node (deferred-write, temporary, transactional, with duplicates, with prefixes) that grow until
 * roots split twice, and shrink until the compressor takes their nodes away; checkpoints every few
 * dozen changes; databases that are made, emptied, renamed and removed; transactions that are
 * aborted or never end; little memory.
 *
 * <p>There are changes inside checkpoints too. The engine has hooks for its own tests: before the
 * first node is written, and before each node of the highest level that a checkpoint writes. Its
 * assertions call them, so assertions of one class are on. Seeds that four divides use no hooks.
 * They run the engine's evictor and compressor, and a second thread writes during checkpoints. Such
 * a seed does not fix the places of entries. Seeds with a remainder of one fix them: no database is
 * removed there, which is the work of a thread of the engine. For other seeds they vary a little.
 */
public final class HardLogs {
    private static final String[] SOME_ENGINES_HAVE_NOT = {
        "je.freeDisk", "je.env.runVerifier", "je.tree.maxEmbeddedLN", "je.env.runOffHeapEvictor"
    };
    private static final int LEAST_BYTES = 50_000, MORE_BYTES = 80_000;
    private static final int KINDS = 4, THREADED = 0, LASTING = 1;
    private static final int MOST_OPEN = 2, MOST_STEPS = 3_000, SETTLED_MS = 5;

    private final Random random;
    private final boolean threaded, lasting;
    private final Environment env;
    private final List<Table> tables = new ArrayList<>();
    private final List<String> made = new ArrayList<>();
    private final List<Transaction> open = new ArrayList<>();
    private final int busy;
    private int favourite;
    private volatile boolean checkpointing;
    private boolean hooked;
    private volatile Throwable failure;

    public static void main(String[] args) throws Exception {
        for (int i = 1; i < args.length; i++) {
            File home = new File(args[0], args[i]);
            if (!home.mkdirs()) {
                throw new IllegalStateException(home + " is there");
            }
            new HardLogs(home, Integer.parseInt(args[i])).write();
        }
        System.out.flush();
        Runtime.getRuntime().halt(0);
    }

    private HardLogs(File home, int seed) {
        random = new Random(seed * 7919L);
        threaded = seed % KINDS == THREADED;
        lasting = seed % KINDS == LASTING;
        env = new Environment(home, config());
        busy = random.nextInt(3);
        openTables();
    }

    private void write() throws Exception {
        setHook("setBeforeFlushHook", () -> inCheckpoint(70, 8));
        setHook("setMaxFlushLevelHook", () -> inCheckpoint(12, 6));
        long target = LEAST_BYTES + random.nextInt(MORE_BYTES);
        int untilCheckpoint = 10;
        for (int i = 0; i < MOST_STEPS && size() < target; i++) {
            step();
            untilCheckpoint -= 1;
            if (untilCheckpoint <= 0) {
                checkpoint();
                untilCheckpoint = 2 + random.nextInt(10);
            }
            if (failure != null) {
                throw new IllegalStateException(failure);
            }
        }
        env.flushLog(false);
        setHook("setBeforeFlushHook", null);
        setHook("setMaxFlushLevelHook", null);
    }

    private long size() {
        long end = env.getStats(null).getEndOfLog();
        return (end >>> 32) * fileMax() + (end & 0xffffffffL);
    }

    private long fileMax() {
        return Long.parseLong(env.getConfig().getConfigParam("je.log.fileMax"));
    }

    private EnvironmentConfig config() {
        EnvironmentConfig config = new EnvironmentConfig();
        config.setAllowCreate(true);
        config.setTransactional(true);
        config.setLockTimeout(1, TimeUnit.MILLISECONDS);
        // Files as small as these are for tests only.
        DbInternal.disableParameterValidation(config);
        int[] files = {1_000_000, 1_000_000, 1_000_000, 30_000};
        config.setConfigParam("je.log.fileMax", "" + files[random.nextInt(files.length)]);
        int[] caches = {100_000, 150_000, 300_000, 3_000_000};
        config.setConfigParam("je.maxMemory", "" + caches[random.nextInt(caches.length)]);
        config.setConfigParam("je.log.totalBufferBytes", "12000");
        for (String name : "Evictor INCompressor".split(" ")) {
            config.setConfigParam("je.env.run" + name, "" + threaded);
        }
        config.setConfigParam("je.env.runCheckpointer", "false");
        config.setConfigParam("je.env.runCleaner", "false");
        config.setConfigParam("je.compressor.wakeupInterval", "10 ms");
        // JE 18.3.12 fails when it has evicted a database that is on its way out.
        config.setConfigParam("je.env.dbEviction", "false");
        config.setConfigParam("com.sleepycat.je.util.FileHandler.level", "OFF");
        config.setConfigParam("com.sleepycat.je.util.ConsoleHandler.level", "OFF");
        String[] values = {"0", "false", "" + 16 * random.nextInt(2), "false"};
        for (int i = 0; i < values.length; i++) {
            try {
                config.setConfigParam(SOME_ENGINES_HAVE_NOT[i], values[i]);
            } catch (IllegalArgumentException unknown) {
                continue;
            }
        }
        return config;
    }

    private void openTables() {
        tables.add(new Table("deferred", Kind.DEFERRED, false, random.nextBoolean()));
        tables.add(new Table("plain", Kind.PLAIN, false, random.nextBoolean()));
        Kind[] kinds = {Kind.DEFERRED, Kind.PLAIN, Kind.DEFERRED, Kind.PLAIN, Kind.TEMPORARY};
        boolean[] dups = {true, true, false, false, random.nextBoolean()};
        String[] names = {"deferred dups", "dups", "deferred two", "plain two", "temporary"};
        for (int i = 0; i < kinds.length; i++) {
            if (random.nextInt(3) > 0) {
                tables.add(new Table(names[i], kinds[i], dups[i], random.nextInt(3) == 0));
            }
        }
    }

    /** Takes one step between two checkpoints. */
    private void step() {
        if (random.nextInt(15) == 0) {
            favourite = random.nextInt(tables.size());
        }
        int kind = random.nextInt(100);
        if (kind < 80) {
            change(random, 1 + random.nextInt(14));
        } else if (kind < 85) {
            syncSome(random);
        } else if (kind < 89) {
            env.compress();
        } else if (kind < 92) {
            env.evictMemory();
        } else if (kind < 97 && !lasting) {
            restructure();
        } else if (kind < 99 && !lasting) {
            reopen();
        } else if (!open.isEmpty()) {
            end(open.remove(0), random.nextBoolean());
        }
    }

    private void checkpoint() throws InterruptedException {
        CheckpointConfig config = new CheckpointConfig().setForce(true);
        config.setMinimizeRecoveryTime(random.nextInt(5) == 0);
        if (!threaded) {
            env.checkpoint(config);
            return;
        }
        Random own = new Random(random.nextLong());
        checkpointing = true;
        Thread writer = new Thread(() -> writeMeanwhile(own));
        writer.start();
        env.checkpoint(config);
        checkpointing = false;
        writer.join();
    }

    private void writeMeanwhile(Random own) {
        try {
            for (int i = 0; i < 6 && checkpointing; i++) {
                change(own, 1 + own.nextInt(10));
            }
        } catch (Throwable thrown) {
            failure = thrown;
        }
    }

    /** Makes changes in a hook. The engine is between two nodes that it writes, without latches. */
    private void inCheckpoint(int percent, int most) {
        if (hooked || threaded || failure != null || random.nextInt(100) >= percent) {
            return;
        }
        hooked = true;
        try {
            for (int i = random.nextInt(1 + busy); i >= 0; i--) {
                change(random, 1 + random.nextInt(most));
            }
            if (random.nextInt(8) == 0) {
                syncSome(random);
            }
            if (random.nextInt(10) == 0) {
                env.evictMemory();
            }
        } catch (Throwable thrown) {
            failure = thrown;
        }
        hooked = false;
    }

    private static void setHook(String setter, Runnable action) throws Exception {
        Class<?> hook = Class.forName("com.sleepycat.je.utilint.TestHook");
        Object made =
                Proxy.newProxyInstance(
                        hook.getClassLoader(),
                        new Class<?>[] {hook},
                        (self, method, arguments) -> {
                            if (method.getName().equals("doHook")) {
                                action.run();
                            }
                            return null;
                        });
        Class<?> checkpointer = Class.forName("com.sleepycat.je.recovery.Checkpointer");
        Method set = checkpointer.getMethod(setter, hook);
        set.invoke(null, action == null ? null : made);
    }

    /** Changes some tables, in one transaction where they are transactional. */
    private void change(Random random, int count) {
        Transaction txn = env.beginTransaction(null, null);
        boolean committed = true;
        try {
            Table table = someTable(random);
            for (int i = 0; i < count; i++) {
                if (random.nextInt(10) == 0) {
                    table = someTable(random);
                }
                table.change(random, table.kind == Kind.PLAIN ? txn : null);
            }
        } catch (LockConflictException met) {
            committed = false;
        }
        int fate = random.nextInt(20);
        if (committed && fate == 0 && !threaded && !hooked && open.size() < MOST_OPEN) {
            open.add(txn);
        } else {
            end(txn, committed && fate < 17);
        }
    }

    /** Chooses a table. One is chosen most often for a while, so that its root changes soon. */
    private Table someTable(Random random) {
        boolean isFavourite = random.nextInt(3) > 0;
        return tables.get(isFavourite ? favourite : random.nextInt(tables.size()));
    }

    private void end(Transaction txn, boolean commits) {
        if (commits) {
            txn.commitNoSync();
        } else {
            txn.abort();
        }
    }

    private void syncSome(Random random) {
        Table table = tables.get(random.nextInt(tables.size()));
        if (table.kind == Kind.DEFERRED) {
            table.db.sync();
        }
    }

    /** Closes a table and opens it again. A temporary one is empty then, a deferred one may be. */
    private void reopen() {
        Table table = tables.get(random.nextInt(tables.size()));
        if (table.kind == Kind.PLAIN) {
            return;
        }
        // A close writes nodes, and so calls a hook.
        hooked = true;
        table.db.close();
        if (table.kind == Kind.DEFERRED && random.nextBoolean()) {
            env.truncateDatabase(null, table.name, false);
        }
        table.open();
        hooked = false;
        settle();
    }

    /** Makes, fills, renames, empties or removes a database. */
    private void restructure() {
        Transaction txn = env.beginTransaction(null, null);
        List<String> before = new ArrayList<>(made);
        try {
            int kind = made.isEmpty() ? 0 : random.nextInt(6);
            String name = made.isEmpty() ? null : made.get(random.nextInt(made.size()));
            if (kind <= 1) {
                fill(txn, "made " + random.nextInt(1000), false);
            } else if (kind == 2) {
                String other = "named " + random.nextInt(1000);
                if (!made.contains(other)) {
                    env.renameDatabase(txn, name, other);
                    made.set(made.indexOf(name), other);
                }
            } else if (kind == 3) {
                env.truncateDatabase(txn, name, false);
            } else if (kind == 4) {
                env.removeDatabase(txn, name);
                made.remove(name);
            } else {
                fill(txn, name, true);
            }
        } catch (LockConflictException met) {
            txn.abort();
            made.clear();
            made.addAll(before);
            return;
        }
        boolean commits = random.nextInt(4) > 0;
        end(txn, commits);
        settle();
        if (!commits) {
            made.clear();
            made.addAll(before);
        }
    }

    /** Gives the engine's thread some time to take removed databases away. */
    private void settle() {
        try {
            Thread.sleep(threaded ? 0 : SETTLED_MS);
        } catch (InterruptedException e) {
            throw new IllegalStateException(e);
        }
    }

    private void fill(Transaction txn, String name, boolean isThere) {
        DatabaseConfig config = new DatabaseConfig();
        config.setAllowCreate(true);
        config.setTransactional(true);
        config.setNodeMaxEntries(4 + random.nextInt(5));
        config.setUseExistingConfig(isThere);
        try (Database db = env.openDatabase(txn, name, config)) {
            for (int i = random.nextInt(25); i >= 0; i--) {
                DatabaseEntry key = new DatabaseEntry(text("m" + random.nextInt(99)));
                db.put(txn, key, new DatabaseEntry(bytes(random, random.nextInt(20))));
            }
        }
        if (!made.contains(name)) {
            made.add(name);
        }
    }

    private static byte[] text(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    private static byte[] bytes(Random random, int size) {
        byte[] made = new byte[size];
        random.nextBytes(made);
        return made;
    }

    private enum Kind {
        PLAIN,
        DEFERRED,
        TEMPORARY
    }

    /** A database that grows and shrinks by turns. */
    private final class Table {
        final String name;
        final Kind kind;
        final boolean dups, prefixed;
        final int nodeMax = 4 + random.nextInt(5);
        Database db;
        boolean grows = true;
        int count, turn, next, order;

        Table(String name, Kind kind, boolean dups, boolean prefixed) {
            this.name = name;
            this.kind = kind;
            this.dups = dups;
            this.prefixed = prefixed;
            open();
        }

        void open() {
            DatabaseConfig config = new DatabaseConfig();
            config.setAllowCreate(true);
            config.setTransactional(kind == Kind.PLAIN);
            config.setDeferredWrite(kind == Kind.DEFERRED);
            config.setTemporary(kind == Kind.TEMPORARY);
            config.setSortedDuplicates(dups);
            config.setNodeMaxEntries(nodeMax);
            config.setKeyPrefixing(dups || prefixed);
            db = env.openDatabase(null, name, config);
            count = 0;
            turn = nextTurn(random);
        }

        /** Chooses enough records for one level below the root, for a split, for two levels. */
        int nextTurn(Random random) {
            order = Math.max(0, random.nextInt(5) - 2);
            int[] children = {2, nodeMax, nodeMax, 2 * nodeMax};
            return nodeMax * (children[random.nextInt(children.length)] + random.nextInt(3));
        }

        void change(Random random, Transaction txn) {
            if (random.nextInt(60) == 0) {
                grows = !grows;
            }
            if (grows) {
                count += put(random, txn) ? 1 : 0;
                grows = count < turn;
                return;
            }
            int removed = remove(random, txn, random.nextInt(3) == 0 ? 3 * nodeMax : 1);
            count = Math.max(0, count - removed);
            if (removed == 0 || count <= turn / 8) {
                count = removed == 0 ? 0 : count;
                grows = true;
                turn = nextTurn(random);
                if (!hooked && !checkpointing && random.nextInt(3) > 0) {
                    env.compress();
                }
            }
        }

        boolean put(Random random, Transaction txn) {
            DatabaseEntry key = new DatabaseEntry(key(random));
            int most = random.nextInt(10) == 0 ? 60 : 12;
            byte[] data = bytes(random, random.nextInt(dups ? 6 : most));
            return db.put(txn, key, new DatabaseEntry(data)) == OperationStatus.SUCCESS;
        }

        int remove(Random random, Transaction txn, int most) {
            int removed = 0;
            try (Cursor cursor = db.openCursor(txn, null)) {
                DatabaseEntry key = new DatabaseEntry(key(random)), data = new DatabaseEntry();
                OperationStatus status = cursor.getSearchKeyRange(key, data, null);
                if (status != OperationStatus.SUCCESS) {
                    status = cursor.getFirst(key, data, null);
                }
                while (status == OperationStatus.SUCCESS && removed < most) {
                    cursor.delete();
                    removed += 1;
                    status = cursor.getNext(key, data, null);
                }
            }
            return removed;
        }

        byte[] key(Random random) {
            if (dups && random.nextInt(3) > 0) {
                return text("dup" + random.nextInt(5));
            }
            if (order == 0) {
                return text(String.format("k%04d", random.nextInt(300)));
            }
            next += order == 1 ? 1 : -1;
            return text(String.format("k%06d", 500_000 + next));
        }
    }
}
