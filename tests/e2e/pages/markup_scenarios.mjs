// Scenarios of the chat page about the Markdown of messages: untrusted text, every construct, and code.

/** Return the scenarios, made of the driver's actions. */
export const markup = ({ open, ask, texts }) => ({
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
});
