// Accessibility additions to the generator's theme: scrollable elements can be focused by keyboard, and each block of code
// has its own name for screen readers.
const reach = () => {
  for (const each of document.querySelectorAll(".md-typeset__scrollwrap, .md-typeset pre > code")) {
    if (each.scrollWidth > each.clientWidth) {
      each.tabIndex = 0;
      each.role = "region";
    } else {
      each.removeAttribute("tabindex");
      each.removeAttribute("role");
    }
  }
  document.querySelectorAll(".md-typeset__scrollwrap").forEach((each, at) => (each.ariaLabel = `Table ${at + 1}`));
  document.querySelectorAll(".md-typeset pre > code").forEach((each, at) => (each.ariaLabel = `Code ${at + 1}`));
  document.querySelectorAll(".md-code__nav").forEach((each, at) => (each.ariaLabel = `What to do with code ${at + 1}`));
};
new MutationObserver(reach).observe(document.querySelector("article"), { childList: true, subtree: true });
addEventListener("resize", reach);
reach();
