import com.sleepycat.je.Cursor;
import com.sleepycat.je.Database;
import com.sleepycat.je.DatabaseConfig;
import com.sleepycat.je.DatabaseEntry;
import com.sleepycat.je.DatabaseNotFoundException;
import com.sleepycat.je.DbInternal;
import com.sleepycat.je.Environment;
import com.sleepycat.je.EnvironmentConfig;
import com.sleepycat.je.LockMode;
import com.sleepycat.je.OperationStatus;
import java.io.File;
import java.io.IOException;
import java.io.PrintWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.SortedMap;
import java.util.TreeMap;
import java.util.TreeSet;

/**
 * Cuts a log at many places, and prints the records that the engine finds at each.
 *
 * <p>{@code java -cp JE_JAR:CLASSES Cuts}, compiled with Records.
 *
 * <p>A line of standard input asks for some cuts of one log: {@code HOME TAB ANSWER TAB SCRATCH TAB
 * MODE TAB FILE:OFFSET,...}, both decimal. SCRATCH is an empty folder, MODE is {@code sums},
 * {@code records} or {@code search}. A line of standard output means that the file ANSWER is
 * complete. In it, {@code #cut TAB FILE TAB OFFSET} opens a cut, and each database is a line {@code
 * #db TAB NAME TAB COUNT TAB SHA-256}. The digest covers each record in the order of the database:
 * four bytes with the length of the key, the key, and the same of the data. In mode {@code records}
 * each of them is a line {@code KEY TAB DATA} in hexadecimal before that. A line {@code #failed TAB
 * NAME TAB CLASS TAB MESSAGE} stands for a database that cannot be read. A name without a database
 * is left out. {@code #refused TAB STAGE TAB CLASS TAB MESSAGE} ends a cut as it ends an answer of
 * Records.
 *
 * <p>In mode {@code search} a sixth word names a file of records, in the form of an answer: lines
 * {@code KEY TAB DATA}, and {@code #db TAB NAME} after those of a database. The answer has those
 * that a search finds. Searches start at the root. A cursor goes from one node to the next, and the
 * engine goes astray there if a node has keys outside its range.
 *
 * <p>The engine opens each cut to write, so that recovery runs as usual. The environment is given
 * up, not closed: a close would only write a checkpoint.
 */
public final class Cuts {
    private static final char[] DIGITS = "0123456789abcdef".toCharArray();
    private static final int MOST_RECORDS = 1_000_000;

    private Cuts() {}

    public static void main(String[] args) throws Exception {
        Questions.answer(
                (cells, out) -> {
                    Reader reader = new Reader(cells[3], cells.length > 5 ? cells[5] : null, out);
                    answer(new File(cells[0]), new File(cells[2]), cells[4], reader);
                });
    }

    private static void answer(File home, File scratch, String cuts, Reader reader)
            throws Exception {
        SortedMap<Integer, byte[]> files = new TreeMap<>();
        for (File file : home.listFiles()) {
            if (file.getName().endsWith(".jdb")) {
                int number = Integer.parseInt(file.getName().substring(0, 8), 16);
                files.put(number, Files.readAllBytes(file.toPath()));
            }
        }
        for (String cut : cuts.split(",")) {
            String[] parts = cut.split(":");
            int file = Integer.parseInt(parts[0]), offset = Integer.parseInt(parts[1]);
            reader.out.print("#cut\t" + file + "\t" + offset + "\n");
            // An engine that failed may still hold an environment of the same path.
            File place = new File(scratch, file + "-" + offset);
            write(files, file, offset, place.toPath());
            judge(place, reader);
            for (File each : place.listFiles()) {
                each.delete();
            }
            place.delete();
        }
    }

    private static void write(SortedMap<Integer, byte[]> files, int last, int offset, Path place)
            throws IOException {
        Files.createDirectories(place);
        for (int number : files.headMap(last + 1).keySet()) {
            byte[] bytes = files.get(number);
            bytes = number == last ? Arrays.copyOf(bytes, offset) : bytes;
            Files.write(place.resolve(String.format("%08x.jdb", number)), bytes);
        }
    }

    private static void judge(File place, Reader reader) {
        Environment env = null;
        try {
            env = new Environment(place, config());
            try {
                reader.read(env);
            } catch (Exception | Error e) {
                Records.refuse(reader.out, "read", e);
            }
        } catch (Exception | Error e) {
            Records.refuse(reader.out, "open", e);
        }
        try {
            if (env != null) {
                DbInternal.getEnvironmentImpl(env).abnormalClose();
            }
        } catch (Exception | Error e) {
            // Its answer is complete.
            return;
        }
    }

