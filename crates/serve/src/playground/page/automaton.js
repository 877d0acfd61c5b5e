/** The tab "Automaton": the states of a small constraint as a graph. */

import { drawGraph } from "./automaton_graph.js";
import { el, errorBox, field, select, table, visible } from "./dom.js";

export const title = "Automaton";

const PERSON = `{
  "type": "object",
  "properties": {
    "name": {"enum": ["Ada", "Alan"]},
    "age": {"type": "integer", "minimum": 0, "maximum": 99}
  },
  "required": ["name", "age"]
}`;

const EXAMPLES = {
  number: ["regex", "[0-9]+(\\.[0-9]+)?"],
  line: ["regex", "[A-Z]+: [a-z]+\\n"],
  choice: ["choice", "yes\nno\nmaybe\nnot yet"],
  schema: ["json_schema", PERSON],
  string: ["json_schema", '{"type": "string", "maxLength": 3}'],
  grammar: ["ebnf", 'root ::= "(" root ")" | "x"'],
};

const KINDS = [
  ["regex", "Regular expression"], ["choice", "Choice, one text on each line"], ["json_schema", "JSON Schema"],
  ["pattern", "Element pattern"], ["ebnf", "Grammar, EBNF"], ["gbnf", "Grammar, GBNF"], ["lark", "Grammar, Lark"],
];

/** Returns the shortest text that leads to each state, as bytes in Latin 1. */
function shortestTexts(states) {
  const texts = [""];
  const todo = [0];
  while (todo.length > 0) {
    const at = todo.shift();
    for (const edge of states[at].edges) {
      if (edge.to === null || texts[edge.to] !== undefined) continue;
      texts[edge.to] = texts[at] + String.fromCharCode(edge.bytes[0][0]);
      todo.push(edge.to);
    }
  }
  return texts;
}

/** Describes all transitions of a state in words. */
function transitions(state) {
  const parts = state.edges.map((edge) => `${edge.label} to ${edge.to === null ? "a state not shown" : edge.to}`);
  if (state.accepting) parts.push("the end");
  return parts.join(", ");
}

/** The answer of the endpoint on the page. */
class AutomatonView {
  constructor(found) {
    this.found = found;
    this.open = new Set();
    this.picture = el("div", { class: "scroll graph", tabindex: 0, role: "region", "aria-label": "Graph of the states" });
    this.details = el("div", { class: "card", "aria-live": "polite" },
      el("p", { class: "muted" }, "Choose a state to see it, or a run to open it."));
    this.texts = shortestTexts(found.states);
  }

  node() {
    const { found } = this;
    const all = (open) => () => {
      this.open = new Set(open ? found.runs.keys() : []);
      this.draw();
    };
    this.draw();
    return el("div", { class: "stack" },
      this.#summary(),
      found.runs.length > 0 && el("div", { class: "actions" },
        el("button", { type: "button", class: "quiet", onclick: all(true) }, "Open all runs"),
        el("button", { type: "button", class: "quiet", onclick: all(false) }, "Close all runs")),
      this.picture,
      el("p", { class: "note" }, "A double ring: the output may end. A thick line: a run, which leaves no choice. ",
        "A dashed line leads back. Numbers below the states: legal tokens."),
      this.details,
      el("details", { class: "card" }, el("summary", {}, "All states as a table"), this.#table()));
  }

  #summary() {
    const { found } = this;
    const merged = found.before_merging - found.states.length;
    const bytes = found.runs.reduce((sum, run) => sum + run.bytes, 0);
    return el("div", { class: "stack" },
      !found.complete && el("p", { class: "error", role: "status" },
        `Too large to draw: the first ${found.states.length} states are shown. Arrows without a target lead further.`),
      el("p", { id: "automaton-summary" }, `${found.states.length} states`,
        merged > 0 && ` (${merged} more accept the same texts as one of them)`,
        `, ${found.runs.length} runs with ${bytes} bytes that leave no choice; ${found.vocabulary} tokens in the vocabulary.`),
      found.warnings.map((warning) => el("p", { class: "note" }, warning)));
  }

  #table() {
    const rows = this.found.states.map((state, at) =>
      [at, visible(this.texts[at]), state.accepting ? "yes" : "no", state.legal_tokens, transitions(state)]);
    return table("States", ["State", "Shortest text to it", "May end", "Legal tokens", "Transitions"], rows);
  }

