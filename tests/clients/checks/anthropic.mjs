// The official Anthropic client for Node. Usage: node anthropic.mjs NODE_MODULES URL UNAVAILABLE_URL
// Prints one JSON object, check name → null or what went wrong.
import assert from "node:assert/strict";
import { createRequire } from "node:module";

const [modules, url, unavailableUrl] = process.argv.slice(2);
const require = createRequire(modules + "/");
const Anthropic = require("@anthropic-ai/sdk");
const { betaZodTool } = require("@anthropic-ai/sdk/helpers/beta/zod");
const { zodOutputFormat } = require("@anthropic-ai/sdk/helpers/zod");
const { z } = require("zod");

const model = "sluice-demo";
const messages = [{ role: "user", content: "What is the capital of France?" }];
const greedy = { model, messages, max_tokens: 60, temperature: 0 };
const weather = {
  name: "get_weather",
  description: "Tells the weather of a city.",
  input_schema: {
    type: "object",
    properties: { city: { type: "string", maxLength: 30 } },
    required: ["city"],
    additionalProperties: false,
  },
};
const client = (options = {}) => new Anthropic({ baseURL: url, apiKey: "unused", maxRetries: 0, ...options });

const checks = {
  async check_node_message_streams() {
    const whole = await client().messages.create(greedy);
    let text = "";
    const kinds = [];
    for await (const event of await client().messages.create({ ...greedy, stream: true })) {
      kinds.push(event.type);
      if (event.type === "content_block_delta") text += event.delta.text;
    }
    assert.equal(text, whole.content[0].text);
    assert.equal(kinds[0], "message_start");
    assert.deepEqual(kinds.slice(-2), ["message_delta", "message_stop"]);
    assert.ok(whole._request_id);
  },
  async check_node_stream_helper_and_second_turn() {
    const stream = client().messages.stream(greedy);
    let text = "";
    stream.on("text", (delta) => (text += delta));
    const final = await stream.finalMessage();
    assert.equal(final.content[0].text, text);
    assert.equal(await stream.finalText(), text);
    const again = [...messages, { role: final.role, content: final.content }, { role: "user", content: "And of Norway?" }];
    assert.ok((await client().messages.create({ ...greedy, messages: again })).stop_reason);
  },
  async check_node_tools() {
    const asked = { ...greedy, max_tokens: 200, tools: [weather], tool_choice: { type: "any" } };
    const whole = await client().messages.create(asked);
    const call = whole.content.at(-1);
    assert.deepEqual([whole.stop_reason, call.name, Object.keys(call.input)], ["tool_use", "get_weather", ["city"]]);
    const stream = client().messages.stream(asked);
    let json = "";
    stream.on("inputJson", (piece) => (json += piece));
    assert.deepEqual((await stream.finalMessage()).content.at(-1).input, call.input);
    assert.deepEqual(JSON.parse(json), call.input);
    const result = { role: "user", content: [{ type: "tool_result", tool_use_id: call.id, content: "sunny" }] };
    const again = [...messages, { role: "assistant", content: whole.content }, result];
    assert.ok((await client().messages.create({ ...asked, messages: again })).stop_reason);
  },
  async check_node_tool_runner() {
    const cities = [];
    const tool = betaZodTool({
      name: "get_weather",
      description: "Tells the weather of a city.",
      inputSchema: z.object({ city: z.string().max(30) }),
      run: ({ city }) => (cities.push(city), "sunny, 20 degrees"),
    });
    const asked = { ...greedy, max_tokens: 200, tools: [tool], tool_choice: { type: "any" }, max_iterations: 2 };
    for await (const message of client().beta.messages.toolRunner(asked)) assert.equal(message.stop_reason, "tool_use");
    for await (const stream of client().beta.messages.toolRunner({ ...asked, stream: true })) await stream.finalMessage();
    assert.equal(cities.length, 4);
  },
  async check_node_thinking() {
    const asked = { ...greedy, max_tokens: 1400, thinking: { type: "enabled", budget_tokens: 1024 } };
    const whole = await client().messages.create(asked);
    assert.equal(whole.content[0].type, "thinking");
    const stream = client().messages.stream(asked);
    let thought = "";
    stream.on("thinking", (piece) => (thought += piece));
    assert.deepEqual((await stream.finalMessage()).content[0], whole.content[0]);
    assert.equal(thought, whole.content[0].thinking);
  },
  async check_node_parse() {
    const format = zodOutputFormat(z.object({ name: z.string(), capital: z.boolean() }));
    const asked = { ...greedy, max_tokens: 300, repetition_penalty: 1.2, output_config: { format } };
    assert.equal(typeof (await client().messages.parse(asked)).parsed_output.capital, "boolean");
  },
  async check_node_count_and_models() {
    assert.ok((await client().messages.countTokens({ model, messages })).input_tokens > 5);
    const names = [];
    for await (const each of client().models.list({ limit: 1 })) names.push(each.id);
    assert.ok(names.length > 1 && names.includes(model));
    assert.equal((await client().models.retrieve(model)).display_name, model);
  },
  async check_node_errors() {
    await assert.rejects(client().messages.create({ ...greedy, temperature: 3 }), (error) => {
      assert.ok(error instanceof Anthropic.BadRequestError);
      assert.equal(error.error.error.type, "invalid_request_error");
      assert.ok(error.error.error.message.startsWith("temperature"));
      assert.ok(error.requestID);
      return true;
    });
    await assert.rejects(client().messages.create({ ...greedy, model: "nobody" }), Anthropic.NotFoundError);
    await assert.rejects(client().messages.stream({ ...greedy, model: "nobody" }).finalMessage(), Anthropic.NotFoundError);
  },
  async check_node_retries() {
    let attempts = 0;
    const counting = (...request) => (attempts++, fetch(...request));
    const away = client({ baseURL: unavailableUrl, maxRetries: 1, fetch: counting });
    await assert.rejects(away.messages.create(greedy), Anthropic.InternalServerError);
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
