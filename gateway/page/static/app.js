// The page: its content and controls.

import { listChats, listModels, streamChat } from "./api.js";
import { Conversation, load, save } from "./conversation.js";
import { Tray } from "./images.js";
import { draw } from "./message.js";
import { asCode, parameters } from "./request.js";

const KEY = "sluice.key";
const at = (id) => document.getElementById(id);

let conversations = load();
let current = conversations[0] ?? new Conversation();
let running = null; // an AbortController while an answer is generated
let imageModels = new Set(); // names of models that accept images
const tray = new Tray(at("attached"), drawCode, showProblem);

function begin() {
  current = new Conversation();
  current.system = at("system").value;
  drawAll();
  at("question").focus();
}

function keep() {
  conversations = [current, ...conversations.filter((each) => each.id !== current.id)];
  save(conversations);
}

function drawList() {
  at("conversations").replaceChildren(
    ...conversations.filter((each) => each.nodes.length).map((each) => {
      const [item, open, remove] = ["li", "button", "button"].map((name) => document.createElement(name));
      open.textContent = each.title;
      open.setAttribute("aria-current", String(each.id === current.id));
      open.addEventListener("click", () => {
        stop();
        current = each;
        at("system").value = each.system;
        at("list").classList.remove("open");
        drawAll();
      });
      remove.textContent = "×";
      remove.setAttribute("aria-label", `Delete ${each.title}`);
      remove.addEventListener("click", () => {
        conversations = conversations.filter((other) => other !== each);
        save(conversations);
        if (each === current) begin();
        else drawList();
      });
      item.append(open, remove);
      return item;
    }),
  );
}

function drawMessages() {
  const shown = current.path().map((index) => {
    const node = current.nodes[index];
    return draw(node, running ? null : {
      index,
      twins: current.twins(index),
      show: (other) => { current.show(other); keep(); drawAll(); },
      edit: (text) => ask(text, node.parent, node.images),
      retry: () => answer(node.parent),
    });
  });
  at("messages").replaceChildren(...shown);
  at("messages").scrollTop = at("messages").scrollHeight;
}

function drawAll() {
  drawList();
  drawMessages();
  drawCode();
}

function drawCode() {
  try {
    const messages = current.messages(current.leaf);
    const question = at("question").value.trim();
    if (question || !messages.length) messages.push({ role: "user", content: question || "Hello!" });
    const code = asCode({ model: at("model").value, messages, ...parameters() }, at("language").value);
    at("code").textContent = code.replaceAll(/(data:image\/\w+;base64,)[\w+/=]{100,}/g, "$1…");
  } catch (error) {
    at("code").textContent = error.message;
  }
}

function showProblem(problem) {
  at("problem").textContent = problem;
}

function stop() {
  running?.abort();
}

/** The settings as request parameters; undefined if they are invalid, with the reason shown. */
function settings() {
  try {
    const found = parameters();
    showProblem("");
    return found;
  } catch (error) {
    showProblem(error.message);
    return undefined;
  }
}

/** Send `text` after the message `parent`. A question without an answer is put back into the input. */
async function ask(text, parent, images = []) {
  if (!(text.trim() || images.length) || running) return;
  const nodes = current.nodes;
  const question = { role: "user", content: text, ...(images.length && { images }) };
  if (settings() && (await answer(current.add(parent, question)))) return;
  if (nodes === current.nodes) {
    if (nodes.at(-1)?.content === text && current.leaf === nodes.length - 1) nodes.pop();
    current.leaf = parent;
    drawAll();
  }
  at("question").value ||= text;
  if (!tray.urls.length) tray.put(images);
}

/** Generate an answer to the message `parent`; true if it is not empty. */
async function answer(parent) {
  const given = settings();
  if (!given) return false;
  const body = { model: at("model").value, messages: current.messages(parent), ...given };
  running = new AbortController();
  const mine = current;
  const index = mine.add(parent, { role: "assistant", content: "", model: body.model });
  at("send").hidden = true;
  at("stop").hidden = false;
  at("messages").setAttribute("aria-busy", "true"); // screen readers read the whole answer, not each piece
  drawAll();
  try {
    await write(mine, index, body);
  } catch (error) {
    if (!running.signal.aborted) showProblem(error.message);
    else mine.nodes[index].finish_reason = "your stop";
  }
  const { content, reasoning, tool_calls: calls } = mine.nodes[index];
  const isEmpty = !content && !reasoning && !calls;
  if (isEmpty && at("problem").textContent) {
    mine.nodes.splice(index, 1);
    mine.leaf = parent;
  }
  running = null;
  at("send").hidden = false;
  at("stop").hidden = true;
  at("messages").removeAttribute("aria-busy");
  if (mine === current) keep();
  else save(conversations);
  drawAll();
  return !isEmpty || !at("problem").textContent;
}

