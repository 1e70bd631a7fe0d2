// Converts the settings to a request's body, and to code.

/** The page's number inputs. `data-field` names the message of the contract that has the field; `data-extension`
 * marks fields that OpenAI's API lacks. */
const numbers = () => [...document.querySelectorAll("#parameters input[type=number]")];

function json(id, what) {
  const text = document.getElementById(id).value.trim();
  if (!text) return undefined;
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new Error(`${what}: ${error.message}`);
  }
}

/** The body without its messages. Throws Error with the name of an invalid field. */
export function parameters() {
  const form = document.getElementById("parameters");
  const body = {};
  for (const field of numbers()) {
    if (!field.checkValidity()) throw new Error(`${field.labels[0].textContent.trim()}: ${field.validationMessage}`);
    if (field.value !== "") body[field.name] = Number(field.value);
  }
  const stop = form.querySelector("[name=stop]").value;
  if (stop) body.stop = stop;
  const effort = form.querySelector("[name=reasoning_effort]").value;
  if (effort) body.reasoning_effort = effort;
  if (form.querySelector("[name=logprobs]").checked) Object.assign(body, { logprobs: true, top_logprobs: 3 });
  const schema = json("schema", "JSON schema of the answer");
  if (schema) body.response_format = { type: "json_schema", json_schema: { name: "answer", schema, strict: true } };
  const tools = json("tools", "Tools");
  if (tools) body.tools = tools;
  return body;
}

function quoted(text) {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}

/** A message's content in the contract's form. */
function partsOf(content) {
  if (!Array.isArray(content)) return [{ text: content ?? "" }];
  return content.map((part) => (part.type === "text" ? { text: part.text } : { image_url: part.image_url }));
}

const LANGUAGES = {
  curl: (body) =>
    `curl -N ${location.origin}/v1/chat/completions \\\n  -H 'content-type: application/json' \\\n  -H "authorization: Bearer $SLUICE_API_KEY" \\\n  -d ${quoted(JSON.stringify({ ...body, stream: true }, null, 2))}`,
  python: (body) => {
    const own = new Set(numbers().filter((field) => "extension" in field.dataset).map((field) => field.name));
    const known = Object.entries(body).filter(([name]) => !own.has(name));
    const extra = Object.fromEntries(Object.entries(body).filter(([name]) => own.has(name)));
    const value = (each) => `json.loads(r"""${JSON.stringify(each)}""")`;
    const lines = known.map(([name, each]) => `    ${name}=${typeof each === "object" || typeof each === "boolean" ? value(each) : JSON.stringify(each)},`);
    if (Object.keys(extra).length) lines.push(`    extra_body=${JSON.stringify(extra)},`);
    return `import json\n\nfrom openai import OpenAI\n\nclient = OpenAI(base_url="${location.origin}/v1", api_key="unused")\nstream = client.chat.completions.create(\n    stream=True,\n${lines.join("\n")}\n)\nfor chunk in stream:\n    print(chunk.choices[0].delta.content or "", end="", flush=True)`;
  },
  grpc: (body) => {
    const given = (message) => Object.fromEntries(numbers().filter(({ name, dataset }) => dataset.field === message && name in body).map(({ name }) => [name, body[name]]));
    const sampling = given("sampling");
    const stopping = { ...given("stopping"), ...(body.stop && { stop: [body.stop] }) };
    const messages = body.messages.map(({ role, content }) => ({ role: `ROLE_${role.toUpperCase()}`, content: partsOf(content) }));
    const message = { model: body.model, messages, ...(Object.keys(sampling).length && { sampling }), ...(Object.keys(stopping).length && { stopping }) };
    return `grpcurl -plaintext -d ${quoted(JSON.stringify(message, null, 2))} \\\n  ${location.host} sluice.v1.ChatService/StreamChat`;
  },
};

/** The request as code: curl, python or grpc. */
export function asCode(body, language) {
  return LANGUAGES[language](body);
}
