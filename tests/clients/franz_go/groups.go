package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// member polls on a goroutine of its own and counts the partitions that it has.
type member struct {
	*kgo.Client
	mutex sync.Mutex
	has   int
}

func join(target, group string, options ...kgo.Opt) *member {
	joined := &member{}
	count := func(sign int) func(context.Context, *kgo.Client, map[string][]int32) {
		return func(_ context.Context, _ *kgo.Client, partitions map[string][]int32) {
			joined.mutex.Lock()
			defer joined.mutex.Unlock()
			joined.has += sign * len(partitions[target])
		}
	}
	joined.Client = client(append(options, kgo.ConsumeTopics(target), kgo.ConsumerGroup(group), kgo.HeartbeatInterval(200*time.Millisecond),
		kgo.SessionTimeout(60*time.Second), kgo.OnPartitionsAssigned(count(1)), kgo.OnPartitionsRevoked(count(-1)), kgo.OnPartitionsLost(count(-1)),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))...)
	go func() {
		for !joined.PollFetches(context.Background()).IsClientClosed() {
		}
	}()
	return joined
}

func (m *member) share() int {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	return m.has
}

// shares waits until the members have as many partitions as wanted, or the time is over.
func shares(wanted string, members ...*member) string {
	ctx := within()
	for {
		var has []string
		for _, joined := range members {
			has = append(has, fmt.Sprint(joined.share()))
		}
		if seen := strings.Join(has, " "); seen == wanted || ctx.Err() != nil {
			return seen
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func group(protocol string, options ...kgo.Opt) {
	target, name := topic("group-"+protocol, 4), prefix+protocol
	options = append(options, kgo.Balancers(kgo.RangeBalancer()))
	first := join(target, name, options...)
	defer first.Close()
	say(protocol+" alone", shares("4", first))
	second := join(target, name, options...)
	say(protocol+" together", shares("2 2", first, second))
	second.Close()
	say(protocol+" left", shares("4", first))
}

func resume() {
	target, name := topic("resume", 1), prefix+"resume"
	fill(target, numbered(6, ""))
	reader := func() *kgo.Client {
		return client(kgo.ConsumeTopics(target), kgo.ConsumerGroup(name), kgo.DisableAutoCommit(), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	}
	first := reader()
	found := take(first, 4)
	say("first reader", values(found))
	check(first.CommitRecords(within(), found...))
	first.Close()
	second := reader()
	defer second.Close()
	say("second reader", values(take(second, 2)))
}

func groups() {
	target, name := topic("administered", 1), prefix+"administered"
	fill(target, []string{"a", "b", "c"})
	joined := join(target, name)
	shares("1", joined)
	say("group listed", slices.Contains(must(admin.ListGroups(within())).Groups(), name))
	described := must(admin.DescribeGroups(within(), name))[name]
	check(described.Err)
	say("group described", described.State, len(described.Members))
	joined.Close()
	offsets := kadm.Offsets{}
	offsets.AddOffset(target, 0, 1, -1)
	check(admin.CommitAllOffsets(within(), name, offsets))
	say("group offset", committed(name, target))
	check(must(admin.DeleteGroup(within(), name)).Err)
	say("group after deletion", slices.Contains(must(admin.ListGroups(within())).Groups(), name))
}
