import com.sleepycat.je.Environment;
import com.sleepycat.je.EnvironmentConfig;
import com.sleepycat.je.util.DbSpace;
import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.List;

/**
 * Runs command line tools of the engine, and programs of this folder, one after the other.
 *
 * <p>{@code java -cp JE_JAR tests/engine/Tools.java}
 *
 * <p>A line of standard input asks for one run: {@code OUT TAB TOOL [TAB ARGUMENT]...}. The output
 * of the tool is in the file OUT when standard output has the line {@code done}, or {@code failed
 * TAB REASON} if the tool has thrown. Of DbSpace, which ends its JVM, the options -r, -d and -t (in
 * milliseconds) are understood. {@code Clock} sets the time in milliseconds by which records expire
 * from then on; 0 is the time of the machine.
 */
public final class Tools {
    private Tools() {}

    public static void main(String[] args) throws Exception {
        Records.setClock();
        PrintStream answers = System.out;
        BufferedReader asked =
                new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = asked.readLine(); line != null; line = asked.readLine()) {
            String[] parts = line.split("\t");
            String[] arguments = Arrays.copyOfRange(parts, 2, parts.length);
            String answer = "done";
            try (PrintStream out = new PrintStream(new File(parts[0]), StandardCharsets.UTF_8)) {
                System.setOut(out);
                run(parts[1], arguments, out);
            } catch (Exception | Error thrown) {
                answer = "failed\t" + String.valueOf(thrown).replaceAll("\\s+", " ");
            } finally {
                System.setOut(answers);
            }
            answers.println(answer);
            answers.flush();
        }
        Runtime.getRuntime().halt(0);
    }

    private static void run(String tool, String[] arguments, PrintStream out) throws Exception {
        if (tool.equals("DbSpace")) {
            space(Arrays.asList(arguments), out);
            return;
        }
        if (tool.equals("Clock")) {
            Records.now = Long.parseLong(arguments[0]);
            return;
        }
        Class<?> found = Class.forName((tool.startsWith("Db") ? "com.sleepycat.je.util." : "") + tool);
        found.getMethod("main", String[].class).invoke(null, (Object) arguments);
    }

    private static void space(List<String> arguments, PrintStream out) {
        EnvironmentConfig config = new EnvironmentConfig();
        config.setReadOnly(true);
        File home = new File(arguments.get(arguments.indexOf("-h") + 1));
        try (Environment env = new Environment(home, config)) {
            DbSpace space = new DbSpace(env, false, arguments.contains("-d"), false);
            space.setRecalculate(arguments.contains("-r"));
            int time = arguments.indexOf("-t");
            if (time >= 0) {
                space.setTime(Long.parseLong(arguments.get(time + 1)));
            }
            space.print(out);
        }
    }
}
