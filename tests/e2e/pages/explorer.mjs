// Run one scenario on the API explorer in a browser, and print the observations as JSON.
// Usage: node explorer.mjs URL BROWSER NODE_MODULES SCENARIO [FOLDER FOR SCREENSHOTS]
import { createRequire } from "node:module";

const [url, executablePath, modules, scenario, pictures] = process.argv.slice(2);
const require = createRequire(modules + "/");
const { chromium } = require("playwright-core");

const browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });
const open = async (options = {}, hash = "") => {
  const page = await (await browser.newContext(options)).newPage();
  page.setDefaultTimeout(0); // the test ends a wait that takes too long
  page.errors = [];
  page.asked = [];
  page.on("request", (request) => page.asked.push(request.url()));
  page.on("requestfailed", (request) => page.errors.push(`${request.url()}: ${request.failure().errorText}`));
  page.on("console", (message) => message.type() === "error" && page.errors.push(message.text()));
  page.on("pageerror", (error) => page.errors.push(String(error)));
  await page.goto(`${url}docs${hash}`);
  await page.locator(".opblock.is-open .opblock-body").first().waitFor();
  return page;
};
const picture = async (page, name) => pictures && (await page.screenshot({ path: `${pictures}/explorer-${name}.png` }));
const example = (page) => page.locator(".opblock.is-open .body-param__example").first().textContent();

const scenarios = {
  /** Read the page before any interaction. */
  async first() {
    const page = await open();
    await picture(page, "first");
    const unfolded = await page.locator(".opblock-tag-section.is-open .opblock-tag").evaluateAll((found) => found.map((each) => each.dataset.tag));
    const opened = await page.locator(".opblock.is-open .opblock-summary-path").evaluateAll((found) => found.map((each) => each.dataset.path));
    return { unfolded, opened, about: await page.locator(".info").textContent(), example: await example(page), asked: page.asked, errors: page.errors };
  },
  /** Expand every group, and list all paths. */
  async operations() {
    const page = await open();
    const folded = page.locator(".opblock-tag-section:not(.is-open) .opblock-tag");
    while (await folded.count()) await folded.first().click();
    const operations = await page.locator(".opblock-summary").evaluateAll((found) =>
      found.map((each) => [each.querySelector(".opblock-summary-method").textContent, each.querySelector(".opblock-summary-path").dataset.path]),
    );
    return { operations, errors: page.errors };
  },
  /** Open the authorization dialog by keyboard, enter a key, and observe the header of the next request. */
  async key() {
    const page = await open();
    await page.locator(".authorize").first().focus();
    await page.keyboard.press("Enter");
    const dialog = page.locator(".modal-ux");
    await dialog.waitFor();
    const said = await dialog.textContent();
    const labels = await dialog.locator("input").evaluateAll((found) => found.map((each) => each.labels?.[0]?.textContent || each.ariaLabel));
    await dialog.locator("input").first().fill("sk-sluice-some");
    await page.keyboard.press("Enter");
    await picture(page, "key");
    await dialog.locator(".btn-done").first().click();
    const sent = page.waitForRequest((request) => request.url().endsWith("/chat/completions"));
    await page.locator(".try-out__btn").first().click();
    await page.locator(".execute").first().click();
    const headers = await (await sent).allHeaders();
    const stored = await page.evaluate(() => JSON.stringify({ ...localStorage, ...sessionStorage }));
    return { said, labels, authorization: headers.authorization, stored };
  },
  /** Select the media type of streams, and read its example and the schema of its events. */
  async stream() {
    const page = await open();
    const answer = page.locator(".opblock.is-open .responses-table .response").first();
    await answer.locator(".content-type").selectOption("text/event-stream");
    const shown = await answer.textContent();
    await picture(page, "stream");
    return { shown, errors: page.errors };
  },
  async access() {
    const axe = require.resolve("axe-core/axe.min.js");
    const violations = {};
    let reached = [];
    for (const [name, options] of Object.entries({ desktop: {}, phone: { viewport: { width: 375, height: 700 }, hasTouch: true } })) {
      const page = await open({ ...options, bypassCSP: true });
      await picture(page, name);
      const wide = await page.evaluate(() => document.documentElement.scrollWidth > innerWidth);
      await page.addScriptTag({ path: axe });
      const found = await page.evaluate(() => globalThis.axe.run());
      violations[name] = found.violations.map((each) => `${each.id}: ${each.nodes.slice(0, 6).map((node) => node.html.slice(0, 200)).join(" ")}`);
      if (wide) violations[name].push("the page is wider than the screen");
      if (name === "desktop") {
        for (let step = 0; step < 14; step += 1) {
          await page.keyboard.press("Tab");
          reached.push(await page.evaluate(() => document.activeElement?.className || document.activeElement?.localName));
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
