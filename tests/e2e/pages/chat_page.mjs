// Run one scenario on the chat page in a browser, and print the observations as JSON.
// Usage: node chat_page.mjs URL BROWSER NODE_MODULES SCENARIO [FOLDER FOR SCREENSHOTS]
import { createRequire } from "node:module";

const [url, executablePath, modules, scenario, pictures] = process.argv.slice(2);
const require = createRequire(modules + "/");
const { chromium } = require("playwright-core");

const browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });
const open = async (options = {}) => {
  const context = await browser.newContext(options);
  const page = await context.newPage();
  page.setDefaultTimeout(0); // the test ends a wait that takes too long
  page.errors = [];
  page.asked = [];
  page.on("request", (request) => page.asked.push(request.url()));
  page.on("console", (message) => message.type() === "error" && page.errors.push(message.text()));
  page.on("pageerror", (error) => page.errors.push(String(error)));
  await page.goto(url);
  await page.waitForFunction(() => document.querySelectorAll("#model option").length > 0);
  return page;
};
const settle = (page) => page.locator("#send").waitFor({ state: "visible" });
const ask = async (page, text) => {
  await page.locator("#question").fill(text);
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => !document.getElementById("question").value || document.getElementById("problem").textContent); // sent
  await settle(page);
};
const setting = async (page, values) => {
  if (!(await page.locator("#settings").isVisible())) await page.locator("#show-settings").click();
  for (const [selector, value] of Object.entries(values)) {
    const field = page.locator(selector);
    if (value === true) await field.check();
    else if ((await field.evaluate((each) => each.tagName)) === "SELECT") await field.selectOption(value);
    else await field.fill(value);
    await field.dispatchEvent("change");
  }
};
const texts = (page, selector) => page.locator(selector).allTextContents();
const picture = async (page, name) => pictures && (await page.screenshot({ path: `${pictures}/${name}.png` }));

