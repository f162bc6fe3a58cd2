package main

import (
	"errors"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

func codecs() {
	for name, codec := range map[string]kgo.CompressionCodec{
		"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
		"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
	} {
		target := topic("codec-"+name, 1)
		wanted := numbered(200, strings.Repeat(" page visit", 20))
		fill(target, wanted, kgo.ProducerBatchCompression(codec), kgo.DisableIdempotentWrite())
		say("codec "+name, inOrder(read(target, 200), wanted))
	}
}

func records() {
	target := topic("record", 1)
	producer := client()
	defer producer.Close()
	full := &kgo.Record{
		Topic: target, Key: []byte("key"), Value: []byte("value"), Timestamp: time.UnixMilli(1500000000123),
		Headers: []kgo.RecordHeader{{Key: "trace", Value: []byte("abc")}, {Key: "empty", Value: []byte{}}},
	}
	null := &kgo.Record{Topic: target, Key: []byte("gone"), Timestamp: time.UnixMilli(1500000000124)}
	check(producer.ProduceSync(within(), full, null).FirstErr())
	found := read(target, 2)
	for _, record := range found {
		value := string(record.Value)
		if record.Value == nil {
			value = "null"
		}
		var headers []string
		for _, header := range record.Headers {
			headers = append(headers, header.Key+":"+string(header.Value))
		}
		say("record "+string('0'+rune(record.Offset)), string(record.Key), value, headers)
	}
	say("timestamps", found[0].Timestamp.UnixMilli(), found[1].Timestamp.UnixMilli())
}

func large() {
	target := topic("large", 1)
	fill(target, []string{strings.Repeat("x", 900_000)}, kgo.ProducerBatchCompression(kgo.NoCompression()))
	say("900 kB", len(read(target, 1)[0].Value))
	producer := client(kgo.ProducerBatchMaxBytes(3_000_000), kgo.ProducerBatchCompression(kgo.NoCompression()))
	defer producer.Close()
	tooLarge := &kgo.Record{Topic: target, Value: []byte(strings.Repeat("x", 2_000_000))}
	var refused *kerr.Error
	if errors.As(producer.ProduceSync(within(), tooLarge).FirstErr(), &refused) {
		say("2 MB", "error", refused.Code)
	}
}

func times() {
	target := topic("times", 1)
	producer := client()
	defer producer.Close()
	for i := range int64(10) {
		record := &kgo.Record{Topic: target, Value: []byte("visit"), Timestamp: time.UnixMilli(1600000000000 + 1000*i)}
		check(producer.ProduceSync(within(), record).FirstErr())
	}
	at := func(millisecond int64) kadm.ListedOffset {
		found, _ := must(admin.ListOffsetsAfterMilli(within(), millisecond, target)).Lookup(target, 0)
		return found
	}
	say("at 3500", at(1600000003500).Offset)
	// kadm answers a time after the last record with the end of the log, and no timestamp.
	if late := at(1600000009001); late.Timestamp == -1 {
		say("at 9001", "none")
	}
	first, _ := must(admin.ListStartOffsets(within(), target)).Lookup(target, 0)
	last, _ := must(admin.ListEndOffsets(within(), target)).Lookup(target, 0)
	say("ends", first.Offset, last.Offset)
}

func idempotence() {
	target := topic("idempotent", 1)
	producer := client(kgo.ProducerBatchMaxBytes(512), kgo.ProducerBatchCompression(kgo.NoCompression()))
	defer producer.Close()
	wanted := numbered(1000, "")
	for _, value := range wanted {
		producer.Produce(within(), &kgo.Record{Topic: target, Value: []byte(value)}, func(_ *kgo.Record, err error) { check(err) })
	}
	check(producer.Flush(within()))
	say("idempotent", inOrder(read(target, 1000), wanted))
}
