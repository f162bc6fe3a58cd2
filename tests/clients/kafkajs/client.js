// KafkaJS against the broker at argv[2], with names that begin with argv[3]; prints one line `what=seen` for each thing that it
// did. Nothing is judged here: the test knows what should be seen.
const { Kafka, CompressionTypes, CompressionCodecs, logLevel } = require('kafkajs');
const lz4 = require('lz4js');
const { hash } = require('lz4js/xxh32.js');
const { ZstdCodec } = require('zstd-codec');

const [bootstrap, prefix] = process.argv.slice(2);
const kafka = new Kafka({ brokers: [bootstrap], clientId: 'kafkajs', logLevel: logLevel.NOTHING, connectionTimeout: 60000 });
const admin = kafka.admin();
// It heartbeats between fetches only: a fetch that waits long would hold up a rebalance.
const quick = { heartbeatInterval: 200, sessionTimeout: 60000, maxWaitTimeInMs: 100 };
const WAIT = 120000;
const TOPIC = 2;
const FENCED = [47, 90];

// It has gzip only of its own; its users bring the other codecs along.
CompressionCodecs[CompressionTypes.Snappy] = require('kafkajs-snappy');
CompressionCodecs[CompressionTypes.LZ4] = () => ({
  compress: async (encoder) => unlinked(lz4.compress(encoder.buffer)),
  decompress: async (buffer) => Buffer.from(lz4.decompress(buffer)),
});
const zstd = new Promise((resolve) => ZstdCodec.run((codec) => resolve(new codec.Simple())));
CompressionCodecs[CompressionTypes.ZSTD] = () => ({
  compress: async (encoder) => Buffer.from((await zstd).compress(encoder.buffer)),
  decompress: async (buffer) => Buffer.from((await zstd).decompress(buffer)),
});

// Kafka's lz4 does not take linked blocks, which lz4js announces always; a frame of one block is as good without.
function unlinked(frame) {
  frame[4] |= 0x20;
  frame[6] = (hash(0, frame, 4, 2) >> 8) & 0xff;
  return Buffer.from(frame);
}

const say = (what, ...seen) => console.log(`${what}=${seen.join(' ')}`);

async function topic(name, numPartitions = 1) {
  await admin.createTopics({ topics: [{ topic: prefix + name, numPartitions }], waitForLeaders: true });
  return prefix + name;
}

async function produce(target, messages, settings = {}, compression = CompressionTypes.None) {
  const producer = kafka.producer(settings);
  await producer.connect();
  try {
    return await producer.send({ topic: target, compression, messages });
  } finally {
    await producer.disconnect();
  }
}

// The first messages of a topic, in a group; `then` gets the consumer before it leaves.
async function read(target, count, settings = {}, then = async () => {}) {
  const consumer = kafka.consumer({ groupId: `${target}-${Math.random()}`, ...quick, ...settings });
  const found = [];
  await consumer.connect();
  await consumer.subscribe({ topic: target, fromBeginning: true });
  await new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, WAIT);
    const eachMessage = async ({ message }) => {
      if (found.length < count) found.push(message);
      if (found.length === count) {
        clearTimeout(timer);
        resolve();
      }
    };
    consumer.run({ autoCommit: false, eachMessage }).catch(reject);
  });
  await then(consumer);
  await consumer.disconnect();
  return found;
}

const values = (messages) => messages.map((message) => message.value.toString()).join(' ');
const numbered = (count, text = '') => Array.from({ length: count }, (_, i) => ({ value: `${i}${text}` }));

function inOrder(found, wanted) {
  const wrong = found.findIndex((message, i) => message.value.toString() !== wanted[i].value || message.offset !== `${i}`);
  return wrong < 0 ? `${found.length} in order` : `${found.length}, out of order at ${wrong}`;
}

