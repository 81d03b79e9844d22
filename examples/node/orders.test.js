import assert from "node:assert/strict";
import { test } from "node:test";

import { Consumer } from "@platformatic/kafka";
import { Kafka, logLevel } from "kafkajs";

import { Rota } from "./rota.js";

const limit = { timeout: 120_000 };

/** A member of `shipping` that reads `orders`, and a way to wait for the next message. */
async function worker(t, rota) {
  const kafka = new Kafka({ brokers: [rota.bootstrap], logLevel: logLevel.NOTHING, retry: { initialRetryTime: 50 } });
  const consumer = kafka.consumer({ groupId: "shipping", heartbeatInterval: 100 });
  t.after(() => consumer.disconnect());
  const read = [];
  let wake = () => {};
  await consumer.connect();
  await consumer.subscribe({ topics: ["orders"], fromBeginning: true });
  await consumer.run({
    autoCommit: false,
    eachMessage: async ({ message }) => {
      read.push(message);
      wake();
    },
  });
  const next = async () => {
    while (read.length === 0) await new Promise((resolve) => { wake = resolve; });
    return read.shift();
  };
  return { consumer, next };
}

async function started(t) {
  const rota = await Rota.start();
  t.after(() => rota.stop());
  await rota.do("create_topic", { topic: "orders" });
  return rota;
}

test("a consumer survives the end of its session", limit, async (t) => {
  const rota = await started(t);
  const { consumer, next } = await worker(t, rota);
  await rota.do("produce", { topic: "orders", values: ["first"] });
  assert.equal((await next()).value.toString(), "first");
  await consumer.commitOffsets([{ topic: "orders", partition: 0, offset: "1" }]);

  const [before] = await rota.members("shipping");
  await rota.do("expire", { member: before });
  await rota.do("wait_until_stable", { group: "shipping", members: 1 });
  const [after] = await rota.members("shipping");
  assert.notEqual(after, before);

  await rota.do("produce", { topic: "orders", values: ["second"] });
  assert.equal((await next()).value.toString(), "second");
});

// KafkaJS has no static members; this is another client.
test("the older of two processes with one instance id is fenced", limit, async (t) => {
  const rota = await started(t);
  const process = async () => {
    const consumer = new Consumer({
      clientId: "worker",
      groupId: "shipping",
      groupInstanceId: "worker-1",
      bootstrapBrokers: [rota.bootstrap],
      heartbeatInterval: 100,
      retries: false,
    });
    t.after(() => consumer.close(true).catch(() => {}));
    const fenced = new Promise((resolve) => consumer.once("consumer:heartbeat:error", resolve));
    await consumer.joinGroup();
    return { consumer, fenced };
  };
  const older = await process();
  const [first] = await rota.members("shipping");
  await process();
  const error = await older.fenced;
  assert.match(JSON.stringify(describe(error)), /FENCED_INSTANCE_ID|fenced/i);
  const members = await rota.members("shipping");
  assert.equal(members.length, 1);
  assert.notEqual(members[0], first);
});

/** An error with those that it holds. */
function describe(error) {
  const { message, apiId, errors = [], error: inner } = error;
  return { message, apiId, errors: errors.map(describe), inner: inner && describe(inner) };
}

test("a commit that fails is tried again", limit, async (t) => {
  const rota = await started(t);
  await rota.do("produce", { topic: "orders", values: ["one", "two"] });
  const { consumer, next } = await worker(t, rota);
  await next();

  await rota.do("fail_appends", { error: "NOT_ENOUGH_REPLICAS" });
  await consumer.commitOffsets([{ topic: "orders", partition: 0, offset: "1" }]);
  const { offsets } = await rota.ask("committed", { group: "shipping" });
  assert.deepEqual(offsets, [{ topic: "orders", partition: 0, offset: 1 }]);
});
