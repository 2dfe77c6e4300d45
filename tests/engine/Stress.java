import com.sleepycat.je.CheckpointConfig;
import com.sleepycat.je.Cursor;
import com.sleepycat.je.CursorConfig;
import com.sleepycat.je.Database;
import com.sleepycat.je.DatabaseConfig;
import com.sleepycat.je.DatabaseEntry;
import com.sleepycat.je.DatabaseException;
import com.sleepycat.je.DbInternal;
import com.sleepycat.je.Durability;
import com.sleepycat.je.Environment;
import com.sleepycat.je.EnvironmentConfig;
import com.sleepycat.je.LockConflictException;
import com.sleepycat.je.OperationStatus;
import com.sleepycat.je.Transaction;
import com.sleepycat.je.TransactionConfig;
import java.io.File;
import java.io.IOException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;

/**
 * Writes environments in every way that leaves something for recovery to do.
 *
 * <p>A line of standard input asks for one: {@code HOME TAB ANSWER [TAB NAME=VALUE]...}; a line of
 * standard output says that the file ANSWER is complete. It is empty, or has what failed. The
 * engine writes in another directory. A halt leaves what has reached the log: this is copied, and
 * then the environment is given up.
 *
 * <p>Options, all numbers: seed; threads; transactions (of each thread); load (records that each
 * database gets at first); keys (how many there are to choose from); nodeMax, fileMax, cache,
 * buffers, embedded (as in the engine's configuration); daemons (1: evictor, checkpointer, cleaner
 * and compressor run); checkpoints (by hand); clean (1: the cleaner is called with each); expunge
 * (0: files that the cleaner gives up are only renamed); structure (1: databases are made, renamed,
 * emptied and removed); extinct (1: remains of removed ones deleted); large (the largest value);
 * ttl (1: records that expire); jumps (how often the clock advances by an hour); deferred (1: a
 * database with deferred writes); unclosed (transactions that each thread leaves open); end (0:
 * halt when all threads are done, 1: halt while they write, 2: close).
 *
 * <p>The seed determines what happens, except for the order in which threads meet. An existing
 * environment is opened and written to.
 */
public final class Stress {
    private static final String[] SOME_ENGINES_HAVE_NOT = {
        "je.freeDisk",
        "je.env.runVerifier",
        "je.tree.maxEmbeddedLN",
        "je.cleaner.minAge",
        "je.env.runExtinctRecordScanner"
    };
    private static final int HALT = 0, HALT_BUSY = 1, CLOSE = 2;
    private static final int MOST_OPERATIONS = 12;
    private static final long HOUR = 3_600_000L;

    private static final Map<String, Integer> OPTIONS = new HashMap<>();
    private static final AtomicInteger NEXT_KEY = new AtomicInteger();
    private static final AtomicLong CLOCK_AHEAD = new AtomicLong();

    private static Environment env;
    private static final List<Table> TABLES = new ArrayList<>();
    private static volatile boolean isOver;
    private static int written;

    private Stress() {}

    public static void main(String[] args) throws Exception {
        Questions.answer(
                (cells, out) -> {
                    try {
                        prepare(Arrays.copyOfRange(cells, 2, cells.length));
                        write(Path.of(cells[0]));
                    } catch (Exception | Error thrown) {
                        thrown.printStackTrace(out);
                    }
                });
    }

    private static void prepare(String[] options) throws ReflectiveOperationException {
        OPTIONS.clear();
        for (String option : options) {
            String[] parts = option.split("=");
            OPTIONS.put(parts[0], Integer.valueOf(parts[1]));
        }
        TABLES.clear();
        NEXT_KEY.set(0);
        CLOCK_AHEAD.set(0);
        isOver = false;
        if (option("ttl", 0) == 1) {
            Expiring.setClock();
        }
    }

