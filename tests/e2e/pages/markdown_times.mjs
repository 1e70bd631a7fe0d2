// node markdown_times.mjs MODULE
//
// Prints a JSON object with the processor time to convert each hostile text, in milliseconds: [short, eight times as long].
import { pathToFileURL } from "node:url";

globalThis.document = {
  createElement: () => ({ dataset: {}, append() {} }),
  createElementNS: () => ({ append() {}, setAttribute() {} }),
  createTextNode: (text) => text,
};
const { markdown } = await import(pathToFileURL(process.argv[2]));

const SHORT = 4000;
const TEXTS = {
  strong: (n) => "**a ".repeat(n),
  emphasis: (n) => "*a ".repeat(n),
  underscores: (n) => "_a __b ".repeat(n),
  deleted: (n) => "~~".repeat(n) + "~",
  code: (n) => Array.from({ length: Math.sqrt(n) }, (_, k) => "`".repeat(k + 1)).join("a").repeat(2).slice(1),
  brackets: (n) => "[".repeat(n),
  "closed brackets": (n) => "[".repeat(n) + "]",
  "many targets": (n) => "[".repeat(n) + "](" + "x".repeat(n),
  target: (n) => "[a](" + "x".repeat(n),
  nested: (n) => "**a *b ".repeat(n) + "* **".repeat(n),
  address: (n) => "https://a" + ")".repeat(n),
  punctuation: (n) => "https://a" + "!".repeat(n) + "a",
  addresses: (n) => "https://a!".repeat(n),
  heading: (n) => "# a" + " ".repeat(n) + "b" + "#".repeat(n) + "c",
  rule: (n) => "- ".repeat(n) + "x",
  spaces: (n) => " ".repeat(n) + "x",
  table: (n) => "a|b\n-" + " ".repeat(n) + "x",
  columns: (n) => "a|b\n" + "-|".repeat(n) + "x",
  quotes: (n) => ">".repeat(n),
  lists: (n) => "- ".repeat(n),
  items: (n) => "- a\n".repeat(n),
  prices: (n) => "$a ".repeat(n),
  formulas: (n) => "$a$".repeat(n),
  "open formulas": (n) => "\\( \\[ $$".repeat(n),
  groups: (n) => `$${"{".repeat(n)}$`,
  scripts: (n) => `$${"x^".repeat(n)}$`,
  commands: (n) => `$${"\\sqrt\\left(\\text{".repeat(n)}$`,
  environments: (n) => `$${"\\begin{matrix}".repeat(n)}$`,
  fences: (n) => "```\n".repeat(n),
};

function time(text) {
  const times = [];
  for (let round = 0; round < 5; round += 1) {
    const begin = process.cpuUsage(); // other work on the machine takes no processor time of this process
    markdown(text);
    const { user, system } = process.cpuUsage(begin);
    times.push((user + system) / 1000);
  }
  return Math.min(...times);
}

console.log(JSON.stringify(Object.fromEntries(
  Object.entries(TEXTS).map(([name, make]) => [name, [time(make(SHORT)), time(make(8 * SHORT))]]),
)));
