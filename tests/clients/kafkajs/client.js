// KafkaJS against the broker at argv[2], with names that begin with argv[3]; prints one line `what=seen` for each thing that it
// did. Nothing is judged here: the test knows what should be seen.
const { Kafka, CompressionTypes, CompressionCodecs, logLevel } = require('kafkajs');

const [bootstrap, prefix] = process.argv.slice(2);
CompressionCodecs[CompressionTypes.Snappy] = require('kafkajs-snappy');
const kafka = new Kafka({ brokers: [bootstrap], clientId: 'kafkajs', logLevel: logLevel.NOTHING });
const admin = kafka.admin();
// It heartbeats between fetches only: a fetch that waits long would hold up a rebalance.
const quick = { heartbeatInterval: 200, sessionTimeout: 6000, maxWaitTimeInMs: 100 };
const TOPIC = 2;

const say = (what, seen) => console.log(`${what}=${seen}`);

async function topic(name, numPartitions = 1) {
  await admin.createTopics({ topics: [{ topic: prefix + name, numPartitions }], waitForLeaders: true });
  return prefix + name;
}

async function read(name, count, settings = {}) {
  const consumer = kafka.consumer({ groupId: `${name}-${Math.random()}`, ...quick, ...settings });
  const found = [];
  await consumer.connect();
  await consumer.subscribe({ topic: name, fromBeginning: true });
  await new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, 15000);
    const eachMessage = async ({ message }) => {
      found.push(message);
      if (found.length === count) {
        clearTimeout(timer);
        resolve();
      }
    };
    consumer.run({ eachMessage }).catch(reject);
  });
  await consumer.disconnect();
  return found;
}

const values = (messages) => messages.map((message) => message.value.toString()).join(' ');

async function records(producer) {
  for (const [name, compression] of [['none', CompressionTypes.None], ['gzip', CompressionTypes.GZIP], ['snappy', CompressionTypes.Snappy]]) {
    const target = await topic(`codec-${name}`);
    const messages = Array.from({ length: 200 }, (_, i) => ({ value: `${i} ${'page visit '.repeat(20)}` }));
    await producer.send({ topic: target, compression, messages });
    const found = await read(target, 200);
    say(`codec ${name}`, `${found.length} in order ${found.every((message, i) => message.value.toString().startsWith(`${i} page`))}`);
  }
  const target = await topic('record');
  const full = { key: 'key', value: 'value', headers: { trace: 'abc' }, timestamp: '1500000000123' };
  await producer.send({ topic: target, messages: [full, { key: 'gone', value: null, timestamp: '1500000000124' }] });
  for (const found of await read(target, 2)) {
    say(`record ${found.offset}`, `${found.key} ${found.value} ${found.timestamp} ${found.headers.trace}`);
  }
  say('by time', (await admin.fetchTopicOffsetsByTimestamp(target, 1500000000124))[0].offset);
  return target;
}

async function transactions(source) {
  const producer = kafka.producer({ transactionalId: `${prefix}transaction`, idempotent: true, maxInFlightRequests: 1 });
  await producer.connect();
  const target = await topic('transactions');
  const consumerGroupId = `${prefix}copier`;
  for (const value of ['first', 'lost', 'third']) {
    const transaction = await producer.transaction();
    const lost = value === 'lost';
    await transaction.send({ topic: target, messages: [{ value }] });
    await transaction.sendOffsets({ consumerGroupId, topics: [{ topic: source, partitions: [{ partition: 0, offset: lost ? '2' : '1' }] }] });
    await (lost ? transaction.abort() : transaction.commit());
    say(`offset after ${value}`, (await admin.fetchOffsets({ groupId: consumerGroupId, topics: [source] }))[0].partitions[0].offset);
  }
  await producer.disconnect();
  say('committed', values(await read(target, 2, { readUncommitted: false })));
  say('uncommitted', values(await read(target, 3, { readUncommitted: true })));
}

async function group() {
  const target = await topic('group', 4);
  const groupId = `${prefix}group`;
  const shares = [];
  const join = async (number) => {
    const consumer = kafka.consumer({ groupId, ...quick });
    consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => {
      shares[number] = (payload.memberAssignment[target] || []).length;
    });
    await consumer.connect();
    await consumer.subscribe({ topic: target });
    await consumer.run({ eachMessage: async () => {} });
    return consumer;
  };
  const until = async (...wanted) => {
    for (let n = 0; n < 300 && shares.join(' ') !== wanted.join(' '); n++) await new Promise((resolve) => setTimeout(resolve, 50));
    return shares.join(' ');
  };
  const first = await join(0);
  say('alone', await until(4));
  const second = await join(1);
  say('together', await until(2, 2));
  await second.disconnect();
  shares.pop();
  say('left', await until(4));
  say('described', (await admin.describeGroups([groupId])).groups.map((found) => `${found.state} ${found.members.length}`));
  await first.disconnect();
  await admin.deleteGroups([groupId]);
  say('listed', (await admin.listGroups()).groups.some((found) => found.groupId === groupId));
  return target;
}

async function administration(target, source) {
  await admin.createPartitions({ topicPartitions: [{ topic: target, count: 5 }] });
  say('partitions', (await admin.fetchTopicMetadata({ topics: [target] })).topics[0].partitions.length);
  await admin.alterConfigs({ resources: [{ type: TOPIC, name: target, configEntries: [{ name: 'retention.ms', value: '7000000' }] }] });
  const described = await admin.describeConfigs({ resources: [{ type: TOPIC, name: target, configNames: ['retention.ms'] }] });
  say('retention', described.resources[0].configEntries[0].configValue);
  await admin.deleteTopicRecords({ topic: source, partitions: [{ partition: 0, offset: '1' }] });
  say('low', (await admin.fetchTopicOffsets(source))[0].low);
  await admin.deleteTopics({ topics: [target] });
  say('still there', (await admin.listTopics()).includes(target));
}

async function main() {
  await admin.connect();
  const producer = kafka.producer({ idempotent: true });
  await producer.connect();
  const source = await records(producer);
  await transactions(source);
  await administration(await group(), source);
  await producer.disconnect();
  await admin.disconnect();
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