    private static EnvironmentConfig config() {
        EnvironmentConfig config = Records.config(false);
        config.setConfigParam("je.maxMemory", "16000000");
        config.setConfigParam("je.log.totalBufferBytes", "200000");
        config.setConfigParam("com.sleepycat.je.util.FileHandler.level", "OFF");
        config.setConfigParam("com.sleepycat.je.util.ConsoleHandler.level", "OFF");
        Records.set(config, "je.stats.collect", "false");
        Records.set(config, "je.log.detectFileDelete", "false");
        Records.set(config, "je.env.runOffHeapEvictor", "false");
        return config;
    }

    private static Database open(Environment env, String name) {
        DatabaseConfig config = new DatabaseConfig();
        config.setUseExistingConfig(true);
        config.setTransactional(true);
        try {
            return env.openDatabase(null, name, config);
        } catch (IllegalArgumentException notTransactional) {
            return env.openDatabase(null, name, config.setTransactional(false));
        }
    }

    private static void add(MessageDigest digest, byte[] bytes) {
        int size = bytes.length;
        byte[] head = {
            (byte) (size >> 24), (byte) (size >> 16), (byte) (size >> 8), (byte) size
        };
        digest.update(head);
        digest.update(bytes);
    }

    private static byte[] bytes(String hex) {
        byte[] made = new byte[hex.length() / 2];
        for (int i = 0; i < made.length; i++) {
            made[i] = (byte) Integer.parseInt(hex.substring(2 * i, 2 * i + 2), 16);
        }
        return made;
    }

    private static String hex(byte[] bytes) {
        StringBuilder text = new StringBuilder();
        for (byte each : bytes) {
            text.append(DIGITS[each >> 4 & 15]).append(DIGITS[each & 15]);
        }
        return text.toString();
    }

    /** Prints records of environments in the chosen mode. */
    private static final class Reader {
        final PrintWriter out;
        private final boolean withRecords;
        private final Map<String, List<String[]>> candidates;

        Reader(String mode, String file, PrintWriter out) throws IOException {
            this.out = out;
            withRecords = !mode.equals("sums");
            candidates = mode.equals("search") ? new HashMap<>() : null;
            List<String> lines = file == null ? List.of() : Files.readAllLines(Path.of(file));
            List<String[]> some = new ArrayList<>();
            for (String line : lines) {
                String[] parts = line.split("\t", -1);
                if (parts[0].equals("#db")) {
                    candidates.put(parts[1], some);
                    some = new ArrayList<>();
                } else {
                    some.add(parts);
                }
            }
        }

        void read(Environment env) throws Exception {
            for (String name : new TreeSet<>(env.getDatabaseNames())) {
                if (candidates != null && !candidates.containsKey(name)) {
                    continue;
                }
                try (Database db = open(env, name)) {
                    read(name, db);
                } catch (DatabaseNotFoundException onlyItsName) {
                    continue;
                } catch (Exception | Error e) {
                    if (!env.isValid()) {
                        throw e;
                    }
                    out.print("#failed\t" + name + "\t" + e.getClass().getName() + "\t");
                    out.print(String.valueOf(e.getMessage()).replaceAll("\\s+", " ") + "\n");
                }
            }
        }

        private void read(String name, Database db) throws Exception {
            MessageDigest digest = MessageDigest.getInstance("SHA-256");
            int count = 0;
            try (Cursor cursor = db.openCursor(null, null)) {
                count = candidates == null ? scan(cursor, digest) : search(cursor, name, digest);
            }
            out.print("#db\t" + name + "\t" + count + "\t" + hex(digest.digest()) + "\n");
        }

        private int scan(Cursor cursor, MessageDigest digest) {
            DatabaseEntry key = new DatabaseEntry(), data = new DatabaseEntry();
            int count = 0;
            while (cursor.getNext(key, data, LockMode.READ_UNCOMMITTED)
                    == OperationStatus.SUCCESS) {
                count += 1;
                if (count > MOST_RECORDS) {
                    throw new IllegalStateException("a scan without an end");
                }
                tell(key, data, digest);
            }
            return count;
        }

        private int search(Cursor cursor, String name, MessageDigest digest) {
            int count = 0;
            for (String[] pair : candidates.get(name)) {
                DatabaseEntry key = new DatabaseEntry(bytes(pair[0]));
                DatabaseEntry data = new DatabaseEntry(bytes(pair[1]));
                if (cursor.getSearchBoth(key, data, LockMode.READ_UNCOMMITTED)
                        == OperationStatus.SUCCESS) {
                    count += 1;
                    tell(key, data, digest);
                }
            }
            return count;
        }

        private void tell(DatabaseEntry key, DatabaseEntry data, MessageDigest digest) {
            add(digest, key.getData());
            add(digest, data.getData());
            if (withRecords) {
                out.print(hex(key.getData()) + "\t" + hex(data.getData()) + "\n");
            }
        }
    }
}
