//! The rdkafka crate against the broker at argument 1, with names that begin with argument 2; prints one line `what=seen` for each
//! thing that it did. Nothing is judged here: the test knows what should be seen.

mod administration;
mod groups;
mod records;
mod transactions;

use std::env;
use std::panic::{self, AssertUnwindSafe};
use std::process::exit;
use std::time::{Duration, Instant};

use futures_executor::block_on;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::{BorrowedMessage, Message, OwnedMessage};
use rdkafka::producer::{BaseRecord, DefaultProducerContext, Producer, ThreadedProducer};
use rdkafka::{Offset, TopicPartitionList};

pub const WAIT: Duration = Duration::from_secs(120);

pub struct Broker {
    pub bootstrap: String,
    pub prefix: String,
}

impl Broker {
    pub fn config(&self, settings: &[(&str, &str)]) -> ClientConfig {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", &self.bootstrap);
        for (name, value) in settings {
            config.set(*name, *value);
        }
        config
    }

    pub fn admin(&self) -> AdminClient<DefaultClientContext> {
        self.config(&[]).create().unwrap()
    }

    pub fn topic(&self, name: &str, partitions: i32) -> String {
        let topic = self.name(name);
        let new = NewTopic::new(&topic, partitions, TopicReplication::Fixed(1));
        let created = block_on(self.admin().create_topics([&new], &AdminOptions::new())).unwrap();
        created.into_iter().for_each(|one| drop(one.unwrap()));
        topic
    }

    pub fn name(&self, name: &str) -> String {
        format!("{}{}", self.prefix, name)
    }

    pub fn producer(&self, settings: &[(&str, &str)]) -> ThreadedProducer<DefaultProducerContext> {
        self.config(settings).create().unwrap()
    }

    pub fn consumer(&self, group: &str, settings: &[(&str, &str)]) -> BaseConsumer {
        let mut config =
            self.config(&[("auto.offset.reset", "earliest"), ("enable.auto.commit", "false"), ("fetch.wait.max.ms", "50")]);
        config.set("group.id", group);
        for (name, value) in settings {
            config.set(*name, *value);
        }
        config.create().unwrap()
    }

    pub fn fill(&self, topic: &str, values: &[String], settings: &[(&str, &str)]) {
        let producer = self.producer(settings);
        for value in values {
            send(&producer, topic, value);
        }
        producer.flush(WAIT).unwrap();
    }

    /// The first records of partition 0.
    pub fn read(&self, topic: &str, count: usize, settings: &[(&str, &str)]) -> Vec<OwnedMessage> {
        let consumer = self.consumer("reader", settings);
        let mut partitions = TopicPartitionList::new();
        partitions.add_partition_offset(topic, 0, Offset::Beginning).unwrap();
        consumer.assign(&partitions).unwrap();
        take(&consumer, count)
    }
}

pub fn send(producer: &ThreadedProducer<DefaultProducerContext>, topic: &str, value: &str) {
    let record = BaseRecord::<str, str>::to(topic).partition(0).payload(value);
    producer.send(record).map_err(|(error, _)| error).unwrap();
}

pub fn take(consumer: &BaseConsumer, count: usize) -> Vec<OwnedMessage> {
    let mut found = Vec::new();
    let late = Instant::now() + WAIT;
    while found.len() < count && Instant::now() < late {
        if let Some(message) = consumer.poll(Duration::from_millis(100)) {
            let message: BorrowedMessage = message.unwrap();
            found.push(message.detach());
        }
    }
    found
}

pub fn value(message: &OwnedMessage) -> String {
    message.payload().map_or("null".into(), |bytes| String::from_utf8(bytes.to_vec()).unwrap())
}

pub fn values(messages: &[OwnedMessage]) -> String {
    messages.iter().map(value).collect::<Vec<_>>().join(" ")
}

pub fn numbered(count: usize, text: &str) -> Vec<String> {
    (0..count).map(|number| format!("{number}{text}")).collect()
}

pub fn in_order(messages: &[OwnedMessage], wanted: &[String]) -> String {
    for (number, message) in messages.iter().enumerate() {
        if value(message) != wanted[number] || message.offset() != number as i64 {
            return format!("{}, out of order at {}", messages.len(), number);
        }
    }
    format!("{} in order", messages.len())
}

pub fn say(what: &str, seen: impl std::fmt::Display) {
    println!("{what}={seen}");
}

fn main() {
    let mut arguments = env::args().skip(1);
    let broker = Broker { bootstrap: arguments.next().unwrap(), prefix: arguments.next().unwrap() };
    let situations: [fn(&Broker); 14] = [
        records::codecs,
        records::records,
        records::large,
        records::times,
        records::idempotence,
        groups::classic,
        groups::consumer,
        groups::resume,
        transactions::transactions,
        transactions::offsets,
        transactions::fencing,
        administration::topics,
        administration::deletion,
        administration::groups,
    ];
    // Goes on after a situation that failed: the others can still be seen.
    let failed = situations.iter().filter(|run| panic::catch_unwind(AssertUnwindSafe(|| run(&broker))).is_err()).count();
    exit(i32::from(failed > 0));
}
