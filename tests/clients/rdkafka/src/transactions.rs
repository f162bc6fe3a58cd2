use rdkafka::consumer::Consumer;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::producer::Producer;
use rdkafka::{Offset, TopicPartitionList};

use crate::{say, send, take, values, Broker, WAIT};

pub fn transactions(broker: &Broker) {
    let topic = broker.topic("transactions", 1);
    let producer = broker.producer(&[("transactional.id", &broker.name("transaction"))]);
    producer.init_transactions(WAIT).unwrap();
    for value in ["first", "lost", "third"] {
        producer.begin_transaction().unwrap();
        send(&producer, &topic, value);
        producer.flush(WAIT).unwrap();
        if value == "lost" {
            producer.abort_transaction(WAIT).unwrap();
        } else {
            producer.commit_transaction(WAIT).unwrap();
        }
    }
    say("committed", values(&broker.read(&topic, 2, &[("isolation.level", "read_committed")])));
    say("uncommitted", values(&broker.read(&topic, 3, &[("isolation.level", "read_uncommitted")])));
}

pub fn offsets(broker: &Broker) {
    let (source, target) = (broker.topic("source", 1), broker.topic("target", 1));
    broker.fill(&source, &["a".into(), "b".into(), "c".into(), "d".into()], &[]);
    let consumer = broker.consumer(&broker.name("copier"), &[]);
    consumer.subscribe(&[&source]).unwrap();
    take(&consumer, 4);
    let producer = broker.producer(&[("transactional.id", &broker.name("copier"))]);
    producer.init_transactions(WAIT).unwrap();
    let mut asked = TopicPartitionList::new();
    asked.add_partition(&source, 0);
    for (offset, end) in [(2, "commit"), (4, "abort")] {
        let mut done = TopicPartitionList::new();
        done.add_partition_offset(&source, 0, Offset::Offset(offset)).unwrap();
        producer.begin_transaction().unwrap();
        send(&producer, &target, "copied");
        producer.send_offsets_to_transaction(&done, &consumer.group_metadata().unwrap(), WAIT).unwrap();
        if end == "abort" {
            producer.abort_transaction(WAIT).unwrap();
        } else {
            producer.commit_transaction(WAIT).unwrap();
        }
        let committed = consumer.committed_offsets(asked.clone(), WAIT).unwrap();
        say(&format!("offset after {end}"), committed.elements()[0].offset().to_raw().unwrap());
    }
}

pub fn fencing(broker: &Broker) {
    let topic = broker.topic("fencing", 1);
    let name = broker.name("fenced");
    let first = broker.producer(&[("transactional.id", &name)]);
    first.init_transactions(WAIT).unwrap();
    first.begin_transaction().unwrap();
    send(&first, &topic, "in time");
    first.flush(WAIT).unwrap();
    let second = broker.producer(&[("transactional.id", &name)]);
    second.init_transactions(WAIT).unwrap();
    let fenced = match first.commit_transaction(WAIT) {
        Err(KafkaError::Transaction(error)) => {
            [RDKafkaErrorCode::Fenced, RDKafkaErrorCode::ProducerFenced, RDKafkaErrorCode::InvalidProducerEpoch]
                .contains(&error.code())
        }
        _ => false,
    };
    say("fenced", fenced);
}
