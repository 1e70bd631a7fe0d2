// Opens the page in a headless Chromium, as if the front door served it, and prints what it shows.
import { readFileSync } from "node:fs";
import { chromium } from "playwright-core";

const [door, page, script] = [`http://${process.argv[2]}`, "page.html", `${process.argv[3]}/chat.js`];
const browser = await chromium.launch({ executablePath: "/usr/bin/chromium-headless-shell", args: ["--no-sandbox"] });
const tab = await browser.newPage();
tab.on("pageerror", (error) => console.error(error));
await tab.route(`${door}/example/page.html`, (route) => route.fulfill({ contentType: "text/html", body: readFileSync(page) }));
await tab.route(`${door}/example/chat.js`, (route) => route.fulfill({ contentType: "text/javascript", body: readFileSync(script) }));
await tab.goto(`${door}/example/page.html`);
await tab.waitForFunction(() => document.querySelector("pre").textContent.includes("tool:"), null, { timeout: 60_000 });
process.stdout.write(await tab.textContent("pre"));
await browser.close();
