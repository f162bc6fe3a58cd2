use rdkafka::consumer::Consumer;
use rdkafka::error::KafkaError;
use rdkafka::message::{Header, Headers, Message, OwnedHeaders, OwnedMessage};
use rdkafka::producer::{BaseProducer, BaseRecord, DeliveryResult, Producer, ProducerContext};
use rdkafka::{ClientContext, Offset, TopicPartitionList};
use std::sync::Mutex;

use crate::{in_order, numbered, say, value, Broker, WAIT};

pub fn codecs(broker: &Broker) {
    for codec in ["none", "gzip", "snappy", "lz4", "zstd"] {
        let topic = broker.topic(&format!("codec-{codec}"), 1);
        let wanted = numbered(200, &" page visit".repeat(20));
        broker.fill(&topic, &wanted, &[("compression.type", codec), ("linger.ms", "20")]);
        say(&format!("codec {codec}"), in_order(&broker.read(&topic, 200, &[]), &wanted));
    }
}

pub fn records(broker: &Broker) {
    let topic = broker.topic("record", 1);
    let producer = broker.producer(&[]);
    let headers =
        OwnedHeaders::new().insert(Header { key: "trace", value: Some("abc") }).insert(Header { key: "empty", value: Some("") });
    let full = BaseRecord::to(&topic).key("key").payload("value").headers(headers).timestamp(1_500_000_000_123);
    producer.send(full).map_err(|(error, _)| error).unwrap();
    let null = BaseRecord::<str, str>::to(&topic).key("gone").timestamp(1_500_000_000_124);
    producer.send(null).map_err(|(error, _)| error).unwrap();
    producer.flush(WAIT).unwrap();
    let found = broker.read(&topic, 2, &[]);
    for message in &found {
        let key = String::from_utf8(message.key().unwrap().to_vec()).unwrap();
        say(&format!("record {}", message.offset()), format!("{key} {} [{}]", value(message), headers_of(message)));
    }
    let stamps: Vec<_> = found.iter().map(|message| message.timestamp().to_millis().unwrap().to_string()).collect();
    say("timestamps", stamps.join(" "));
}

fn headers_of(message: &OwnedMessage) -> String {
    let shown = |header: Header<&[u8]>| format!("{}:{}", header.key, String::from_utf8_lossy(header.value.unwrap()));
    message.headers().map_or(String::new(), |headers| headers.iter().map(shown).collect::<Vec<_>>().join(" "))
}

/// Keeps the code of an error that a delivery ended with.
#[derive(Default)]
struct Deliveries(Mutex<Option<i32>>);

impl ClientContext for Deliveries {}

impl ProducerContext for Deliveries {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, _: ()) {
        if let Err((KafkaError::MessageProduction(code), _)) = result {
            *self.0.lock().unwrap() = Some(*code as i32);
        }
    }
}

pub fn large(broker: &Broker) {
    let topic = broker.topic("large", 1);
    broker.fill(&topic, &["x".repeat(900_000)], &[]);
    say("900 kB", value(&broker.read(&topic, 1, &[])[0]).len());
    let config = broker.config(&[("message.max.bytes", "3000000")]);
    let producer: BaseProducer<Deliveries> = config.create_with_context(Deliveries::default()).unwrap();
    let too_large = "x".repeat(2_000_000);
    producer.send(BaseRecord::<str, str>::to(&topic).payload(&too_large)).map_err(|(error, _)| error).unwrap();
    producer.flush(WAIT).unwrap();
    let refused = *producer.context().0.lock().unwrap();
    say("2 MB", refused.map_or("accepted".into(), |code| format!("error {code}")));
}

pub fn times(broker: &Broker) {
    let topic = broker.topic("times", 1);
    let producer = broker.producer(&[]);
    for number in 0..10 {
        let record = BaseRecord::<str, str>::to(&topic).payload("visit").timestamp(1_600_000_000_000 + 1000 * number);
        producer.send(record).map_err(|(error, _)| error).unwrap();
    }
    producer.flush(WAIT).unwrap();
    let consumer = broker.consumer("times", &[]);
    let at = |time: i64| {
        let mut asked = TopicPartitionList::new();
        asked.add_partition_offset(&topic, 0, Offset::Offset(time)).unwrap();
        match consumer.offsets_for_times(asked, WAIT).unwrap().elements()[0].offset() {
            Offset::Offset(offset) => offset.to_string(),
            _ => "none".into(),
        }
    };
    say("at 3500", at(1_600_000_003_500));
    say("at 9001", at(1_600_000_009_001));
    let (first, last) = consumer.fetch_watermarks(&topic, 0, WAIT).unwrap();
    say("ends", format!("{first} {last}"));
}

pub fn idempotence(broker: &Broker) {
    let topic = broker.topic("idempotent", 1);
    let wanted = numbered(1000, "");
    broker.fill(&topic, &wanted, &[("enable.idempotence", "true"), ("batch.num.messages", "50")]);
    say("idempotent", in_order(&broker.read(&topic, 1000, &[]), &wanted));
}
