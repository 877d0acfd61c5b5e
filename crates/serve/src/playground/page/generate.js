/** The tab "Generate": an output as it is made, token by token and forward by forward. */

import { el, field, select } from "./dom.js";
import { EXAMPLES } from "./examples.js";
import { legend } from "./origins.js";
import { RunView } from "./run_view.js";
import { samplingControls, settingControls, settingText } from "./settings.js";
import { StateView } from "./state_view.js";

export const title = "Generate";

const READ_AS = [["chat", "a message, or a document for a schema"], ["text", "a text that the model continues"]];

/**
 * Builds the tab when it is first shown.
 * @param {HTMLElement} root the empty panel
 * @param {import("./api.js").Api} api
 */
export function mount(root, api) {
  new GenerateTab(root, api);
}

class GenerateTab {
  constructor(root, api) {
    this.api = api;
    this.state = new StateView(api);
    this.edited = new Map();
    this.results = el("div", { class: "runs" });
    this.ladders = el("div", { class: "runs" });
    this.verdict = el("div", { class: "verdict-place", role: "status" });
    this.#buildControls();
    root.append(el("div", { class: "split" }, this.controls,
      el("div", { class: "stack" }, legend(), this.verdict, this.results, this.state.node, this.ladders)));
    this.#load("json_schema");
  }

  #buildControls() {
    this.kind = select(Object.entries(EXAMPLES).map(([name, example]) => [name, example.title]));
    this.kind.addEventListener("change", () => this.#load(this.kind.value));
    this.constraint = el("textarea", { rows: 11, spellcheck: "false", autocomplete: "off" });
    this.note = el("p", { class: "note" });
    this.prompt = el("textarea", { rows: 8, spellcheck: "false" });
    this.as = select(READ_AS);
    this.first = settingControls("Decoding");
    this.second = settingControls("Compared with", { mode: "off" });
    this.sampling = samplingControls();
    this.run = el("button", { type: "button", id: "generate", onclick: () => this.#generate([this.first]) }, "Generate");
    this.compare = el("button", { type: "button", id: "compare", class: "quiet", onclick: () => this.#generate([this.first, this.second]) }, "Compare");
    this.stop = el("button", { type: "button", id: "stop", class: "quiet", disabled: true, onclick: () => this.abort?.abort() }, "Stop");
    const restore = el("button", { type: "button", class: "quiet", onclick: () => this.#restore() }, "Restore the example");
    this.controls = el("div", { class: "stack" },
      field("Constraint", this.kind), this.note,
      field("Its text", this.constraint), field("Prompt", this.prompt), field("Read the prompt as", this.as),
      this.sampling.node, this.first.node,
      el("div", { class: "actions" }, this.run, this.stop, restore),
      el("details", { id: "second" }, el("summary", {}, "Compare two settings on the same input"),
        el("div", { class: "stack tight" }, this.second.node, el("div", { class: "actions" }, this.compare))));
  }

  /** Shows the example of a kind, or what was written for it last. */
  #load(name) {
    if (this.loaded) this.edited.set(this.loaded, this.#written());
    this.loaded = name;
    const shown = this.edited.get(name) ?? EXAMPLES[name];
    this.kind.value = name;
    [this.constraint.value, this.prompt.value, this.as.value] = [shown.text, shown.prompt, shown.as];
    this.note.textContent = EXAMPLES[name].note;
    this.constraint.closest(".field").hidden = name === "none";
  }

  #written() {
    return { text: this.constraint.value, prompt: this.prompt.value, as: this.as.value };
  }

  #restore() {
    this.edited.delete(this.loaded);
    const name = this.loaded;
    this.loaded = null;
    this.#load(name);
  }

  /** Returns the fields of a request that do not depend on the setting. */
  #request() {
    return {
      model: this.api.model || undefined,
      prompt: this.prompt.value,
      as: this.as.value,
      constraint: { kind: EXAMPLES[this.loaded].kind, text: this.constraint.value },
      ...this.sampling.read(),
    };
  }

  /** Runs the settings one after the other, so that none delays another. */
  async #generate(controls) {
    this.abort?.abort();
    const abort = new AbortController();
    this.abort = abort;
    const request = this.#request();
    const settings = controls.map((control) => control.read());
    const runs = settings.map((setting) => new RunView(settingText(setting), (run, index) => {
      runs.forEach((other) => other.mark(other === run ? index : -1));
      this.state.show({ ...request, ffwd: setting }, run.tokens, index);
      reveal(this.state.node);
    }));
    for (const place of [this.results, this.ladders]) place.className = runs.length > 1 ? "runs two" : "runs";
    this.results.replaceChildren(...runs.map((run) => run.node));
    this.ladders.replaceChildren(...runs.map((run) => run.ladder));
    this.state.clear();
    reveal(this.results);
    this.verdict.replaceChildren();
    this.#running(true);
    for (const [i, run] of runs.entries()) {
      try {
        const events = this.api.stream("generate", { ...request, ffwd: settings[i] }, abort.signal);
        for await (const event of events) run.take(event);
      } catch (error) {
        run.fail(error);
        break;
      }
    }
    if (this.abort !== abort) return;
    this.#running(false);
    if (runs.length > 1 && runs.every((run) => run.end)) this.verdict.replaceChildren(comparison(runs, settings));
  }

  #running(on) {
    this.stop.disabled = !on;
    this.results.setAttribute("aria-busy", String(on));
  }
}

/** Scrolls to an element if it is out of sight, as on narrow screens. */
function reveal(node) {
  const { top } = node.getBoundingClientRect();
  if (top < 0 || top > innerHeight - 80) node.scrollIntoView({ block: "start" });
}

/** Compares two finished runs, token by token. */
function comparison(runs, settings) {
  const [a, b] = runs.map((run) => run.end);
  const ids = [a, b].map((end) => end.tokens.map((token) => token.id));
  const same = a.text === b.text && ids[0].length === ids[1].length && ids[0].every((id, i) => id === ids[1][i]);
  const factor = b.stats.forwards / Math.max(1, a.stats.forwards);
  const forwards = `${a.stats.forwards} forwards against ${b.stats.forwards}`;
  if (same) {
    return el("div", { class: "verdict yes" }, el("p", {}, el("b", {}, "\u2713 The same text"),
      `, compared token by token (${ids[0].length} tokens): ${forwards}, ${factor.toFixed(1)} times.`));
  }
  const at = ids[0].findIndex((id, i) => id !== ids[1][i]);
  const where = at < 0 ? Math.min(ids[0].length, ids[1].length) : at;
  const unverified = settings.some((setting) => ["canonical", "longest"].includes(setting.mode));
  const why = unverified ? " Unverified modes may write other tokens." : "";
  const what = a.text === b.text ? "The same text in other tokens" : "Other texts";
  return el("div", { class: "verdict no" }, el("p", {}, el("b", {}, `\u2717 ${what}`),
    `, from token ${where + 1} on; ${forwards}.${why}`));
}
