use futures_executor::block_on;
use rdkafka::admin::{AdminOptions, AlterConfig, NewPartitions, ResourceSpecifier};
use rdkafka::consumer::{CommitMode, Consumer};
use rdkafka::{Offset, TopicPartitionList};

use crate::groups::shares;
use crate::{numbered, say, values, Broker, WAIT};

pub fn topics(broker: &Broker) {
    let topic = broker.topic("grown", 2);
    let (admin, options) = (broker.admin(), AdminOptions::new());
    block_on(admin.create_partitions([&NewPartitions::new(&topic, 3)], &options)).unwrap().remove(0).unwrap();
    let described = admin.inner().fetch_metadata(Some(&topic), WAIT).unwrap();
    say("partitions", described.topics()[0].partitions().len());
    let changed = AlterConfig::new(ResourceSpecifier::Topic(&topic)).set("retention.ms", "7000000");
    block_on(admin.alter_configs([&changed], &options)).unwrap().remove(0).unwrap();
    let configs = block_on(admin.describe_configs([&ResourceSpecifier::Topic(&topic)], &options)).unwrap().remove(0).unwrap();
    say("retention", configs.get("retention.ms").unwrap().value.as_ref().unwrap());
    block_on(admin.delete_topics(&[&topic], &options)).unwrap().remove(0).unwrap();
    let left = admin.inner().fetch_metadata(None, WAIT).unwrap();
    say("topic after deletion", left.topics().iter().any(|found| found.name() == topic));
}

pub fn deletion(broker: &Broker) {
    let topic = broker.topic("deletion", 1);
    broker.fill(&topic, &numbered(4, ""), &[]);
    let mut offsets = TopicPartitionList::new();
    offsets.add_partition_offset(&topic, 0, Offset::Offset(3)).unwrap();
    let answer = block_on(broker.admin().delete_records(&offsets, &AdminOptions::new())).unwrap();
    say("low watermark", answer.elements()[0].offset().to_raw().unwrap());
    say("first record", values(&broker.read(&topic, 1, &[])));
}

pub fn groups(broker: &Broker) {
    let topic = broker.topic("administered", 1);
    let group = broker.name("administered");
    let consumer = broker.consumer(&group, &[]);
    consumer.subscribe(&[&topic]).unwrap();
    shares(&[1], &[&consumer]);
    let admin = broker.admin();
    let listed = || {
        let groups = admin.inner().fetch_group_list(None, WAIT).unwrap();
        groups.groups().iter().any(|found| found.name() == group)
    };
    say("group listed", listed());
    let described = admin.inner().fetch_group_list(Some(&group), WAIT).unwrap();
    let found = &described.groups()[0];
    say("group described", format!("{} {}", found.state(), found.members().len()));
    drop(consumer);
    // The crate has no call for it: a consumer outside of the group commits.
    let outside = broker.consumer(&group, &[]);
    let mut changed = TopicPartitionList::new();
    changed.add_partition_offset(&topic, 0, Offset::Offset(1)).unwrap();
    outside.commit(&changed, CommitMode::Sync).unwrap();
    let committed = outside.committed_offsets(changed, WAIT).unwrap();
    say("group offset", committed.elements()[0].offset().to_raw().unwrap());
    drop(outside);
    block_on(admin.delete_groups(&[&group], &AdminOptions::new())).unwrap().remove(0).unwrap();
    say("group after deletion", listed());
}
