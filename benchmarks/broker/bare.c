/* A client without a client library: frames that were encoded beforehand, over loopback, several in flight.

   produce PORT HEADS HEAD_SIZE REST CONNECTIONS IN_FLIGHT REQUESTS SECONDS ERROR_AT
     HEADS is a file of beginnings of frames, HEAD_SIZE bytes each, an equal share for each connection; REST is a file
     with what follows every one of them. Only what differs from request to request is in a head, so that ten
     thousand numbered batches of 64 KB are ten thousand heads and one rest. A connection sends its heads in turn.
     ERROR_AT is where in an answer, counted from behind its size, the two bytes of the error code stand.

   fetch PORT FRAMES FRAME_SIZE OFFSET_AT CONNECTIONS RECORDS SECONDS RECORDS_AT HAS_VARINT SESSION_AT SESSION_ANSWERED_AT
     FRAMES holds one request for each connection; the eight bytes at OFFSET_AT are the offset to fetch, which goes on
     behind what was received. RECORDS_AT is where in an answer the size of the records stands, four bytes or a varint.
     SESSION_AT is where in a request the session's id and epoch stand, or -1 for fetches without a session; the first
     request opens it. SESSION_ANSWERED_AT is where its id stands in an answer, behind the error code of all of it.
     Every connection ends when it has received RECORDS records.

   Prints one line of JSON. Answers come in the order of the requests, so a queue of sending times gives latencies. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum { MOST_CONNECTIONS = 64, MOST_IN_FLIGHT = 256, MOST_VECTORS = 64, BUFFER = 16 << 20 };

struct connection {
    int fd;
    char *heads;
    long head_count;
    long started;  /* requests of which at least one byte is sent */
    long answered;
    size_t sent;   /* bytes of the last started request; its full size when it is complete */
    double times[MOST_IN_FLIGHT];
    char *in;
    size_t filled;
    int64_t next_offset;
    uint32_t epoch; /* of its fetch session */
    int is_done;
};

static struct connection connections[MOST_CONNECTIONS];
static int connection_count, port;
static double deadline;
static long errors;
static int first_error;

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
    fprintf(stderr, "bare client: %s: %s\n", what, errno ? strerror(errno) : "unexpected");
    exit(1);
}

static char *whole_file(const char *path, size_t *size) {
    struct stat status;
    FILE *file = fopen(path, "rb");
    if (!file || fstat(fileno(file), &status)) die(path);
    char *data = malloc(status.st_size + 1);
    if (fread(data, 1, status.st_size, file) != (size_t)status.st_size) die(path);
    fclose(file);
    *size = status.st_size;
    return data;
}

static void open_connections(int non_blocking) {
    for (int i = 0; i < connection_count; i++) {
        struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        int one = 1, fd = socket(AF_INET, SOCK_STREAM, 0);
        if (connect(fd, (struct sockaddr *)&address, sizeof address)) die("connect");
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        connections[i].fd = fd;
        connections[i].in = malloc(non_blocking ? 1 << 16 : BUFFER);
    }
}

/* Producing. */

static char *rest;
static size_t head_size, rest_size;
static long error_at;

