// Vercel's AI SDK with its provider for servers in the OpenAI style. Usage: node vercel.mjs NODE_MODULES URL UNAVAILABLE_URL
// Prints one JSON object, check name → null or what went wrong.
import assert from "node:assert/strict";
import { createRequire } from "node:module";

const [modules, url, unavailableUrl] = process.argv.slice(2);
const require = createRequire(modules + "/");
const { APICallError, Output, embedMany, generateText, stepCountIs, streamText, tool } = require("ai");
const { createOpenAICompatible } = require("@ai-sdk/openai-compatible");
const { z } = require("zod");

const provider = (base = url) => createOpenAICompatible({ name: "sluice", baseURL: `${base}/v1`, apiKey: "unused", includeUsage: true, supportsStructuredOutputs: true });
const model = provider()("sluice-demo");
const greedy = { model, temperature: 0, maxOutputTokens: 200, maxRetries: 0 };
const question = { role: "user", content: "What is the capital of France?" };
const weather = (cities) =>
  tool({
    description: "Tells the weather of a city.",
    inputSchema: z.object({ city: z.string().max(30) }),
    execute: ({ city }) => (cities.push(city), "sunny, 20 degrees"),
  });

const checks = {
  async check_node_text_streams_and_continues() {
    const whole = await generateText({ ...greedy, messages: [question] });
    assert.match(whole.text, /Paris/);
    assert.ok(whole.usage.outputTokens > 0);
    const stream = streamText({ ...greedy, messages: [question], onError: ({ error }) => { throw error; } });
    let text = "";
    for await (const piece of stream.textStream) text += piece;
    assert.equal(text, whole.text);
    assert.equal((await stream.usage).outputTokens, whole.usage.outputTokens);
    assert.equal(await stream.finishReason, "stop");
    for (const kept of [whole.response.messages, (await stream.response).messages])
      assert.ok((await generateText({ ...greedy, messages: [question, ...kept, question] })).text);
  },
  async check_node_tools_run_to_the_answer() {
    const cities = [];
    const asked = { ...greedy, prompt: "What is the weather in Oslo?", tools: { get_weather: weather(cities) }, stopWhen: stepCountIs(4) };
    const whole = await generateText(asked);
    assert.deepEqual(cities, ["Oslo"]);
    assert.equal(whole.steps.length, 2);
    assert.match(whole.text, /sunny/);
    const stream = streamText(asked);
    await stream.consumeStream();
    assert.equal(await stream.text, whole.text);
    assert.deepEqual(cities, ["Oslo", "Oslo"]);
    const kept = (await stream.response).messages;
    assert.ok((await generateText({ ...asked, prompt: undefined, messages: [question, ...kept, question] })).finishReason);
  },
  async check_node_objects() {
    const output = Output.object({ schema: z.object({ name: z.string().max(30), capital: z.boolean() }) });
    const whole = await generateText({ ...greedy, messages: [question], output });
    assert.equal(typeof whole.output.capital, "boolean");
    const stream = streamText({ ...greedy, messages: [question], output });
    let last;
    for await (const partial of stream.partialOutputStream) last = partial;
    assert.deepEqual(last, whole.output);
  },
  async check_node_completions_and_embeddings() {
    const completed = await generateText({ ...greedy, model: provider().completionModel("sluice-demo"), prompt: "The capital of France is" });
    assert.ok(completed.text);
    const embedder = provider().textEmbeddingModel("all-minilm-l6-v2");
    const { embeddings } = await embedMany({ model: embedder, values: ["a cat", "a motorway"], maxRetries: 0 });
    assert.deepEqual(embeddings.map((each) => each.length), [384, 384]);
  },
  async check_node_errors() {
    await assert.rejects(generateText({ ...greedy, messages: [question], temperature: 3 }), (error) => {
      assert.ok(APICallError.isInstance(error));
      assert.deepEqual([error.statusCode, error.isRetryable], [400, false]);
      assert.match(error.message, /temperature/);
      return true;
    });
    const away = provider(unavailableUrl)("sluice-demo");
    await assert.rejects(generateText({ ...greedy, model: away, messages: [question] }), (error) => error.isRetryable);
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
