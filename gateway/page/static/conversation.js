// Conversations as trees, kept in this browser. An edited question or another answer is a separate branch.

const STORE = "sluice.conversations";

export class Conversation {
  constructor(kept = {}) {
    this.id = kept.id ?? crypto.getRandomValues(new Uint32Array(2)).join("-");
    this.system = kept.system ?? "";
    this.nodes = kept.nodes ?? []; // {parent: index or null, role, content, …}; children after their parents
    this.leaf = kept.leaf ?? null; // index of the last displayed message
  }

  get title() {
    return this.nodes.find((node) => node.role === "user")?.content.slice(0, 60) || "New conversation";
  }

  /** The indices of the displayed messages, from the first. */
  path() {
    const found = [];
    for (let index = this.leaf; index !== null; index = this.nodes[index].parent) found.unshift(index);
    return found;
  }

  /** Add a message under `parent`, show it, and return its index. */
  add(parent, message) {
    this.leaf = this.nodes.push({ parent, ...message }) - 1;
    return this.leaf;
  }

  /** The indices of the message and of its siblings in other branches. */
  twins(index) {
    const { parent, role } = this.nodes[index];
    return this.nodes.flatMap((node, other) => (node.parent === parent && node.role === role ? [other] : []));
  }

  /** Show the branch of `index` down to its newest leaf. */
  show(index) {
    this.leaf = index;
    for (;;) {
      const child = this.nodes.findLastIndex((node) => node.parent === this.leaf);
      if (child < 0) return;
      this.leaf = child;
    }
  }

  /** The messages of a request that continues after `index` (null: a new conversation). */
  messages(index) {
    const shown = [];
    for (let at = index; at !== null; at = this.nodes[at].parent) {
      const { role, content: text, images, tool_calls, tool_call_id } = this.nodes[at];
      const content = images?.length ? parts(text, images) : text;
      shown.unshift({ role, content, ...(tool_calls && { tool_calls }), ...(tool_call_id && { tool_call_id }) });
    }
    return this.system ? [{ role: "system", content: this.system }, ...shown] : shown;
  }
}

function parts(text, images) {
  const shown = images.map((url) => ({ type: "image_url", image_url: { url } }));
  return text ? [...shown, { type: "text", text }] : shown;
}

/** All stored conversations, newest first; none if the stored data is invalid. */
export function load() {
  try {
    return JSON.parse(localStorage.getItem(STORE) ?? "[]").map((kept) => new Conversation(kept));
  } catch {
    return [];
  }
}

/**
 * Store a conversation that this tab has changed: as the newest if `isFirst`, otherwise in its position. One without
 * messages is removed. The others remain as this tab or another one has stored them.
 */
export function save(changed, isFirst = false) {
  const stored = load();
  const index = isFirst ? 0 : Math.max(0, stored.findIndex((each) => each.id === changed.id));
  const kept = stored.filter((each) => each.id !== changed.id);
  if (changed.nodes.length) kept.splice(index, 0, changed);
  write(kept);
}

/** Remove a conversation from the stored ones. */
export function remove(id) {
  write(load().filter((each) => each.id !== id));
}

/** Call `changed` after another tab has changed the stored conversations. */
export function follow(changed) {
  addEventListener("storage", ({ key }) => { if (key === STORE || key === null) changed(); });
}

/** Store conversations. If the browser's storage is full, the oldest lose their images, then are dropped. */
function write(kept) {
  for (;;) {
    try {
      localStorage.setItem(STORE, JSON.stringify(kept));
      return;
    } catch {
      if (!kept.length) return;
      const index = kept.findLastIndex((each) => each.nodes.some((node) => node.images));
      if (index < 0) kept.pop();
      else kept[index] = { ...kept[index], nodes: kept[index].nodes.map(({ images, ...node }) => node) };
    }
  }
}

/**
 * The result of `work`, during which no other tab answers the conversation; undefined if one does now. With `waits`, that
 * tab's end is awaited. Pages without TLS have no locks, and don't notice other tabs.
 */
export async function alone(id, work, { waits = false } = {}) {
  if (!navigator.locks) return work();
  return navigator.locks.request(`${STORE}.${id}`, { ifAvailable: !waits }, (lock) => (lock ? work() : undefined));
}
