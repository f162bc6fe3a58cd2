/* librdkafka, the C client below confluent-kafka and most others, without a Python call for each record.

   produce  BOOTSTRAP TOPIC VALUES SIZE RECORDS SECONDS [name=value ...]   as fast as it takes them; MB/s and records/s
   wait     BOOTSTRAP TOPIC VALUES SIZE RECORDS SECONDS [name=value ...]   one at a time, each acknowledged; latencies
   consume  BOOTSTRAP TOPIC -      0    RECORDS SECONDS [name=value ...]   partition 0 from its start; MB/s

   VALUES is a file of values, SIZE bytes each, sent in turn. Everything goes to partition 0. Prints one line of JSON.
   It is linked against the library inside confluent-kafka's package, which comes without headers: what is used of it
   is declared here. Its binary interface is stable by its makers' promise. */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

typedef struct rd_kafka_s rd_kafka_t;
typedef struct rd_kafka_conf_s rd_kafka_conf_t;
typedef struct rd_kafka_topic_s rd_kafka_topic_t;
typedef struct rd_kafka_queue_s rd_kafka_queue_t;
typedef struct rd_kafka_message_s {
    int err;
    rd_kafka_topic_t *rkt;
    int32_t partition;
    void *payload;
    size_t len;
    void *key;
    size_t key_len;
    int64_t offset;
    void *_private;
} rd_kafka_message_t;

enum { PRODUCER = 0, CONSUMER = 1, BEGINNING = -2, ROOM = 512, AT_ONCE = 5000 };

rd_kafka_conf_t *rd_kafka_conf_new(void);
int rd_kafka_conf_set(rd_kafka_conf_t *, const char *name, const char *value, char *error, size_t room);
void rd_kafka_conf_set_dr_msg_cb(rd_kafka_conf_t *, void (*)(rd_kafka_t *, const rd_kafka_message_t *, void *));
rd_kafka_t *rd_kafka_new(int type, rd_kafka_conf_t *, char *error, size_t room);
rd_kafka_topic_t *rd_kafka_topic_new(rd_kafka_t *, const char *name, void *conf);
int rd_kafka_produce(rd_kafka_topic_t *, int32_t partition, int flags, void *value, size_t size, const void *key, size_t key_size, void *);
int rd_kafka_poll(rd_kafka_t *, int milliseconds);
rd_kafka_queue_t *rd_kafka_queue_new(rd_kafka_t *);
int rd_kafka_consume_start_queue(rd_kafka_topic_t *, int32_t partition, int64_t offset, rd_kafka_queue_t *);
ssize_t rd_kafka_consume_batch_queue(rd_kafka_queue_t *, int milliseconds, rd_kafka_message_t **, size_t count);
void rd_kafka_message_destroy(rd_kafka_message_t *);
const char *rd_kafka_err2str(int error);

static long delivered, errors;
static const char *first_error = "";

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}

static double cpu(void) {
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    return used.ru_utime.tv_sec + used.ru_stime.tv_sec + (used.ru_utime.tv_usec + used.ru_stime.tv_usec) * 1e-6;
}

static void die(const char *what) {
    fprintf(stderr, "librdkafka client: %s\n", what);
    exit(1);
}

static void on_delivery(rd_kafka_t *client, const rd_kafka_message_t *message, void *opaque) {
    (void)client, (void)opaque;
    delivered++;
    if (message->err && !errors++) first_error = rd_kafka_err2str(message->err);
}

