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
import java.util.stream.IntStream;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.ConsumerGroupDescription;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.InvalidProducerEpochException;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Kafka's Java client against the broker at args[0], with names that begin with args[1]; prints one line `what=seen` for each
 * thing that it did. Nothing is judged here: the test knows what should be seen.
 */
public final class JavaClient {
    private static final Duration WAIT = Duration.ofSeconds(120);
    private static String bootstrap;
    private static String prefix;
    private static Admin admin;
    private static boolean failed;

    public static void main(String[] args) throws Exception {
        bootstrap = args[0];
        prefix = args[1];
        admin = Admin.create(Map.of("bootstrap.servers", bootstrap));
        for (String codec : List.of("none", "gzip", "snappy", "lz4", "zstd")) attempt(() -> codec(codec));
        for (String protocol : List.of("classic", "consumer")) attempt(() -> group(protocol));
        attempt(JavaClient::record);
        attempt(JavaClient::large);
        attempt(JavaClient::times);
        attempt(JavaClient::resume);
        attempt(JavaClient::idempotence);
        attempt(JavaClient::transactions);
        attempt(JavaClient::offsetsInTransactions);
        attempt(JavaClient::fencing);
        attempt(JavaClient::topics);
        attempt(JavaClient::deletion);
        attempt(JavaClient::groups);
        System.exit(failed ? 1 : 0);
    }

    private interface Situation {
        void run() throws Exception;
    }

    /** Goes on after a situation that failed: the others can still be seen. */
    private static void attempt(Situation situation) {
        try {
            situation.run();
        } catch (Exception reason) {
            reason.printStackTrace();
            failed = true;
        }
    }

    private static void say(String what, Object seen) {
        System.out.println(what + "=" + seen);
    }

