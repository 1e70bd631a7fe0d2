// Copies text, also on pages that were not loaded over HTTPS, where browsers have no clipboard for scripts.

export async function copy(text) {
  if (navigator.clipboard) {
    await navigator.clipboard.writeText(text);
    return;
  }
  const field = document.createElement("textarea");
  field.value = text;
  field.className = "hidden";
  const focused = document.activeElement;
  document.body.append(field);
  field.select();
  document.execCommand("copy");
  field.remove();
  focused?.focus();
}

/** A button that copies what `text()` returns, and says so. */
export function copyButton(label, text) {
  const made = document.createElement("button");
  made.type = "button";
  made.textContent = "Copy";
  made.setAttribute("aria-label", label);
  made.addEventListener("click", async () => {
    await copy(text());
    made.textContent = "Copied";
    setTimeout(() => { made.textContent = "Copy"; }, 2000);
  });
  return made;
}
