import com.sleepycat.je.Environment;
import com.sleepycat.je.EnvironmentConfig;
import java.io.File;

/**
 * Opens an environment and keeps it open until its standard input ends.
 *
 * <p>{@code java -cp JE_JAR tests/engine/Holds.java DIR rw|ro}
 *
 * <p>Prints "open" when it is open, or the name of the exception with which the engine refused.
 */
public final class Holds {
    private Holds() {}

    public static void main(String[] args) throws Exception {
        EnvironmentConfig config = new EnvironmentConfig();
        config.setReadOnly(args[1].equals("ro"));
        config.setTransactional(true);
        try (Environment env = new Environment(new File(args[0]), config)) {
            System.out.println("open");
            System.in.readAllBytes();
        } catch (RuntimeException refused) {
            System.out.println(refused.getClass().getSimpleName());
        }
    }
}
