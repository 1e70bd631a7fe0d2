// Scenarios of the chat page about answers that are interrupted, and about several tabs.

const CALLS = "**/v1/chat/completions";
const stored = (page) => page.evaluate(() => JSON.parse(localStorage.getItem("sluice.conversations") ?? "[]"));

/** The body of a stream: events, each with an id, then its end. */
const stream = (texts, end) =>
  [...texts.map((content, index) => `id: event-${index}\ndata: ${JSON.stringify({ choices: [{ delta: { content } }] })}\n\n`), `data: ${end}\n\n`].join("");
const answered = (route, body) => route.fulfill({ status: 200, contentType: "text/event-stream", body });

/** Return the scenarios, made of the driver's actions. */
export const interrupted = ({ open, ask, settle, texts, url }) => {
  const opened = async (context) => {
    const page = await context.newPage();
    page.setDefaultTimeout(0);
    page.posts = [];
    await page.route(CALLS, (route) => page.posts.push(route)); // the scenario answers them
    await page.goto(url);
    await page.waitForFunction(() => document.querySelectorAll("#model option").length > 0);
    return page;
  };
  const posted = async (page) => {
    while (!page.posts.length) await page.evaluate(() => new Promise((resolve) => requestAnimationFrame(resolve)));
    return page.posts.shift();
  };
  const send = async (page, text) => {
    await page.locator("#question").fill(text);
    await page.locator("#question").press("Enter");
    return posted(page);
  };
  /** Resolve once the tab waits for the lock of another one, or has sent a call. */
  const waiting = async (page) => {
    const isPending = () => page.evaluate(async () => (await navigator.locks.query()).pending.length > 0);
    while (!page.posts.length && !(await isPending()));
  };
  const shows = (page, text) => page.waitForFunction((expected) => document.querySelector("article.assistant .content")?.textContent === expected, text);
  return {
    async failures() {
      const found = {};
      for (const type of ["server_error", "rate_limit_error", "invalid_request_error"]) {
        const page = await open();
        const error = { message: "The answer ended.", type, param: null, code: null };
        await page.route(CALLS, (route) => answered(route, stream(["Par"], JSON.stringify({ error }))));
        await ask(page, "A question?");
        const [{ nodes }] = await stored(page);
        const buttons = await page.getByRole("button", { name: "Continue answer" }).count();
        found[type] = { content: nodes[1].content, event: nodes[1].event_id ?? null, canContinue: buttons === 1 };
        if (!buttons) continue;
        const sent = page.waitForRequest(CALLS);
        await page.getByRole("button", { name: "Continue answer" }).click();
        found[type].after = (await sent).headers()["last-event-id"];
        await settle(page);
      }
      return found;
    },
    async tabs() {
      const first = await open();
      const context = first.context();
      await first.close();
      const [left, right] = [await opened(context), await opened(context)];
      await answered(await send(left, "Left?"), stream(["left"], "[DONE]"));
      await shows(left, "left");
      await settle(left);
      await answered(await send(right, "Right?"), stream(["right"], "[DONE]"));
      await shows(right, "right");
      await settle(right);
      await left.reload();
      await left.waitForFunction(() => document.querySelectorAll("#conversations li").length > 0);
      const questions = (await stored(left)).map(({ nodes }) => nodes[0].content).sort();
      return { questions, listed: await left.locator("#conversations li").count() };
    },
    async sharedAnswer() {
      const first = await open();
      const context = first.context();
      await first.close();
      const left = await opened(context);
      const call = await send(left, "Shared?");
      const right = await opened(context);
      await waiting(right);
      await right.locator("#question").fill("Me, too?");
      await right.locator("#question").press("Enter");
      await right.waitForFunction(() => document.getElementById("problem").textContent || document.getElementById("send").hidden);
      const problem = await right.locator("#problem").textContent();
      const question = await right.locator("#question").inputValue();
      await answered(call, stream(["shared"], "[DONE]"));
      await shows(left, "shared");
      await shows(right, "shared");
      const calls = right.posts.length;
      await settle(left);
      await send(left, "Again?"); // never answered: its tab is closed
      await right.reload();
      await waiting(right);
      const before = right.posts.length;
      await left.close();
      await answered(await posted(right), stream(["continued"], "[DONE]"));
      await right.waitForFunction(() => [...document.querySelectorAll("article.assistant .content")].at(-1).textContent === "continued");
      return { problem, question, calls, before, answers: await texts(right, "article.assistant .content") };
    },
  };
};
