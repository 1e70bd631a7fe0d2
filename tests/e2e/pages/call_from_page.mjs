// Open a web page in a browser and make calls from its script: a JSON list of {url, method, headers, body} on standard
// input, with the body in base64. Print a JSON list of the results that the script can read: {status, headers, body},
// with the body in base64, or {error}.
// Usage: node call_from_page.mjs PAGE BROWSER NODE_MODULES
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

const [url, executablePath, modules] = process.argv.slice(2);
const { chromium } = createRequire(modules + "/")("playwright-core");

const callAll = async (calls) => {
  const call = async ({ url, body, ...options }) => {
    const bytes = body && Uint8Array.from(atob(body), (each) => each.charCodeAt(0));
    const answer = await fetch(url, { ...options, body: bytes });
    let text = "";
    for await (const piece of answer.body) text += Array.from(piece, (each) => String.fromCharCode(each)).join("");
    return { status: answer.status, headers: Object.fromEntries(answer.headers), body: btoa(text) };
  };
  const answers = [];
  for (const each of calls) answers.push(await call(each).catch((error) => ({ error: String(error) })));
  return answers;
};

const browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });
try {
  const page = await browser.newPage();
  await page.goto(url);
  console.log(JSON.stringify(await page.evaluate(callAll, JSON.parse(readFileSync(0, "utf8")))));
} finally {
  await browser.close();
}
