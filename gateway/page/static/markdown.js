// Converts a model's Markdown to elements. Text never becomes HTML: each element is created separately.

const INLINE = /(?<!`)(`+)(?!`)(.+?)(?<!`)\1(?!`)|\*\*(.+?)\*\*|__(.+?)__|(?<![\w*])\*(?!\s)(.+?)\*(?!\w)|(?<!\w)_(?!\s)(.+?)_(?!\w)|~~(.+?)~~|!?\[([^\]]*)\]\(([^()\s]*(?:\([^()\s]*\))?[^()\s]*)\)|(https?:\/\/[^\s<>"'\]]+)/su;
const AFTER_LINK = /[.,;:!?]+$/;
const SAFE = /^(https?:|mailto:)/i;
const DEEPEST = 16; // deeper nesting stays plain text

function element(name, ...children) {
  const made = document.createElement(name);
  made.append(...children);
  return made;
}

function link(text, url) {
  if (!SAFE.test(url)) return document.createTextNode(text);
  const made = element("a", text);
  made.href = url;
  made.rel = "noopener noreferrer";
  made.target = "_blank";
  return made;
}

/** A bare link in a text, without trailing punctuation or an enclosing bracket. */
function bare(url) {
  let found = url.replace(AFTER_LINK, "");
  let extra = found.split(")").length - found.split("(").length;
  for (; extra > 0 && found.endsWith(")"); extra -= 1) found = found.slice(0, -1).replace(AFTER_LINK, "");
  return found;
}

/** Elements of one paragraph's text. */
function inline(text, depth = 0) {
  if (depth > DEEPEST) return [text];
  const made = [];
  let match;
  while ((match = INLINE.exec(text))) {
    if (match.index) made.push(text.slice(0, match.index));
    const [whole, , code, strong, strong2, em, em2, gone, label, target, url] = match;
    if (code !== undefined) made.push(element("code", code));
    else if (strong ?? strong2) made.push(element("strong", ...inline(strong ?? strong2, depth + 1)));
    else if (em ?? em2) made.push(element("em", ...inline(em ?? em2, depth + 1)));
    else if (gone) made.push(element("del", ...inline(gone, depth + 1)));
    else if (target !== undefined) made.push(link(label || target, target));
    else made.push(link(bare(url), bare(url)));
    text = text.slice(match.index + (url ? bare(url) : whole).length);
  }
  if (text) made.push(text);
  return made;
}

function code(lines, language) {
  const made = element("pre", element("code", lines.join("\n")));
  made.tabIndex = 0;
  if (language) made.dataset.language = language;
  return made;
}

function table(lines) {
  const cells = (line) => line.trim().replace(/^\||\|$/g, "").split(/(?<!\\)\|/).map((cell) => cell.trim().replace(/\\\|/g, "|"));
  const row = (line, name) => element("tr", ...cells(line).map((cell) => element(name, ...inline(cell))));
  return element("table", element("thead", row(lines[0], "th")), element("tbody", ...lines.slice(2).map((line) => row(line, "td"))));
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
    made.append(element("li", ...blocks([first.slice(width), ...rest.map((line) => line.slice(Math.min(width, line.search(/\S|$/))))], true, depth + 1)));
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

/** Elements of a text's lines; `tight`: a single paragraph, as in a list item, gets no element of its own. */
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
    const heading = /^(#{1,6})\s+(.*?)\s*#*$/.exec(line);
    if (!line.trim()) {
      index += 1;
    } else if (fence) {
      index += 1;
      made.push(code(take((each) => !each.trim().startsWith(fence[1])), fence[2]));
      index += 1;
    } else if (heading) {
      made.push(element(`h${Math.min(heading[1].length + 2, 6)}`, ...inline(heading[2])));
      index += 1;
    } else if (/^\s*([-*_])(\s*\1){2,}\s*$/.test(line)) {
      made.push(element("hr"));
      index += 1;
    } else if (/^\s*>/.test(line)) {
      made.push(element("blockquote", ...blocks(take((each) => /^\s*>/.test(each)).map((each) => each.replace(/^\s*>\s?/, "")), false, depth + 1)));
    } else if (/^\s*([-*+]|\d+[.)])\s/.test(line)) {
      made.push(list(take((each, offset) => !offset || /^\s*([-*+]|\d+[.)])\s/.test(each) || /^\s+\S/.test(each)), depth));
    } else if (line.includes("|") && /^\s*\|?\s*:?-+:?\s*(\|\s*:?-+:?\s*)*\|?\s*$/.test(lines[index + 1] ?? "")) {
      made.push(table(take((each) => each.includes("|"))));
    } else {
      const text = take((each, offset) => each.trim() && (!offset || !/^\s*(`{3,}|~{3,}|#{1,6}\s|>|[-*+]\s|\d+[.)]\s)/.test(each)));
      const parts = inline(text.join("\n"));
      if (tight) made.push(...parts);
      else made.push(element("p", ...parts));
    }
  }
  return made;
}

/** The elements of a whole text, which may be unfinished. */
export function markdown(text) {
  return blocks(text.replace(/\r\n?/g, "\n").split("\n"));
}
