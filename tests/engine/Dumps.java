import com.sleepycat.je.Database;
import com.sleepycat.je.DatabaseConfig;
import com.sleepycat.je.Environment;
import com.sleepycat.je.EnvironmentConfig;
import com.sleepycat.je.util.DbDump;
import java.io.File;
import java.io.FileOutputStream;
import java.io.PrintStream;
import java.util.List;

/**
 * Has the engine's DbDump write every database of an environment, and Database.count count them.
 *
 * <p>{@code java -cp JE_JAR tests/engine/Dumps.java HOME FOLDER}
 *
 * <p>The folder gets {@code NUMBER.dump} and {@code NUMBER.print} for each database, and {@code
 * databases.tsv}, of which line NUMBER is its name and count.
 */
public final class Dumps {
    private Dumps() {}

    public static void main(String[] args) throws Exception {
        File home = new File(args[0]), folder = new File(args[1]);
        EnvironmentConfig config = new EnvironmentConfig();
        config.setReadOnly(true);
        try (Environment environment = new Environment(home, config);
                PrintStream list = open(folder, "databases.tsv")) {
            List<String> names = environment.getDatabaseNames();
            for (int i = 0; i < names.size(); i++) {
                DatabaseConfig own = new DatabaseConfig();
                own.setReadOnly(true);
                own.setUseExistingConfig(true);
                try (Database database = environment.openDatabase(null, names.get(i), own)) {
                    list.print(names.get(i) + "\t" + database.count() + "\n");
                }
                for (boolean isPrint : new boolean[] {false, true}) {
                    String name = i + (isPrint ? ".print" : ".dump");
                    try (PrintStream out = open(folder, name)) {
                        new DbDump(environment, names.get(i), out, isPrint).dump();
                    }
                }
            }
        }
    }

    private static PrintStream open(File folder, String name) throws Exception {
        return new PrintStream(new FileOutputStream(new File(folder, name)), false, "UTF-8");
    }
}
