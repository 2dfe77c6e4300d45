import com.sleepycat.je.Environment;
import com.sleepycat.je.EnvironmentConfig;
import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;

/**
 * Opens one environment after the other, and keeps each open until it is told to close it.
 *
 * <p>{@code java -cp JE_JAR:CLASSES Holds}
 *
 * <p>A line of standard input names an environment: {@code DIR TAB rw|ro}. The answer is the line
 * "open", or the name of the exception with which the engine refused. The next line, whatever it
 * says, closes the environment; the answer is the line "closed".
 */
public final class Holds {
    private Holds() {}

    public static void main(String[] args) throws Exception {
        BufferedReader asked =
                new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = asked.readLine(); line != null; line = asked.readLine()) {
            String[] parts = line.split("\t");
            Environment env = null;
            String answer = "open";
            try {
                env = new Environment(new File(parts[0]), config(parts[1]));
            } catch (RuntimeException refused) {
                answer = refused.getClass().getSimpleName();
            }
            System.out.println(answer);
            asked.readLine();
            close(env);
            System.out.println("closed");
        }
    }

    private static EnvironmentConfig config(String mode) {
        EnvironmentConfig config = new EnvironmentConfig();
        config.setReadOnly(mode.equals("ro"));
        config.setTransactional(true);
        return config;
    }

    private static void close(Environment env) {
        try {
            if (env != null) {
                env.close();
            }
        } catch (RuntimeException failed) {
            // Its log may have been cut meanwhile; errors of the close do not matter.
            return;
        }
    }
}