    private static void write(Path home) throws Exception {
        Path used = Path.of(home + ".used-" + ++written);
        Files.createDirectory(used);
        copy(home, used);
        Random random = new Random(option("seed", 0));
        env = new Environment(used.toFile(), environmentConfig());
        List<Writer> writers = new ArrayList<>();
        try {
            openTables();
            for (int i = 0; i < option("threads", 3); i++) {
                writers.add(new Writer(i, random.nextLong()));
            }
            int stopAt = 50 + random.nextInt(45);
            for (Writer writer : writers) {
                writer.start();
            }
            if (option("end", HALT) == HALT_BUSY) {
                while (writers.get(0).isAlive() && writers.get(0).percent < stopAt) {
                    Thread.sleep(0, 100_000);
                }
                copy(used, home);
                return;
            }
            for (Writer writer : writers) {
                writer.join();
            }
            for (Writer writer : writers) {
                if (writer.failure != null) {
                    throw new IllegalStateException("thread " + writer.number, writer.failure);
                }
            }
            if (option("end", HALT) == CLOSE) {
                close(writers);
            }
            copy(used, home);
        } finally {
            isOver = true;
            for (Writer writer : writers) {
                writer.join();
            }
            giveUp(env, used);
        }
    }

    /**
     * Replaces the files of a directory by those of another one, as they are at one moment.
     *
     * <p>A log only grows, so that it is enough to know the sizes; those of later files come first.
     */
    private static void copy(Path from, Path to) throws IOException {
        for (boolean isWhole = false; !isWhole; ) {
            for (File old : to.toFile().listFiles()) {
                Files.delete(old.toPath());
            }
            File[] files = from.toFile().listFiles((folder, name) -> !name.equals("je.lck"));
            Arrays.sort(files, Comparator.comparing(File::getName).reversed());
            long[] sizes = Arrays.stream(files).mapToLong(File::length).toArray();
            try {
                for (int i = 0; i < files.length; i++) {
                    byte[] data = Files.readAllBytes(files[i].toPath());
                    int size = (int) Math.min(sizes[i], data.length);
                    Files.write(to.resolve(files[i].getName()), Arrays.copyOf(data, size));
                }
                isWhole = true;
            } catch (NoSuchFileException removed) {
                // The cleaner removed it after the listing: the copies never existed together.
                continue;
            }
        }
    }

    /** Gives an environment up, in a thread: some of the engine's threads end after seconds only. */
    private static void giveUp(Environment env, Path used) {
        Runnable closing =
                () -> {
                    try {
                        DbInternal.getEnvironmentImpl(env).abnormalClose();
                    } catch (RuntimeException | Error open) {
                        // It is closed already, or its transactions are open as at the halt.
                    }
                    for (File file : used.toFile().listFiles()) {
                        file.delete();
                    }
                    used.toFile().delete();
                };
        Thread thread = new Thread(closing);
        thread.setDaemon(true);
        thread.start();
    }

    private static int option(String name, int otherwise) {
        return OPTIONS.getOrDefault(name, otherwise);
    }

    private static void close(List<Writer> writers) {
        for (Writer writer : writers) {
            for (Transaction txn : writer.unclosed) {
                txn.abort();
            }
        }
        for (Table table : TABLES) {
            table.db.close();
        }
        env.close();
    }

    private static EnvironmentConfig environmentConfig() {
        EnvironmentConfig config = new EnvironmentConfig();
        config.setAllowCreate(true);
        config.setTransactional(true);
        config.setLockTimeout(5, TimeUnit.MILLISECONDS);
        config.setConfigParam("je.log.fileMax", "" + option("fileMax", 1_000_000));
        config.setConfigParam("je.maxMemory", "" + option("cache", 16_000_000));
        config.setConfigParam("je.log.totalBufferBytes", "" + option("buffers", 1_000_000));
        String daemons = "" + (option("daemons", 0) == 1);
        for (String name : "Evictor Checkpointer Cleaner INCompressor".split(" ")) {
            config.setConfigParam("je.env.run" + name, daemons);
        }
        // JE 18.3.12 fails when it has evicted a database that is on its way out.
        config.setConfigParam("je.env.dbEviction", "false");
        config.setConfigParam("je.checkpointer.bytesInterval", "200000");
        config.setConfigParam("je.cleaner.expunge", "" + (option("expunge", 1) == 1));
        config.setConfigParam("je.cleaner.minUtilization", "80");
        config.setConfigParam("je.cleaner.minFileUtilization", "50");
        config.setConfigParam("je.cleaner.bytesInterval", "300000");
        config.setConfigParam("je.compressor.wakeupInterval", "1 s");
        String extinct = "" + (option("extinct", 0) == 1);
        String[] values = {"0", "false", "" + option("embedded", 16), "2", extinct};
        for (int i = 0; i < values.length; i++) {
            try {
                config.setConfigParam(SOME_ENGINES_HAVE_NOT[i], values[i]);
            } catch (IllegalArgumentException unknown) {
                continue;
            }
        }
        return config;
    }

