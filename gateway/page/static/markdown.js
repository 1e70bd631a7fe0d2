// Converts a model's Markdown to elements. Text never becomes HTML: each element is created separately.

// Every function takes time linear in its text, at most DEEPEST times over: models may write anything.

import { math } from "./math.js";

const SPECIAL = /[`*_~![$]|\\[([]|https?:\/\//g;
const PAIRS = [["**", /\*\*/g], ["__", /__/g], ["*", /\*(?!\w)/g], ["_", /_(?!\w)/g], ["~~", /~~/g]];
const NAMES = { "**": "strong", "__": "strong", "*": "em", "_": "em", "~~": "del" };
// The marks of formulas, and what ends them. After a dollar there is no space, nor before the last: prices are no formulas.
const FORMULAS = [["$$", /\$\$/g, true], ["\\[", /\\\]/g, true], ["\\(", /\\\)/g, false], ["$", /(?<=[^\s\\])\$(?!\d)/g, false]];
const TARGET = /\(([^()\s]*(?:\([^()\s]*\)[^()\s]*)?)\)/y;
const URL_TEXT = /https?:\/\/[^\s<>"'\]]+/y;
const AFTER_LINK = ".,;:!?";
const SAFE = /^(https?:|mailto:)/i;
const DEEPEST = 16; // deeper nesting stays plain text

function element(name, children = []) {
  const made = document.createElement(name);
  for (const child of children) made.append(child); // one by one: there may be too many for arguments
  return made;
}

function link(text, url) {
  if (!SAFE.test(url)) return document.createTextNode(text);
  const made = element("a", [text]);
  made.href = url;
  made.rel = "noopener noreferrer";
  made.target = "_blank";
  return made;
}

/** A bare link in a text, without trailing punctuation or an enclosing bracket. */
function bare(url) {
  let end = url.length;
  let extra = url.split(")").length - url.split("(").length;
  while (AFTER_LINK.includes(url[end - 1]) || (url[end - 1] === ")" && extra > 0)) {
    if (url[end - 1] === ")") extra -= 1;
    end -= 1;
  }
  return url.slice(0, end);
}

/** Finds the elements of one text, from its beginning to its end. Each search that fails is made once. */
class InlineReader {
  constructor(text, depth) {
    this.text = text;
    this.depth = depth;
    this.from = 0; // the end of the last element
    this.missing = new Set(); // pairs that have no more closing marks
    this.bracket = -1; // the next closing bracket that was found
    this.target = null; // the link target after it
    this.runs = null; // of backticks, by length: their positions, last first
  }

  /** The element that begins at a position, and its end. */
  at(position) {
    const character = this.text[position];
    if (character === "`") return this.code(position);
    if (character === "h") return this.url(position);
    if (character === "!" || character === "[") return this.link(position);
    if (character === "$" || character === "\\") return this.formula(position);
    for (const [mark, closing] of PAIRS) {
      const found = this.text.startsWith(mark, position) && this.pair(position, mark, closing);
      if (found) return found;
    }
    return null;
  }

  code(position) {
    if (position > this.from && this.text[position - 1] === "`") return null;
    if (!this.runs) {
      this.runs = new Map();
      for (const run of [...this.text.matchAll(/`+/g)].reverse()) {
        if (!this.runs.has(run[0].length)) this.runs.set(run[0].length, []);
        this.runs.get(run[0].length).push(run.index);
      }
    }
    let length = 1;
    while (this.text[position + length] === "`") length += 1;
    const runs = this.runs.get(length) ?? [];
    while (runs.length && runs[runs.length - 1] <= position) runs.pop();
    if (!runs.length) return null;
    const end = runs[runs.length - 1];
    return [element("code", [this.text.slice(position + length, end)]), end + length];
  }

  formula(position) {
    const [mark, closing, isBlock] = FORMULAS.find(([each]) => this.text.startsWith(each, position));
    const start = position + mark.length;
    if (this.missing.has(mark) || (mark === "$" && !/[^\s$]/.test(this.text[start] ?? " "))) return null;
    closing.lastIndex = start + 1;
    const found = closing.exec(this.text);
    if (found) return [math(this.text.slice(start, found.index), isBlock), found.index + found[0].length];
    this.missing.add(mark);
    return null;
  }

  pair(position, mark, closing) {
    const start = position + mark.length;
    if (this.missing.has(mark)) return null;
    if (mark.length === 1) {
      const before = position > this.from ? this.text[position - 1] : "";
      if ((mark === "*" ? /[\w*]/ : /\w/).test(before) || /\s/.test(this.text[start] ?? "")) return null;
    }
    closing.lastIndex = start + 1;
    const found = closing.exec(this.text);
    if (!found) {
      this.missing.add(mark);
      return null;
    }
    const inner = inline(this.text.slice(start, found.index), this.depth + 1);
    return [element(NAMES[mark], inner), found.index + mark.length];
  }

  link(position) {
    const start = this.text[position] === "!" ? position + 1 : position;
    if (this.text[start] !== "[" || this.missing.has("]")) return null;
    if (this.bracket <= start) {
      this.bracket = this.text.indexOf("]", start);
      if (this.bracket < 0) {
        this.missing.add("]");
        return null;
      }
      TARGET.lastIndex = this.bracket + 1;
      this.target = TARGET.exec(this.text);
    }
    if (!this.target) return null;
    const label = this.text.slice(start + 1, this.bracket);
    return [link(label || this.target[1], this.target[1]), this.bracket + 1 + this.target[0].length];
  }

  url(position) {
    URL_TEXT.lastIndex = position;
    const found = URL_TEXT.exec(this.text);
    if (!found) return null;
    const url = bare(found[0]);
    return [link(url, url), position + url.length];
  }
}

/** Elements of one paragraph's text. */
function inline(text, depth = 0) {
  if (depth > DEEPEST) return [text];
  const made = [];
  const reader = new InlineReader(text, depth);
  const special = new RegExp(SPECIAL);
  for (let match; (match = special.exec(text)); ) {
    const found = reader.at(match.index);
    if (!found) {
      special.lastIndex = match.index + 1;
      continue;
    }
    if (match.index > reader.from) made.push(text.slice(reader.from, match.index));
    made.push(found[0]);
    reader.from = special.lastIndex = found[1];
  }
  if (reader.from < text.length) made.push(text.slice(reader.from));
  return made;
}

/** The text of a heading, without the closing marks. */
function headingText(text) {
  let end = text.length;
  while (text[end - 1] === "#") end -= 1;
  return text.slice(0, end).trimEnd();
}

function code(lines, language) {
  const made = element("pre", [element("code", [lines.join("\n")])]);
  made.tabIndex = 0;
  if (language) made.dataset.language = language;
  return made;
}

function table(lines) {
  const cells = (line) => line.trim().replace(/^\||\|$/g, "").split(/(?<!\\)\|/).map((cell) => cell.trim().replace(/\\\|/g, "|"));
  const row = (line, name) => element("tr", cells(line).map((cell) => element(name, inline(cell))));
  return element("table", [element("thead", [row(lines[0], "th")]), element("tbody", lines.slice(2).map((line) => row(line, "td")))]);
}

function list(lines, depth) {
  const [, indent, mark] = /^(\s*)([-*+]|\d+[.)])\s/.exec(lines[0]);
  const made = element(/\d/.test(mark) ? "ol" : "ul");
  if (/\d/.test(mark)) made.start = parseInt(mark, 10);
  let item = [];
  const close = () => {
    if (!item.length) return;
    const [first, ...rest] = item;
    const width = /^\s*(?:[-*+]|\d+[.)])\s+/.exec(first)[0].length;
    made.append(element("li", blocks([first.slice(width), ...rest.map((line) => line.slice(Math.min(width, line.search(/\S|$/))))], true, depth + 1)));
    item = [];
  };
  for (const line of lines) {
    const start = /^(\s*)(?:[-*+]|\d+[.)])\s/.exec(line);
    if (start && start[1].length <= indent.length + 1) close();
    item.push(line);
  }
  close();
  return made;
}