static int by_size(const void *a, const void *b) {
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

/* The program ends here without the library's tidying up, which takes longer than some of the runs. */
static void finish(void) {
    fflush(stdout);
    _exit(0);
}

static void produce(rd_kafka_t *client, rd_kafka_topic_t *topic, char *values, long count, size_t size, long records, double seconds) {
    double start = now(), cpu_start = cpu();
    long sent = 0;
    while (sent < records) {
        if (rd_kafka_produce(topic, 0, 0, values + (sent % count) * size, size, NULL, 0, NULL)) {
            rd_kafka_poll(client, 5);
            continue;
        }
        if (++sent % 256 == 0) {
            rd_kafka_poll(client, 0);
            if (now() - start > seconds) break;
        }
    }
    while (delivered < sent && now() - start < seconds + 20) rd_kafka_poll(client, 20);
    double taken = now() - start;
    printf("{\"records\": %ld, \"seconds\": %.6f, \"rate\": %.1f, \"mb_s\": %.2f, \"errors\": %ld, \"first_error\": \"%s\", \"cpu\": %.3f}\n",
           delivered, taken, delivered / taken, delivered / taken * size / 1e6, errors + sent - delivered, first_error,
           cpu() - cpu_start);
    finish();
}

static void wait_for_each(rd_kafka_t *client, rd_kafka_topic_t *topic, char *values, size_t size, long records, double seconds) {
    float *latencies = malloc(sizeof(float) * records);
    double start = now(), cpu_start = cpu();
    long sent = 0;
    for (; sent < records && now() - start < seconds; sent++) {
        double before = now();
        delivered = 0;
        if (rd_kafka_produce(topic, 0, 0, values, size, NULL, 0, NULL)) die("a record was not taken");
        while (!delivered) rd_kafka_poll(client, 1000);
        latencies[sent] = (now() - before) * 1e6;
    }
    qsort(latencies, sent, sizeof(float), by_size);
    printf("{\"records\": %ld, \"p50_us\": %.1f, \"p99_us\": %.1f, \"errors\": %ld, \"first_error\": \"%s\", \"cpu\": %.3f}\n", sent,
           latencies[sent / 2], latencies[sent * 99 / 100], errors, first_error, cpu() - cpu_start);
    finish();
}

static void consume(rd_kafka_t *client, rd_kafka_topic_t *topic, long records, double seconds) {
    rd_kafka_queue_t *queue = rd_kafka_queue_new(client);
    if (rd_kafka_consume_start_queue(topic, 0, BEGINNING, queue)) die("consuming did not start");
    rd_kafka_message_t **messages = malloc(sizeof(*messages) * AT_ONCE);
    double start = now(), first = 0, cpu_start = 0, bytes = 0;
    long taken = 0;
    while (taken < records && now() - start < seconds) {
        ssize_t got = rd_kafka_consume_batch_queue(queue, 200, messages, AT_ONCE);
        /* Counted from the first records on: the client waits half a second by itself before it asks for them. */
        if (got > 0 && !first) first = now(), cpu_start = cpu();
        for (ssize_t i = 0; i < got; i++) {
            if (messages[i]->err && !errors++) first_error = rd_kafka_err2str(messages[i]->err);
            if (!messages[i]->err) taken++, bytes += messages[i]->len;
            rd_kafka_message_destroy(messages[i]);
        }
    }
    double duration = now() - first;
    printf("{\"records\": %ld, \"seconds\": %.6f, \"mb_s\": %.2f, \"errors\": %ld, \"first_error\": \"%s\", \"cpu\": %.3f}\n", taken,
           duration, bytes / 1e6 / duration, errors, first_error, cpu() - cpu_start);
    finish();
}

int main(int count, char **argument) {
    if (count < 8) die("usage: produce|wait|consume BOOTSTRAP TOPIC VALUES SIZE RECORDS SECONDS [name=value ...]");
    char error[ROOM], *values = NULL;
    int is_consumer = !strcmp(argument[1], "consume");
    size_t size = atol(argument[5]);
    long records = atol(argument[6]), value_count = 0;
    double seconds = atof(argument[7]);
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    if (rd_kafka_conf_set(conf, "bootstrap.servers", argument[2], error, ROOM)) die(error);
    for (int i = 8; i < count; i++) {
        char *value = strchr(argument[i], '=');
        if (!value) die("a setting has the form name=value");
        *value++ = 0;
        if (rd_kafka_conf_set(conf, argument[i], value, error, ROOM)) die(error);
    }
    if (is_consumer) {
        rd_kafka_t *client = rd_kafka_new(CONSUMER, conf, error, ROOM);
        if (!client) die(error);
        consume(client, rd_kafka_topic_new(client, argument[3], NULL), records, seconds);
    }
    struct stat status;
    FILE *file = fopen(argument[4], "rb");
    if (!file || fstat(fileno(file), &status)) die("the file of values cannot be read");
    value_count = status.st_size / size;
    values = malloc(status.st_size);
    if (value_count < 1 || fread(values, 1, status.st_size, file) != (size_t)status.st_size) die("the file of values is too short");
    rd_kafka_conf_set_dr_msg_cb(conf, on_delivery);
    rd_kafka_t *client = rd_kafka_new(PRODUCER, conf, error, ROOM);
    if (!client) die(error);
    rd_kafka_topic_t *topic = rd_kafka_topic_new(client, argument[3], NULL);
    /* One record ahead of the clock: the connection and what the client wants to know about the broker. */
    rd_kafka_produce(topic, 0, 0, values, size, NULL, 0, NULL);
    for (double start = now(); !delivered && now() - start < 20;) rd_kafka_poll(client, 10);
    if (!delivered || errors) die(errors ? first_error : "the first record was not acknowledged within 20 seconds");
    delivered = 0;
    if (!strcmp(argument[1], "wait")) wait_for_each(client, topic, values, size, records, seconds);
    produce(client, topic, values, value_count, size, records, seconds);
}
