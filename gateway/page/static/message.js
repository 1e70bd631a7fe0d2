// The display of one message.

import { decorate } from "./code.js";
import { copyButton } from "./copy.js";
import { preview } from "./images.js";
import { markdown } from "./markdown.js";

function element(name, className, ...children) {
  const made = document.createElement(name);
  if (className) made.className = className;
  made.append(...children);
  return made;
}

function button(text, label, act) {
  const made = element("button", "", text);
  made.type = "button";
  if (label) made.setAttribute("aria-label", label);
  made.addEventListener("click", act);
  return made;
}

function percent(logprob) {
  return `${(100 * Math.exp(logprob)).toPrecision(3)} %`;
}

/** Each token underlined by probability: red below 10 %, orange below 50 %, grey below 90 %; its title lists alternatives. */
function shaded(entries) {
  const spans = entries.map(({ token, logprob, top_logprobs = [] }) => {
    const likely = Math.exp(logprob);
    const span = element("span", likely < 0.1 ? "p0" : likely < 0.5 ? "p1" : likely < 0.9 ? "p2" : "", token);
    const others = top_logprobs.map((each) => `${JSON.stringify(each.token)} ${percent(each.logprob)}`);
    span.title = [`${JSON.stringify(token)} ${percent(logprob)}`, ...others].join("\n");
    return span;
  });
  return element("div", "tokens", ...spans);
}

function calls(toolCalls) {
  return toolCalls.map(({ function: { name, arguments: text } }) => {
    const shown = element("pre", "", element("code", "", `${name}(${text})`));
    shown.tabIndex = 0;
    return element("div", "call", element("strong", "", "Tool call"), shown);
  });
}

function facts({ num_tokens: count, first_ms: first, took_ms: took, finish_reason: reason }) {
  const parts = [];
  if (count) parts.push(`${count} tokens`);
  if (count > 1 && took > first + 20) parts.push(`${Math.round((1000 * (count - 1)) / (took - first))} tokens/s`);
  if (first !== undefined) parts.push(`first token after ${Math.round(first)} ms`);
  if (reason && reason !== "stop") parts.push(`ended by ${reason}`);
  return parts.join(", ");
}

/** A bar of the part of the prompt that is computed. */
function bar({ total, processed }) {
  const made = element("progress", "");
  Object.assign(made, { max: total, value: processed });
  return element("label", "prompt", made, `${processed} of ${total} tokens of the prompt`);
}

/**
 * One message. `acts` are the actions of its buttons, {edit, retry, resume, show(index), twins, index}; without them, while
 * it is generated, it has no buttons. `resume` continues an answer that was interrupted.
 */
export function draw(node, acts) {
  const isUser = node.role === "user";
  const made = element("article", node.role, element("h2", "", isUser ? "You" : node.model ?? "Answer"));
  if (node.reasoning) {
    const thought = element("details", "", element("summary", "", "Reasoning"), node.reasoning);
    thought.open = !node.content;
    made.append(thought);
  }
  if (node.images?.length) {
    made.append(element("div", "pictures", ...node.images.map((url, at) => preview(url, `Image ${at + 1} of this message`))));
  }
  if (node.progress && !acts) made.append(bar(node.progress));
  const content = element("div", "content");
  if (isUser) content.append(node.content);
  else if (node.logprobs?.length) content.append(shaded(node.logprobs));
  else for (const each of markdown(node.content ?? "")) content.append(each);
  if (!isUser) decorate(content);
  made.append(content, ...calls(node.tool_calls ?? []));
  const line = element("div", "facts", facts(node));
  if (acts) {
    const { twins, index } = acts;
    if (twins.length > 1) {
      const at = twins.indexOf(index);
      const turn = (step) => () => acts.show(twins[(at + step + twins.length) % twins.length]);
      line.append(button("‹", "Previous branch", turn(-1)), `${at + 1} of ${twins.length}`, button("›", "Next branch", turn(1)));
    }
    line.append(copyButton(isUser ? "Copy question" : "Copy answer", () => node.content ?? ""));
    if (node.request) line.append(button("Continue", "Continue answer", acts.resume));
    if (isUser) line.append(button("Edit", "Edit question", () => edit(made, content, node, acts)));
    else line.append(button("Retry", "Retry answer", acts.retry));
  }
  made.append(line);
  return made;
}

function edit(article, content, node, acts) {
  const text = element("textarea", "");
  text.value = node.content;
  text.rows = 4;
  text.setAttribute("aria-label", "Edited question");
  const cancel = () => {
    form.replaceWith(content);
    article.querySelector("[aria-label='Edit question']").focus();
  };
  const send = () => acts.edit(text.value);
  const row = element("div", "row", button("Send as a new branch", "", send), button("Cancel", "", cancel));
  const form = element("div", "edit", text, row);
  text.addEventListener("keydown", (event) => {
    if (event.isComposing || (event.key !== "Escape" && (event.key !== "Enter" || event.shiftKey))) return;
    event.preventDefault();
    if (event.key === "Enter") send();
    else cancel();
  });
  content.replaceWith(form);
  text.focus();
}
