// The status page: polls every two seconds, stores the readings and draws them.

import { draw, element } from "./plot.js";
import { Readings, chosen, failures, percentile, sum } from "./readings.js";

const INTERVAL_MS = 2000;
const SHARES = [["half", 0.5], ["95 %", 0.95], ["99 %", 0.99]];
const STATES = { loaded: "in memory", unloaded: "loaded by its next request", asleep: "asleep" };
const at = (id) => document.getElementById(id);
const readings = new Readings();

const whole = (value) => (value === null ? "–" : Math.round(value).toLocaleString("en"));
const few = (value) => (value === null ? "–" : value.toLocaleString("en", { maximumFractionDigits: value < 10 ? 1 : 0 }));
const hundredths = (value) => (value === null ? "–" : `${few(100 * value)} %`);
const duration = (seconds) => (seconds < 1 ? `${few(1000 * seconds)} ms` : `${few(seconds)} s`);
const time = (found) => (found ? `${found.isOver ? "over " : found.isFirst ? "under " : ""}${duration(found.seconds)}` : "–");

/** The ratio of `field` to `of`; null if unknown, as for models without a cache. */
function part(reading, name, field, of = "blocks") {
  const whole = sum(reading, name, of);
  return whole ? sum(reading, name, field) / whole : null;
}

const PLOTS = [
  ["Sequences", few, {}, [
    ["running", (index, name) => sum(readings.all[index], name, "running"), whole],
    ["waiting", (index, name) => sum(readings.all[index], name, "waiting"), whole],
  ]],
  ["Cache", hundredths, { top: 1 }, [
    ["in use", (index, name) => part(readings.all[index], name, "used_blocks"), hundredths],
    ["cached prefixes", (index, name) => part(readings.all[index], name, "cached_blocks"), hundredths],
    ["of an earlier process at the start", (index, name) => part(readings.all[index], name, "adopted_blocks"), hundredths],
    ["states of cached prefixes", (index, name) => part(readings.all[index], name, "cached_states", "states"), hundredths],
  ]],
  ["Tokens per second", few, {}, [
    ["generated", (index, name) => readings.rate(index, name, "generated_tokens"), few],
    ["of prompts", (index, name) => readings.rate(index, name, "prompt_tokens"), few],
    ["computed, all", (index, name) => readings.rate(index, name, "computed_tokens"), few],
  ]],
  ["Completed requests per second", few, {}, [["requests", (index, name) => readings.rate(index, name, "requests"), few]]],
  ...[["Queue time", "queue_time"], ["Time to the first token", "time_to_first_token"], ["Time per output token", "time_per_output_token"]].map(
    ([title, field]) => [title, duration, { least: 0.001 }, SHARES.map(([name, share]) => [name, (index, model) => percentile(readings.times(index, model, field), share), time])],
  ),
];

function drawPlots(name) {
  const seconds = Number(at("span").value);
  const ago = at("span").selectedOptions[0].textContent;
  const shown = readings.last(seconds);
  const newest = readings.newest.time_s;
  PLOTS.forEach(([title, format, options, curves], position) => {
    const figure = at("plots").children[position] ?? at("plots").appendChild(document.createElement("figure"));
    const drawn = curves.map(([label, read, shownAs]) => {
      const found = shown.map((index) => read(index, name));
      const points = found.map((value, each) => [1 - (newest - readings.all[shown[each]].time_s) / seconds, value?.seconds ?? (value === null ? null : value)]);
      return { name: label, points, now: shownAs(found.at(-1)) };
    });
    draw(figure, title, drawn, { format, ago, ...options });
  });
}

function drawNow(name) {
  const last = readings.all.length - 1;
  const reading = readings.newest;
  const tiles = [
    ["Running", whole(sum(reading, name, "running"))],
    ["Waiting", whole(sum(reading, name, "waiting"))],
    ["Cache in use", hundredths(part(reading, name, "used_blocks"))],
    ["Tokens per second", few(readings.rate(last, name, "generated_tokens"))],
    ["First token, median", time(percentile(readings.times(last, name, "time_to_first_token"), 0.5))],
    ["Open HTTP requests", whole(reading.gateway.active)],
    ["Prompts from the cache", hundredths(part(reading, name, "cached_prompt_tokens", "prompt_tokens"))],
    ["Preempted", whole(sum(reading, name, "preemptions"))],
  ];
  at("now").replaceChildren(...tiles.map(([term, value]) => element("div", "", element("dt", "", term), element("dd", "", value))));
}