/** Elements of a text's lines; `tight`: a single paragraph, as in a list item, gets no separate element. */
function blocks(lines, tight = false, depth = 0) {
  if (depth > DEEPEST) return [lines.join("\n")];
  const made = [];
  let index = 0;
  const take = (test) => {
    const start = index;
    while (index < lines.length && test(lines[index], index - start)) index += 1;
    return lines.slice(start, index);
  };
  while (index < lines.length) {
    const line = lines[index];
    const fence = /^\s*(`{3,}|~{3,})\s*(\S*)/.exec(line);
    const heading = /^(#{1,6})\s+(.*)$/.exec(line);
    if (!line.trim()) {
      index += 1;
    } else if (fence) {
      index += 1;
      made.push(code(take((each) => !each.trim().startsWith(fence[1])), fence[2]));
      index += 1;
    } else if (heading) {
      made.push(element(`h${Math.min(heading[1].length + 2, 6)}`, inline(headingText(heading[2]))));
      index += 1;
    } else if (/^\s*([-*_])(\s*\1){2,}\s*$/.test(line)) {
      made.push(element("hr"));
      index += 1;
    } else if (/^\s*>/.test(line)) {
      made.push(element("blockquote", blocks(take((each) => /^\s*>/.test(each)).map((each) => each.replace(/^\s*>\s?/, "")), false, depth + 1)));
    } else if (/^\s*([-*+]|\d+[.)])\s/.test(line)) {
      made.push(list(take((each, offset) => !offset || /^\s*([-*+]|\d+[.)])\s/.test(each) || /^\s+\S/.test(each)), depth));
    } else if (line.includes("|") && /^\|?\s*:?-+:?\s*(?:\|\s*:?-+:?\s*)*\|?$/.test((lines[index + 1] ?? "").trim())) {
      made.push(table(take((each) => each.includes("|"))));
    } else {
      const text = take((each, offset) => each.trim() && (!offset || !/^\s*(`{3,}|~{3,}|#{1,6}\s|>|[-*+]\s|\d+[.)]\s)/.test(each)));
      const parts = inline(text.join("\n"));
      if (!tight) made.push(element("p", parts));
      else for (const part of parts) made.push(part);
    }
  }
  return made;
}

/** The elements of a whole text, which may be unfinished. */
export function markdown(text) {
  return blocks(text.replace(/\r\n?/g, "\n").split("\n"));
}
