// The choice of a model, and the API key with which the models are listed.

import { listChats, listModels } from "./api.js";
import { showError, showProblem } from "./problem.js";

const KEY = "sluice.key";
const NOTES = { unloaded: "not loaded yet", asleep: "asleep" }; // of models that are not in memory
const at = (id) => document.getElementById(id);

function rememberKey() {
  if (at("keep-key").checked && at("key").value) localStorage.setItem(KEY, at("key").value);
  else localStorage.removeItem(KEY);
}

export class Models {
  #withImages = new Set(); // names of models that accept images
  #tray;

  /** Images can be put into the tray if the chosen model accepts them. */
  constructor(tray) {
    this.#tray = tray;
  }

  /** Show the kept key, and follow the choices of key and model. */
  listen() {
    at("key").value = localStorage.getItem(KEY) ?? "";
    at("keep-key").checked = at("key").value !== "";
    at("key").addEventListener("change", () => { rememberKey(); this.fill(); });
    at("keep-key").addEventListener("change", rememberKey);
    at("ask-key").addEventListener("submit", (event) => {
      event.preventDefault();
      at("key").value = at("needed-key").value;
      at("keep-key").checked = at("keep-needed-key").checked;
      rememberKey();
      this.fill();
    });
    at("model").addEventListener("change", () => this.#choose());
  }

  /** List the models that the key allows. */
  async fill() {
    const chosen = at("model").value;
    try {
      const key = at("key").value;
      const [chats, models] = await Promise.all([listChats(key), listModels(key)]);
      const known = models.map((model) => model.id);
      const names = chats.length ? [...known.filter((name) => chats.includes(name)), ...chats.filter((name) => !known.includes(name))] : known;
      this.#withImages = new Set(models.filter((model) => model.input_modalities?.includes("image")).map((model) => model.id));
      const states = new Map(models.map((model) => [model.id, NOTES[model.state]]));
      const label = (name) => (states.get(name) ? `${name} (${states.get(name)})` : name);
      at("model").replaceChildren(...names.map((name) => new Option(label(name), name, false, name === chosen)));
      at("ask-key").hidden = true;
      showProblem("");
    } catch (error) {
      showError(error);
    }
    this.#choose();
  }

  #choose() {
    this.#tray.isOpen = this.#withImages.has(at("model").value);
    at("attach").hidden = !this.#tray.isOpen;
    this.#tray.draw();
  }
}
