package main

import (
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

func transactions() {
	target := topic("transactions", 1)
	producer := client(kgo.TransactionalID(prefix + "transaction"))
	defer producer.Close()
	for _, value := range []string{"first", "lost", "third"} {
		check(producer.BeginTransaction())
		check(producer.ProduceSync(within(), &kgo.Record{Topic: target, Value: []byte(value)}).FirstErr())
		check(producer.EndTransaction(within(), kgo.TransactionEndTry(value != "lost")))
	}
	say("committed", values(read(target, 2, kgo.FetchIsolationLevel(kgo.ReadCommitted()))))
	say("uncommitted", values(read(target, 3)))
}

func offsetsInTransactions() {
	source, target := topic("source", 1), topic("target", 1)
	fill(source, []string{"a", "b", "c", "d"})
	name := prefix + "copier"
	session := must(kgo.NewGroupTransactSession(
		kgo.SeedBrokers(bootstrap), kgo.TransactionalID(name), kgo.ConsumerGroup(name), kgo.ConsumeTopics(source),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
	))
	defer session.Close()
	for _, end := range []string{"commit", "abort"} {
		check(session.Begin())
		for seen := 0; seen < 2; {
			for _, record := range session.PollRecords(within(), 2-seen).Records() {
				check(session.ProduceSync(within(), &kgo.Record{Topic: target, Value: record.Value}).FirstErr())
				seen++
			}
		}
		must(session.End(within(), end == "commit"))
		say("offset after "+end, committed(name, source))
	}
}

// committed does not ask for offsets that are stable: those of a transaction may come a moment after its commit.
func committed(group, source string) int64 {
	for ctx := within(); ; time.Sleep(20 * time.Millisecond) {
		if found, there := must(admin.FetchOffsets(ctx, group)).Lookup(source, 0); there && found.At >= 0 {
			return found.At
		}
	}
}

func fencing() {
	target := topic("fencing", 1)
	first, second := client(kgo.TransactionalID(prefix+"fenced")), client(kgo.TransactionalID(prefix+"fenced"))
	defer first.Close()
	defer second.Close()
	check(first.BeginTransaction())
	check(first.ProduceSync(within(), &kgo.Record{Topic: target, Value: []byte("in time")}).FirstErr())
	_, _, err := second.ProducerID(within())
	check(err)
	err = first.EndTransaction(within(), kgo.TryCommit)
	say("fenced", errors.Is(err, kerr.ProducerFenced) || errors.Is(err, kerr.InvalidProducerEpoch))
}
