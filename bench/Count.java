import com.sleepycat.je.Database;
import com.sleepycat.je.DatabaseConfig;
import com.sleepycat.je.Environment;
import com.sleepycat.je.EnvironmentConfig;
import java.io.File;

/**
 * Counts the records of every database with the engine's Database.count, beside `je-tools count`.
 *
 * <p>{@code java -cp JE_JAR:CLASSES Count HOME}
 */
public final class Count {
    private Count() {}

    public static void main(String[] args) throws Exception {
        EnvironmentConfig config = new EnvironmentConfig();
        config.setReadOnly(true);
        try (Environment environment = new Environment(new File(args[0]), config)) {
            for (String name : environment.getDatabaseNames()) {
                DatabaseConfig own = new DatabaseConfig();
                own.setReadOnly(true);
                own.setUseExistingConfig(true);
                try (Database database = environment.openDatabase(null, name, own)) {
                    System.out.println(name + "\t" + database.count());
                }
            }
        }
    }
}
