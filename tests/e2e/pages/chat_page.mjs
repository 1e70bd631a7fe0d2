// Run one scenario on the chat page in a browser, and print the observations as JSON.
// Usage: node chat_page.mjs URL BROWSER NODE_MODULES SCENARIO [FOLDER FOR SCREENSHOTS]
import { createRequire } from "node:module";

import { driven } from "./chat_driver.mjs";
import { interrupted } from "./interrupted_scenarios.mjs";
import { markup } from "./markup_scenarios.mjs";

const [url, executablePath, modules, scenario, pictures] = process.argv.slice(2);
const require = createRequire(modules + "/");
const { browser, open, settle, ask, setting, texts, picture } = await driven({ url, executablePath, modules, pictures });

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
    await page.waitForFunction(() => document.querySelector("article.assistant .content")?.textContent.length > 20 || document.getElementById("problem").textContent);
    const problem = await page.locator("#problem").textContent();
    if (problem) throw new Error(problem); // nothing else would end the wait
    console.log("answering");
    await new Promise((resolve) => process.stdin.once("data", resolve)); // the test holds the engine
    process.stdin.unref();
    await page.keyboard.press("Escape");
    await settle(page);
    return { facts: await texts(page, "article.assistant .facts"), length: (await texts(page, "article.assistant .content"))[0].length, errors: page.errors };
  },
  ...markup({ open, ask, texts }),
  ...interrupted({ open, ask, settle, texts, url }),
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
