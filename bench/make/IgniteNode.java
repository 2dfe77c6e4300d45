import java.io.IOException;
import org.apache.ignite.Ignite;
import org.apache.ignite.Ignition;
import org.apache.ignite.cluster.ClusterState;
import org.apache.ignite.configuration.DataRegionConfiguration;
import org.apache.ignite.configuration.DataStorageConfiguration;
import org.apache.ignite.configuration.WALMode;

/**
 * The node of the bench's stores: the same settings when a store is made and when it is started.
 *
 * <p>It is isolated, writes checkpoints only when it must, and keeps all of its archive.
 */
final class IgniteNode {
    static final String NAME = "node1";
    private static final long REGION_BYTES = 3L << 30;
    private static final int SEGMENT_BYTES = 32 << 20;
    private static final long HOUR_MILLIS = 3_600_000;

    private IgniteNode() {}

    /** Starts and activates a node on a work directory. */
    static Ignite start(String work, WALMode mode) throws IOException {
        Ignite ignite =
                Ignition.start(
                        IsolatedNode.configuration(work, NAME)
                                .setDataStorageConfiguration(storage(mode)));
        ignite.cluster().state(ClusterState.ACTIVE);
        return ignite;
    }

    private static DataStorageConfiguration storage(WALMode mode) {
        DataRegionConfiguration region = new DataRegionConfiguration();
        region.setPersistenceEnabled(true).setMaxSize(REGION_BYTES);
        return new DataStorageConfiguration()
                .setDefaultDataRegionConfiguration(region)
                .setWalMode(mode)
                .setCheckpointFrequency(HOUR_MILLIS)
                .setWalSegments(4)
                .setWalSegmentSize(SEGMENT_BYTES)
                .setMaxWalArchiveSize(DataStorageConfiguration.UNLIMITED_WAL_ARCHIVE);
    }
}
