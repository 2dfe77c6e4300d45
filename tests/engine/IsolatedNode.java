import java.io.IOException;
import java.net.BindException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.util.List;
import java.util.concurrent.ThreadLocalRandom;
import org.apache.ignite.configuration.IgniteConfiguration;
import org.apache.ignite.logger.NullLogger;
import org.apache.ignite.spi.communication.tcp.TcpCommunicationSpi;
import org.apache.ignite.spi.discovery.tcp.TcpDiscoverySpi;
import org.apache.ignite.spi.discovery.tcp.ipfinder.vm.TcpDiscoveryVmIpFinder;

/** Settings of a node that finds no other node: it uses only the loopback, and free ports. */
final class IsolatedNode {
    private static final String LOOPBACK = "127.0.0.1";
    private static final int LOWEST_PORT = 10_000;
    private static final int FIRST_OF_SYSTEM = 32_768;

    private IsolatedNode() {}

    /** Returns the settings of a node with a consistent id, on its work directory. */
    static IgniteConfiguration configuration(String work, String id) throws IOException {
        int port = freePort();
        TcpDiscoveryVmIpFinder finder = new TcpDiscoveryVmIpFinder();
        finder.setAddresses(List.of(LOOPBACK + ":" + port));
        TcpDiscoverySpi discovery = new TcpDiscoverySpi();
        discovery.setLocalPort(port).setLocalPortRange(0).setIpFinder(finder);
        TcpCommunicationSpi communication = new TcpCommunicationSpi();
        communication.setLocalPort(freePort());
        return new IgniteConfiguration()
                .setConsistentId(id)
                .setWorkDirectory(work)
                .setLocalHost(LOOPBACK)
                .setDiscoverySpi(discovery)
                .setCommunicationSpi(communication)
                .setConnectorConfiguration(null)
                .setClientConnectorConfiguration(null)
                .setGridLogger(new NullLogger())
                .setMetricsLogFrequency(0);
    }

    /**
     * Returns a port that nothing listens on, below those that the system gives to connections.
     *
     * A port that the system has chosen can be taken again before the node listens on it.
     */
    private static int freePort() throws IOException {
        while (true) {
            int port = ThreadLocalRandom.current().nextInt(LOWEST_PORT, FIRST_OF_SYSTEM);
            try (ServerSocket socket =
                    new ServerSocket(port, 1, InetAddress.getByName(LOOPBACK))) {
                return socket.getLocalPort();
            } catch (BindException taken) {
                continue;
            }
        }
    }
}
