import java.io.FileInputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.HexFormat;
import java.util.TreeMap;

/**
 * Reads properties files as Java does.
 *
 * <p>Arguments: FILE...
 *
 * <p>Prints a line for each file: names and values in hexadecimal UTF-16, {@code name=value},
 * sorted by name; {@code refused} if Java does not accept the file.
 */
public final class Properties {
    private Properties() {}

    public static void main(String[] args) throws Exception {
        for (String arg : args) {
            System.out.println(read(Path.of(arg)));
        }
    }

    private static String read(Path path) throws Exception {
        java.util.Properties properties = new java.util.Properties();
        try (FileInputStream in = new FileInputStream(path.toFile())) {
            properties.load(in);
        } catch (IllegalArgumentException refused) {
            return "refused";
        }
        TreeMap<String, String> sorted = new TreeMap<>();
        for (String name : properties.stringPropertyNames()) {
            sorted.put(hex(name), hex(properties.getProperty(name)));
        }
        StringBuilder line = new StringBuilder();
        sorted.forEach((name, value) -> line.append(name).append('=').append(value).append(' '));
        return line.toString().strip();
    }

    private static String hex(String text) {
        return HexFormat.of().formatHex(text.getBytes(StandardCharsets.UTF_16BE));
    }
}
