import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Kafka's Java client against the broker at args[0], with names that begin with args[1]; prints one line `what=seen` for each
 * thing that it did. Nothing is judged here: the test knows what should be seen.
 */
public final class JavaClient {
    private static final Duration WAIT = Duration.ofSeconds(20);
    private static String bootstrap;
    private static String prefix;

    public static void main(String[] args) throws Exception {
        bootstrap = args[0];
        prefix = args[1];
        for (String codec : List.of("none", "gzip", "snappy", "lz4", "zstd")) codec(codec);
        record();
        tooLarge();
        times();
        transactions();
        offsetsInTransaction();
        fencing();
        for (String protocol : List.of("classic", "consumer")) group(protocol);
        resume();
    }

    private static void say(String what, Object seen) {
        System.out.println(what + "=" + seen);
    }

    private static String topic(String name, int partitions) throws Exception {
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", bootstrap))) {
            admin.createTopics(List.of(new NewTopic(prefix + name, partitions, (short) 1))).all().get();
        }
        return prefix + name;
    }

    private static KafkaProducer<String, String> producer(String... settings) {
        Map<String, Object> given = settings(settings);
        given.put("linger.ms", 5);
        return new KafkaProducer<>(given, new StringSerializer(), new StringSerializer());
    }

    private static KafkaConsumer<String, String> consumer(String group, String... settings) {
        Map<String, Object> given = settings(settings);
        given.put("group.id", prefix + group);
        given.put("auto.offset.reset", "earliest");
        given.put("enable.auto.commit", "false");
        return new KafkaConsumer<>(given, new StringDeserializer(), new StringDeserializer());
    }

    private static Map<String, Object> settings(String... pairs) {
        Map<String, Object> given = new HashMap<>(Map.of("bootstrap.servers", bootstrap));
        for (int i = 0; i < pairs.length; i += 2) given.put(pairs[i], pairs[i + 1]);
        return given;
    }

    private static List<ConsumerRecord<String, String>> take(KafkaConsumer<String, String> consumer, int count) {
        List<ConsumerRecord<String, String>> found = new ArrayList<>();
        long deadline = System.nanoTime() + WAIT.toNanos();
        while (found.size() < count && System.nanoTime() < deadline) consumer.poll(Duration.ofMillis(50)).forEach(found::add);
        return found;
    }

    private static List<ConsumerRecord<String, String>> read(String topic, int count, String isolation) {
        try (KafkaConsumer<String, String> consumer = consumer("reader", "isolation.level", isolation)) {
            TopicPartition partition = new TopicPartition(topic, 0);
            consumer.assign(List.of(partition));
            consumer.seekToBeginning(List.of(partition));
            return take(consumer, count);
        }
    }

    private static String values(List<ConsumerRecord<String, String>> records) {
        return records.stream().map(ConsumerRecord::value).collect(Collectors.joining(" "));
    }

    private static void codec(String codec) throws Exception {
        String topic = topic("codec-" + codec, 1);
        try (KafkaProducer<String, String> producer = producer("compression.type", codec)) {
            for (int i = 0; i < 200; i++) producer.send(new ProducerRecord<>(topic, 0, null, i + " page visit ".repeat(20)));
        }
        List<ConsumerRecord<String, String>> records = read(topic, 200, "read_uncommitted");
        boolean inOrder = true;
        for (int i = 0; i < records.size(); i++) inOrder &= records.get(i).value().startsWith(i + " page") && records.get(i).offset() == i;
        say("codec " + codec, records.size() + " in order " + inOrder);
    }

    private static void record() throws Exception {
        String topic = topic("record", 1);
        try (KafkaProducer<String, String> producer = producer()) {
            ProducerRecord<String, String> full = new ProducerRecord<>(topic, 0, 1_500_000_000_123L, "key", "value");
            full.headers().add("trace", "abc".getBytes(StandardCharsets.UTF_8)).add("none", null);
            producer.send(full);
            producer.send(new ProducerRecord<>(topic, 0, 1_500_000_000_124L, null, (String) null)).get();
        }
        for (ConsumerRecord<String, String> found : read(topic, 2, "read_uncommitted")) {
            List<String> headers = new ArrayList<>();
            found.headers().forEach(header -> headers.add(header.key() + ":" + (header.value() == null ? null : new String(header.value()))));
            say("record " + found.offset(), found.key() + " " + found.value() + " " + found.timestamp() + " " + headers);
        }
    }

    private static void tooLarge() throws Exception {
        String topic = topic("large", 1);
        try (KafkaProducer<String, String> producer = producer("max.request.size", "3000000")) {
            say("900 kB", producer.send(new ProducerRecord<>(topic, "x".repeat(900_000))).get().offset());
            try {
                producer.send(new ProducerRecord<>(topic, "x".repeat(2_000_000))).get();
            } catch (ExecutionException refused) {
                say("2 MB", refused.getCause().getClass().getSimpleName());
            }
        }
        say("900 kB read", read(topic, 1, "read_uncommitted").get(0).value().length());
    }

    private static void times() throws Exception {
        String topic = topic("times", 1);
        try (KafkaProducer<String, String> producer = producer()) {
            for (int i = 0; i < 10; i++) producer.send(new ProducerRecord<>(topic, 0, 1_600_000_000_000L + 1000 * i, null, "visit"));
        }
        TopicPartition partition = new TopicPartition(topic, 0);
        try (KafkaConsumer<String, String> consumer = consumer("times")) {
            say("at 3500", consumer.offsetsForTimes(Map.of(partition, 1_600_000_003_500L)).get(partition).offset());
            say("at 9001", consumer.offsetsForTimes(Map.of(partition, 1_600_000_009_001L)).get(partition));
            say("ends", consumer.beginningOffsets(List.of(partition)).get(partition) + " " + consumer.endOffsets(List.of(partition)).get(partition));
        }
    }

    private static void transactions() throws Exception {
        String topic = topic("transactions", 1);
        try (KafkaProducer<String, String> producer = producer("transactional.id", prefix + "transaction")) {
            producer.initTransactions();
            for (String value : List.of("first", "lost", "third")) {
                producer.beginTransaction();
                producer.send(new ProducerRecord<>(topic, 0, null, value)).get();
                if (value.equals("lost")) producer.abortTransaction();
                else producer.commitTransaction();
            }
        }
        say("committed", values(read(topic, 2, "read_committed")));
        say("uncommitted", values(read(topic, 3, "read_uncommitted")));
    }

    private static void offsetsInTransaction() throws Exception {
        String topic = topic("source", 1);
        try (KafkaProducer<String, String> producer = producer()) {
            for (String value : List.of("a", "b", "c", "d")) producer.send(new ProducerRecord<>(topic, 0, null, value));
        }
        TopicPartition partition = new TopicPartition(topic, 0);
        try (KafkaConsumer<String, String> consumer = consumer("copier");
             KafkaProducer<String, String> producer = producer("transactional.id", prefix + "copier")) {
            consumer.subscribe(List.of(topic));
            take(consumer, 4);
            producer.initTransactions();
            for (long offset : new long[] {2, 4}) {
                producer.beginTransaction();
                producer.sendOffsetsToTransaction(Map.of(partition, new OffsetAndMetadata(offset)), consumer.groupMetadata());
                if (offset == 4) producer.abortTransaction();
                else producer.commitTransaction();
                say("offset after " + offset, consumer.committed(Collections.singleton(partition)).get(partition).offset());
            }
        }
    }

    private static void fencing() throws Exception {
        String topic = topic("fencing", 1);
        try (KafkaProducer<String, String> first = producer("transactional.id", prefix + "fenced");
             KafkaProducer<String, String> second = producer("transactional.id", prefix + "fenced")) {
            first.initTransactions();
            first.beginTransaction();
            first.send(new ProducerRecord<>(topic, "in time")).get();
            second.initTransactions();
            try {
                first.commitTransaction();
            } catch (RuntimeException refused) {
                say("fenced", refused.getClass().getSimpleName());
            }
        }
    }

    private static void group(String protocol) throws Exception {
        String topic = topic("group-" + protocol, 4);
        // In the consumer protocol the broker says how often to heartbeat.
        String[] settings = {"group.protocol", protocol, "heartbeat.interval.ms", "200"};
        if (protocol.equals("consumer")) settings = Arrays.copyOf(settings, 2);
        KafkaConsumer<String, String> first = consumer("group-" + protocol, settings);
        KafkaConsumer<String, String> second = consumer("group-" + protocol, settings);
        first.subscribe(List.of(topic));
        say(protocol + " alone", shares(4, 0, first, second));
        second.subscribe(List.of(topic));
        say(protocol + " together", shares(2, 2, first, second));
        second.close();
        say(protocol + " left", shares(4, -1, first, null));
        first.close();
    }

    /** How many partitions the two have, polled until it is as wanted or the time is over. */
    private static String shares(int one, int two, KafkaConsumer<String, String> first, KafkaConsumer<String, String> second) {
        long deadline = System.nanoTime() + WAIT.toNanos();
        while (true) {
            first.poll(Duration.ofMillis(50));
            if (two > 0) second.poll(Duration.ofMillis(50));
            int has = first.assignment().size();
            int other = second == null ? -1 : second.assignment().size();
            if ((has == one && other == two) || System.nanoTime() > deadline) return has + " " + other;
        }
    }

    private static void resume() throws Exception {
        String topic = topic("resume", 1);
        try (KafkaProducer<String, String> producer = producer()) {
            for (int i = 0; i < 6; i++) producer.send(new ProducerRecord<>(topic, 0, null, "" + i));
        }
        try (KafkaConsumer<String, String> first = consumer("resume", "max.poll.records", "4")) {
            first.subscribe(List.of(topic));
            say("first reader", values(take(first, 4)));
            first.commitSync();
        }
        try (KafkaConsumer<String, String> second = consumer("resume")) {
            second.subscribe(List.of(topic));
            say("second reader", values(take(second, 2)));
        }
    }
}
