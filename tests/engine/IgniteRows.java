import java.io.BufferedReader;
import java.io.DataInputStream;
import java.io.File;
import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStreamWriter;
import java.io.PrintStream;
import java.io.PrintWriter;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.util.HexFormat;
import org.apache.ignite.Ignite;
import org.apache.ignite.Ignition;
import org.apache.ignite.cluster.ClusterState;
import org.apache.ignite.configuration.DataRegionConfiguration;
import org.apache.ignite.configuration.DataStorageConfiguration;
import org.apache.ignite.configuration.IgniteConfiguration;
import org.apache.ignite.failure.FailureContext;
import org.apache.ignite.internal.IgniteEx;
import org.apache.ignite.internal.processors.cache.CacheGroupContext;
import org.apache.ignite.internal.processors.cache.CacheObject;
import org.apache.ignite.internal.processors.cache.CacheObjectContext;
import org.apache.ignite.internal.processors.cache.DynamicCacheDescriptor;
import org.apache.ignite.internal.processors.cache.GridCacheProcessor;
import org.apache.ignite.internal.processors.cache.IgniteCacheOffheapManager.CacheDataStore;
import org.apache.ignite.internal.processors.cache.persistence.CacheDataRow;
import org.apache.ignite.internal.processors.cache.version.GridCacheVersion;
import org.apache.ignite.internal.util.lang.GridCursor;

/**
 * Lists the rows that an Ignite node finds in a work directory after it has recovered it.
 *
 * <p>A line of standard input asks for one: {@code WORK TAB ANSWER TAB NODE TAB OPTIONS}; NODE is
 * the consistent id, OPTIONS is empty or {@code recovery-files}. A line of standard output says
 * that the file ANSWER is complete. In it, each row is a line {@code cache, partition, keyType,
 * keyBytes, valueType, valueLength, valueSha256, version, expireTime}, as in the corpus. {@code
 * #refused TAB STAGE TAB CLASS TAB MESSAGE} ends an answer that is not complete: STAGE is {@code
 * start}, {@code read} or {@code halt}; after a halt the JVM ends, as that of a user would.
 *
 * <p>The node is isolated, and writes to the directory. It is stopped before the answer is
 * announced.
 */
public final class IgniteRows {
    private static final int PAGE_SIZE_OFFSET = 13;
    private static final int OPEN_MILLIS = 10_000;

    /** The answer that is being written: threads of an earlier node that failed have no part in it. */
    private static volatile PrintWriter current;

    private IgniteRows() {}

