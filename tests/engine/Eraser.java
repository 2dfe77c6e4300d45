import com.sleepycat.je.Environment;
import com.sleepycat.je.EnvironmentConfig;
import com.sleepycat.je.EnvironmentStats;
import com.sleepycat.je.utilint.StatGroup;
import java.io.File;

/**
 * Lets the engine's eraser work until no file of its cycle is left.
 *
 * <p>{@code java -cp JE_JAR:CLASSES Eraser HOME PERIOD_SECONDS LONGEST_SECONDS} prints the start of
 * the cycle, its end, and how many files were erased and are left.
 */
public final class Eraser {
    private Eraser() {}

    public static void main(String[] args) throws InterruptedException {
        EnvironmentConfig config = new EnvironmentConfig();
        config.setTransactional(true);
        config.setConfigParam("je.env.runEraser", "true");
        config.setConfigParam("je.erase.period", args[1] + " s");
        config.setConfigParam("je.freeDisk", "0");
        for (String daemon : new String[] {"Checkpointer", "Cleaner", "INCompressor"}) {
            config.setConfigParam("je.env.run" + daemon, "false");
        }
        try (Environment env = new Environment(new File(args[0]), config)) {
            long end = System.currentTimeMillis() + 1000L * Integer.parseInt(args[2]);
            EnvironmentStats stats = env.getStats(null);
            while (!isDone(stats) && System.currentTimeMillis() < end) {
                Thread.sleep(100);
                stats = env.getStats(null);
            }
            for (String name : new String[] {"CycleStart", "CycleEnd", "FilesErased", "FilesRemaining"}) {
                System.out.println(valueOf(stats, name));
            }
        }
    }

    private static boolean isDone(EnvironmentStats stats) {
        return !valueOf(stats, "FilesErased").equals(0) && valueOf(stats, "FilesRemaining").equals(0);
    }

    private static Object valueOf(EnvironmentStats stats, String name) {
        for (StatGroup group : stats.getStatGroups()) {
            for (var stat : group.getStats().entrySet()) {
                if (stat.getKey().getName().equals("eraser" + name)) {
                    return stat.getValue().get();
                }
            }
        }
        throw new IllegalStateException(name);
    }
}
