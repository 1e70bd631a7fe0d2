// Small plots as SVG: curves over time, each with its name and its current value.

const SVG = "http://www.w3.org/2000/svg";
const WIDTH = 600;
const HEIGHT = 100;

function shape(name, attributes, ...children) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

export function element(name, className, ...children) {
  const made = document.createElement(name);
  if (className) made.className = className;
  made.append(...children);
  return made;
}

/** The next 1, 2 or 5 times a power of ten, so that the scale is stable. */
export function ceiling(value) {
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].map((each) => each * power).find((each) => each >= value);
}

function line(points, top) {
  let isOpen = false;
  return points.map(([x, value]) => {
    if (value === null) {
      isOpen = false;
      return "";
    }
    const place = `${(x * WIDTH).toFixed(1)} ${(HEIGHT - (Math.min(value, top) / top) * (HEIGHT - 4) - 2).toFixed(1)}`;
    const step = isOpen ? `L${place}` : `M${place}h1`; // a single point is visible, too
    isOpen = true;
    return step;
  }).join("");
}

/**
 * Draw `curves` into `figure`: {name, points: [[x of 0 to 1, value or null], …], now: its current value as text}.
 * `format` formats a value, `top` is the fixed end of the scale, `least` its minimum, `ago` the label of the left
 * end.
 */
export function draw(figure, title, curves, { format, top, least = 1, ago }) {
  const values = curves.flatMap(({ points }) => points.map(([, value]) => value ?? 0));
  const end = top ?? ceiling(Math.max(...values, least));
  const label = curves.map(({ name, now }) => `${name} ${now}`).join(", ");
  const plot = shape(
    "svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", class: "plot", role: "img", "aria-label": `${title}, the last ${ago}; now: ${label}` },
    ...curves.map(({ points }, index) => shape("path", { class: `s${index}`, d: line(points, end) })),
  );
  const names = curves.map(({ name, now }, index) => {
    const sample = shape("svg", { viewBox: "0 0 16 4", "aria-hidden": "true" }, shape("path", { class: `s${index}`, d: "M0 2H16" }));
    return element("li", "", sample, `${name} ${now}`);
  });
  figure.replaceChildren(
    element("figcaption", "", title),
    element("ul", "", ...names),
    element("div", "ends", element("span", "", `to ${format(end)}`)),
    plot,
    element("div", "ends", element("span", "", `${ago} ago`), element("span", "", "now")),
  );
}
