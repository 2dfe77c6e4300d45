import com.sleepycat.je.CheckpointConfig;
import com.sleepycat.je.Database;
import com.sleepycat.je.DatabaseConfig;
import com.sleepycat.je.DatabaseNotFoundException;
import com.sleepycat.je.Environment;
import com.sleepycat.je.EnvironmentConfig;
import com.sleepycat.je.ProgressListener;
import com.sleepycat.je.RecoveryProgress;
import com.sleepycat.je.VerifyConfig;
import com.sleepycat.je.util.DbVerifyLog;
import java.io.ByteArrayOutputStream;
import java.io.File;
import java.io.PrintStream;
import java.io.PrintWriter;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.TimeUnit;
import java.util.logging.Handler;
import java.util.logging.Level;
import java.util.logging.LogRecord;

/**
 * Asks the engine whether it accepts environments that it has not written alone.
 *
 * <p>{@code java -cp JE_JAR:CLASSES Acceptance}, compiled with Records, Nodes, Crashes and Workload.
 *
 * <p>A line of standard input asks one thing of one environment: {@code HOME TAB ANSWER TAB
 * QUESTION TAB NOW [TAB ARGUMENT]...}; a line of standard output says that the file ANSWER is
 * complete. NOW is the time in milliseconds by which records expire. NODE is one of a group, as
 * Nodes expects it. QUESTION is one of
 *
 * <ul>
 *   <li>{@code rw}, {@code ro}: the records, as Records prints them;
 *   <li>{@code recover [NODE|twice]}: opened to read and write, and closed, so that the
 *       engine recovers it; {@code twice} adds one more checkpoint;
 *   <li>{@code check}: opened to read; its trees, data, obsolete entries and log are verified,
 *       and then its records are printed;
 *   <li>{@code quiet [NODE]}: opened to read and write, each database with its own configuration,
 *       and closed; the answer has the reports of recovery, and its phases;
 *   <li>{@code crash STATE ARGUMENT}: an empty directory; gets the log of a crash, see Crashes;
 *   <li>{@code work SEED TRANSACTIONS [NODE]}: the records, and then a workload (see Workload), in
 *       an engine that cleans and checkpoints, and has little memory; a node leads its group.
 * </ul>
 *
 * <p>An answer has records as those of Records, and lines {@code #problem TAB TEXT}, {@code #report
 * TAB TEXT}, {@code #progress TAB PHASE}; {@code #refused} ends one that is not complete.
 */
public final class Acceptance {
    private static final List<String> HEARD = new CopyOnWriteArrayList<>();

    private Acceptance() {}

    public static void main(String[] args) throws Exception {
        Records.setClock();
        Questions.answer(
                (cells, out) -> {
                    Records.now = Long.parseLong(cells[3]);
                    String[] arguments = Arrays.copyOfRange(cells, 4, cells.length);
                    answer(new File(cells[0]), cells[2], arguments, out);
                });
    }

    private static void answer(File home, String question, String[] arguments, PrintWriter out) {
        HEARD.clear();
        try {
            switch (question) {
                case "rw":
                case "ro":
                    Records.answer(home, question.equals("ro"), out);
                    break;
                case "recover":
                    recover(home, arguments);
                    break;
                case "check":
                    check(home, out);
                    break;
                case "quiet":
                    openQuietly(home, out, arguments);
                    break;
                case "crash":
                    Crashes.leave(home, arguments[0], arguments[1]);
                    break;
                case "work":
                    long seed = Long.parseLong(arguments[0]);
                    String node = arguments.length > 2 ? arguments[2] : null;
                    new Workload(home, node, seed, out).run(Integer.parseInt(arguments[1]));
                    break;
                default:
                    throw new IllegalArgumentException(question);
            }
        } catch (Exception | Error thrown) {
            Records.refuse(out, question, thrown);
        }
        for (String heard : HEARD) {
            out.print("#problem\t" + heard + "\n");
        }
    }

    /** Makes each exception of the engine's threads a problem of the current question. */
    static void listen(EnvironmentConfig config) {
        config.setExceptionListener(
                event -> HEARD.add(event.getThreadName() + ": " + oneLine(event.getException())));
    }

    static String oneLine(Object text) {
        return String.valueOf(text).replaceAll("\\s+", " ").trim();
    }