function row(...cells) {
  return element("tr", "", ...cells.map((cell) => element("td", typeof cell === "number" ? "number" : "", typeof cell === "number" ? whole(cell) : cell)));
}

function fill(id, rows, empty) {
  const none = element("td", "", empty);
  none.colSpan = 6;
  at(id).tBodies[0].replaceChildren(...(rows.length ? rows : [element("tr", "", none)]));
}

function drawModels(name) {
  const rows = chosen(readings.newest, name).map((each) => row(each.model, STATES[each.state] ?? "–", each.running, each.waiting, each.requests));
  fill("models", rows, "No model is served.");
}

function drawShares(name) {
  const entities = readings.newest.service?.entities ?? [];
  const totals = new Map();
  for (const { endpoint, requests } of entities) totals.set(endpoint, (totals.get(endpoint) ?? 0) + requests);
  const rows = entities.filter(({ model }) => !name || model === name).map(({ endpoint, entity, model, traffic_percentage: share, requests }) => {
    const total = totals.get(endpoint);
    const meter = Object.assign(document.createElement("meter"), { max: 100, value: total ? (100 * requests) / total : 0 });
    meter.setAttribute("aria-label", `${entity} of ${endpoint}`);
    return row(endpoint, entity, model, `${share} %`, element("span", "", meter, ` ${total ? hundredths(requests / total) : "–"}`), requests);
  });
  fill("shares", rows, "No endpoints other than the models' own.");
}

function drawFailures() {
  const old = readings.before(readings.all.length - 1, 60);
  const [now, earlier] = [failures(readings.newest), old ? failures(old) : new Map()];
  const rows = [...now].sort(([, one], [, other]) => other - one).map(([key, count]) => {
    const [of, reason] = key.split("\t");
    return row(of, reason, old ? Math.max(0, count - (earlier.get(key) ?? 0)) : "–", count);
  });
  fill("errors", rows, "None.");
}

function drawAll() {
  if (!readings.newest) return;
  const name = at("model").value;
  drawNow(name);
  drawPlots(name);
  drawModels(name);
  drawShares(name);
  drawFailures();
}

function listModels(reading) {
  const names = chosen(reading, "").map((each) => each.model);
  const listed = [...at("model").options].slice(1).map((option) => option.value);
  if (reading.service && names.join("\n") !== listed.join("\n")) {
    const before = at("model").value;
    at("model").replaceChildren(new Option("all models", ""), ...names.map((name) => new Option(name, name, false, name === before)));
  }
}

/** Set the text if it is new: screen readers read each change. */
function setText(id, text) {
  if (at(id).textContent !== text) at(id).textContent = text;
}

async function ask() {
  try {
    const key = at("key").value;
    const answer = await fetch("status.json", { headers: key ? { authorization: `Bearer ${key}` } : {} });
    const status = await answer.json();
    if (!answer.ok) throw new Error(`${status.error?.message ?? answer.statusText}${answer.status === 401 || answer.status === 403 ? "; give a key with the scope metrics" : ""}`);
    readings.add(status);
    listModels(status);
    setText("state", status.unready ? `Not ready: ${status.unready}` : "Ready");
    setText("problem", status.problem ? `No data from the service: ${status.problem}` : "");
    drawAll();
  } catch (error) {
    setText("state", "Unknown");
    setText("problem", error instanceof TypeError ? "The server can't be reached" : error.message);
  }
}

let isPaused = false;
async function poll() {
  if (!isPaused) await ask();
  setTimeout(poll, INTERVAL_MS);
}

at("choice").addEventListener("submit", (event) => event.preventDefault());
for (const id of ["model", "span"]) at(id).addEventListener("change", drawAll);
at("key").addEventListener("change", ask);
at("pause").addEventListener("click", () => {
  isPaused = !isPaused;
  at("pause").setAttribute("aria-pressed", String(isPaused));
});
at("key").value = localStorage.getItem("sluice.key") ?? "";
poll();
