// Make the same calls with the TypeScript client over gRPC-web and gRPC, and print a JSON line for each protocol:
// {text, kinds, models, refusal, late, left, roles, answer}.
// Usage: node typescript_calls.mjs DOOR PACKAGE_FOLDER
import { pathToFileURL } from "node:url";

const [door, folder] = process.argv.slice(2);
const from = (path) => import(pathToFileURL(`${folder}/dist/${path}`));
const { message } = await from("index.js");

const messages = [message("user", "What is the capital of France?")];
const asked = { model: "sluice-demo", messages, sampling: { temperature: 0 } };
// Each token is an event, however slowly this client reads.
const endless = { ...asked, stopping: { minTokens: 900, maxTokens: 900 }, serving: { separateTokens: true } };

for (const entry of ["index.js", "node.js"]) {
  const { connect, refusalOf, runTools, texts, tool } = await from(entry);
  const sluice = connect(door, { key: "unused", timeoutMs: 240_000 });
  const refused = (call) => call.then(() => "no refusal", refusalOf);
  const [events, pieces] = [[], []];
  for await (const event of sluice.chat.streamChat(asked)) events.push(event);
  for await (const text of texts(sluice.chat.streamChat(asked))) pieces.push(text);
  let left = 0;
  for await (const text of texts(sluice.chat.streamChat(endless))) if (++left === 3) break;
  const { models } = await sluice.models.listModels({});
  const refusal = await refused(sluice.chat.chat({ ...asked, n: 0 }, { headers: { "x-request-id": "of-typescript" } }));
  const late = await refused(sluice.chat.chat(endless, { timeoutMs: 50 }));
  const city = { type: "object", properties: { city: { type: "string", maxLength: 30 } }, required: ["city"] };
  const weather = { tool: tool("get_weather", "Returns the weather in a city.", city), run: ({ city }) => ({ city, sky: "clear" }) };
  const question = { ...asked, messages: [message("user", "What is the weather in Paris?")] };
  const required = { choice: { case: "mode", value: 3 } };
  const conversation = await runTools(sluice.chat, { ...question, toolChoice: required }, [weather]);
  const roles = conversation.messages.map(({ role, toolCalls, content }) => [role, toolCalls.length, content[0]?.part.value ?? ""]);
  const kinds = events.map(({ event }) => event.case);
  console.log(JSON.stringify({ text: pieces.join(""), kinds, models: models.map(({ name }) => name), refusal, late, left, roles, answer: conversation.text }));
}
process.exit(0); // without waiting for idle connections to close