    private static void openTables() {
        int nodeMax = option("nodeMax", 128);
        TABLES.add(new Table("plain", nodeMax, false, false, false));
        TABLES.add(new Table("narrow nodes", 4, false, false, false));
        TABLES.add(new Table("dups", nodeMax, true, false, false));
        TABLES.add(new Table("pr\u00e4fix/a:b", 4 + nodeMax / 3, false, false, false));
        if (option("ttl", 0) == 1) {
            TABLES.add(new Table("ttl", nodeMax, false, true, false));
            TABLES.add(new Table("ttl dups", 6, true, true, false));
        }
        if (option("deferred", 0) == 1) {
            TABLES.add(new Table("deferred", nodeMax, false, false, true));
        }
    }

    /** A database that is there from the beginning to the end. */
    private static final class Table {
        final Database db;
        final boolean dups;
        final boolean expires;
        final boolean deferred;

        Table(String name, int nodeMax, boolean dups, boolean expires, boolean deferred) {
            this.dups = dups;
            this.expires = expires;
            this.deferred = deferred;
            DatabaseConfig config = new DatabaseConfig();
            config.setAllowCreate(true);
            config.setTransactional(!deferred);
            config.setDeferredWrite(deferred);
            config.setSortedDuplicates(dups);
            config.setNodeMaxEntries(nodeMax);
            config.setKeyPrefixing(dups || name.startsWith("pr"));
            db = env.openDatabase(null, name, config);
        }
    }

    /** One of the threads: transactions, one after the other. */
    private static final class Writer extends Thread {
        final int number;
        final Random random;
        final List<Transaction> unclosed = new ArrayList<>();
        final List<String> made = new ArrayList<>();
        volatile int percent;
        Throwable failure;

        Writer(int number, long seed) {
            this.number = number;
            random = new Random(seed);
            for (String name : env.getDatabaseNames()) {
                if (name.startsWith(prefix())) {
                    made.add(name);
                }
            }
        }

        @Override
        public void run() {
            try {
                if (number == 0) {
                    load();
                }
                int count = option("transactions", 100);
                for (int i = 0; i < count && !isOver; i++) {
                    percent = 100 * i / count;
                    if (number == 0) {
                        attend(i, count);
                    }
                    one(i > count / 2);
                }
            } catch (Throwable thrown) {
                failure = thrown;
            }
        }

        private void load() {
            for (Table table : TABLES) {
                int left = option("load", 0);
                while (left > 0 && !isOver) {
                    Transaction txn = table.deferred ? null : env.beginTransaction(null, null);
                    try {
                        for (int i = 1 + random.nextInt(400); i > 0 && left > 0; i--, left--) {
                            DatabaseEntry data = new DatabaseEntry(value(table));
                            table.db.put(txn, new DatabaseEntry(key(table)), data);
                        }
                    } catch (LockConflictException met) {
                        txn.abort();
                        continue;
                    }
                    if (txn != null) {
                        txn.commit();
                    }
                }
            }
        }

        /** Does what is due between transactions: checkpoints, cleaning, the clock. */
        private void attend(int i, int count) {
            int checkpoints = option("checkpoints", 0), jumps = option("jumps", 0);
            if (jumps > 0 && i % (count / jumps + 1) == count / jumps) {
                CLOCK_AHEAD.addAndGet(HOUR);
            }
            if (checkpoints == 0 || i % (count / checkpoints + 1) != count / checkpoints) {
                return;
            }
            if (option("clean", 0) == 1) {
                while (env.cleanLog() > 0) {
                    continue;
                }
            }
            if (random.nextBoolean()) {
                env.compress();
            }
            CheckpointConfig config = new CheckpointConfig().setForce(true);
            env.checkpoint(config.setMinimizeRecoveryTime(random.nextInt(4) == 0));
            if (random.nextInt(3) == 0) {
                env.evictMemory();
            }
        }