async function codecs() {
  for (const [name, compression] of Object.entries(CompressionTypes)) {
    const target = await topic(`codec-${name.toLowerCase()}`);
    const messages = numbered(200, ' page visit'.repeat(20));
    await produce(target, messages, {}, compression);
    say(`codec ${name.toLowerCase()}`, inOrder(await read(target, 200), messages));
  }
}

async function records() {
  const target = await topic('record');
  const full = { key: 'key', value: 'value', headers: { trace: 'abc', empty: '' }, timestamp: '1500000000123' };
  await produce(target, [full, { key: 'gone', value: null, timestamp: '1500000000124' }]);
  const found = await read(target, 2);
  for (const { offset, key, value, headers } of found) {
    say(`record ${offset}`, key, String(value), `[${Object.entries(headers).map(([name, content]) => `${name}:${content}`).join(' ')}]`);
  }
  say('timestamps', ...found.map((message) => message.timestamp));
}

async function large() {
  const target = await topic('large');
  await produce(target, [{ value: 'x'.repeat(900000) }]);
  say('900 kB', (await read(target, 1))[0].value.length);
  const code = await produce(target, [{ value: 'x'.repeat(2000000) }]).then(() => 'none', (error) => (error.cause || error).code);
  say('2 MB', 'error', code);
}

async function times() {
  const target = await topic('times');
  await produce(target, Array.from({ length: 10 }, (_, i) => ({ value: 'visit', timestamp: `${1600000000000 + 1000 * i}` })));
  const at = async (time) => (await admin.fetchTopicOffsetsByTimestamp(target, time))[0].offset;
  const [{ low, high }] = await admin.fetchTopicOffsets(target);
  say('at 3500', await at(1600000003500));
  // Where there is nothing it gives the end of the topic.
  say('at 9001', (await at(1600000009001)) === high ? 'none' : 'something');
  say('ends', low, high);
}

async function idempotence() {
  const target = await topic('idempotent');
  const producer = kafka.producer({ idempotent: true, maxInFlightRequests: 1 });
  await producer.connect();
  const messages = numbered(1000);
  for (let i = 0; i < 1000; i += 50) await producer.send({ topic: target, messages: messages.slice(i, i + 50) });
  await producer.disconnect();
  say('idempotent', inOrder(await read(target, 1000), messages));
}

async function transactional(name) {
  const producer = kafka.producer({ transactionalId: `${prefix}${name}`, idempotent: true, maxInFlightRequests: 1 });
  await producer.connect();
  return producer;
}

async function transactions() {
  const producer = await transactional('transaction');
  const target = await topic('transactions');
  for (const value of ['first', 'lost', 'third']) {
    const transaction = await producer.transaction();
    await transaction.send({ topic: target, messages: [{ value }] });
    await (value === 'lost' ? transaction.abort() : transaction.commit());
  }
  await producer.disconnect();
  say('committed', values(await read(target, 2, { readUncommitted: false })));
  say('uncommitted', values(await read(target, 3, { readUncommitted: true })));
}

// It does not ask for offsets that are stable: those of a transaction may come a moment after its commit.
async function committed(groupId, target) {
  const offset = async () => (await admin.fetchOffsets({ groupId, topics: [target] }))[0].partitions[0].offset;
  for (let n = 0; n < WAIT / 50 && (await offset()) === '-1'; n++) await new Promise((resolve) => setTimeout(resolve, 50));
  return offset();
}

async function offsetsInTransactions() {
  const [source, target, consumerGroupId] = [await topic('source'), await topic('target'), `${prefix}copier`];
  const producer = await transactional('copier');
  for (const [end, offset] of [['commit', '2'], ['abort', '4']]) {
    const transaction = await producer.transaction();
    await transaction.send({ topic: target, messages: [{ value: 'copied' }] });
    await transaction.sendOffsets({ consumerGroupId, topics: [{ topic: source, partitions: [{ partition: 0, offset }] }] });
    await transaction[end]();
    say(`offset after ${end}`, await committed(consumerGroupId, source));
  }
  await producer.disconnect();
}