  draw() {
    this.picture.replaceChildren(drawGraph(this.found, this.open, {
      onState: (at) => this.#show(at),
      onRun: (at) => {
        if (!this.open.delete(at)) this.open.add(at);
        this.draw();
        this.#showRun(at);
        this.picture.querySelector(`[data-run="${at}"]`)?.focus();
      },
    }));
    // A tall graph begins in its middle.
    requestAnimationFrame(() => {
      const start = Number(this.picture.querySelector("circle")?.getAttribute("cy"));
      if (this.picture.scrollLeft === 0) this.picture.scrollTop = start - this.picture.clientHeight / 2;
    });
  }

  #show(at) {
    const state = this.found.states[at];
    const share = (100 * state.legal_tokens) / this.found.vocabulary;
    this.details.replaceChildren(
      el("h3", {}, at === 0 ? "State 0, the start" : `State ${at}`),
      el("p", {}, "Shortest text to it: ", el("code", {}, visible(this.texts[at]) || "nothing")),
      el("p", {}, `Legal tokens: ${state.legal_tokens} of ${this.found.vocabulary} (${share.toFixed(2)} %).`),
      el("p", {}, "Next: ", el("code", {}, transitions(state) || "nothing")));
  }

  #showRun(at) {
    const run = this.found.runs[at];
    this.details.replaceChildren(
      el("h3", {}, `Run from state ${run.states[0]} to state ${run.states[run.states.length - 1]}`),
      el("p", {}, el("code", {}, visible(run.text))),
      el("p", {}, `${run.bytes} bytes`, run.tokens !== null && `, ${run.tokens} tokens of the tokenizer`,
        ". The model has no choice here: one forward verifies all of it."));
  }
}

/**
 * Builds the tab when it is first shown.
 * @param {HTMLElement} root the empty panel
 * @param {import("./api.js").Api} api
 */
export function mount(root, api) {
  const example = select([
    ["number", "A decimal number"], ["line", "A name in capitals, a line"], ["choice", "A choice"],
    ["schema", "An object with two properties"], ["string", "A short JSON string"], ["grammar", "Balanced brackets (endless)"],
  ], { id: "automaton-example" });
  const kind = select(KINDS, { id: "automaton-kind" });
  const text = el("textarea", { id: "automaton-text", rows: 8, spellcheck: "false" });
  const limit = el("input", { type: "number", min: 1, max: 400, value: "80", id: "automaton-limit" });
  const button = el("button", { type: "submit" }, "Draw");
  const results = el("div", { class: "stack" });
  let asked = 0;

  const draw = async () => {
    asked += 1;
    const mine = asked;
    button.disabled = true;
    try {
      const body = { model: api.model, kind: kind.value, constraint: text.value, limit: Number(limit.value) };
      const found = await api.post("automaton", body);
      if (mine === asked) results.replaceChildren(new AutomatonView(found).node());
    } catch (error) {
      if (mine === asked) results.replaceChildren(errorBox(error));
    } finally {
      button.disabled = false;
    }
  };
  const choose = () => {
    [kind.value, text.value] = EXAMPLES[example.value];
    draw();
  };
  example.addEventListener("change", choose);
  window.addEventListener("model", draw);
  const form = el("form", { class: "stack", onsubmit: (event) => { event.preventDefault(); draw(); } },
    field("Example", example), field("Kind", kind), field("Constraint", text),
    field("Most states", limit, "The graph stops there and says so."),
    el("div", { class: "actions" }, button));
  root.append(el("div", { class: "split" },
    el("div", { class: "stack" },
      el("p", {}, "A constraint becomes an automaton over bytes. Each state has a mask: the tokens whose bytes lead on. ",
        "Where a state has one transition only, nothing is left to choose, and ffwd writes the whole run at once."),
      form),
    results));
  choose();
}