/** Stream the answer into the message `index`, drawn once per frame. */
async function write(conversation, index, body) {
  const node = conversation.nodes[index];
  const begun = performance.now();
  let isDue = false;
  const redraw = () => {
    isDue = false;
    const articles = at("messages").querySelectorAll("article");
    if (conversation !== current || !running || !articles.length) return;
    const box = at("messages");
    const isAtEnd = box.scrollHeight - box.scrollTop - box.clientHeight < 60;
    articles[articles.length - 1].replaceWith(draw(node, null));
    if (isAtEnd) box.scrollTop = box.scrollHeight;
  };
  const streamed = { ...body, stream: true, stream_options: { include_usage: true } };
  for await (const event of streamChat(streamed, at("key").value, running.signal)) {
    for (const { delta = {}, logprobs, finish_reason: reason } of event.choices ?? []) {
      const thought = delta.reasoning_content ?? "";
      if (thought || delta.content) node.first_ms ??= performance.now() - begun;
      node.reasoning = (node.reasoning ?? "") + thought;
      node.content += delta.content ?? "";
      if (logprobs?.content) (node.logprobs ??= []).push(...logprobs.content);
      for (const call of delta.tool_calls ?? []) {
        const into = ((node.tool_calls ??= [])[call.index] ??= { id: call.id, type: "function", function: { name: "", arguments: "" } });
        into.function.name += call.function?.name ?? "";
        into.function.arguments += call.function?.arguments ?? "";
      }
      if (reason) node.finish_reason = reason;
    }
    if (event.usage) node.num_tokens = event.usage.completion_tokens;
    node.took_ms = performance.now() - begun;
    if (!isDue) {
      isDue = true;
      requestAnimationFrame(redraw);
    }
  }
}

async function fillModels() {
  const chosen = at("model").value;
  try {
    const key = at("key").value;
    const [chats, models] = await Promise.all([listChats(key), listModels(key)]);
    const known = models.map((model) => model.id);
    const names = chats.length ? [...known.filter((name) => chats.includes(name)), ...chats.filter((name) => !known.includes(name))] : known;
    imageModels = new Set(models.filter((model) => model.input_modalities?.includes("image")).map((model) => model.id));
    at("model").replaceChildren(...names.map((name) => new Option(name, name, false, name === chosen)));
    showProblem("");
  } catch (error) {
    showProblem(error.message);
  }
  chooseModel();
}

function chooseModel() {
  tray.isOpen = imageModels.has(at("model").value);
  at("attach").hidden = !tray.isOpen;
  tray.draw();
}

function toggle(buttonId, panelId) {
  at(buttonId).addEventListener("click", () => {
    const isOpen = at(panelId).classList.toggle("open");
    at(buttonId).setAttribute("aria-expanded", String(isOpen));
  });
}

function rememberKey() {
  if (at("keep-key").checked && at("key").value) localStorage.setItem(KEY, at("key").value);
  else localStorage.removeItem(KEY);
}

at("ask").addEventListener("submit", (event) => {
  event.preventDefault();
  if (running) return;
  const text = at("question").value;
  at("question").value = "";
  ask(text, current.leaf, tray.take());
});
at("question").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
    event.preventDefault();
    at("ask").requestSubmit();
  }
});
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") stop();
});
at("stop").addEventListener("click", () => { stop(); at("question").focus(); });
at("new").addEventListener("click", () => { stop(); begin(); });
at("system").addEventListener("change", () => { current.system = at("system").value; if (current.nodes.length) keep(); });
at("key").addEventListener("change", () => { rememberKey(); fillModels(); });
at("keep-key").addEventListener("change", rememberKey);
at("copy-code").addEventListener("click", () => navigator.clipboard.writeText(at("code").textContent));
for (const event of ["input", "change"]) at("settings").addEventListener(event, drawCode);
at("question").addEventListener("input", drawCode);
at("model").addEventListener("change", chooseModel);
at("attach").addEventListener("click", () => at("files").click());
at("files").addEventListener("change", async () => { await tray.add([...at("files").files]); at("files").value = ""; });
at("question").addEventListener("paste", (event) => {
  if (!tray.isOpen || !event.clipboardData.files.length) return;
  event.preventDefault();
  tray.add([...event.clipboardData.files]);
});
document.addEventListener("dragover", (event) => tray.isOpen && event.preventDefault());
document.addEventListener("drop", (event) => {
  if (!tray.isOpen || !event.dataTransfer.files.length) return;
  event.preventDefault();
  tray.add([...event.dataTransfer.files]);
});
toggle("show-list", "list");
toggle("show-settings", "settings");

at("key").value = localStorage.getItem(KEY) ?? "";
at("keep-key").checked = at("key").value !== "";
at("system").value = current.system;
drawAll();
fillModels();
at("question").focus();
