// A client of kafkajs that connects, writes a message and reads it in a group: ../test_other_languages.py.
//
// Its settings are JSON on standard input; what came of it is JSON on standard output.
import { readFileSync } from "node:fs";
import kafkajs from "kafkajs";

const settings = JSON.parse(readFileSync(0, "utf8"));

function sasl({ mechanism, user, password, token }) {
  if (!mechanism) return undefined;
  if (mechanism === "OAUTHBEARER") {
    return { mechanism: "oauthbearer", oauthBearerProvider: async () => ({ value: token }) };
  }
  return { mechanism: mechanism.toLowerCase(), username: user, password };
}

async function round() {
  const kafka = new kafkajs.Kafka({
    clientId: "secure",
    brokers: [settings.bootstrap],
    ssl: settings.ca ? { ca: [settings.ca] } : false,
    sasl: sasl(settings),
    logLevel: kafkajs.logLevel.NOTHING,
    connectionTimeout: settings.timeout_ms,
    authenticationTimeout: settings.timeout_ms,
    retry: { retries: 0 },
  });
  const admin = kafka.admin();
  const producer = kafka.producer();
  const consumer = kafka.consumer({ groupId: settings.group, retry: { retries: 0 } });
  try {
    await admin.connect();
    await admin.fetchTopicMetadata({ topics: [settings.topic] });
    await producer.connect();
    await producer.send({ topic: settings.topic, messages: [{ value: "one" }] });
    await consumer.connect();
    await consumer.subscribe({ topic: settings.topic, fromBeginning: true });
    await new Promise((done, failed) => {
      consumer.on(consumer.events.CRASH, ({ payload }) => failed(payload.error));
      consumer.run({ eachMessage: async () => done() }).catch(failed);
      setTimeout(() => failed(new Error("no message came")), settings.timeout_ms).unref();
    });
  } finally {
    await Promise.allSettled([admin.disconnect(), producer.disconnect(), consumer.disconnect()]);
  }
}

let error = "";
try {
  await round();
} catch (failure) {
  error = `${failure.name}: ${failure.message} ${failure.cause?.message ?? ""}`;
}
process.stdout.write(`${JSON.stringify({ error })}\n`, () => process.exit(0));
