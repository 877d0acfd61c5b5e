/** Requests to the server that the page comes from, with its key if it has one. */

const KEY = "ffwd-key";

/** An error that the server answered. */
export class ApiFailure extends Error {
  /** @param {{message: string, param?: string, pointer?: string, hint?: string}} error */
  constructor(status, error) {
    super(error.message);
    this.status = status;
    this.param = error.param;
    this.pointer = error.pointer;
    this.hint = error.hint;
  }
}

function stored() {
  try {
    return sessionStorage.getItem(KEY);
  } catch {
    return null;
  }
}

function store(key) {
  try {
    sessionStorage.setItem(KEY, key);
  } catch {
    // The key then lasts until the page is loaded again.
  }
}

/** The endpoints of the playground. Paths are relative to `playground/api/`. */
export class Api {
  /** The name of the chosen model. */
  model = "";
  #key = stored();
  #asking = null;

  /** Returns the JSON of an endpoint. */
  async get(path) {
    return (await this.#send(path, { method: "GET" })).json();
  }

  /**
   * Sends a body as JSON and returns the JSON of the answer.
   * @param {AbortSignal} [signal] cancels the request
   */
  async post(path, body, signal) {
    return (await this.#send(path, this.#posted(body, signal))).json();
  }

  /**
   * Sends a body as JSON and yields the JSON of each event of the answer as it comes.
   * @param {AbortSignal} [signal] cancels the request, on the server too
   */
  async *stream(path, body, signal) {
    const response = await this.#send(path, this.#posted(body, signal));
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      const lines = (rest + value).split("\n");
      rest = lines.pop();
      for (const line of lines) {
        if (!line.startsWith("data: ") || line === "data: [DONE]") continue;
        // What has arrived already is not wanted either.
        signal?.throwIfAborted();
        const event = JSON.parse(line.slice("data: ".length));
        if (event.error) throw new ApiFailure(response.status, event.error);
        yield event;
      }
    }
  }

  #posted(body, signal) {
    const headers = { "Content-Type": "application/json" };
    return { method: "POST", headers, body: JSON.stringify(body), signal };
  }

  async #send(path, options) {
    for (let tries = 0; ; tries += 1) {
      const headers = { ...options.headers };
      if (this.#key) headers.Authorization = `Bearer ${this.#key}`;
      const response = await fetch(new URL(`api/${path}`, import.meta.url), { ...options, headers });
      if (response.ok) return response;
      const body = await response.json().catch(() => ({}));
      const failure = new ApiFailure(response.status, body.error ?? { message: `status ${response.status}` });
      if (response.status !== 401 || !(await this.#askKey(tries > 0))) throw failure;
    }
  }

  /** Asks the person for the key; returns false if there is none. */
  #askKey(wrong) {
    this.#asking ??= new Promise((resolve) => {
      const dialog = document.getElementById("key-dialog");
      const input = document.getElementById("key");
      const ok = document.getElementById("key-ok");
      document.getElementById("key-wrong").hidden = !wrong;
      input.value = "";
      const close = () => dialog.close("cancel");
      const use = () => dialog.close(input.value ? "ok" : "cancel");
      const byKey = (event) => { if (event.key === "Enter") use(); };
      const cancel = document.getElementById("key-cancel");
      cancel.onclick = close;
      ok.onclick = use;
      input.onkeydown = byKey;
      dialog.onclose = () => {
        this.#asking = null;
        if (dialog.returnValue === "ok") {
          this.#key = input.value;
          store(this.#key);
        }
        input.value = "";
        resolve(dialog.returnValue === "ok");
      };
      dialog.returnValue = "cancel";
      dialog.showModal();
      input.focus();
    });
    return this.#asking;
  }
}
