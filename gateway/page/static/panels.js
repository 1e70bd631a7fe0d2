// The panels next to the conversation. On small screens they cover it, so at most one is open.

const NAMES = ["list", "settings"];
const at = (id) => document.getElementById(id);
const coversAll = () => matchMedia("(max-width: 60rem)").matches;

export function showPanel(name, isOpen) {
  at(name).classList.toggle("open", isOpen);
  at(`show-${name}`).setAttribute("aria-expanded", String(isOpen));
}

/** Close the panels that cover the conversation. */
export function closePanels() {
  if (coversAll()) for (const name of NAMES) showPanel(name, false);
}

/** Let their buttons open and close them. */
export function listen() {
  for (const name of NAMES) {
    at(`show-${name}`).addEventListener("click", () => {
      const isOpen = !at(name).classList.contains("open");
      closePanels();
      showPanel(name, isOpen);
    });
  }
}
