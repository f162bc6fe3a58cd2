// franz-go against the broker at argument 1, with names that begin with argument 2; prints one line `what=seen` for each thing
// that it did. Nothing is judged here: the test knows what should be seen.
package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

const wait = 120 * time.Second

var (
	bootstrap, prefix = os.Args[1], os.Args[2]
	admin             = kadm.NewClient(client())
	failed            = false
)

func main() {
	run("codecs", codecs)
	run("records", records)
	run("large", large)
	run("times", times)
	run("classic", func() { group("classic") })
	run("consumer", func() { group("consumer", kgo.ServerSideBalancer()) })
	run("resume", resume)
	run("idempotence", idempotence)
	run("transactions", transactions)
	run("offsets in transactions", offsetsInTransactions)
	run("fencing", fencing)
	run("topics", topics)
	run("deletion", deletion)
	run("groups", groups)
	if failed {
		os.Exit(1)
	}
}

// run goes on after a situation that failed: the others can still be seen.
func run(name string, situation func()) {
	defer func() {
		if reason := recover(); reason != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", name, reason)
			failed = true
		}
	}()
	situation()
}

func say(what string, seen ...any) {
	fmt.Printf("%s=%s", what, fmt.Sprintln(seen...))
}

func must[T any](value T, err error) T {
	check(err)
	return value
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func within() context.Context {
	ctx, end := context.WithCancel(context.Background())
	time.AfterFunc(wait, end)
	return ctx
}

func client(options ...kgo.Opt) *kgo.Client {
	return must(kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(bootstrap), kgo.FetchMaxWait(50 * time.Millisecond)}, options...)...))
}

func topic(name string, partitions int32) string {
	created := must(admin.CreateTopic(within(), partitions, 1, nil, prefix+name))
	check(created.Err)
	return created.Topic
}

func fill(target string, values []string, options ...kgo.Opt) {
	producer := client(options...)
	defer producer.Close()
	var sent []*kgo.Record
	for _, value := range values {
		sent = append(sent, &kgo.Record{Topic: target, Value: []byte(value)})
	}
	check(producer.ProduceSync(within(), sent...).FirstErr())
}

func take(consumer *kgo.Client, count int) []*kgo.Record {
	var found []*kgo.Record
	ctx := within()
	for len(found) < count && ctx.Err() == nil {
		fetches := consumer.PollRecords(ctx, count-len(found))
		check(fetches.Err())
		found = append(found, fetches.Records()...)
	}
	return found
}

// read gives the first records of partition 0.
func read(target string, count int, options ...kgo.Opt) []*kgo.Record {
	start := map[string]map[int32]kgo.Offset{target: {0: kgo.NewOffset().AtStart()}}
	consumer := client(append(options, kgo.ConsumePartitions(start))...)
	defer consumer.Close()
	return take(consumer, count)
}

func numbered(count int, text string) []string {
	values := make([]string, count)
	for i := range values {
		values[i] = fmt.Sprint(i, text)
	}
	return values
}

func values(records []*kgo.Record) string {
	var found []string
	for _, record := range records {
		found = append(found, string(record.Value))
	}
	return strings.Join(found, " ")
}

func inOrder(records []*kgo.Record, wanted []string) string {
	for i, record := range records {
		if string(record.Value) != wanted[i] || record.Offset != int64(i) {
			return fmt.Sprintf("%d, out of order at %d", len(records), i)
		}
	}
	return fmt.Sprint(len(records), " in order")
}
