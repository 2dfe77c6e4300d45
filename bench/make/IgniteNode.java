import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.util.List;
import org.apache.ignite.Ignite;
import org.apache.ignite.Ignition;
import org.apache.ignite.cluster.ClusterState;
import org.apache.ignite.configuration.DataRegionConfiguration;
import org.apache.ignite.configuration.DataStorageConfiguration;
import org.apache.ignite.configuration.IgniteConfiguration;
import org.apache.ignite.configuration.WALMode;
import org.apache.ignite.logger.NullLogger;
import org.apache.ignite.spi.communication.tcp.TcpCommunicationSpi;
import org.apache.ignite.spi.discovery.tcp.TcpDiscoverySpi;
import org.apache.ignite.spi.discovery.tcp.ipfinder.vm.TcpDiscoveryVmIpFinder;

/**
 * The node of the bench's stores: the same settings when a store is made and when it is started.
 *
 * <p>It talks to nobody (loopback, free ports), writes checkpoints only when it must, and keeps all
 * of its archive.
 */
final class IgniteNode {
    static final String NAME = "node1";
    private static final long REGION_BYTES = 3L << 30;
    private static final int SEGMENT_BYTES = 32 << 20;
    private static final long HOUR_MILLIS = 3_600_000;

    private IgniteNode() {}

    /** Starts and activates a node on a work directory. */
    static Ignite start(String work, WALMode mode) throws IOException {
        Ignite ignite = Ignition.start(config(work, mode));
        ignite.cluster().state(ClusterState.ACTIVE);
        return ignite;
    }

    private static IgniteConfiguration config(String work, WALMode mode) throws IOException {
        int port = freePort();
        TcpDiscoveryVmIpFinder nobody = new TcpDiscoveryVmIpFinder();
        nobody.setAddresses(List.of("127.0.0.1:" + port));
        TcpDiscoverySpi discovery = new TcpDiscoverySpi();
        discovery.setLocalPort(port).setLocalPortRange(0).setIpFinder(nobody);
        TcpCommunicationSpi communication = new TcpCommunicationSpi();
        communication.setLocalPort(freePort());
        return new IgniteConfiguration()
                .setConsistentId(NAME)
                .setWorkDirectory(work)
                .setLocalHost("127.0.0.1")
                .setDiscoverySpi(discovery)
                .setCommunicationSpi(communication)
                .setConnectorConfiguration(null)
                .setClientConnectorConfiguration(null)
                .setGridLogger(new NullLogger())
                .setMetricsLogFrequency(0)
                .setDataStorageConfiguration(storage(mode));
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

    private static int freePort() throws IOException {
        try (ServerSocket socket = new ServerSocket(0, 1, InetAddress.getByName("127.0.0.1"))) {
            return socket.getLocalPort();
        }
    }
}
