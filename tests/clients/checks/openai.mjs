// The official OpenAI client for Node. Usage: node openai.mjs NODE_MODULES URL LONELY_URL
// Prints one JSON object, check name → null or what went wrong.
import assert from "node:assert/strict";
import { createRequire } from "node:module";

const [modules, url, lonelyUrl] = process.argv.slice(2);
const require = createRequire(modules + "/");
const OpenAI = require("openai");
const { zodResponseFormat } = require("openai/helpers/zod");
const { z } = require("zod");

const model = "sluice-demo";
const embedder = "all-minilm-l6-v2";
const messages = [{ role: "user", content: "What is the capital of France?" }];
const weather = {
  type: "function",
  function: {
    name: "get_weather",
    description: "Tells the weather of a city.",
    parameters: {
      type: "object",
      properties: { city: { type: "string", maxLength: 30 } },
      required: ["city"],
      additionalProperties: false,
    },
  },
};
const client = (options = {}) => new OpenAI({ baseURL: `${url}/v1`, apiKey: "unused", maxRetries: 0, ...options });

const checks = {
  async check_node_chat_streams() {
    const whole = await client().chat.completions.create({ model, messages, temperature: 0 });
    let text = "";
    for await (const chunk of await client().chat.completions.create({ model, messages, temperature: 0, stream: true }))
      text += chunk.choices[0]?.delta.content ?? "";
    assert.equal(text, whole.choices[0].message.content);
  },
  async check_node_stream_helper() {
    const stream = client().chat.completions.stream({ model, messages, temperature: 0 });
    let text = "";
    stream.on("content", (delta) => (text += delta));
    assert.equal((await stream.finalChatCompletion()).choices[0].message.content, text);
  },
  async check_node_parse() {
    const City = z.object({ name: z.string(), capital: z.boolean() });
    const answer = await client().chat.completions.parse({
      model, messages, response_format: zodResponseFormat(City, "city"), temperature: 0, max_tokens: 300, frequency_penalty: 0.5,
    });
    assert.equal(typeof answer.choices[0].message.parsed.capital, "boolean");
  },
  async check_node_tools() {
    const answer = await client().chat.completions.create({
      model, messages, tools: [weather], tool_choice: "required", temperature: 0, max_tokens: 200,
    });
    const [call] = answer.choices[0].message.tool_calls;
    assert.equal(call.function.name, "get_weather");
    assert.deepEqual(Object.keys(JSON.parse(call.function.arguments)), ["city"]);
  },
  async check_node_completions() {
    const answer = await client().completions.create({ model, prompt: ["One, two,", "Red,"], max_tokens: 3, echo: true });
    assert.deepEqual(answer.choices.map((choice) => choice.index), [0, 1]);
    assert.ok(answer.choices[1].text.startsWith("Red,"));
  },
  async check_node_embeddings() {
    const usual = await client().embeddings.create({ model: embedder, input: "a cat" });
    const floats = await client().embeddings.create({ model: embedder, input: "a cat", encoding_format: "float" });
    assert.equal(usual.data[0].embedding.length, 384);
    usual.data[0].embedding.forEach((x, i) => assert.ok(Math.abs(x - floats.data[0].embedding[i]) < 1e-6));
  },
  async check_node_responses() {
    const input = "What is the capital of France?";
    const whole = await client().responses.create({ model, input, temperature: 0 });
    let text = "";
    let last;
    for await (const event of await client().responses.create({ model, input, temperature: 0, stream: true })) {
      if (event.type === "response.output_text.delta") text += event.delta;
      last = event.type;
    }
    assert.equal(text, whole.output_text);
    assert.equal(last, "response.completed");
  },
  async check_node_models() {
    const names = [];
    for await (const each of client().models.list()) names.push(each.id);
    assert.ok(names.includes(model) && names.includes(embedder));
    assert.equal((await client().models.retrieve(model)).id, model);
  },
  async check_node_errors() {
    await assert.rejects(client().chat.completions.create({ model, messages, temperature: 3 }), (error) => {
      assert.ok(error instanceof OpenAI.BadRequestError);
      assert.equal(error.param, "temperature");
      return true;
    });
    await assert.rejects(client().chat.completions.create({ model: "nobody", messages }), OpenAI.NotFoundError);
  },
  async check_node_retries() {
    let attempts = 0;
    const counting = (...request) => (attempts++, fetch(...request));
    const away = client({ baseURL: `${lonelyUrl}/v1`, maxRetries: 1, fetch: counting });
    await assert.rejects(away.chat.completions.create({ model, messages }), OpenAI.InternalServerError);
    assert.equal(attempts, 2);
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
