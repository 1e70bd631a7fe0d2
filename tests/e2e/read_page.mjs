// A reader of the API's page: opens it in a browser, unfolds every group, and prints one JSON object
// {operations, requests, errors}: what the page shows, every URL that it asked for, and what went wrong in it.
// Usage: node read_page.mjs URL BROWSER NODE_MODULES
import { createRequire } from "node:module";

const [url, executablePath, modules] = process.argv.slice(2);
const { chromium } = createRequire(modules + "/")("playwright-core");

const browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });
try {
  const page = await browser.newPage();
  const [requests, errors] = [[], []];
  page.on("request", (request) => requests.push(request.url()));
  page.on("requestfailed", (request) => errors.push(`${request.url()}: ${request.failure().errorText}`));
  page.on("console", (message) => message.type() === "error" && errors.push(message.text()));
  page.on("pageerror", (error) => errors.push(String(error)));
  await page.goto(url);
  const groups = page.locator(".opblock-tag");
  await groups.first().waitFor();
  for (const group of await groups.all()) await group.click();
  const summaries = page.locator(".opblock-summary");
  await summaries.last().waitFor();
  const operations = await summaries.evaluateAll((found) =>
    found.map((each) => {
      const [method, path] = ["method", "path"].map((part) => each.querySelector(`.opblock-summary-${part}`));
      return [method.textContent, path.dataset.path];
    }),
  );
  await page.locator("#operations-OpenAI_style-post_v1_chat_completions .opblock-summary-control").click();
  const example = await page.locator(".opblock-body .body-param__example").first().textContent();
  console.log(JSON.stringify({ operations, example, requests, errors }));
} finally {
  await browser.close();
}
