package main

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/IBM/sarama"
)

// member consumes on a goroutine of its own, as in use; it has the claims of its last session.
type member struct {
	sarama.ConsumerGroup
	messages chan *sarama.ConsumerMessage
	session  sarama.ConsumerGroupSession
	mutex    sync.Mutex
}

func join(target, group string) *member {
	joined := &member{ConsumerGroup: must(sarama.NewConsumerGroup(bootstrap, group, config())), messages: make(chan *sarama.ConsumerMessage)}
	go func() {
		for joined.Consume(context.Background(), []string{target}, joined) == nil {
		}
	}()
	return joined
}

func (m *member) Setup(session sarama.ConsumerGroupSession) error {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	m.session = session
	return nil
}

func (m *member) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (m *member) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for {
		select {
		case message, more := <-claim.Messages():
			if !more {
				return nil
			}
			select {
			case m.messages <- message:
			case <-session.Context().Done():
				return nil
			}
		case <-session.Context().Done():
			return nil
		}
	}
}

func (m *member) share() int {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	has := 0
	if m.session != nil && m.session.Context().Err() == nil {
		for _, partitions := range m.session.Claims() {
			has += len(partitions)
		}
	}
	return has
}

// shares waits until the members have as many partitions as wanted, or the time is over.
func shares(wanted string, members ...*member) string {
	late := time.Now().Add(wait)
	for {
		var has []string
		for _, joined := range members {
			has = append(has, fmt.Sprint(joined.share()))
		}
		if seen := strings.Join(has, " "); seen == wanted || time.Now().After(late) {
			return seen
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func group() {
	target, name := topic("group", 4), prefix+"group"
	first := join(target, name)
	defer first.Close()
	say("classic alone", shares("4", first))
	second := join(target, name)
	say("classic together", shares("2 2", first, second))
	check(second.Close())
	say("classic left", shares("4", first))
}

func resume() {
	target, name := topic("resume", 1), prefix+"resume"
	fill(target, numbered(6, ""))
	first := join(target, name)
	found := take(first.messages, 4)
	say("first reader", values(found))
	first.session.MarkMessage(found[3], "")
	first.session.Commit()
	check(first.Close())
	second := join(target, name)
	defer second.Close()
	say("second reader", values(take(second.messages, 2)))
}

func groups() {
	target, name := topic("administered", 1), prefix+"administered"
	joined := join(target, name)
	shares("1", joined)
	listed := func() bool {
		_, there := must(admin.ListConsumerGroups())[name]
		return there
	}
	say("group listed", listed())
	described := must(admin.DescribeConsumerGroups([]string{name}))[0]
	say("group described", described.State, len(described.Members))
	check(joined.Close())
	changed := map[string]map[int32]sarama.OffsetAndMetadata{target: {0: {Offset: 1, LeaderEpoch: -1}}}
	must(admin.AlterConsumerGroupOffsets(name, changed, nil))
	say("group offset", groupOffset(name, target))
	check(admin.DeleteConsumerGroup(name))
	say("group after deletion", listed())
}