    private static void recover(File home, String[] arguments) {
        boolean twice = Arrays.asList(arguments).contains("twice");
        boolean isNode = arguments.length > 0 && !twice;
        try (Environment env =
                isNode
                        ? Nodes.open(home, finishing(), arguments[0], false)
                        : new Environment(home, finishing())) {
            if (twice) {
                env.checkpoint(new CheckpointConfig().setForce(true));
            }
        }
    }

    private static void check(File home, PrintWriter out) throws Exception {
        EnvironmentConfig config = Records.config(true);
        listen(config);
        try (Environment env = new Environment(home, config)) {
            verify(env, out);
            if (env.isValid()) {
                Records.print(env, true, out);
                return;
            }
        }
        // If the log is damaged, its verification has ended the environment.
        try (Environment env = new Environment(home, config)) {
            Records.print(env, true, out);
        }
    }

    static void verify(Environment env, PrintWriter out) throws Exception {
        VerifyConfig verify = new VerifyConfig();
        set(verify, "setVerifyDataRecords", boolean.class, true);
        set(verify, "setVerifyObsoleteRecords", boolean.class, true);
        set(verify, "setBatchSize", int.class, 1_000_000);
        try {
            VerifyConfig.class
                    .getMethod("setBatchDelay", long.class, TimeUnit.class)
                    .invoke(verify, 0L, TimeUnit.MILLISECONDS);
        } catch (NoSuchMethodException olderEngine) {
            verify.setAggressive(true);
        }
        verify.setPropagateExceptions(true);
        ByteArrayOutputStream said = new ByteArrayOutputStream();
        PrintStream stream = new PrintStream(said, true, StandardCharsets.UTF_8);
        verify.setShowProgressStream(stream);
        try {
            if (!env.verify(verify, stream)) {
                out.print("#problem\tverify: " + oneLine(said) + "\n");
            }
            new DbVerifyLog(env).verifyAll();
        } catch (Exception | Error thrown) {
            out.print("#problem\tverify: " + oneLine(thrown) + "\n");
        }
    }

    private static void set(VerifyConfig config, String name, Class<?> type, Object value)
            throws ReflectiveOperationException {
        try {
            VerifyConfig.class.getMethod(name, type).invoke(config, value);
        } catch (NoSuchMethodException olderEngine) {
            return;
        }
    }

    private static void openQuietly(File home, PrintWriter out, String[] node) {
        EnvironmentConfig config = finishing();
        reportTo(config, out);
        if (node.length > 0) {
            Nodes.open(home, config, node[0], false).close();
            return;
        }
        try (Environment env = new Environment(home, config)) {
            for (String name : env.getDatabaseNames()) {
                try {
                    openAsItIs(env, name).close();
                } catch (DatabaseNotFoundException onlyItsName) {
                    continue;
                }
            }
        }
    }

    /** Returns a configuration that also deletes what is left of removed databases. */
    private static EnvironmentConfig finishing() {
        EnvironmentConfig config = Records.config(false);
        Records.set(config, "je.env.runExtinctRecordScanner", "true");
        return config;
    }

    static Database openAsItIs(Environment env, String name) {
        DatabaseConfig config = new DatabaseConfig();
        config.setTransactional(true);
        config.setUseExistingConfig(true);
        return env.openDatabase(null, name, config);
    }

    /** Prints the reports and phases of recovery. */
    static void reportTo(EnvironmentConfig config, PrintWriter out) {
        listen(config);
        config.setConfigParam("je.env.startupThreshold", "0");
        config.setRecoveryProgressListener(
                new ProgressListener<RecoveryProgress>() {
                    @Override
                    public boolean progress(RecoveryProgress phase, long n, long total) {
                        out.print("#progress\t" + phase + "\n");
                        return true;
                    }
                });
        Handler handler =
                new Handler() {
                    @Override
                    public void publish(LogRecord record) {
                        String message = String.valueOf(record.getMessage());
                        if (message.contains("Environment Open Report")) {
                            message.lines().forEach(l -> out.print("#report\t" + oneLine(l) + "\n"));
                        }
                    }

                    @Override
                    public void flush() {}

                    @Override
                    public void close() {}
                };
        handler.setLevel(Level.ALL);
        config.setLoggingHandler(handler);
    }
}
