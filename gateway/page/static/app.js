// The page: its content and controls.

import { write } from "./answer.js";
import { alone, Conversation, follow, load, remove, save } from "./conversation.js";
import { copy } from "./copy.js";
import { Tray } from "./images.js";
import { draw } from "./message.js";
import { Models } from "./models.js";
import { closePanels, listen, showPanel } from "./panels.js";
import { showError, showProblem } from "./problem.js";
import { asCode, parameters } from "./request.js";

const SUGGESTIONS = ["Who are you?", "What can you do?", "What is the capital of France?"];
const at = (id) => document.getElementById(id);

let conversations = load();
let current = conversations[0] ?? new Conversation();
let running = null; // an AbortController while an answer is generated
let answering = null; // the conversation of that answer
let isLeaving = false; // the page is being closed or reloaded
const tray = new Tray(at("attached"), drawCode, showProblem);
const models = new Models(tray);

function begin() {
  current = new Conversation();
  current.system = at("system").value;
  drawAll();
  at("question").focus();
}

function keep() {
  conversations = [current, ...conversations.filter((each) => each.id !== current.id)];
  save(current, true);
}

/** Take over what other tabs have stored. */
function refresh() {
  const before = JSON.stringify(current);
  conversations = load().map((each) => (each.id === answering?.id ? answering : each));
  current = conversations.find((each) => each.id === current.id) ?? current;
  drawList();
  if (JSON.stringify(current) === before) return;
  at("system").value = current.system;
  if (!at("messages").querySelector(".edit")) drawMessages(); // an edit is not lost
  drawCode();
}

function drawList() {
  at("conversations").replaceChildren(
    ...conversations.filter((each) => each.nodes.length).map((each) => {
      const [item, open, drop] = ["li", "button", "button"].map((name) => document.createElement(name));
      open.textContent = each.title;
      open.setAttribute("aria-current", String(each.id === current.id));
      open.addEventListener("click", () => {
        stop();
        current = each;
        at("system").value = each.system;
        showPanel("list", false);
        drawAll();
        resume();
      });
      drop.textContent = "×";
      drop.setAttribute("aria-label", `Delete ${each.title}`);
      drop.addEventListener("click", () => {
        conversations = conversations.filter((other) => other !== each);
        remove(each.id);
        if (each === current) begin();
        else drawList();
      });
      item.append(open, drop);
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
      resume: () => resume(index),
    });
  });
  at("messages").replaceChildren(...(shown.length ? shown : [suggestions()]));
  at("messages").scrollTop = at("messages").scrollHeight;
}

function suggestions() {
  const made = document.createElement("div");
  made.className = "suggestions";
  for (const text of SUGGESTIONS) {
    const choose = document.createElement("button");
    choose.type = "button";
    choose.textContent = text;
    choose.addEventListener("click", () => ask(text, null));
    made.append(choose);
  }
  return made;
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
  const isAnswered = settings() && (await answer(current.add(parent, question)));
  if (isAnswered || isLeaving) return;
  if (nodes === current.nodes) {
    if (nodes.at(-1)?.content === text && current.leaf === nodes.length - 1) nodes.pop();
    current.leaf = parent;
    if (isAnswered === false) keep();
    drawAll();
  }
  at("question").value ||= text;
  if (!tray.urls.length) tray.put(images);
}

/** Generate an answer to the message `parent`; true if it is not empty, undefined if another tab answers meanwhile. */
async function answer(parent) {
  const given = settings();
  if (!given) return false;
  const model = at("model").value;
  const request = { model, ...given, stream: true, stream_options: { include_usage: true }, return_progress: true };
  const mine = current;
  running = new AbortController();
  answering = mine;
  const isAnswered = await alone(mine.id, () => receive(mine, mine.add(parent, { role: "assistant", content: "", model, request })));
  if (isAnswered !== undefined) return isAnswered;
  running = answering = null;
  showProblem("Another tab is answering in this conversation.");
  return undefined;
}

/** Continue an interrupted answer, by default the one that is shown last, once no other tab receives it. */
async function resume(index = current.leaf) {
  if (running || !current.nodes[index]?.request) return;
  const { id } = current;
  await alone(id, async () => {
    refresh();
    if (running || current.id !== id || !current.nodes[index]?.request) return;
    current.leaf = index;
    showProblem("");
    await receive(current, index);
  }, { waits: true });
}

/** Receive the rest of an answer, whose `request` is kept until it is complete; true if it is not empty. */
async function receive(mine, index) {
  const node = mine.nodes[index];
  if (!node.event_id) Object.assign(node, { content: "", reasoning: undefined, logprobs: undefined, tool_calls: undefined, took_ms: 0 });
  running ??= new AbortController();
  answering = mine;
  at("send").hidden = true;
  at("stop").hidden = false;
  at("messages").setAttribute("aria-busy", "true"); // screen readers read the whole answer, not each piece
  keep();
  drawAll();
  const { signal } = running;
  const body = { ...node.request, messages: mine.messages(node.parent) };
  try {
    await write(node, body, at("key").value, signal, { changed: redrawer(mine, node), save: () => save(mine) });
    finish(node);
  } catch (error) {
    if (isLeaving) return false; // continued when the page is loaded again
    if (!signal.aborted) showError(error);
    else node.finish_reason = "your stop";
    if (signal.aborted || !error.isPassing) finish(node);
  }
  const isEmpty = !node.content && !node.reasoning && !node.tool_calls;
  if (isEmpty && at("problem").textContent && index === mine.nodes.length - 1) {
    mine.nodes.pop();
    mine.leaf = node.parent;
  }
  running = answering = null;
  at("send").hidden = false;
  at("stop").hidden = true;
  at("messages").removeAttribute("aria-busy");
  if (mine === current) keep();
  else save(mine);
  drawAll();
  return !isEmpty || !at("problem").textContent;
}

/** Mark an answer as complete. */
function finish(node) {
  delete node.request;
  delete node.event_id;
}

/** A function that draws the message again, at most once per frame. */
function redrawer(conversation, node) {
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
  return () => {
    if (isDue) return;
    isDue = true;
    requestAnimationFrame(redraw);
  };
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
  if (event.key !== "Escape" || event.defaultPrevented) return;
  stop();
  closePanels();
});
at("stop").addEventListener("click", () => { stop(); at("question").focus(); });
at("new").addEventListener("click", () => { stop(); begin(); });
at("system").addEventListener("change", () => { current.system = at("system").value; if (current.nodes.length) keep(); });
at("copy-code").addEventListener("click", () => copy(at("code").textContent));
addEventListener("pagehide", () => {
  isLeaving = true;
  if (answering) save(answering);
});
addEventListener("pageshow", (event) => {
  isLeaving = false;
  if (event.persisted) location.reload(); // its connections are closed
});
for (const event of ["input", "change"]) at("settings").addEventListener(event, drawCode);
at("question").addEventListener("input", drawCode);
tray.listen(at("attach"), at("files"), at("question"));
models.listen();
listen();
follow(refresh);

at("system").value = current.system;
drawAll();
at("question").focus();
models.fill().then(() => resume());
