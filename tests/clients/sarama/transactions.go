package main

import (
	"time"

	"github.com/IBM/sarama"
)

func transactional(id string) func(*sarama.Config) {
	return func(settings *sarama.Config) {
		idempotent(settings)
		settings.Producer.Transaction.ID = prefix + id
	}
}

func committed(settings *sarama.Config) {
	settings.Consumer.IsolationLevel = sarama.ReadCommitted
}

func send(client sarama.SyncProducer, target, value string) error {
	_, _, err := client.SendMessage(&sarama.ProducerMessage{Topic: target, Value: sarama.StringEncoder(value)})
	return err
}

func transactions() {
	target := topic("transactions", 1)
	client := producer(transactional("transaction"))
	defer client.Close()
	for _, value := range []string{"first", "lost", "third"} {
		check(client.BeginTxn())
		check(send(client, target, value))
		if value == "lost" {
			check(client.AbortTxn())
		} else {
			check(client.CommitTxn())
		}
	}
	say("committed", values(read(target, 2, committed)))
	say("uncommitted", values(read(target, 3)))
}

func offsetsInTransactions() {
	source, target, name := topic("source", 1), topic("target", 1), prefix+"copier"
	fill(source, []string{"a", "b", "c", "d"})
	client := producer(transactional("copier"))
	defer client.Close()
	for i, end := range []func() error{client.CommitTxn, client.AbortTxn} {
		check(client.BeginTxn())
		check(send(client, target, "copied"))
		offsets := map[string][]*sarama.PartitionOffsetMetadata{source: {{Partition: 0, Offset: int64(2 + 2*i)}}}
		check(client.AddOffsetsToTxn(offsets, name))
		check(end())
		say([]string{"offset after commit", "offset after abort"}[i], groupOffset(name, source))
	}
}

// groupOffset does not ask for offsets that are stable: those of a transaction may come a moment after its commit.
func groupOffset(name, source string) int64 {
	for late := time.Now().Add(wait); ; time.Sleep(20 * time.Millisecond) {
		found := must(admin.ListConsumerGroupOffsets(name, map[string][]int32{source: {0}})).GetBlock(source, 0).Offset
		if found >= 0 || time.Now().After(late) {
			return found
		}
	}
}

func fencing() {
	target := topic("fencing", 1)
	first := producer(transactional("fenced"))
	check(first.BeginTxn())
	check(send(first, target, "in time"))
	second := producer(transactional("fenced"))
	defer second.Close()
	err := send(first, target, "too late")
	if err == nil {
		err = first.CommitTxn()
	}
	say("fenced", err != nil && first.TxnStatus()&sarama.ProducerTxnFlagInError != 0)
}