const scenarios = {
  async conversation() {
    const page = await open();
    await setting(page, { "[name=temperature]": "0" });
    await page.locator("#show-settings").click();
    await ask(page, "Who are you?");
    await ask(page, "What is the capital of France?");
    const messages = await texts(page, "article .content");
    const facts = await texts(page, "article.assistant .facts");
    await picture(page, "conversation");
    await page.reload();
    await page.locator("article").last().waitFor();
    const kept = await texts(page, "article .content");
    await page.getByRole("button", { name: "New conversation" }).click();
    const fresh = await page.locator("article").count();
    await page.locator("#conversations button").first().click();
    return { messages, facts, kept, fresh, again: await texts(page, "article .content"), errors: page.errors, asked: page.asked };
  },
  async branches() {
    const page = await open();
    await setting(page, { "[name=temperature]": "0", "[name=max_tokens]": "12" });
    await page.locator("#show-settings").click();
    await ask(page, "First question?");
    await page.getByRole("button", { name: "Edit question" }).click();
    const field = page.getByLabel("Edited question");
    await field.fill("Nothing");
    await field.press("Escape");
    const cancelled = await texts(page, "article.user .content");
    await page.getByRole("button", { name: "Edit question" }).click();
    const widths = await page.evaluate(() => [".edit textarea", "article.user"].map((each) => document.querySelector(each).clientWidth));
    await field.fill("Second question");
    await field.press("Shift+Enter");
    await field.pressSequentially("of two lines?");
    await field.press("Enter");
    await settle(page);
    const edited = await texts(page, "article.user .content");
    await page.getByRole("button", { name: "Previous branch" }).first().click();
    const first = await texts(page, "article.user .content");
    await page.getByRole("button", { name: "Retry answer" }).click();
    await settle(page);
    return { cancelled, widths, edited, first, turns: await texts(page, "article .facts"), errors: page.errors };
  },
  async stop() {
    const page = await open();
    await setting(page, { "[name=max_tokens]": "1900", "#schema": '{"type":"array","minItems":400,"items":{"type":"string"}}' });
    await page.locator("#question").fill("Go on for ever.");
    await page.keyboard.press("Enter");
    await page.waitForFunction(() => document.querySelector("article.assistant .content")?.textContent.length > 20);
    console.log("answering");
    await new Promise((resolve) => process.stdin.once("data", resolve)); // the test holds the engine
    process.stdin.unref();
    await page.keyboard.press("Escape");
    await settle(page);
    return { facts: await texts(page, "article.assistant .facts"), length: (await texts(page, "article.assistant .content"))[0].length, errors: page.errors };
  },
  async hostile() {
    const page = await open();
    const attacks = [
      "<img src=x onerror=window.hit=1>", "<script>window.hit=1</script>", "[a](javascript:window.hit=1)", "![a](https://example.com/x.png)",
      "`</code><script>window.hit=1</script>`", "| a |\n|---|\n| <svg onload=window.hit=1> |", "[b](https://example.com \"onmouseover=window.hit=1)", "<https://example.com>",
    ];
    const shown = await page.evaluate(async (all) => {
      const { markdown } = await import("./page/markdown.js");
      const box = document.createElement("div");
      document.body.append(box);
      for (const attack of all) box.append(...markdown(attack));
      const last = new Image(); // its error comes after those of the attacks
      await new Promise((resolve) => Object.assign(last, { onerror: resolve, src: "x" }));
      const names = [...box.querySelectorAll("*")].map((each) => each.localName);
      const links = [...box.querySelectorAll("a")].map((each) => each.href);
      const attributes = [...box.querySelectorAll("*")].flatMap((each) => each.getAttributeNames());
      return { names: [...new Set(names)], links, attributes: [...new Set(attributes)], hit: window.hit ?? null };
    }, attacks);
    const deepest = await page.evaluate(async (all) => {
      const { markdown } = await import("./page/markdown.js");
      const depth = (node) => 1 + Math.max(0, ...[...(node.childNodes ?? [])].map(depth));
      return Math.max(...all.flatMap((text) => markdown(text).map(depth)));
    }, [">".repeat(20000), `a ${"`".repeat(5000)}`, `https://a.example/${")".repeat(20000)}`, "- ".repeat(10000), "**".repeat(5000), "*a _b ".repeat(500)]);
    await ask(page, attacks.join("\n"));
    return { ...shown, deepest, hitByQuestion: await page.evaluate(() => window.hit ?? null), question: (await texts(page, "article.user .content"))[0], asked: page.asked };
  },
  async markdown() {
    const page = await open();
    return page.evaluate(async () => {
      const { markdown } = await import("./page/markdown.js");
      const html = (text) => {
        const box = document.createElement("div");
        box.append(...markdown(text));
        return box.innerHTML;
      };
      const all = {
        inline: "a **b** _c_ `d*e*` ~~f~~ snake_case_name 2*3*4",
        code: "```py\nx = '<b>'\n```",
        unfinished: "text\n```\nx = 1",
        list: "1. one\n2. two\n   - deep\n   - deeper\n\nafter",
        table: "| a | b |\n|---|:-:|\n| 1 | `2` |",
        heading: "# Title\ntext\nmore",
        quote: "> said\n> so",
        link: "see https://a.example/x_(y). and [z](https://b.example)",
        formula: "so $x_1^2 = \\frac{a}{2}$ and \\(\\sqrt{\\alpha}\\)",
        block: "$$\n\\sum_{i=1}^n i\n$$",
        prices: "from $5 to $6, or $ 7",
        unknown: "\\[\\nothing{<b>}\\]",
      };
      return Object.fromEntries(Object.entries(all).map(([name, text]) => [name, html(text)]));
    });
  },
  async code() {
    const page = await open({ permissions: ["clipboard-read", "clipboard-write"] });
    const text = "# one\nreturn 'two' + 3";
    const spans = await page.evaluate(async (code) => {
      const { draw } = await import("./page/message.js");
      const node = { role: "assistant", content: `\`\`\`python\n${code}\n\`\`\`\n\n\`\`\`json\n{"a": "#1"}\n\`\`\`` };
      document.getElementById("messages").replaceChildren(draw(node, null));
      return [...document.querySelectorAll("pre span")].map((each) => [each.className, each.textContent]);
    }, text);
    await page.getByRole("button", { name: "Copy code" }).first().click();
    await page.getByText("Copied").waitFor();
    return { spans, copied: await page.evaluate(() => navigator.clipboard.readText()), text, errors: page.errors };
  },
  async progress() {
    const page = await open();
    const bars = await page.evaluate(async () => {
      const [{ write }, { draw }] = await Promise.all([import("./page/answer.js"), import("./page/message.js")]);
      const prompts = [[100, 90], [200, 600], [600, 1800], [1000, 3000]].map(([processed, time_ms]) => ({ total: 1000, cache: 0, processed, time_ms }));
      const events = [...prompts.map((each) => ({ choices: [], prompt_progress: each })), { choices: [{ delta: { content: "Hi" } }] }];
      const sent = window.fetch;
      window.fetch = async () => new Response(`${events.map((each) => `data: ${JSON.stringify(each)}\n\n`).join("")}data: [DONE]\n\n`);
      const [node, shown] = [{ role: "assistant", content: "" }, []];
      const changed = () => {
        const article = draw(node, null);
        shown.push([article.querySelector("progress")?.value ?? null, article.querySelector("label")?.textContent ?? "", node.content]);
      };
      await write(node, {}, "", new AbortController().signal, { changed, save: () => {} });
      window.fetch = sent;
      return shown;
    });
    return { bars, errors: page.errors };
  },
  async reload() {
    const schema = { type: "array", minItems: 400, items: { type: "string" } };
    const page = await open();
    const sent = [];
    page.on("request", (request) => request.method() === "POST" && sent.push(request.headers()["last-event-id"] ?? null));
    for (;;) {
      await setting(page, { "[name=max_tokens]": "700", "[name=seed]": "7", "#schema": JSON.stringify(schema) });
      await page.locator("#question").fill("Go on for long.");
      await page.keyboard.press("Enter");
      await page.waitForFunction(() => document.querySelector("article.assistant .content")?.textContent.length > 20);
      const isRunning = await page.locator("#stop").isVisible();
      await page.reload();
      await page.waitForFunction(() => !localStorage.getItem("sluice.conversations").includes('"request":'));
      if (isRunning && sent.at(-1)) break; // otherwise the answer ended before
      await page.evaluate(() => localStorage.clear());
      await page.reload();
      await page.waitForFunction(() => document.querySelectorAll("#model option").length > 0);
    }
    const node = await page.evaluate(() => JSON.parse(localStorage.getItem("sluice.conversations"))[0].nodes.at(-1));
    const whole = await page.evaluate(async (format) => {
      const body = { model: "sluice-demo", messages: [{ role: "user", content: "Go on for long." }], max_tokens: 700, seed: 7, response_format: format };
      const answer = await fetch("v1/chat/completions", { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) });
      return (await answer.json()).choices[0].message.content;
    }, { type: "json_schema", json_schema: { name: "answer", schema, strict: true } });
    return { node, whole, questions: await texts(page, "article.user .content"), errors: page.errors.filter((each) => !each.includes("ERR_")) };
  },
  async key() {
    const context = await browser.newContext();
    const page = await context.newPage();
    page.setDefaultTimeout(0);
    await page.goto(url);
    await page.locator("#ask-key").waitFor({ state: "visible" });
    const problem = await page.locator("#problem").textContent();
    await page.locator("#needed-key").fill("sk-wrong");
    await page.keyboard.press("Enter");
    await page.waitForFunction(() => document.getElementById("problem").textContent);
    const rejected = await page.locator("#problem").textContent();
    await page.locator("#needed-key").fill(process.env.SLUICE_API_KEY);
    await page.keyboard.press("Enter");
    await page.locator("#ask-key").waitFor({ state: "hidden" });
    await setting(page, { "[name=temperature]": "0" });
    await page.getByRole("button", { name: "Who are you?" }).click();
    await page.locator("article.assistant").waitFor();
    await settle(page);
    const messages = await texts(page, "article .content");
    await context.setOffline(true);
    await ask(page, "Are you there?");
    return { problem, rejected, messages, offline: await page.locator("#problem").textContent(), question: await page.locator("#question").inputValue() };
  },
  async images() {
    const page = await open();
    await page.locator("#model").selectOption("text");
    const hiddenFromText = await page.locator("#attach").isHidden();
    await page.locator("#model").selectOption("vision");
    const png = (await page.evaluate(() => {
      const canvas = document.createElement("canvas");
      canvas.width = canvas.height = 40;
      canvas.getContext("2d").fillRect(0, 0, 20, 20);
      return canvas.toDataURL("image/png");
    })).split(",")[1];
    const file = { name: "a.png", mimeType: "image/png", buffer: Buffer.from(png, "base64") };
    await page.locator("#files").setInputFiles([file, { ...file, name: "b.png" }]);
    await page.waitForFunction(() => document.querySelectorAll("#attached img").length === 2);
    await page.getByRole("button", { name: "Remove image 2" }).click();
    const give = (kind) => page.evaluate(([text, event]) => {
      const data = new DataTransfer();
      data.items.add(new File([Uint8Array.from(atob(text), (each) => each.charCodeAt(0))], "c.png", { type: "image/png" }));
      const given = event === "paste" ? new ClipboardEvent(event, { clipboardData: data, bubbles: true, cancelable: true }) : new DragEvent(event, { dataTransfer: data, bubbles: true, cancelable: true });
      document.getElementById("question").dispatchEvent(given);
    }, [png, kind]);
    await give("paste");
    await page.waitForFunction(() => document.querySelectorAll("#attached img").length === 2);
    await give("drop");
    await page.waitForFunction(() => document.querySelectorAll("#attached img").length === 3);
    const attached = await page.locator("#attached img").count();
    await setting(page, { "[name=max_tokens]": "4", "[name=temperature]": "0" });
    await page.locator("#show-settings").click();
    let sent;
    page.on("request", (request) => { if (request.method() === "POST") sent = request.postDataJSON(); });
    await ask(page, "What is it?");
    const shown = await page.locator("article.user .pictures img").count();
    const left = await page.locator("#attached img").count();
    await page.locator("#files").setInputFiles({ name: "x.svg", mimeType: "image/svg+xml", buffer: Buffer.from("<svg/>") });
    await page.waitForFunction(() => document.getElementById("problem").textContent);
    const problem = await page.locator("#problem").textContent();
    await page.reload();
    await page.locator("article.user .pictures img").first().waitFor();
    const kept = await page.locator("article.user .pictures img").count();
    const parts = sent.messages.at(-1).content.map((part) => part.type);
    const facts = (await texts(page, "article.assistant .facts"))[0];
    await page.locator("#show-settings").click();
    const code = await page.locator("#code").textContent();
    return { hiddenFromText, attached, parts, shown, left, problem, kept, facts, code, errors: page.errors, asked: page.asked };
  },
  async settings() {
    const page = await open();
    await setting(page, { "[name=temperature]": "9" });
    await page.locator("#question").fill("Hello?");
    await page.locator("#question").press("Enter");
    const range = await page.locator("#problem").textContent();
    await setting(page, { "[name=temperature]": "0", "[name=max_tokens]": "60", "[name=logprobs]": true, "#system": "Be brief." });
    await ask(page, "Who are you?");
    const tokens = await page.locator(".tokens span").evaluateAll((all) => all.map((each) => [each.textContent, each.title.split("\n").length]));
    await picture(page, "likelihoods");
    await page.locator("[name=logprobs]").uncheck();
    await setting(page, { "#schema": '{"type":"object","properties":{"a":{"type":"boolean"}},"required":["a"],"additionalProperties":false}', "[name=max_tokens]": "40" });
    await ask(page, "An object?");
    const object = (await texts(page, "article.assistant .content")).at(-1);
    await setting(page, { "#schema": "{" });
    await page.locator("#question").fill("Hello?");
    await page.locator("#question").press("Enter");
    const broken = await page.locator("#problem").textContent();
    await setting(page, { "#schema": "" });
    const code = {};
    for (const language of ["curl", "python", "grpc"]) {
      await page.locator("#language").selectOption(language);
      code[language] = await page.locator("#code").textContent();
    }
    await setting(page, { "#key": "a-key" });
    const unasked = await page.evaluate(() => JSON.stringify(localStorage).includes("a-key"));
    await page.locator("#keep-key").check();
    const kept = await page.evaluate(() => JSON.stringify(localStorage).includes("a-key"));
    return { range, tokens, object, broken, code, unasked, kept, errors: page.errors };
  },
  async access() {
    const axe = require.resolve("axe-core/axe.min.js");
    const violations = {};
    for (const [name, options] of Object.entries({
      light: { colorScheme: "light" },
      dark: { colorScheme: "dark" },
      phone: { viewport: { width: 375, height: 700 }, hasTouch: true, colorScheme: "light" },
    })) {
      const page = await open({ ...options, bypassCSP: true });
      await ask(page, "Who are you?");
      await picture(page, name);
      if (name === "phone") {
        const wide = await page.evaluate(() => document.documentElement.scrollWidth > innerWidth);
        violations.wide = wide ? ["the page is wider than the screen"] : [];
      }
      if (name === "phone") await page.locator("#show-list").click();
      await page.locator("#show-settings").click();
      await picture(page, `${name}-settings`);
      if (name === "phone") {
        const [header, panel] = await page.evaluate(() => ["header", "#settings"].map((each) => document.querySelector(each).getBoundingClientRect().toJSON()));
        violations.covered = panel.top < header.bottom ? ["a panel covers the header"] : [];
        violations.both = (await page.locator("#list").isVisible()) ? ["two panels are open"] : [];
      }
      await page.addScriptTag({ path: axe });
      const found = await page.evaluate(() => globalThis.axe.run());
      violations[name] = found.violations.map((each) => `${each.id}: ${each.nodes.map((node) => node.html).join(" ")}`);
    }
    const page = await open();
    await page.keyboard.press("Tab");
    const reached = [];
    for (let step = 0; step < 40; step += 1) {
      await page.keyboard.press("Tab");
      reached.push(await page.evaluate(() => document.activeElement?.id || document.activeElement?.localName));
    }
    return { violations, reached: [...new Set(reached)] };
  },
};

try {
  console.log(JSON.stringify(await scenarios[scenario]()));
} finally {
  await browser.close();
}
