import java.io.BufferedOutputStream;
import java.io.File;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.EnumMap;
import java.util.Map;
import org.apache.ignite.configuration.WALMode;
import org.apache.ignite.internal.pagemem.wal.WALIterator;
import org.apache.ignite.internal.pagemem.wal.record.WALRecord;
import org.apache.ignite.internal.processors.cache.persistence.filename.NodeFileTree;
import org.apache.ignite.internal.processors.cache.persistence.wal.WALPointer;
import org.apache.ignite.internal.processors.cache.persistence.wal.reader.IgniteWalIteratorFactory;
import org.apache.ignite.internal.processors.cache.persistence.wal.reader.IgniteWalIteratorFactory.IteratorParametersBuilder;
import org.apache.ignite.lang.IgniteBiTuple;
import org.apache.ignite.logger.NullLogger;

/**
 * What the engine does beside one of our commands, on the work directory of the bench's node.
 *
 * <p>{@code java -cp CLASS_PATH PeerIgnite count|print|start DIR}
 *
 * <p>{@code count} reads the log with the engine's iterator for logs without a node, and counts
 * records by type. {@code print} prints each record in a line, as the engine's converter of logs
 * does. {@code start} starts a node, which recovers the directory and so writes to it.
 */
public final class PeerIgnite {
    private static final int PAGE_SIZE = 4096;
    private static final int BUFFER_BYTES = 1 << 16;

    private PeerIgnite() {}

    public static void main(String[] args) throws Exception {
        switch (args[0]) {
            case "count" -> count(new File(args[1]));
            case "print" -> print(new File(args[1]));
            default -> IgniteNode.start(args[1], WALMode.LOG_ONLY);
        }
        Runtime.getRuntime().halt(0);
    }

    private static WALIterator iterator(File work, boolean decodes) throws Exception {
        IteratorParametersBuilder parameters =
                new IteratorParametersBuilder()
                        .log(new NullLogger())
                        .pageSize(PAGE_SIZE)
                        .filesOrDirs(
                                new File(work, "db/wal/archive/" + IgniteNode.NAME),
                                new File(work, "db/wal/" + IgniteNode.NAME));
        if (decodes) {
            parameters.fileTree(new NodeFileTree(work, IgniteNode.NAME)).keepBinary(true);
        }
        return new IgniteWalIteratorFactory(new NullLogger()).iterator(parameters);
    }

    private static void count(File work) throws Exception {
        Map<WALRecord.RecordType, Long> counts = new EnumMap<>(WALRecord.RecordType.class);
        try (WALIterator records = iterator(work, false)) {
            while (records.hasNextX()) {
                counts.merge(records.nextX().get2().type(), 1L, Long::sum);
            }
        }
        System.out.println(counts);
    }

    private static void print(File work) throws Exception {
        FileOutputStream out = new FileOutputStream(FileDescriptor.out);
        BufferedOutputStream buffered = new BufferedOutputStream(out, BUFFER_BYTES);
        try (PrintStream lines = new PrintStream(buffered, false, StandardCharsets.UTF_8);
                WALIterator records = iterator(work, true)) {
            while (records.hasNextX()) {
                IgniteBiTuple<WALPointer, WALRecord> next = records.nextX();
                lines.println(next.get1() + " " + next.get2());
            }
        }
    }
}