async function fencing() {
  const target = await topic('fencing');
  const first = await transactional('fenced');
  const transaction = await first.transaction();
  await transaction.send({ topic: target, messages: [{ value: 'in time' }] });
  const second = await transactional('fenced');
  await second.transaction();
  const code = await transaction.commit().then(() => 'none', (error) => (error.cause || error).code);
  say('fenced', FENCED.includes(code));
  await second.disconnect();
  await first.disconnect();
}

async function group() {
  const target = await topic('group', 4);
  const shares = [];
  const join = async (number) => {
    const consumer = kafka.consumer({ groupId: `${prefix}group`, ...quick });
    consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => {
      shares[number] = (payload.memberAssignment[target] || []).length;
    });
    await consumer.connect();
    await consumer.subscribe({ topic: target });
    await consumer.run({ eachMessage: async () => {} });
    return consumer;
  };
  const until = async (...wanted) => {
    for (let n = 0; n < WAIT / 50 && shares.join(' ') !== wanted.join(' '); n++) await new Promise((resolve) => setTimeout(resolve, 50));
    return shares.join(' ');
  };
  const first = await join(0);
  say('classic alone', await until(4));
  const second = await join(1);
  say('classic together', await until(2, 2));
  await second.disconnect();
  shares.pop();
  say('classic left', await until(4));
  await first.disconnect();
}

async function resume() {
  const [target, groupId] = [await topic('resume'), `${prefix}resume`];
  await produce(target, numbered(6));
  const commit = (consumer) => consumer.commitOffsets([{ topic: target, partition: 0, offset: '4' }]);
  say('first reader', values(await read(target, 4, { groupId }, commit)));
  say('second reader', values(await read(target, 2, { groupId })));
}

async function topics() {
  const target = await topic('grown', 2);
  await admin.createPartitions({ topicPartitions: [{ topic: target, count: 3 }] });
  say('partitions', (await admin.fetchTopicMetadata({ topics: [target] })).topics[0].partitions.length);
  await admin.alterConfigs({ resources: [{ type: TOPIC, name: target, configEntries: [{ name: 'retention.ms', value: '7000000' }] }] });
  const described = await admin.describeConfigs({ resources: [{ type: TOPIC, name: target, configNames: ['retention.ms'] }] });
  say('retention', described.resources[0].configEntries[0].configValue);
  await admin.deleteTopics({ topics: [target] });
  say('topic after deletion', (await admin.listTopics()).includes(target));
}

async function deletion() {
  const target = await topic('deletion');
  await produce(target, numbered(4));
  // It sends a deletion only to a leader that it knows already.
  await admin.fetchTopicOffsets(target);
  await admin.deleteTopicRecords({ topic: target, partitions: [{ partition: 0, offset: '3' }] });
  say('low watermark', (await admin.fetchTopicOffsets(target))[0].low);
  say('first record', values(await read(target, 1)));
}

async function groups() {
  const [target, groupId] = [await topic('administered'), `${prefix}administered`];
  await produce(target, numbered(1));
  const listed = async () => (await admin.listGroups()).groups.some((found) => found.groupId === groupId);
  await read(target, 1, { groupId }, async () => {
    say('group listed', await listed());
    say('group described', (await admin.describeGroups([groupId])).groups.map((found) => `${found.state} ${found.members.length}`));
  });
  await admin.setOffsets({ groupId, topic: target, partitions: [{ partition: 0, offset: '1' }] });
  say('group offset', await committed(groupId, target));
  await admin.deleteGroups([groupId]);
  say('group after deletion', await listed());
}

async function main() {
  await admin.connect();
  const situations = [codecs, records, large, times, idempotence, transactions, offsetsInTransactions, fencing, group, resume, topics, deletion, groups];
  for (const situation of situations) {
    // Goes on after a situation that failed: the others can still be seen.
    await situation().catch((error) => {
      console.error(`${situation.name}:`, error);
      process.exitCode = 1;
    });
  }
  await admin.disconnect();
}

main().then(() => process.exit());
