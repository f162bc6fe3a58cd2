import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Future;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.AuthorizationException;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.errors.UnsupportedVersionException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Copies `in` to `out` at the broker args[0], args[2] records, in transactions that commit the offsets too; args[1] is the group protocol.
 * Prints `committed N` after each transaction and `aborted` for each that was given up.
 */
public final class ExactlyOnce {
    private static final Duration POLL = Duration.ofMillis(100);
    private static KafkaConsumer<String, String> consumer;
    private static KafkaProducer<String, String> producer;

    public static void main(String[] args) {
        Map<String, Object> common = Map.of(
            "bootstrap.servers", args[0], "reconnect.backoff.ms", 10, "reconnect.backoff.max.ms", 100, "retry.backoff.ms", 10);
        Map<String, Object> consuming = new HashMap<>(common);
        consuming.putAll(Map.of(
            "group.id", "copier", "group.protocol", args[1], "isolation.level", "read_committed", "enable.auto.commit", false,
            "auto.offset.reset", "earliest", "max.poll.records", 200));
        Map<String, Object> producing = new HashMap<>(common);
        producing.putAll(Map.of("transactional.id", "copier", "max.block.ms", 60000, "delivery.timeout.ms", 120000, "linger.ms", 0));
        consumer = new KafkaConsumer<>(consuming, new StringDeserializer(), new StringDeserializer());
        producer = new KafkaProducer<>(producing, new StringSerializer(), new StringSerializer());
        producer.initTransactions();
        consumer.subscribe(List.of("in"));
        int wanted = Integer.parseInt(args[2]);
        int copied = 0;
        while (copied < wanted) {
            ConsumerRecords<String, String> records = consumer.poll(POLL);
            if (records.isEmpty()) continue;
            try {
                copy(records);
                copied += records.count();
                System.out.println("committed " + copied);
            } catch (ProducerFencedException | AuthorizationException | UnsupportedVersionException fatal) {
                throw fatal;
            } catch (KafkaException abortable) {
                System.out.println("aborted " + abortable);
                patiently(producer::abortTransaction);
                rewind();
            }
        }
        consumer.close();
        producer.close();
    }

    private static void copy(ConsumerRecords<String, String> records) {
        producer.beginTransaction();
        List<Future<?>> sent = new ArrayList<>();
        Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
        for (ConsumerRecord<String, String> record : records) {
            sent.add(producer.send(new ProducerRecord<>("out", record.partition(), null, record.value())));
            offsets.put(new TopicPartition(record.topic(), record.partition()), new OffsetAndMetadata(record.offset() + 1));
        }
        producer.sendOffsetsToTransaction(offsets, consumer.groupMetadata());
        patiently(producer::commitTransaction);
    }

    /** Whether it happened is not known after a timeout: it must be asked for again. */
    private static void patiently(Runnable end) {
        while (true) {
            try {
                end.run();
                return;
            } catch (TimeoutException again) {
                System.out.println("again");
            }
        }
    }

    private static void rewind() {
        consumer.committed(consumer.assignment()).forEach((partition, committed) -> {
            if (committed == null) consumer.seekToBeginning(List.of(partition));
            else consumer.seek(partition, committed.offset());
        });
    }
}
