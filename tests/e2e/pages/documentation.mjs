// Run one scenario on the documentation in a browser, and print the observations as JSON.
// Usage: node documentation.mjs URL BROWSER NODE_MODULES SCENARIO [FOLDER FOR SCREENSHOTS]
import { createRequire } from "node:module";

const [url, executablePath, modules, scenario, pictures] = process.argv.slice(2);
const require = createRequire(modules + "/");
const { chromium } = require("playwright-core");

const browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });
const open = async (path, options = {}) => {
  const context = await browser.newContext(options);
  const page = await context.newPage();
  page.setDefaultTimeout(0); // the test ends a wait that takes too long
  page.errors = [];
  page.asked = [];
  page.on("request", (request) => page.asked.push(request.url()));
  // Leaving a page before its search index is loaded aborts that request.
  page.on("requestfailed", (request) => request.failure().errorText === "net::ERR_ABORTED" || page.errors.push(`${request.url()}: ${request.failure().errorText}`));
  page.on("console", (message) => message.type() === "error" && page.errors.push(message.text()));
  page.on("pageerror", (error) => page.errors.push(String(error)));
  await page.goto(`${url}${path}`);
  return page;
};
const picture = async (page, name) => pictures && (await page.screenshot({ path: `${pictures}/docs-${name}.png` }));
/** Return whether keys are entered into a field, also of a shadow tree. */
const isTyping = (page) =>
  page.evaluate(() => {
    let active = document.activeElement;
    while (active?.shadowRoot?.activeElement) active = active.shadowRoot.activeElement;
    return active?.tagName === "INPUT";
  });
const isWide = (page) => page.evaluate(() => document.documentElement.scrollWidth > innerWidth);

const scenarios = {
  /** List every page in the navigation, and open every eighth of them. */
  async pages() {
    const page = await open("docs/");
    const links = await page.locator(".md-nav--primary a[href]").evaluateAll((found) => found.map((each) => each.href));
    const pages = [...new Set(links.map((each) => each.split("#")[0]))];
    const headings = {};
    for (const link of pages.filter((_, at) => at % 8 === 1)) {
      await page.goto(link);
      headings[link] = (await page.locator("h1").first().textContent()).replace("¶", "").trim();
    }
    return { pages, headings, asked: page.asked, errors: page.errors };
  },
  /** Open the search, find a word of few pages, and follow the result, all by keyboard. */
  async search() {
    const page = await open("docs/");
    // A key is lost if it is pressed before the page's script listens.
    for (; !(await isTyping(page)); await page.waitForTimeout(100)) await page.keyboard.press("/");
    await page.keyboard.press("Control+A");
    await page.keyboard.type("watermark");
    const first = page.locator(".md-search__output a, [role=option], .md-search-result__link").first();
    await first.filter({ hasText: /watermark/i }).waitFor(); // results of the first letters come before
    await picture(page, "search");
    await page.keyboard.press("ArrowDown");
    await page.keyboard.press("Enter");
    await page.waitForURL(/\.html/);
    return { found: await page.locator("article").textContent(), asked: page.asked, errors: page.errors };
  },
  async access() {
    const axe = require.resolve("axe-core/axe.min.js");
    const violations = {};
    const ways = { light: { colorScheme: "light" }, dark: { colorScheme: "dark" }, phone: { viewport: { width: 375, height: 700 }, hasTouch: true } };
    const read = { light: ["docs/", "docs/api/openai.html"], dark: ["docs/operation/performance.html"], phone: ["docs/settings.html", "docs/api/openai.html"] };
    for (const [name, options] of Object.entries(ways)) {
      for (const path of read[name]) {
        const page = await open(path, { ...options, bypassCSP: true });
        await page.locator("h1").first().waitFor();
        await picture(page, `${name}-${path.replaceAll("/", "-")}`);
        const wide = await isWide(page);
        await page.addScriptTag({ path: axe });
        const found = await page.evaluate(() => globalThis.axe.run());
        const problems = found.violations.map((each) => `${each.id}: ${each.nodes.slice(0, 4).map((node) => node.html.slice(0, 300)).join(" ")}`);
        violations[`${name} ${path}`] = wide ? [...problems, "the page is wider than the screen"] : problems;
        await page.context().close();
      }
    }
    return { violations };
  },
};

try {
  console.log(JSON.stringify(await scenarios[scenario]()));
} finally {
  await browser.close();
}
