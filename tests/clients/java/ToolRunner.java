import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import org.apache.kafka.common.utils.Exit;

/**
 * Runs Kafka's tools one after the other in one JVM: starting one for each would take most of the tests' time.
 *
 * Asked on its standard input: the main class, the number of arguments, the arguments, then what the tool reads. Answered on
 * its standard output: the exit code, then what the tool printed, then what it printed on the second stream. Every text is
 * its length in bytes (4, big-endian) and UTF-8. Standard input's end ends it.
 */
public final class ToolRunner {
    private static final class Ended extends Error {
        final int code;

        Ended(int code) {
            super("exit " + code, null, false, false);
            this.code = code;
        }
    }

    /** Some tools flush and close what they use only when the JVM ends. */
    private static final List<Runnable> hooks = new ArrayList<>();
    private static int firstCode;

    public static void main(String[] unused) throws Exception {
        DataInputStream asked = new DataInputStream(System.in);
        DataOutputStream answers = new DataOutputStream(System.out);
        // Set once: Scala's println keeps the stream that it met first.
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        ByteArrayOutputStream err = new ByteArrayOutputStream();
        System.setOut(new PrintStream(out, true, StandardCharsets.UTF_8));
        System.setErr(new PrintStream(err, true, StandardCharsets.UTF_8));
        Exit.setExitProcedure((code, message) -> end(code));
        Exit.setHaltProcedure((code, message) -> end(code));
        Exit.setShutdownHookAdder((name, hook) -> hooks.add(hook));
        while (true) {
            Class<?> tool;
            try {
                tool = Class.forName(text(asked));
            } catch (EOFException end) {
                return;
            }
            String[] arguments = new String[asked.readInt()];
            for (int i = 0; i < arguments.length; i++) arguments[i] = text(asked);
            System.setIn(new ByteArrayInputStream(text(asked).getBytes(StandardCharsets.UTF_8)));
            int code = run(tool, arguments);
            hooks.forEach(Runnable::run);
            hooks.clear();
            answers.writeInt(code);
            for (ByteArrayOutputStream printed : new ByteArrayOutputStream[] {out, err}) {
                answers.writeInt(printed.size());
                printed.writeTo(answers);
                printed.reset();
            }
            answers.flush();
        }
    }

    private static int run(Class<?> tool, String[] arguments) {
        firstCode = -1;
        try {
            tool.getMethod("main", String[].class).invoke(null, (Object) arguments);
        } catch (java.lang.reflect.InvocationTargetException failed) {
            if (!(failed.getCause() instanceof Ended)) {
                failed.getCause().printStackTrace();
                return 1;
            }
        } catch (ReflectiveOperationException impossible) {
            throw new AssertionError(impossible);
        }
        return Math.max(firstCode, 0);
    }

    /** A tool that catches everything meets its own exit as an error and would leave with 1: the first code counts. */
    private static void end(int code) {
        if (firstCode < 0) firstCode = code;
        throw new Ended(code);
    }

    private static String text(DataInputStream asked) throws Exception {
        byte[] bytes = new byte[asked.readInt()];
        asked.readFully(bytes);
        return new String(bytes, StandardCharsets.UTF_8);
    }
}
