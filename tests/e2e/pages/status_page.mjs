// Run one scenario on the status page in a browser, and print the observations as JSON.
// Usage: node status_page.mjs URL BROWSER NODE_MODULES SCENARIO [FOLDER FOR SCREENSHOTS]
import { createRequire } from "node:module";

const [url, executablePath, modules, scenario, pictures] = process.argv.slice(2);
const require = createRequire(modules + "/");
const { chromium } = require("playwright-core");

const browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });
const open = async (options = {}, isClockStopped = false) => {
  const context = await browser.newContext(options);
  const page = await context.newPage();
  if (isClockStopped) {
    await page.clock.install({ time: 0 });
    await page.clock.pauseAt(1000);
  }
  page.setDefaultTimeout(0); // the test ends a wait that takes too long
  page.errors = [];
  page.asked = [];
  page.on("request", (request) => page.asked.push(request.url()));
  page.on("console", (message) => message.type() === "error" && page.errors.push(message.text()));
  page.on("pageerror", (error) => page.errors.push(String(error)));
  await page.goto(`${url}status`);
  return page;
};
const until = (page, text) => page.waitForFunction((words) => document.body.innerText.includes(words), text);
const picture = async (page, name) => pictures && (await page.screenshot({ path: `${pictures}/status-${name}.png`, fullPage: true }));
const chat = (content, more = {}) =>
  fetch(`${url}v1/chat/completions`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ model: "sluice-demo", messages: [{ role: "user", content }], ...more }),
  }).then((answer) => answer.text());
const row = async (page, table, words) => (await page.locator(`#${table} tbody tr`).filter({ hasText: words }).first().locator("td").allTextContents()).map((text) => text.trim());
/** Return the tiles' texts by name, as soon as the tile `name` matches `pattern`. */
const tiles = async (page, name, pattern) =>
  (await page.waitForFunction(([wanted, form]) => {
    const shown = Object.fromEntries([...document.querySelectorAll("dl div")].map((each) => [each.querySelector("dt").textContent, each.querySelector("dd").textContent]));
    return new RegExp(form).test(shown[wanted]) && shown;
  }, [name, pattern])).jsonValue();

const scenarios = {
  async load() {
    const page = await open();
    await until(page, "Ready");
    let isWanted = true; // the load lasts until it was observed
    const running = (async () => {
      while (isWanted) await Promise.all([1, 2].map(() => chat("Go on.", { max_tokens: 1900, ignore_eos: true })));
    })();
    const busy = await tiles(page, "Running", "[1-9]");
    const { "Tokens per second": rate } = await tiles(page, "Tokens per second", "[1-9]");
    isWanted = false;
    await running;
    const { "First token, median": first } = await tiles(page, "First token, median", "s$");
    await chat("Hi", { model: "nobody" });
    await chat("Hi", { temperature: 9 });
    const counted = await page.waitForFunction(() => {
      const rows = [...document.querySelectorAll("#errors tbody tr")].map((each) => [...each.cells].map((cell) => cell.textContent.trim()));
      return rows.find(([, reason, recent]) => reason === "MODEL_NOT_FOUND" && recent === "1");
    });
    const refused = await counted.jsonValue();
    await page.waitForFunction(() => [...document.querySelectorAll("figure .plot")].every((each) => [...each.children].some((path) => path.getAttribute("d").includes("L"))));
    const drawn = await page.locator("figure .plot").evaluateAll((plots) => plots.map((each) => [each.getAttribute("aria-label"), [...each.children].some((path) => path.getAttribute("d").includes("L"))]));
    const models = await page.locator("#model option").allTextContents();
    await page.locator("#model").selectOption("all-minilm-l6-v2");
    const { "Cache in use": other } = await tiles(page, "Cache in use", "");
    await picture(page, "load");
    return { busy, rate, first, refused, drawn, models, other, asked: page.asked, errors: page.errors };
  },
  async shares() {
    const page = await open();
    await until(page, "shared");
    return { shares: await row(page, "shares", "shared"), errors: page.errors };
  },
  async pause() {
    const page = await open({}, true);
    await until(page, "Ready"); // after the first request; the clock must run for the next one
    await page.locator("#pause").focus();
    await page.keyboard.press("Enter");
    const pressed = await page.locator("#pause").getAttribute("aria-pressed");
    await page.clock.runFor(60_000);
    await page.evaluate(() => fetch("status.json").then(() => null)); // all earlier requests have been seen then
    const meanwhile = page.asked.filter((each) => each.endsWith("status.json")).length - 2; // the first one and this one
    if (meanwhile) return { pressed, meanwhile };
    await page.keyboard.press("Enter");
    const resumed = page.waitForRequest(/status\.json/);
    await page.clock.runFor(2000);
    await resumed;
    return { pressed, meanwhile, errors: page.errors };
  },
  async lost() {
    const page = await open();
    await until(page, "Ready");
    await page.route(/status\.json/, (route) => route.abort());
    await until(page, "Unknown");
    const problem = await page.locator("#problem").textContent();
    await page.unroute(/status\.json/);
    await until(page, "Ready");
    return { problem, after: await page.locator("#problem").textContent() };
  },
  async key() {
    const [key, lesser] = process.env.KEYS.split(" ");
    const page = await open();
    await until(page, "give a key");
    const without = await page.locator("#problem").textContent();
    await page.locator("#key").fill(lesser);
    await page.keyboard.press("Tab");
    await until(page, "lacks the scope");
    await page.locator("#key").fill(key);
    await page.keyboard.press("Tab");
    await until(page, "Ready");
    const stored = await page.evaluate(() => JSON.stringify(localStorage));
    return { without, stored, problem: await page.locator("#problem").textContent(), models: await page.locator("#model option").allTextContents() };
  },
  async access() {
    const axe = require.resolve("axe-core/axe.min.js");
    const violations = {};
    let reached = [];
    for (const [name, options] of Object.entries({
      light: { colorScheme: "light" },
      dark: { colorScheme: "dark" },
      phone: { viewport: { width: 375, height: 700 }, hasTouch: true, colorScheme: "light" },
    })) {
      const page = await open({ ...options, bypassCSP: true });
      await page.waitForFunction(() => document.querySelectorAll("figure").length >= 7);
      await picture(page, name);
      const wide = await page.evaluate(() => document.documentElement.scrollWidth > innerWidth);
      await page.addScriptTag({ path: axe });
      const found = await page.evaluate(() => globalThis.axe.run());
      violations[name] = found.violations.map((each) => `${each.id}: ${each.nodes.map((node) => node.html).join(" ")}`);
      if (wide) violations[name].push("the page is wider than the screen");
      if (name === "light") {
        for (let step = 0; step < 15; step += 1) {
          await page.keyboard.press("Tab");
          reached.push(await page.evaluate(() => document.activeElement?.id || document.activeElement?.localName));
        }
      }
    }
    return { violations, reached: [...new Set(reached)] };
  },
};

try {
  console.log(JSON.stringify(await scenarios[scenario]()));
} finally {
  await browser.close();
}
