package main

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/IBM/sarama"
)

func codecs() {
	for _, codec := range []sarama.CompressionCodec{
		sarama.CompressionNone, sarama.CompressionGZIP, sarama.CompressionSnappy, sarama.CompressionLZ4, sarama.CompressionZSTD,
	} {
		target := topic("codec-"+codec.String(), 1)
		wanted := numbered(200, strings.Repeat(" page visit", 20))
		fill(target, wanted, func(settings *sarama.Config) { settings.Producer.Compression = codec })
		say("codec "+codec.String(), inOrder(read(target, 200), wanted))
	}
}

func records() {
	target := topic("record", 1)
	client := producer()
	defer client.Close()
	send := func(message *sarama.ProducerMessage) {
		_, _, err := client.SendMessage(message)
		check(err)
	}
	send(&sarama.ProducerMessage{
		Topic: target, Key: sarama.StringEncoder("key"), Value: sarama.StringEncoder("value"), Timestamp: time.UnixMilli(1500000000123),
		Headers: []sarama.RecordHeader{{Key: []byte("trace"), Value: []byte("abc")}, {Key: []byte("empty"), Value: []byte{}}},
	})
	send(&sarama.ProducerMessage{Topic: target, Key: sarama.StringEncoder("gone"), Timestamp: time.UnixMilli(1500000000124)})
	found := read(target, 2)
	for _, message := range found {
		value := string(message.Value)
		if message.Value == nil {
			value = "null"
		}
		var headers []string
		for _, header := range message.Headers {
			headers = append(headers, string(header.Key)+":"+string(header.Value))
		}
		say(fmt.Sprint("record ", message.Offset), string(message.Key), value, headers)
	}
	say("timestamps", found[0].Timestamp.UnixMilli(), found[1].Timestamp.UnixMilli())
}

func large() {
	target := topic("large", 1)
	fill(target, []string{strings.Repeat("x", 900_000)})
	say("900 kB", len(read(target, 1)[0].Value))
	client := producer(func(settings *sarama.Config) { settings.Producer.MaxMessageBytes = 3_000_000 })
	defer client.Close()
	_, _, err := client.SendMessage(&sarama.ProducerMessage{Topic: target, Value: sarama.StringEncoder(strings.Repeat("x", 2_000_000))})
	var refused sarama.KError
	if errors.As(err, &refused) {
		say("2 MB", "error", int16(refused))
	}
}

func times() {
	target := topic("times", 1)
	client := producer()
	defer client.Close()
	for i := range int64(10) {
		message := &sarama.ProducerMessage{Topic: target, Value: sarama.StringEncoder("visit"), Timestamp: time.UnixMilli(1600000000000 + 1000*i)}
		_, _, err := client.SendMessage(message)
		check(err)
	}
	asking := must(sarama.NewClient(bootstrap, config()))
	defer asking.Close()
	at := func(time int64) int64 { return must(asking.GetOffset(target, 0, time)) }
	say("at 3500", at(1600000003500))
	if at(1600000009001) == -1 {
		say("at 9001", "none")
	}
	say("ends", at(sarama.OffsetOldest), at(sarama.OffsetNewest))
}

func idempotence() {
	target := topic("idempotent", 1)
	wanted := numbered(1000, "")
	fill(target, wanted, idempotent, func(settings *sarama.Config) { settings.Producer.Flush.MaxMessages = 50 })
	say("idempotent", inOrder(read(target, 1000), wanted))
}

func idempotent(settings *sarama.Config) {
	settings.Producer.Idempotent = true
	settings.Net.MaxOpenRequests = 1
}