    public static void main(String[] args) throws Exception {
        PrintStream announced = System.out;
        // The engine prints to standard output.
        System.setOut(System.err);
        BufferedReader asked =
                new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = asked.readLine(); line != null; line = asked.readLine()) {
            String[] parts = line.split("\t", -1);
            try (PrintWriter out = writer(parts[1])) {
                Runnable announce = () -> announce(out, announced, parts[0]);
                current = out;
                answer(Path.of(parts[0]), parts[2], parts[3], out, announce);
            }
            announced.println(parts[0]);
            announced.flush();
        }
        // A node that failed may have threads that never end.
        Runtime.getRuntime().halt(0);
    }

    private static PrintWriter writer(String path) throws IOException {
        FileOutputStream file = new FileOutputStream(path);
        return new PrintWriter(new OutputStreamWriter(file, StandardCharsets.UTF_8));
    }

    private static void announce(PrintWriter out, PrintStream announced, String work) {
        out.close();
        announced.println(work);
        announced.flush();
    }

    private static void answer(
            Path work, String node, String options, PrintWriter out, Runnable announce) {
        Ignite ignite = null;
        try {
            ignite = Ignition.start(config(work, node, options, out, announce));
            ignite.cluster().state(ClusterState.ACTIVE);
            try {
                print((IgniteEx) ignite, out);
            } catch (Exception | Error e) {
                refuse(out, "read", e);
            }
        } catch (Exception | Error e) {
            refuse(out, "start", e);
        }
        if (ignite != null) {
            Ignition.stop(ignite.name(), true);
        }
    }

    private static IgniteConfiguration config(
            Path work, String node, String options, PrintWriter out, Runnable announce)
            throws IOException {
        return IsolatedNode.configuration(work.toString(), node)
                .setIgniteInstanceName("judge")
                .setDataStorageConfiguration(storage(work, node, options))
                .setFailureHandler((ignite, context) -> halt(context, out, announce));
    }

    private static DataStorageConfiguration storage(Path work, String node, String options)
            throws IOException {
        DataRegionConfiguration region = new DataRegionConfiguration();
        region.setPersistenceEnabled(true).setMaxSize(128L << 20).setInitialSize(32L << 20);
        DataStorageConfiguration storage = new DataStorageConfiguration();
        storage.setDefaultDataRegionConfiguration(region)
                .setPageSize(pageSize(work.resolve("db").resolve(node)))
                .setCheckpointFrequency(3_600_000)
                .setWriteRecoveryDataOnCheckpoint(options.equals("recovery-files"));
        File[] ring = work.resolve("db/wal").resolve(node).toFile().listFiles(File::isFile);
        long largest = 1 << 19;
        for (File file : ring == null ? new File[0] : ring) {
            largest = Math.max(largest, file.length());
        }
        return storage.setWalSegments(3).setWalSegmentSize((int) largest);
    }

    private static int pageSize(Path folder) throws IOException {
        byte[] header = new byte[PAGE_SIZE_OFFSET + 4];
        File file = folder.resolve("metastorage/part-0.bin").toFile();
        try (DataInputStream in = new DataInputStream(new FileInputStream(file))) {
            in.readFully(header);
        }
        return ByteBuffer.wrap(header).order(ByteOrder.nativeOrder()).getInt(PAGE_SIZE_OFFSET);
    }

    private static void print(IgniteEx ignite, PrintWriter out) throws Exception {
        GridCacheProcessor caches = ignite.context().cache();
        MessageDigest digest = MessageDigest.getInstance("SHA-256");
        for (CacheGroupContext group : caches.cacheGroups()) {
            CacheObjectContext context = group.cacheObjectContext();
            for (CacheDataStore store : group.offheap().cacheDataStores()) {
                GridCursor<? extends CacheDataRow> rows = store.cursor();
                while (rows.next()) {
                    CacheDataRow row = rows.get();
                    int id = group.sharedGroup() ? row.cacheId() : group.groupId();
                    // A cache without a configuration has no name.
                    DynamicCacheDescriptor known = caches.cacheDescriptor(id);
                    String cache = known == null ? String.valueOf(id) : known.cacheName();
                    byte[] value = row.value().valueBytes(context);
                    out.println(
                            String.join(
                                    "\t",
                                    cache,
                                    String.valueOf(store.partId()),
                                    typed(row.key(), context),
                                    String.valueOf(row.value().cacheObjectType()),
                                    String.valueOf(value.length),
                                    HexFormat.of().formatHex(digest.digest(value)),
                                    version(row.version()),
                                    String.valueOf(row.expireTime())));
                }
            }
        }
    }

    private static String typed(CacheObject key, CacheObjectContext context) throws Exception {
        String bytes = HexFormat.of().formatHex(key.valueBytes(context));
        return key.cacheObjectType() + "\t" + bytes;
    }

    private static String version(GridCacheVersion version) {
        String node = String.valueOf(version.nodeOrder());
        if (version.dataCenterId() != 0) {
            node += "|" + version.dataCenterId();
        }
        return version.topologyVersion() + ":" + node + ":" + version.order();
    }

    private static boolean halt(FailureContext context, PrintWriter out, Runnable announce) {
        if (current != out) {
            return true;
        }
        refuse(out, "halt", context.error());
        announce.run();
        Runtime.getRuntime().halt(130);
        return true;
    }

    private static void refuse(PrintWriter out, String stage, Throwable failure) {
        StringBuilder text = new StringBuilder();
        String separator = "";
        for (Throwable each = failure; each != null; each = each.getCause()) {
            text.append(separator).append(each.getMessage());
            separator = " / ";
        }
        String line = text.toString().replaceAll("\\s+", " ");
        String name = failure == null ? "unknown" : failure.getClass().getSimpleName();
        out.println("#refused\t" + stage + "\t" + name + "\t" + line);
    }
}
