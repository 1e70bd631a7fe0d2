// The official OpenAI client for Node. Usage: node openai.mjs NODE_MODULES URL UNAVAILABLE_URL
// Prints one JSON object, check name → null or what went wrong.
import assert from "node:assert/strict";
import { createRequire } from "node:module";

const [modules, url, unavailableUrl] = process.argv.slice(2);
const require = createRequire(modules + "/");
const OpenAI = require("openai");
const { AzureOpenAI } = OpenAI;
const { zodFunction, zodResponseFormat, zodResponsesFunction, zodTextFormat } = require("openai/helpers/zod");
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
  async check_node_answers_go_back() {
    const City = z.object({ name: z.string(), capital: z.boolean() });
    const asked = { model, messages, temperature: 0, max_tokens: 300, frequency_penalty: 0.5 };
    const format = zodResponseFormat(City, "city");
    const parsed = await client().chat.completions.parse({ ...asked, response_format: format });
    const stream = client().chat.completions.stream({ ...asked, response_format: format });
    for (const { message } of [parsed.choices[0], (await stream.finalChatCompletion()).choices[0]]) {
      assert.equal(typeof message.parsed.capital, "boolean");
      const again = await client().chat.completions.create({ ...asked, messages: [...messages, message, ...messages] });
      assert.ok(again.choices[0].finish_reason);
    }
    const tools = [zodFunction({ name: "get_weather", parameters: z.object({ city: z.string().max(30) }) })];
    const calling = { ...asked, tools, tool_choice: "required" };
    const whole = await client().chat.completions.parse(calling);
    const streamed = await client().chat.completions.stream(calling).finalChatCompletion();
    for (const { message } of [whole.choices[0], streamed.choices[0]]) {
      const [call] = message.tool_calls;
      assert.deepEqual(Object.keys(call.function.parsed_arguments), ["city"]);
      const result = { role: "tool", tool_call_id: call.id, content: "sunny" };
      const again = await client().chat.completions.create({ ...asked, tools, messages: [...messages, message, result] });
      assert.ok(again.choices[0].finish_reason);
    }
  },
  async check_node_tool_runner() {
    const cities = [];
    const run = ({ city }) => (cities.push(city), "sunny, 20 degrees");
    const described = { name: "get_weather", description: "Tells the weather of a city.", function: run, parse: JSON.parse };
    const tools = [{ type: "function", function: { ...described, parameters: weather.function.parameters } }];
    const question = { role: "user", content: "What is the weather in Oslo?" };
    const asked = { model, messages: [question], tools, temperature: 0, max_tokens: 200 };
    for (const stream of [false, true])
      assert.match(await client().chat.completions.runTools({ ...asked, stream }).finalContent(), /sunny/);
    assert.deepEqual(cities, ["Oslo", "Oslo"]);
  },
  async check_node_responses_go_back() {
    const City = z.object({ name: z.string(), capital: z.boolean() });
    const question = { role: "user", content: "Describe Paris." };
    const asked = { model, temperature: 0, max_output_tokens: 300 };
    const format = { text: { format: zodTextFormat(City, "city") } };
    const parsed = await client().responses.parse({ ...asked, ...format, input: [question] });
    assert.equal(typeof parsed.output_parsed.capital, "boolean");
    const tools = [zodResponsesFunction({ name: "get_weather", parameters: z.object({ city: z.string().max(30) }) })];
    const calling = { ...asked, tools, tool_choice: "required", input: [question] };
    const whole = await client().responses.parse(calling);
    const streamed = await client().responses.stream(calling).finalResponse();
    const results = [whole, streamed].map(({ output }) => {
      const call = output.find((item) => item.type === "function_call");
      assert.deepEqual(Object.keys(call.parsed_arguments), ["city"]);
      return [...output, { type: "function_call_output", call_id: call.call_id, output: "sunny" }];
    });
    for (const kept of [[...parsed.output, question], ...results])
      assert.ok((await client().responses.create({ ...asked, tools, input: [question, ...kept] })).id);
  },
  async check_node_azure_client() {
    const azure = new AzureOpenAI({ endpoint: url, apiKey: "unused", apiVersion: "2024-10-21", maxRetries: 0 });
    const whole = await azure.chat.completions.create({ model, messages, temperature: 0 });
    const again = [...messages, whole.choices[0].message, ...messages];
    assert.ok((await azure.chat.completions.create({ model, messages: again, max_tokens: 4 })).choices[0].finish_reason);
    assert.equal((await azure.responses.create({ model, input: "Hello!", max_output_tokens: 4 })).model, model);
    assert.equal((await azure.models.list()).data[0].id, model);
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
  async check_node_background() {
    const asked = { model, input: "What is the capital of France?", temperature: 0, background: true, store: true };
    let response = await client().responses.create(asked);
    assert.equal(response.status, "queued");
    while (["queued", "in_progress"].includes(response.status)) response = await client().responses.retrieve(response.id);
    assert.match(response.output_text, /Paris/);
    const events = [];
    for await (const event of await client().responses.create({ ...asked, stream: true })) events.push(event);
    const { id } = events[0].response;
    const rest = [];
    for await (const event of await client().responses.retrieve(id, { stream: true, starting_after: 2 })) rest.push(event);
    assert.deepEqual(rest, events.slice(3));
    assert.equal((await client().responses.cancel(id)).status, "completed");
    await client().responses.delete(id);
    await assert.rejects(client().responses.retrieve(id), OpenAI.NotFoundError);
  },
  async check_node_conversations() {
    const conversation = await client().conversations.create({ metadata: { topic: "capitals" } });
    for (const input of ["What is the capital of France?", "And of Norway?"])
      await client().responses.create({ model, input, conversation: conversation.id, temperature: 0 });
    const roles = [];
    for await (const item of client().conversations.items.list(conversation.id, { order: "asc", limit: 3 })) roles.push(item.role);
    assert.deepEqual(roles, ["user", "assistant", "user", "assistant"]);
    await client().conversations.delete(conversation.id);
  },
  async check_node_batches() {
    const url = "/v1/chat/completions";
    const lines = [{ model, messages, temperature: 0 }, { model, messages, temperature: 9 }].map((body, i) =>
      JSON.stringify({ custom_id: `r${i}`, method: "POST", url, body }),
    );
    const file = await client().files.create({
      file: await OpenAI.toFile(Buffer.from(lines.join("\n")), "in.jsonl"),
      purpose: "batch",
      expires_after: { anchor: "created_at", seconds: 3600 },
    });
    assert.equal(file.expires_at - file.created_at, 3600);
    assert.equal(await (await client().files.content(file.id)).text(), lines.join("\n"));
    let batch = await client().batches.create({ input_file_id: file.id, endpoint: url, completion_window: "24h" });
    while (batch.status === "in_progress") batch = await client().batches.retrieve(batch.id);
    assert.deepEqual(batch.request_counts, { total: 2, completed: 1, failed: 1 });
    const result = async (id) => JSON.parse(await (await client().files.content(id)).text());
    const answered = await result(batch.output_file_id);
    assert.equal(answered.custom_id, "r0");
    assert.match(answered.response.body.choices[0].message.content, /Paris/);
    assert.equal((await result(batch.error_file_id)).response.body.error.param, "temperature");
    const batches = [];
    for await (const each of client().batches.list({ limit: 1 })) batches.push(each.id);
    assert.ok(batches.includes(batch.id));
    assert.equal((await client().batches.cancel(batch.id)).status, "completed");
    for await (const each of client().files.list({ limit: 1 })) assert.ok((await client().files.delete(each.id)).deleted);
    await assert.rejects(client().files.retrieve(file.id), OpenAI.NotFoundError);
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
    const away = client({ baseURL: `${unavailableUrl}/v1`, maxRetries: 1, fetch: counting });
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