    private static String topic(String name, int partitions) throws Exception {
        admin.createTopics(List.of(new NewTopic(prefix + name, partitions, (short) 1))).all().get();
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
        given.put("fetch.max.wait.ms", "50");
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

    private static List<String> numbered(int count, String text) {
        return IntStream.range(0, count).mapToObj(i -> i + text).collect(Collectors.toList());
    }

    private static void fill(String topic, List<String> values, String... settings) {
        try (KafkaProducer<String, String> producer = producer(settings)) {
            for (String value : values) producer.send(new ProducerRecord<>(topic, 0, null, value));
        }
    }

    private static String inOrder(List<ConsumerRecord<String, String>> records, List<String> wanted) {
        for (int i = 0; i < records.size(); i++) {
            ConsumerRecord<String, String> record = records.get(i);
            if (!record.value().equals(wanted.get(i)) || record.offset() != i) return records.size() + ", out of order at " + i;
        }
        return records.size() + " in order";
    }

    private static void codec(String codec) throws Exception {
        String topic = topic("codec-" + codec, 1);
        List<String> wanted = numbered(200, " page visit".repeat(20));
        fill(topic, wanted, "compression.type", codec, "enable.idempotence", "false");
        say("codec " + codec, inOrder(read(topic, 200, "read_uncommitted"), wanted));
    }

    private static void idempotence() throws Exception {
        String topic = topic("idempotent", 1);
        List<String> wanted = numbered(1000, "");
        fill(topic, wanted, "enable.idempotence", "true", "batch.size", "500");
        say("idempotent", inOrder(read(topic, 1000, "read_uncommitted"), wanted));
    }

    private static void record() throws Exception {
        String topic = topic("record", 1);
        try (KafkaProducer<String, String> producer = producer()) {
            ProducerRecord<String, String> full = new ProducerRecord<>(topic, 0, 1_500_000_000_123L, "key", "value");
            full.headers().add("trace", "abc".getBytes(StandardCharsets.UTF_8)).add("empty", new byte[0]);
            producer.send(full);
            producer.send(new ProducerRecord<>(topic, 0, 1_500_000_000_124L, "gone", (String) null)).get();
        }
        List<ConsumerRecord<String, String>> records = read(topic, 2, "read_uncommitted");
        for (ConsumerRecord<String, String> found : records) {
            List<String> headers = new ArrayList<>();
            found.headers().forEach(header -> headers.add(header.key() + ":" + new String(header.value(), StandardCharsets.UTF_8)));
            say("record " + found.offset(), found.key() + " " + found.value() + " [" + String.join(" ", headers) + "]");
        }
        say("timestamps", records.get(0).timestamp() + " " + records.get(1).timestamp());
    }

    private static void large() throws Exception {
        String topic = topic("large", 1);
        try (KafkaProducer<String, String> producer = producer("max.request.size", "3000000")) {
            producer.send(new ProducerRecord<>(topic, "x".repeat(900_000))).get();
            say("900 kB", read(topic, 1, "read_uncommitted").get(0).value().length());
            try {
                producer.send(new ProducerRecord<>(topic, "x".repeat(2_000_000))).get();
            } catch (ExecutionException refused) {
                say("2 MB", "error " + Errors.forException(refused.getCause()).code());
            }
        }
    }

    private static void times() throws Exception {
        String topic = topic("times", 1);
        try (KafkaProducer<String, String> producer = producer()) {
            for (int i = 0; i < 10; i++) producer.send(new ProducerRecord<>(topic, 0, 1_600_000_000_000L + 1000 * i, null, "visit"));
        }
        TopicPartition partition = new TopicPartition(topic, 0);
        try (KafkaConsumer<String, String> consumer = consumer("times")) {
            say("at 3500", consumer.offsetsForTimes(Map.of(partition, 1_600_000_003_500L)).get(partition).offset());
            say("at 9001", consumer.offsetsForTimes(Map.of(partition, 1_600_000_009_001L)).get(partition) == null ? "none" : "something");
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

    private static void offsetsInTransactions() throws Exception {
        String topic = topic("source", 1);
        fill(topic, List.of("a", "b", "c", "d"));
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
                say("offset after " + (offset == 4 ? "abort" : "commit"), consumer.committed(Collections.singleton(partition)).get(partition).offset());
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
                say("fenced", refused instanceof ProducerFencedException || refused instanceof InvalidProducerEpochException);
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
        say(protocol + " alone", shares("4", first));
        second.subscribe(List.of(topic));
        say(protocol + " together", shares("2 2", first, second));
        second.close();
        say(protocol + " left", shares("4", first));
        first.close();
    }

    /** How many partitions the members have, polled until it is as wanted or the time is over. */
    @SafeVarargs
    private static String shares(String wanted, KafkaConsumer<String, String>... members) {
        long deadline = System.nanoTime() + WAIT.toNanos();
        while (true) {
            for (KafkaConsumer<String, String> member : members) member.poll(Duration.ofMillis(50));
            String has = Arrays.stream(members).map(member -> "" + member.assignment().size()).collect(Collectors.joining(" "));
            if (has.equals(wanted) || System.nanoTime() > deadline) return has;
        }
    }

    private static void resume() throws Exception {
        String topic = topic("resume", 1);
        fill(topic, numbered(6, ""));
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

    private static void topics() throws Exception {
        String topic = topic("grown", 2);
        admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(3))).all().get();
        say("partitions", admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic).partitions().size());
        ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
        AlterConfigOp change = new AlterConfigOp(new ConfigEntry("retention.ms", "7000000"), AlterConfigOp.OpType.SET);
        admin.incrementalAlterConfigs(Map.of(resource, List.of(change))).all().get();
        say("retention", admin.describeConfigs(List.of(resource)).all().get().get(resource).get("retention.ms").value());
        admin.deleteTopics(List.of(topic)).all().get();
        say("topic after deletion", admin.listTopics().names().get().contains(topic));
    }

    private static void deletion() throws Exception {
        String topic = topic("deletion", 1);
        fill(topic, numbered(4, ""));
        TopicPartition partition = new TopicPartition(topic, 0);
        Map<TopicPartition, RecordsToDelete> wanted = Map.of(partition, RecordsToDelete.beforeOffset(3));
        say("low watermark", admin.deleteRecords(wanted).lowWatermarks().get(partition).get().lowWatermark());
        say("first record", values(read(topic, 1, "read_uncommitted")));
    }

    private static void groups() throws Exception {
        String topic = topic("administered", 1);
        String group = prefix + "administered";
        try (KafkaConsumer<String, String> member = consumer("administered")) {
            member.subscribe(List.of(topic));
            shares("1", member);
            say("group listed", listed(group));
            ConsumerGroupDescription described = admin.describeConsumerGroups(List.of(group)).all().get().get(group);
            // state() is gone in 4.3.0 and groupState() is new there: their names are the same.
            String state = described.toString().replaceAll(".*[sS]tate=([A-Za-z]+).*", "$1");
            say("group described", state + " " + described.members().size());
        }
        TopicPartition partition = new TopicPartition(topic, 0);
        admin.alterConsumerGroupOffsets(group, Map.of(partition, new OffsetAndMetadata(1))).all().get();
        say("group offset", admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get().get(partition).offset());
        admin.deleteConsumerGroups(List.of(group)).all().get();
        say("group after deletion", listed(group));
    }

    private static boolean listed(String group) throws Exception {
        return admin.listConsumerGroups().all().get().stream().anyMatch(found -> found.groupId().equals(group));
    }
}
