// Ollama's own client for Node. Usage: node ollama.mjs NODE_MODULES URL UNAVAILABLE_URL
// Prints one JSON object, check name → null or what went wrong.
import assert from "node:assert/strict";
import { createRequire } from "node:module";

const [modules, url, unavailableUrl] = process.argv.slice(2);
const require = createRequire(modules + "/");
const { Ollama } = require("ollama");

const model = "sluice-demo";
const embedder = "all-minilm-l6-v2";
const messages = [{ role: "user", content: "What is the capital of France?" }];
const greedy = { model, messages, options: { temperature: 0, num_predict: 30 } };
const client = new Ollama({ host: url });

const checks = {
  async check_node_chat_streams() {
    const whole = await client.chat(greedy);
    let text = "";
    let last;
    for await (const part of await client.chat({ ...greedy, stream: true })) {
      text += part.message.content;
      last = part;
    }
    assert.equal(text, whole.message.content);
    assert.equal(last.done, true);
    assert.equal(last.eval_count, whole.eval_count);
    assert.equal(last.total_duration, last.load_duration + last.prompt_eval_duration + last.eval_duration);
  },
  async check_node_generate() {
    const prompt = messages[0].content;
    const chat = await client.chat(greedy);
    const answer = await client.generate({ model, prompt, options: greedy.options });
    assert.equal(answer.response, chat.message.content);
    const loaded = await client.generate({ model, prompt: "" });
    assert.equal(loaded.done_reason, "load");
  },
  async check_node_format() {
    const format = { type: "object", properties: { city: { enum: ["Oslo"] } }, required: ["city"] };
    const answer = await client.chat({ ...greedy, options: { temperature: 0 }, format });
    assert.equal(JSON.parse(answer.message.content).city, "Oslo");
  },
  async check_node_abort() {
    const own = new Ollama({ host: url });
    const format = { type: "array", minItems: 400, items: { type: "string" } }; // so that the answer is long
    const stream = await own.chat({ model, messages, format, stream: true });
    await assert.rejects(async () => {
      for await (const _ of stream) stream.abort();
    }, { name: "AbortError" });
  },
  async check_node_embed() {
    const answer = await client.embed({ model: embedder, input: ["a cat", "a dog"] });
    assert.deepEqual(answer.embeddings.map((vector) => vector.length), [384, 384]);
  },
  async check_node_models() {
    const { models } = await client.list();
    assert.ok(models.some((each) => each.name === `${model}:latest`));
    assert.ok((await client.ps()).models.length > 0);
    assert.ok((await client.show({ model })).capabilities.includes("completion"));
    assert.match((await client.version()).version, /^\d+\.\d+\.\d+$/);
  },
  async check_node_errors() {
    await assert.rejects(client.chat({ ...greedy, model: "nobody" }), { status_code: 404, message: /nobody/ });
    await assert.rejects(client.chat({ ...greedy, stream: true, options: { temperature: 3 } }), { status_code: 400 });
    await assert.rejects(client.pull({ model: "llama3.2" }), { status_code: 400, message: /sluice serve/ });
    await assert.rejects(new Ollama({ host: unavailableUrl }).chat(greedy), { status_code: 503 });
  },
};

const results = {};
for (const [name, check] of Object.entries(checks)) {
  try {
    await check();
    results[name] = null;
  } catch (error) {
    results[name] = String(error.stack ?? error);
  }
}
console.log("\n" + JSON.stringify(results));
