import com.sleepycat.je.Database;
import com.sleepycat.je.DatabaseConfig;
import com.sleepycat.je.Environment;
import com.sleepycat.je.EnvironmentConfig;
import java.io.File;

/**
 * What the engine does beside one of our commands: opens an environment, and counts a database.
 *
 * <p>{@code java -cp JE_JAR bench/make/Peer.java DIR [DATABASE]}
 *
 * <p>Read-only, so that a crashed log stays as it is: recovery is done in memory, without the
 * checkpoint that another open would write.
 */
public final class Peer {
    private Peer() {}

    public static void main(String[] args) {
        EnvironmentConfig config = new EnvironmentConfig();
        config.setReadOnly(true);
        config.setTransactional(true);
        config.setCachePercent(60);
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