        private void one(boolean mayStayOpen) {
            TransactionConfig config = new TransactionConfig();
            Durability[] choice = {Durability.COMMIT_NO_SYNC, Durability.COMMIT_WRITE_NO_SYNC};
            config.setDurability(choice[random.nextInt(2)]);
            Transaction txn = env.beginTransaction(null, config);
            List<String> before = new ArrayList<>(made);
            try {
                if (option("structure", 0) == 1 && random.nextInt(8) == 0) {
                    restructure(txn);
                } else {
                    Table table = TABLES.get(random.nextInt(TABLES.size()));
                    for (int i = random.nextInt(MOST_OPERATIONS); i >= 0; i--) {
                        if (random.nextInt(4) == 0) {
                            table = TABLES.get(random.nextInt(TABLES.size()));
                        }
                        operate(table, table.deferred ? null : txn);
                    }
                }
            } catch (LockConflictException met) {
                end(txn, false, before);
                return;
            }
            int fate = random.nextInt(100);
            if (mayStayOpen && fate < 10 && unclosed.size() < option("unclosed", 2)) {
                // Databases that it made stay locked, so later transactions must not use them.
                made.retainAll(before);
                unclosed.add(txn);
            } else {
                end(txn, fate >= 25, before);
            }
        }

        private void end(Transaction txn, boolean commits, List<String> before) {
            if (commits) {
                txn.commit();
            } else {
                txn.abort();
                made.clear();
                made.addAll(before);
            }
        }

        private void operate(Table table, Transaction txn) {
            Database db = table.db;
            DatabaseEntry key = new DatabaseEntry(key(table));
            DatabaseEntry data = new DatabaseEntry(value(table));
            int kind = random.nextInt(20);
            if (kind < 8) {
                if (table.expires && random.nextInt(5) > 0) {
                    Expiring.put(db, txn, key, data, random);
                } else {
                    db.put(txn, key, data);
                }
            } else if (kind < 10) {
                db.putNoOverwrite(txn, key, data);
            } else if (kind < 12) {
                db.delete(txn, key);
            } else if (kind < 14) {
                db.delete(txn, key);
                db.put(txn, key, data);
            } else if (kind < 15 && table.deferred) {
                db.sync();
            } else {
                walk(table, txn, key);
            }
        }

        /** A cursor that changes or removes some of the records that it meets. */
        private void walk(Table table, Transaction txn, DatabaseEntry key) {
            boolean removes = random.nextInt(10) == 0, backward = random.nextInt(3) == 0;
            Cursor cursor = table.db.openCursor(txn, CursorConfig.DEFAULT);
            try {
                DatabaseEntry data = new DatabaseEntry();
                OperationStatus status = cursor.getSearchKeyRange(key, data, null);
                for (int i = random.nextInt(removes ? 40 : 6); i >= 0; i--) {
                    if (status != OperationStatus.SUCCESS) {
                        return;
                    }
                    if (removes || random.nextInt(6) == 0) {
                        cursor.delete();
                    } else if (!table.dups) {
                        cursor.putCurrent(new DatabaseEntry(value(table)));
                    }
                    status =
                            backward
                                    ? cursor.getPrev(key, data, null)
                                    : cursor.getNext(key, data, null);
                }
            } finally {
                cursor.close();
            }
        }

        private byte[] key(Table table) {
            int keys = option("keys", 1000);
            if (table.dups) {
                return text("dup" + random.nextInt(keys / 30 + 1));
            }
            int kind = random.nextInt(20);
            if (kind < 12) {
                return text(String.format("k%06d", random.nextInt(keys)));
            }
            if (kind < 15) {
                return text("a/long/prefix/of/many/keys/" + random.nextInt(keys));
            }
            if (kind < 19) {
                int next = NEXT_KEY.getAndIncrement();
                return new byte[] {1, (byte) (next >> 16), (byte) (next >> 8), (byte) next};
            }
            return bytes(random.nextInt(5));
        }

        private byte[] value(Table table) {
            int kind = random.nextInt(20);
            if (table.dups) {
                return kind < 18 ? bytes(1 + random.nextInt(6)) : bytes(random.nextInt(60));
            }
            if (kind < 9) {
                return bytes(random.nextInt(17));
            }
            int large = option("large", 0);
            return bytes(random.nextInt(kind == 19 && large > 0 ? large : 150));
        }

