import java.util.HexFormat;
import java.util.Random;
import org.apache.ignite.Ignite;
import org.apache.ignite.IgniteCache;
import org.apache.ignite.IgniteDataStreamer;
import org.apache.ignite.Ignition;
import org.apache.ignite.binary.BinaryObject;
import org.apache.ignite.cache.CacheAtomicityMode;
import org.apache.ignite.cache.affinity.rendezvous.RendezvousAffinityFunction;
import org.apache.ignite.configuration.CacheConfiguration;
import org.apache.ignite.configuration.WALMode;
import org.apache.ignite.internal.IgniteEx;
import org.apache.ignite.transactions.Transaction;

/**
 * Writes the work directory of an Ignite node, for the bench.
 *
 * <p>{@code java -cp CLASS_PATH MakeIgnite DIR log UPDATES | pages WIDE_ROWS NARROW_ROWS}
 *
 * <p>{@code log}: three times so many updates of small values in four caches, one of them
 * transactional, with checkpoints between. The JVM is then halted, so that the next start has to
 * apply the last third. {@code pages}: rows of two caches, loaded without a log; the node is
 * stopped in order, and so all pages are written.
 */
public final class MakeIgnite {
    private static final int PARTITIONS = 64;
    private static final int ROUNDS = 3;
    private static final int BATCH = 4;
    private static final int VALUE_BYTES = 48;
    private static final int WIDE_BYTES = 1900;
    private static final int NARROW_BYTES = 100;
    private static final long ARCHIVING_MILLIS = 3000;

    private MakeIgnite() {}

    public static void main(String[] args) throws Exception {
        if (args.length < 3) {
            System.err.println("usage: MakeIgnite DIR log UPDATES | pages WIDE_ROWS NARROW_ROWS");
            System.exit(2);
        }
        boolean logs = args[1].equals("log");
        Ignite ignite = IgniteNode.start(args[0], logs ? WALMode.LOG_ONLY : WALMode.NONE);
        if (logs) {
            update(ignite, Integer.parseInt(args[2]));
            // The archiver copies the last full segment.
            Thread.sleep(ARCHIVING_MILLIS);
            System.out.println(ROUNDS + " x " + args[2] + " updates written, node killed");
        } else {
            load(ignite, "wide", Integer.parseInt(args[2]), WIDE_BYTES);
            load(ignite, "narrow", Integer.parseInt(args[3]), NARROW_BYTES);
            Ignition.stop(ignite.name(), false);
            // With a log, so that the store tells where its recovery begins.
            ignite = IgniteNode.start(args[0], WALMode.LOG_ONLY);
            checkpoint(ignite);
            Ignition.stop(ignite.name(), false);
            System.out.println(args[2] + " and " + args[3] + " rows written, node stopped");
        }
        System.out.flush();
        Runtime.getRuntime().halt(0);
    }

    private static <K, V> CacheConfiguration<K, V> settings(String name, CacheAtomicityMode mode) {
        return new CacheConfiguration<K, V>(name)
                .setAtomicityMode(mode)
                .setAffinity(new RendezvousAffinityFunction(false, PARTITIONS));
    }

    private static void update(Ignite ignite, int updates) throws Exception {
        CacheAtomicityMode atomic = CacheAtomicityMode.ATOMIC;
        IgniteCache<Long, String> texts = ignite.createCache(settings("texts", atomic));
        IgniteCache<String, byte[]> bytes = ignite.createCache(settings("bytes", atomic));
        IgniteCache<Integer, Long> numbers = ignite.createCache(settings("numbers", atomic));
        IgniteCache<Long, BinaryObject> accounts =
                ignite.<Long, BinaryObject>createCache(
                                settings("accounts", CacheAtomicityMode.TRANSACTIONAL))
                        .withKeepBinary();
        Random random = new Random(1);
        int keys = updates / 4 + 1;
        int round = 1;
        byte[] value = new byte[VALUE_BYTES];
        for (int i = 0; i < updates * ROUNDS; ) {
            if (i >= updates * round) {
                checkpoint(ignite);
                round++;
            }
            int key = random.nextInt(keys);
            random.nextBytes(value);
            switch (random.nextInt(4)) {
                case 0 -> texts.put((long) key, "text of " + key + " at update " + i);
                case 1 -> bytes.put("key:" + key, value);
                case 2 -> numbers.put(key, random.nextLong());
                default -> {
                    try (Transaction transaction = ignite.transactions().txStart()) {
                        for (int j = 0; j < BATCH; j++) {
                            long id = (key + j) % keys;
                            accounts.put(id, account(ignite, id, random));
                        }
                        transaction.commit();
                    }
                    i += BATCH - 1;
                }
            }
            i++;
        }
    }

    private static void checkpoint(Ignite ignite) throws Exception {
        ((IgniteEx) ignite).context().cache().context().database().waitForCheckpoint("bench");
    }

    private static BinaryObject account(Ignite ignite, long id, Random random) {
        return ignite.binary()
                .builder("bench.Account")
                .setField("id", id)
                .setField("owner", "owner " + id)
                .setField("balance", random.nextDouble())
                .setField("active", random.nextBoolean())
                .build();
    }

    private static void load(Ignite ignite, String name, int rows, int size) {
        ignite.createCache(
                MakeIgnite.<Long, String>settings(name, CacheAtomicityMode.ATOMIC));
        Random random = new Random(1);
        byte[] value = new byte[size / 2];
        try (IgniteDataStreamer<Long, String> streamer = ignite.dataStreamer(name)) {
            for (long key = 0; key < rows; key++) {
                random.nextBytes(value);
                streamer.addData(key, HexFormat.of().formatHex(value));
            }
        }
    }
}
