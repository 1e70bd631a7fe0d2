// Opens the API's description with its first path unfolded, and names what Swagger UI leaves without a name.
const NAMES = { "#servers": "Server", ".examples-select-element": "Example", ".content-type": "Media type", ".parameters input": "Value" };

const ui = SwaggerUIBundle({
  url: "openapi.json",
  dom_id: "#document",
  docExpansion: "none",
  defaultModelsExpandDepth: 0,
  onComplete: () => {
    const { tags, operationId } = ui.spec().getIn(["json", "paths"]).first().first().toJS();
    ui.layoutActions.show(["operations-tag", tags[0]], true);
    ui.layoutActions.show(["operations", tags[0], operationId], true);
  },
});

const name = () => {
  for (const [found, label] of Object.entries(NAMES)) {
    for (const each of document.querySelectorAll(`.swagger-ui ${found}`)) each.ariaLabel ||= label;
  }
  // What scrolls by itself can be reached by keys.
  for (const each of document.querySelectorAll(".swagger-ui pre, .swagger-ui .opblock-body, .swagger-ui .table-container")) {
    if (each.scrollWidth > each.clientWidth || each.scrollHeight > each.clientHeight) each.tabIndex = 0;
    else each.removeAttribute("tabindex");
  }
};
new MutationObserver(name).observe(document.getElementById("document"), { childList: true, subtree: true });
addEventListener("resize", name);
