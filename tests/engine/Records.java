import com.sleepycat.je.Cursor;
import com.sleepycat.je.Database;
import com.sleepycat.je.DatabaseConfig;
import com.sleepycat.je.DatabaseEntry;
import com.sleepycat.je.DatabaseNotFoundException;
import com.sleepycat.je.Environment;
import com.sleepycat.je.EnvironmentConfig;
import com.sleepycat.je.LockMode;
import com.sleepycat.je.OperationStatus;
import java.io.File;
import java.io.IOException;
import java.io.PrintWriter;
import java.lang.reflect.Proxy;
import java.util.List;
import java.util.TreeSet;

/**
 * Prints the records that the engine finds in environments, once it has recovered them.
 *
 * <p>{@code java -cp JE_JAR tests/engine/Records.java}
 *
 * <p>A line of standard input asks for one environment: {@code HOME TAB ANSWER TAB MODE TAB NOW};
 * MODE is {@code rw} or {@code ro}, NOW the time in milliseconds by which records expire, 0 for
 * the machine's. A line of standard output says that the file ANSWER is complete. In it, {@code
 * #db TAB NAME} opens a database, and each record is a line {@code KEY TAB DATA} in hexadecimal;
 * {@code #refused TAB STAGE TAB CLASS TAB MESSAGE} ends an answer that is not complete: STAGE is
 * {@code open} or the reading of records, {@code read}.
 */
public final class Records {
    private static final char[] DIGITS = "0123456789abcdef".toCharArray();
    private static final String[] DAEMONS = {
        "je.env.runEvictor", "je.env.runCheckpointer", "je.env.runCleaner",
        "je.env.runINCompressor", "je.env.runVerifier", "je.env.runExtinctRecordScanner"
    };
    static volatile long now;

    private Records() {}

    public static void main(String[] args) throws Exception {
        setClock();
        Questions.answer(
                (cells, out) -> {
                    now = Long.parseLong(cells[3]);
                    answer(new File(cells[0]), cells[2].equals("ro"), out);
                });
    }

    static void answer(File home, boolean readOnly, PrintWriter out) throws IOException {
        Environment env = null;
        try {
            env = new Environment(home, config(readOnly));
            try {
                print(env, readOnly, out);
            } catch (Exception | Error e) {
                refuse(out, "read", e);
            }
        } catch (Exception | Error e) {
            refuse(out, "open", e);
        }
        try {
            if (env != null) {
                env.close();
            }
        } catch (Exception | Error e) {
            // The answer is complete; databases that could not be closed do not matter.
            return;
        }
    }

    static void refuse(PrintWriter out, String stage, Throwable thrown) {
        StringBuilder message = new StringBuilder(String.valueOf(thrown.getMessage()));
        // Recovery wraps the first error of the thread that verifies the checkpoint interval.
        for (Throwable why = thrown.getCause(); why != null; why = why.getCause()) {
            message.append(" caused by ").append(why.getMessage());
        }
        String line = message.toString().replaceAll("\\s+", " ");
        out.printf("#refused\t%s\t%s\t%s%n", stage, thrown.getClass().getName(), line);
    }

    static EnvironmentConfig config(boolean readOnly) {
        EnvironmentConfig config = new EnvironmentConfig();
        config.setTransactional(!readOnly);
        config.setReadOnly(readOnly);
        config.setConfigParam("je.maxMemory", "64000000");
        set(config, "je.freeDisk", "0");
        for (String name : DAEMONS) {
            set(config, name, "false");
        }
        return config;
    }

    /** Sets a parameter, unless this version of the engine does not have it. */
    static void set(EnvironmentConfig config, String name, String value) {
        try {
            config.setConfigParam(name, value);
        } catch (IllegalArgumentException unknown) {
            return;
        }
    }

    static void print(Environment env, boolean readOnly, PrintWriter out) {
        List<String> names = env.getDatabaseNames();
        for (String name : new TreeSet<>(names)) {
            DatabaseConfig config = new DatabaseConfig();
            config.setReadOnly(readOnly);
            config.setTransactional(!readOnly);
            config.setUseExistingConfig(true);
            try (Database db = open(env, name, config)) {
                out.print("#db\t" + name + "\n");
                print(db, out);
            } catch (DatabaseNotFoundException onlyItsName) {
                continue;
            }
        }
    }

    private static Database open(Environment env, String name, DatabaseConfig config) {
        try {
            return env.openDatabase(null, name, config);
        } catch (IllegalArgumentException notTransactional) {
            config.setTransactional(false);
            return env.openDatabase(null, name, config);
        }
    }

    private static void print(Database db, PrintWriter out) {
        Cursor cursor = db.openCursor(null, null);
        try {
            DatabaseEntry key = new DatabaseEntry(), data = new DatabaseEntry();
            StringBuilder line = new StringBuilder();
            while (cursor.getNext(key, data, LockMode.READ_UNCOMMITTED)
                    == OperationStatus.SUCCESS) {
                line.setLength(0);
                hex(key.getData(), line).append('\t');
                hex(data.getData(), line).append('\n');
                out.append(line);
            }
        } finally {
            cursor.close();
        }
    }

    private static StringBuilder hex(byte[] bytes, StringBuilder to) {
        for (byte each : bytes) {
            to.append(DIGITS[each >> 4 & 15]).append(DIGITS[each & 15]);
        }
        return to;
    }

    /** Lets records expire by `now`, in engines that have records which expire. */
    static void setClock() throws ReflectiveOperationException {
        Class<?> hook, ttl;
        try {
            hook = Class.forName("com.sleepycat.je.utilint.TestHook");
            ttl = Class.forName("com.sleepycat.je.dbi.TTL");
        } catch (ClassNotFoundException e) {
            return;
        }
        Object clock =
                Proxy.newProxyInstance(
                        hook.getClassLoader(),
                        new Class<?>[] {hook},
                        (self, method, arguments) ->
                                !method.getName().equals("getHookValue")
                                        ? null
                                        : now == 0 ? System.currentTimeMillis() : now);
        ttl.getMethod("setTimeTestHook", hook).invoke(null, clock);
    }
}
