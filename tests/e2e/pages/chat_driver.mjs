// The chat page in a browser: what its scenarios do with it.
import { createRequire } from "node:module";

/** Start the browser. Return it with the actions on the page. */
export async function driven({ url, executablePath, modules, pictures }) {
  const { chromium } = createRequire(modules + "/")("playwright-core");
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
  return { browser, open, settle, ask, setting, texts, picture };
}
