import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.io.PrintWriter;
import java.nio.charset.StandardCharsets;

/**
 * Reads questions from standard input, one a line, and answers each in a file.
 *
 * The cells of a line are separated by tabs: an environment, the file to write, and arguments. When
 * the file is written, the environment is printed.
 */
final class Questions {
    /** Writes the answer to a question. */
    interface Answer {
        void write(String[] cells, PrintWriter out) throws Exception;
    }

    private Questions() {}

    static void answer(Answer answer) throws Exception {
        PrintStream answers = System.out;
        // The engine prints to standard output, too.
        System.setOut(System.err);
        BufferedReader asked =
                new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = asked.readLine(); line != null; line = asked.readLine()) {
            String[] cells = line.split("\t");
            try (PrintWriter out = new PrintWriter(cells[1], StandardCharsets.UTF_8)) {
                answer.write(cells, out);
            }
            answers.println(cells[0]);
            answers.flush();
        }
        // An engine that failed or was given up may have threads that never end.
        Runtime.getRuntime().halt(0);
    }
}
