// Colours the code of an answer, and adds a button that copies it.

import { copyButton } from "./copy.js";

const WORDS = new Set((
  "and as assert async await boolean bool break case catch char class const continue def default del delete do double elif else enum except "
  + "export extends extern false False final finally float fn for from func function go goto if impl implements import in instanceof int interface "
  + "is lambda let long loop match mod module move mut namespace new nil none None nonlocal not null or package pass private protected pub public "
  + "raise return self short sizeof static str string struct super switch this throw throws trait true True try type typedef typeof undefined "
  + "union unsafe unsigned use using val var void where while with yield "
  + "SELECT FROM WHERE INSERT INTO VALUES UPDATE SET DELETE CREATE TABLE JOIN LEFT RIGHT INNER ON GROUP ORDER BY HAVING LIMIT AND OR NOT NULL AS"
).split(" "));
const HASH_IS_TEXT = new Set(["c", "cpp", "css", "html", "java", "javascript", "js", "json", "rust", "ts", "typescript", "xml"]);
// Comments, strings, numbers, words: each alternative takes time linear in what it matches.
const PIECES = /(\/\/[^\n]*|\/\*(?:[^*]|\*(?!\/))*(?:\*\/|$)|#[^\n]*)|("(?:[^"\\\n]|\\.)*"?|'(?:[^'\\\n]|\\.)*'?|`(?:[^`\\]|\\.)*`?)|(\b\d[\w.]*)|([A-Za-z_]\w*)/g;

/** The text of code as spans and plain text. */
function coloured(text, language) {
  const made = [];
  let from = 0;
  for (const match of text.matchAll(PIECES)) {
    const [piece, comment, quoted, number, word] = match;
    if (comment?.[0] === "#" && HASH_IS_TEXT.has(language)) continue;
    const kind = comment ? "comment" : quoted ? "string" : number ? "number" : word && WORDS.has(word) ? "keyword" : "";
    if (!kind) continue;
    const span = document.createElement("span");
    span.className = kind;
    span.textContent = piece;
    made.push(text.slice(from, match.index), span);
    from = match.index + piece.length;
  }
  made.push(text.slice(from));
  return made;
}

/** Colour each block of code below `root`, and give it a button that copies it. */
export function decorate(root) {
  for (const block of root.querySelectorAll("pre")) {
    const code = block.querySelector("code");
    const text = code.textContent;
    code.replaceChildren(...coloured(text, block.dataset.language?.toLowerCase()));
    const box = document.createElement("div");
    box.className = "code";
    block.replaceWith(box);
    box.append(copyButton("Copy code", () => text), block);
  }
}
