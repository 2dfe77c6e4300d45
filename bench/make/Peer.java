import com.sleepycat.je.Database;
import com.sleepycat.je.DatabaseConfig;
import com.sleepycat.je.Environment;
import com.sleepycat.je.EnvironmentConfig;
import java.io.File;

/**
 * What the engine does beside one of our commands: opens an environment, and counts a database, or
 * opens it to write and closes it.
 *
 * <p>{@code java -cp JE_JAR:CLASSES Peer DIR [DATABASE|--close]}
 *
 * <p>But for the last it is read-only, so that a crashed log stays as it is: recovery is done in
 * memory, without the checkpoint that another open would write.
 */
public final class Peer {
    private Peer() {}

    public static void main(String[] args) {
        boolean closes = args.length > 1 && args[1].equals("--close");
        EnvironmentConfig config = new EnvironmentConfig();
        config.setReadOnly(!closes);
        config.setTransactional(true);
        config.setCachePercent(60);
        if (closes) {
            // Nothing but recovery and the checkpoint, in files of the size of those that are there.
            config.setConfigParam(EnvironmentConfig.ENV_RUN_CLEANER, "false");
            config.setConfigParam(EnvironmentConfig.LOG_FILE_MAX, "100000000");
            new Environment(new File(args[0]), config).close();
            return;
        }
        Environment env = new Environment(new File(args[0]), config);
        if (args.length > 1) {
            DatabaseConfig dbConfig = new DatabaseConfig();
            dbConfig.setReadOnly(true);
            dbConfig.setTransactional(true);
            Database db = env.openDatabase(null, args[1], dbConfig);
            System.out.println(db.count());
        }
        Runtime.getRuntime().halt(0);
    }
}