static void send_some(struct connection *c, int in_flight, long requests) {
    size_t frame = head_size + rest_size;
    for (;;) {
        struct iovec vectors[MOST_VECTORS];
        int used = 0;
        long request = c->started - (c->sent < frame && c->started > 0);
        size_t skip = request < c->started ? c->sent : 0;
        while (used + 2 <= MOST_VECTORS && request < requests && request - c->answered < in_flight) {
            char *head = c->heads + (request % c->head_count) * head_size;
            if (skip < head_size) vectors[used++] = (struct iovec){head + skip, head_size - skip};
            size_t into = skip > head_size ? skip - head_size : 0;
            vectors[used++] = (struct iovec){rest + into, rest_size - into};
            skip = 0;
            request++;
        }
        if (!used) return;
        double t = now();
        ssize_t sent = sendmsg(c->fd, &(struct msghdr){.msg_iov = vectors, .msg_iovlen = used}, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (sent < 0) {
            if (errno == EAGAIN) return;
            die("send");
        }
        while (sent > 0) {
            if (c->started == 0 || c->sent == frame) {
                c->times[c->started % MOST_IN_FLIGHT] = t;
                c->started++;
                c->sent = 0;
            }
            size_t part = frame - c->sent < (size_t)sent ? frame - c->sent : (size_t)sent;
            c->sent += part;
            sent -= part;
        }
    }
}

static float *latencies;
static long latency_count;

static void take_answers(struct connection *c) {
    ssize_t got = recv(c->fd, c->in + c->filled, (1 << 16) - c->filled, MSG_DONTWAIT);
    if (got <= 0) {
        if (got < 0 && errno == EAGAIN) return;
        die("the broker closed a connection");
    }
    c->filled += got;
    double t = now();
    size_t at = 0;
    while (c->filled - at >= 4) {
        size_t size = be32toh(*(uint32_t *)(c->in + at));
        if (c->filled - at < 4 + size) break;
        int error = (int16_t)be16toh(*(uint16_t *)(c->in + at + 4 + error_at));
        if (error && !errors++) first_error = error;
        latencies[latency_count++] = (t - c->times[c->answered % MOST_IN_FLIGHT]) * 1e6;
        c->answered++;
        at += 4 + size;
    }
    memmove(c->in, c->in + at, c->filled - at);
    c->filled -= at;
}

static int by_size(const void *a, const void *b) {
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

static void produce(char **argument) {
    size_t heads_size;
    char *heads = whole_file(argument[0], &heads_size);
    head_size = atol(argument[1]);
    rest = whole_file(argument[2], &rest_size);
    connection_count = atoi(argument[3]);
    int in_flight = atoi(argument[4]);
    long requests = atol(argument[5]) / connection_count;
    double seconds = atof(argument[6]);
    error_at = atol(argument[7]);
    if (connection_count > MOST_CONNECTIONS || in_flight > MOST_IN_FLIGHT) die("too many connections or requests in flight");
    open_connections(1);
    long share = heads_size / head_size / connection_count;
    for (int i = 0; i < connection_count; i++) {
        connections[i].heads = heads + i * share * head_size;
        connections[i].head_count = share;
    }
    latencies = malloc(sizeof(float) * (requests * connection_count + 1));
    double start = now(), cpu_start = cpu();
    deadline = start + seconds;
    struct pollfd ready[MOST_CONNECTIONS];
    for (int i = 0; i < connection_count; i++) send_some(&connections[i], in_flight, requests);
    for (;;) {
        int waiting = 0, is_late = now() > deadline;
        for (int i = 0; i < connection_count; i++) {
            struct connection *c = &connections[i];
            int wants_more = c->sent < head_size + rest_size || (!is_late && c->started < requests && c->started - c->answered < in_flight);
            ready[i] = (struct pollfd){c->fd, POLLIN | (wants_more ? POLLOUT : 0), 0};
            waiting += c->answered < c->started || wants_more;
        }
        if (!waiting) break;
        poll(ready, connection_count, 1000);
        for (int i = 0; i < connection_count; i++) {
            struct connection *c = &connections[i];
            if (ready[i].revents & ~POLLOUT) take_answers(c);
            /* A request that is begun is finished also after the time is up. */
            if (!is_late) send_some(c, in_flight, requests);
            else if (c->sent < head_size + rest_size) send_some(c, in_flight, c->started);
        }
    }
    double taken = now() - start;
    qsort(latencies, latency_count, sizeof(float), by_size);
    double bytes = (double)latency_count * (head_size + rest_size);
    printf("{\"requests\": %ld, \"seconds\": %.6f, \"rate\": %.1f, \"mb_s\": %.2f, \"p50_us\": %.1f, \"p99_us\": %.1f, \"errors\": %ld,"
           " \"first_error\": %d, \"cpu\": %.3f}\n",
           latency_count, taken, latency_count / taken, bytes / 1e6 / taken, latencies[latency_count / 2],
           latencies[latency_count * 99 / 100], errors, first_error, cpu() - cpu_start);
}

/* Fetching. */

static long take_batches(struct connection *c, char *records, long size) {
    long at = 0, taken = 0;
    while (size - at >= 61) {
        long batch = 12 + (long)be32toh(*(uint32_t *)(records + at + 8));
        if (at + batch > size) break;
        int64_t base = be64toh(*(uint64_t *)(records + at));
        int32_t last_delta = be32toh(*(uint32_t *)(records + at + 23));
        taken += base + last_delta + 1 - c->next_offset;
        c->next_offset = base + last_delta + 1;
        at += batch;
    }
    return taken;
}

/* The size of the records in an answer; `at` moves on to where they start. -1: the answer has no room for any. */
static long records_size(char *answer, size_t size, size_t *at, int has_varint) {
    if (*at + 4 > size) return -1;
    if (!has_varint) {
        int32_t fixed = be32toh(*(uint32_t *)(answer + *at));
        *at += 4;
        return fixed;
    }
    long value = 0;
    int shift = 0, more;
    do {
        more = answer[*at] & 0x80;
        value |= (long)(answer[*at] & 0x7f) << shift;
        shift += 7;
        (*at)++;
    } while (more && shift < 35 && *at < size);
    return value - 1;
}

static void fetch(char **argument) {
    size_t frames_size;
    char *frames = whole_file(argument[0], &frames_size);
    size_t frame_size = atol(argument[1]);
    long offset_at = atol(argument[2]);
    connection_count = atoi(argument[3]);
    int64_t records = atol(argument[4]);
    double seconds = atof(argument[5]);
    long records_at = atol(argument[6]), requests = 0, done = 0;
    int has_varint = atoi(argument[7]);
    long session_at = atol(argument[8]), session_answered_at = atol(argument[9]);
    double bytes = 0;
    open_connections(0);
    double start = now(), cpu_start = cpu();
    deadline = start + seconds;
    struct pollfd ready[MOST_CONNECTIONS];
    for (int i = 0; i < connection_count; i++) {
        if (send(connections[i].fd, frames + i * frame_size, frame_size, MSG_NOSIGNAL) != (ssize_t)frame_size) die("send");
        requests++;
    }
    while (done < connection_count && now() < deadline) {
        for (int i = 0; i < connection_count; i++) ready[i] = (struct pollfd){connections[i].fd, POLLIN, 0};
        poll(ready, connection_count, 1000);
        for (int i = 0; i < connection_count; i++) {
            struct connection *c = &connections[i];
            if (!ready[i].revents || c->is_done) continue;
            ssize_t got = recv(c->fd, c->in + c->filled, BUFFER - c->filled, MSG_DONTWAIT);
            if (got <= 0) {
                if (got < 0 && errno == EAGAIN) continue;
                die("the broker closed a connection");
            }
            c->filled += got;
            if (c->filled < 4) continue;
            size_t size = be32toh(*(uint32_t *)c->in);
            if (4 + size > BUFFER) die("an answer larger than the buffer");
            if (c->filled < 4 + size) continue;
            size_t at = 4 + records_at;
            int error = (int16_t)be16toh(*(uint16_t *)(c->in + 4 + session_answered_at - 2));
            long stretch = error ? -1 : records_size(c->in, 4 + size, &at, has_varint);
            if ((long)(at + stretch) > (long)(4 + size)) stretch = -1;
            if ((stretch < 0 || take_batches(c, c->in + at, stretch) == 0) && !errors++) first_error = error;
            bytes += stretch < 0 ? 0 : stretch;
            c->filled = 0;
            if (c->next_offset >= records) {
                c->is_done = 1;
                done++;
                continue;
            }
            char *frame = frames + i * frame_size;
            uint64_t offset = htobe64(c->next_offset);
            memcpy(frame + offset_at, &offset, 8);
            if (session_at >= 0) {
                uint32_t epoch = htobe32(++c->epoch);
                memcpy(frame + session_at, c->in + 4 + session_answered_at, 4);
                memcpy(frame + session_at + 4, &epoch, 4);
            }
            if (send(c->fd, frame, frame_size, MSG_NOSIGNAL) != (ssize_t)frame_size) die("send");
            requests++;
        }
    }
    double taken = now() - start;
    long received = 0;
    for (int i = 0; i < connection_count; i++) received += connections[i].next_offset;
    printf("{\"requests\": %ld, \"records\": %ld, \"seconds\": %.6f, \"rate\": %.1f, \"mb_s\": %.2f, \"errors\": %ld,"
           " \"first_error\": %d, \"cpu\": %.3f}\n",
           requests, received, taken, requests / taken, bytes / 1e6 / taken, errors, first_error, cpu() - cpu_start);
}

int main(int count, char **argument) {
    if (count < 3) die("usage: produce|fetch PORT ...");
    port = atoi(argument[2]);
    if (count == 11 && !strcmp(argument[1], "produce")) produce(argument + 3);
    else if (count == 13 && !strcmp(argument[1], "fetch")) fetch(argument + 3);
    else die("usage: produce|fetch PORT ...");
    return 0;
}
