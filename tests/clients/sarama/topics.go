package main

import "github.com/IBM/sarama"

func topics() {
	target := topic("grown", 2)
	check(admin.CreatePartitions(target, 3, nil, false))
	say("partitions", len(must(admin.DescribeTopics([]string{target}))[0].Partitions))
	retention := "7000000"
	check(admin.AlterConfig(sarama.TopicResource, target, map[string]*string{"retention.ms": &retention}, false))
	asked := sarama.ConfigResource{Type: sarama.TopicResource, Name: target, ConfigNames: []string{"retention.ms"}}
	say("retention", must(admin.DescribeConfig(asked))[0].Value)
	check(admin.DeleteTopic(target))
	_, there := must(admin.ListTopics())[target]
	say("topic after deletion", there)
}

func deletion() {
	target := topic("deletion", 1)
	fill(target, numbered(4, ""))
	check(admin.DeleteRecords(target, map[int32]int64{0: 3}))
	asking := must(sarama.NewClient(bootstrap, config()))
	defer asking.Close()
	say("low watermark", must(asking.GetOffset(target, 0, sarama.OffsetOldest)))
	say("first record", values(read(target, 1)))
}
