package main

import "github.com/twmb/franz-go/pkg/kadm"

func topics() {
	target := topic("grown", 2)
	check(must(admin.UpdatePartitions(within(), 3, target)).Error())
	described := must(admin.ListTopics(within(), target))[target]
	say("partitions", len(described.Partitions))
	retention := "7000000"
	check(must(admin.AlterTopicConfigs(within(), []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "retention.ms", Value: &retention}}, target))[0].Err)
	for _, config := range must(admin.DescribeTopicConfigs(within(), target))[0].Configs {
		if config.Key == "retention.ms" {
			say("retention", config.MaybeValue())
		}
	}
	check(must(admin.DeleteTopic(within(), target)).Err)
	say("topic after deletion", must(admin.ListTopics(within())).Has(target))
}

func deletion() {
	target := topic("deletion", 1)
	fill(target, numbered(4, ""))
	offsets := kadm.Offsets{}
	offsets.AddOffset(target, 0, 3, -1)
	answer := must(admin.DeleteRecords(within(), offsets))[target][0]
	check(answer.Err)
	say("low watermark", answer.LowWatermark)
	say("first record", values(read(target, 1)))
}
