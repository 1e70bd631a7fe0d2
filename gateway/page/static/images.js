// Images attached to a question: chosen, pasted or dropped, and kept in the page until they are sent.

const TYPES = ["image/png", "image/jpeg", "image/webp", "image/gif"];
const SMALL_BYTES = 200_000; // smaller files are sent unchanged;
const LONGEST_SIDE = 1344; // larger ones as a copy whose longest side has at most this number of pixels

function asUrl(file) {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.addEventListener("load", () => resolve(reader.result));
    reader.addEventListener("error", () => reject(reader.error));
    reader.readAsDataURL(file);
  });
}

/** A file as a data URL. Throws Error if it is not an image. */
async function read(file) {
  if (!TYPES.includes(file.type)) throw new Error(`${file.name}: images are PNG, JPEG, WebP or GIF`);
  let drawn;
  try {
    drawn = await createImageBitmap(file);
  } catch {
    throw new Error(`${file.name}: can't be read as an image`);
  }
  if (file.size <= SMALL_BYTES) return asUrl(file);
  const scale = Math.min(1, LONGEST_SIDE / Math.max(drawn.width, drawn.height));
  const canvas = document.createElement("canvas");
  canvas.width = Math.max(1, Math.round(drawn.width * scale));
  canvas.height = Math.max(1, Math.round(drawn.height * scale));
  canvas.getContext("2d").drawImage(drawn, 0, 0, canvas.width, canvas.height);
  return canvas.toDataURL("image/jpeg", 0.9);
}

/** An image element for a data URL; `label` is its alternative text. */
export function preview(url, label) {
  const shown = new Image();
  shown.src = url;
  shown.alt = label;
  return shown;
}

/** The images attached to the question in the input. */
export class Tray {
  /** Add images that are chosen by a button, pasted into a field or dropped on the page, while it is open. */
  listen(button, files, field) {
    button.addEventListener("click", () => files.click());
    files.addEventListener("change", async () => { await this.add([...files.files]); files.value = ""; });
    field.addEventListener("paste", (event) => this.#take(event, event.clipboardData));
    document.addEventListener("dragover", (event) => this.isOpen && event.preventDefault());
    document.addEventListener("drop", (event) => this.#take(event, event.dataTransfer));
  }

  #take(event, { files }) {
    if (!this.isOpen || !files.length) return;
    event.preventDefault();
    this.add([...files]);
  }

  /** `list` shows the images; `changed` is called when they change, `showProblem` with the error of a file. */
  constructor(list, changed, showProblem) {
    Object.assign(this, { list, changed, showProblem });
    this.urls = [];
    this.isOpen = false; // whether the model accepts images
  }

  async add(files) {
    if (!this.isOpen) return;
    for (const file of files) {
      try {
        this.urls.push(await read(file));
        this.showProblem("");
      } catch (error) {
        this.showProblem(error.message);
      }
    }
    this.draw();
  }

  /** Return all images and detach them. */
  take() {
    const urls = this.isOpen ? this.urls.splice(0) : [];
    this.draw();
    return urls;
  }

  /** Attach images again, such as those of a question without an answer. */
  put(urls) {
    this.urls = [...urls];
    this.draw();
  }

  draw() {
    this.list.hidden = !this.isOpen || !this.urls.length;
    this.list.replaceChildren(
      ...this.urls.map((url, index) => {
        const item = document.createElement("li");
        const remove = document.createElement("button");
        remove.type = "button";
        remove.textContent = "×";
        remove.setAttribute("aria-label", `Remove image ${index + 1}`);
        remove.addEventListener("click", () => {
          this.urls.splice(index, 1);
          this.draw();
        });
        item.append(preview(url, `Attached image ${index + 1}`), remove);
        return item;
      }),
    );
    this.changed();
  }
}
