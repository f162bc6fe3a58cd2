use std::time::{Duration, Instant};

use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::{Offset, TopicPartitionList};

use crate::{numbered, say, take, values, Broker, WAIT};

/// Polls the members until they have as many partitions as wanted, or the time is over.
pub fn shares(wanted: &[usize], members: &[&BaseConsumer]) -> String {
    let late = Instant::now() + WAIT;
    loop {
        for member in members {
            if let Some(message) = member.poll(Duration::from_millis(20)) {
                message.unwrap();
            }
        }
        let has: Vec<_> = members.iter().map(|member| member.assignment().unwrap().count()).collect();
        if has == wanted || Instant::now() > late {
            return has.iter().map(usize::to_string).collect::<Vec<_>>().join(" ");
        }
    }
}

pub fn classic(broker: &Broker) {
    group(broker, "classic", &[("heartbeat.interval.ms", "200"), ("session.timeout.ms", "60000")]);
}

/// In this protocol the broker says how often to heartbeat.
pub fn consumer(broker: &Broker) {
    group(broker, "consumer", &[("group.protocol", "consumer")]);
}

fn group(broker: &Broker, protocol: &str, settings: &[(&str, &str)]) {
    let topic = broker.topic(&format!("group-{protocol}"), 4);
    let first = broker.consumer(&broker.name(protocol), settings);
    let second = broker.consumer(&broker.name(protocol), settings);
    first.subscribe(&[&topic]).unwrap();
    say(&format!("{protocol} alone"), shares(&[4], &[&first]));
    second.subscribe(&[&topic]).unwrap();
    say(&format!("{protocol} together"), shares(&[2, 2], &[&first, &second]));
    drop(second);
    say(&format!("{protocol} left"), shares(&[4], &[&first]));
}

pub fn resume(broker: &Broker) {
    let topic = broker.topic("resume", 1);
    let group = broker.name("resume");
    broker.fill(&topic, &numbered(6, ""), &[]);
    let first = broker.consumer(&group, &[]);
    first.subscribe(&[&topic]).unwrap();
    say("first reader", values(&take(&first, 4)));
    let mut done = TopicPartitionList::new();
    done.add_partition_offset(&topic, 0, Offset::Offset(4)).unwrap();
    first.commit(&done, CommitMode::Sync).unwrap();
    drop(first);
    let second = broker.consumer(&group, &[]);
    second.subscribe(&[&topic]).unwrap();
    say("second reader", values(&take(&second, 2)));
}
