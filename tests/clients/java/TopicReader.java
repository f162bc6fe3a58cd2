import static java.nio.charset.StandardCharsets.UTF_8;

import java.time.Duration;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * Kafka's Java consumer against the broker at args[0]: prints every record of the topics args[1..], one line each:
 * topic, partition, offset, timestamp, key, value, headers as key:value; bytes in hexadecimal, `-` for null.
 */
public final class TopicReader {
    private static final Duration LONGEST = Duration.ofSeconds(180);

    public static void main(String[] args) {
        List<String> topics = Arrays.asList(args).subList(1, args.length);
        Map<String, Object> settings = Map.of("bootstrap.servers", args[0], "check.crcs", "true", "fetch.max.wait.ms", "50");
        try (var consumer = new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            List<TopicPartition> partitions = topics.stream()
                .flatMap(topic -> consumer.partitionsFor(topic).stream())
                .map(each -> new TopicPartition(each.topic(), each.partition()))
                .collect(Collectors.toList());
            consumer.assign(partitions);
            consumer.seekToBeginning(partitions);
            Map<TopicPartition, Long> ends = consumer.endOffsets(partitions);
            long deadline = System.nanoTime() + LONGEST.toNanos();
            while (partitions.stream().anyMatch(each -> consumer.position(each) < ends.get(each))) {
                if (System.nanoTime() > deadline) throw new IllegalStateException("no end of " + ends);
                consumer.poll(Duration.ofMillis(50)).forEach(TopicReader::print);
            }
        }
    }

    private static void print(ConsumerRecord<byte[], byte[]> record) {
        StringBuilder headers = new StringBuilder();
        for (Header header : record.headers())
            headers.append(' ').append(hex(header.key().getBytes(UTF_8))).append(':').append(hex(header.value()));
        System.out.println(record.topic() + " " + record.partition() + " " + record.offset() + " " + record.timestamp() + " "
            + hex(record.key()) + " " + hex(record.value()) + headers);
    }

    private static String hex(byte[] bytes) {
        return bytes == null ? "-" : HexFormat.of().formatHex(bytes) + ".";
    }
}