        private byte[] bytes(int size) {
            byte[] made = new byte[size];
            random.nextBytes(made);
            return made;
        }

        // Databases that come and go. Each thread has its own, by their names.

        private String prefix() {
            return "made " + number + "/";
        }

        private String newName() {
            return prefix() + Integer.toHexString(random.nextInt(64));
        }

        private void restructure(Transaction txn) {
            for (int i = random.nextInt(3); i >= 0; i--) {
                int kind = made.isEmpty() ? 0 : random.nextInt(6);
                String name = made.isEmpty() ? null : made.get(random.nextInt(made.size()));
                if (kind <= 1) {
                    fill(txn, newName());
                } else if (kind == 2) {
                    String other = newName();
                    if (!env.getDatabaseNames().contains(other) && !made.contains(other)) {
                        env.renameDatabase(txn, name, other);
                        made.remove(name);
                        made.add(other);
                    }
                } else if (kind == 3) {
                    env.truncateDatabase(txn, name, false);
                } else if (kind == 4) {
                    env.removeDatabase(txn, name);
                    made.remove(name);
                } else {
                    fill(txn, name);
                }
            }
        }

        /** Makes a database, or opens the existing one, and writes to it. */
        private void fill(Transaction txn, String name) {
            DatabaseConfig config = new DatabaseConfig();
            config.setAllowCreate(true);
            config.setTransactional(true);
            config.setNodeMaxEntries(4 + random.nextInt(8));
            config.setUseExistingConfig(made.contains(name));
            Database db = env.openDatabase(txn, name, config);
            try {
                for (int i = random.nextInt(25); i >= 0; i--) {
                    DatabaseEntry key = new DatabaseEntry(text("m" + random.nextInt(99)));
                    db.put(txn, key, new DatabaseEntry(bytes(random.nextInt(40))));
                }
            } finally {
                db.close();
            }
            if (!made.contains(name)) {
                made.add(name);
            }
        }
    }

    private static byte[] text(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    /** Records that expire, and the clock by which they do; by reflection, for older engines. */
    private static final class Expiring {
        private static final Method PUT, SET_TTL, SET_UPDATE_TTL;
        private static final Object OVERWRITE;

        static {
            try {
                Class<?> put = Class.forName("com.sleepycat.je.Put");
                Class<?> options = Class.forName("com.sleepycat.je.WriteOptions");
                Class<?> txn = Transaction.class, entry = DatabaseEntry.class;
                PUT = Database.class.getMethod("put", txn, entry, entry, put, options);
                SET_TTL = options.getMethod("setTTL", int.class, TimeUnit.class);
                SET_UPDATE_TTL = options.getMethod("setUpdateTTL", boolean.class);
                OVERWRITE = put.getField("OVERWRITE").get(null);
            } catch (ReflectiveOperationException e) {
                throw new IllegalStateException("this engine has no TTL", e);
            }
        }

        static void put(
                Database db,
                Transaction txn,
                DatabaseEntry key,
                DatabaseEntry data,
                Random random) {
            boolean hours = random.nextBoolean();
            int ttl = 1 + random.nextInt(hours ? 30 : 12);
            try {
                Object options = PUT.getParameterTypes()[4].getConstructor().newInstance();
                SET_TTL.invoke(options, ttl, hours ? TimeUnit.HOURS : TimeUnit.DAYS);
                SET_UPDATE_TTL.invoke(options, true);
                PUT.invoke(db, txn, key, data, OVERWRITE, options);
            } catch (java.lang.reflect.InvocationTargetException e) {
                throw (DatabaseException) e.getCause();
            } catch (ReflectiveOperationException e) {
                throw new IllegalStateException(e);
            }
        }

        static void setClock() throws ReflectiveOperationException {
            Class<?> hook = Class.forName("com.sleepycat.je.utilint.TestHook");
            Object clock =
                    Proxy.newProxyInstance(
                            hook.getClassLoader(),
                            new Class<?>[] {hook},
                            (self, method, arguments) ->
                                    method.getName().equals("getHookValue")
                                            ? System.currentTimeMillis() + CLOCK_AHEAD.get()
                                            : null);
            Class<?> ttl = Class.forName("com.sleepycat.je.dbi.TTL");
            ttl.getMethod("setTimeTestHook", hook).invoke(null, clock);
        }
    }
}
