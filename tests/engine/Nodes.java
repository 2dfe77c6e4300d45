import com.sleepycat.je.EnvironmentConfig;
import com.sleepycat.je.rep.NoConsistencyRequiredPolicy;
import com.sleepycat.je.rep.ReplicatedEnvironment;
import com.sleepycat.je.rep.ReplicationConfig;
import java.io.File;

/**
 * A node of a group whose other nodes do not answer.
 *
 * <p>Given as GROUP/NAME/HOST:PORT. It waits for no master, and becomes one, without a majority,
 * only if it is to lead.
 */
final class Nodes {
    private static final int WAITED_MS = 60_000;

    private Nodes() {}

    static ReplicatedEnvironment open(
            File home, EnvironmentConfig config, String node, boolean leads) {
        String[] parts = node.split("/");
        ReplicationConfig replicated = new ReplicationConfig(parts[0], parts[1], parts[2]);
        replicated.setHelperHosts(parts[2]);
        replicated.setConsistencyPolicy(NoConsistencyRequiredPolicy.NO_CONSISTENCY);
        String patience = leads ? WAITED_MS + " ms" : "1 ms";
        replicated.setConfigParam("je.rep.envUnknownStateTimeout", patience);
        replicated.setConfigParam("je.rep.electableGroupSizeOverride", leads ? "1" : "0");
        config.setDurability(Workload.UNSYNCED);
        ReplicatedEnvironment env = new ReplicatedEnvironment(home, replicated, config);
        if (leads && !env.getState().isMaster()) {
            String state = "the node does not lead, it is " + env.getState();
            env.close();
            throw new IllegalStateException(state);
        }
        return env;
    }
}
