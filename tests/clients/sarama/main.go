// Sarama against the broker at argument 1, with names that begin with argument 2, as for a broker of the version in argument 3;
// prints one line `what=seen` for each thing that it did. Nothing is judged here: the test knows what should be seen.
package main

import (
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/IBM/sarama"
)

const wait = 120 * time.Second

var (
	bootstrap, prefix = []string{os.Args[1]}, os.Args[2]
	version           = must(sarama.ParseKafkaVersion(os.Args[3]))
	admin             = must(sarama.NewClusterAdmin(bootstrap, config()))
	failed            = false
)

func main() {
	run("codecs", codecs)
	run("records", records)
	run("large", large)
	run("times", times)
	run("group", group)
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

// config is Sarama's own, but for what makes a test short; changed by `change`, if given.
func config(changes ...func(*sarama.Config)) *sarama.Config {
	settings := sarama.NewConfig()
	settings.Version = version
	settings.Producer.Return.Successes = true
	settings.Producer.RequiredAcks = sarama.WaitForAll
	settings.Consumer.Offsets.Initial = sarama.OffsetOldest
	settings.Consumer.Offsets.AutoCommit.Enable = false
	settings.Consumer.MaxWaitTime = 50 * time.Millisecond
	settings.Consumer.Group.Heartbeat.Interval = 200 * time.Millisecond
	settings.Consumer.Group.Session.Timeout = 60 * time.Second
	settings.Admin.Timeout = 60 * time.Second
	settings.Producer.Transaction.Retry.Max = 600
	for _, change := range changes {
		change(settings)
	}
	return settings
}

func topic(name string, partitions int32) string {
	check(admin.CreateTopic(prefix+name, &sarama.TopicDetail{NumPartitions: partitions, ReplicationFactor: 1}, false))
	return prefix + name
}

func producer(changes ...func(*sarama.Config)) sarama.SyncProducer {
	return must(sarama.NewSyncProducer(bootstrap, config(changes...)))
}

func fill(target string, values []string, changes ...func(*sarama.Config)) {
	client := producer(changes...)
	defer client.Close()
	var sent []*sarama.ProducerMessage
	for _, value := range values {
		sent = append(sent, &sarama.ProducerMessage{Topic: target, Value: sarama.StringEncoder(value)})
	}
	check(client.SendMessages(sent))
}

// read gives the first records of partition 0.
func read(target string, count int, changes ...func(*sarama.Config)) []*sarama.ConsumerMessage {
	consumer := must(sarama.NewConsumer(bootstrap, config(changes...)))
	defer consumer.Close()
	partition := must(consumer.ConsumePartition(target, 0, sarama.OffsetOldest))
	defer partition.Close()
	return take(partition.Messages(), count)
}

func take(messages <-chan *sarama.ConsumerMessage, count int) []*sarama.ConsumerMessage {
	var found []*sarama.ConsumerMessage
	late := time.After(wait)
	for len(found) < count {
		select {
		case message := <-messages:
			found = append(found, message)
		case <-late:
			return found
		}
	}
	return found
}

func numbered(count int, text string) []string {
	values := make([]string, count)
	for i := range values {
		values[i] = fmt.Sprint(i, text)
	}
	return values
}

func values(messages []*sarama.ConsumerMessage) string {
	var found []string
	for _, message := range messages {
		found = append(found, string(message.Value))
	}
	return strings.Join(found, " ")
}

func inOrder(messages []*sarama.ConsumerMessage, wanted []string) string {
	for i, message := range messages {
		if string(message.Value) != wanted[i] || message.Offset != int64(i) {
			return fmt.Sprintf("%d, out of order at %d", len(messages), i)
		}
	}
	return fmt.Sprint(len(messages), " in order")
}
