/** The tab "Labels": the trie of a taxonomy, with exact probabilities. */

import { el, errorBox, field, percent, select, table, visible } from "./dom.js";

export const title = "Labels";

const TOPICS = [
  "Technology", "Technology > AI", "Technology > AI > Vision", "Technology > Telecom", "Sports > Football", "Sports > Tennis",
  "Politics", "Science > Space", "Science > Biology",
].join("\n");

const EXAMPLES = {
  mail: ["invoice\npurchase order\ncomplaint\nnewsletter",
    "The lamp arrived broken. I want my money back, and nobody answers the phone."],
  topics: [TOPICS, "The match ended in a penalty shootout after ninety minutes without a goal."],
};

/** Returns a bar whose length is a probability. */
function bar(probability) {
  const fill = el("span", { class: "bar-fill" });
  fill.style.setProperty("width", `${100 * probability}%`);
  return el("span", { class: "bar", "aria-hidden": "true" }, fill);
}

/** The trie of an answer, as nested lists that open and close. */
class TrieView {
  constructor(found) {
    this.found = found;
    this.byNode = new Map(found.nodes.map((node) => [node.node, node]));
  }

  /** Follows a path while it has one continuation and no end. */
  #corridor(child) {
    const tokens = [child];
    let node = this.byNode.get(child.node);
    while (node.children.length === 1 && node.label === null) {
      tokens.push(node.children[0]);
      node = this.byNode.get(node.children[0].node);
    }
    return { tokens, node };
  }

  #line(tokens, node) {
    const chips = tokens.map((token, at) => el("span", {
      class: at === 0 ? "token" : "token only", title: `token ${token.token}${at > 0 ? ", the only one that may follow" : ""}`,
    }, visible(token.text)));
    return [bar(node.probability), el("span", { class: "share" }, percent(node.probability)), el("span", { class: "tokens" }, chips),
      node.label !== null && el("strong", {}, node.label)];
  }

  #item(child) {
    const { tokens, node } = this.#corridor(child);
    const line = this.#line(tokens, node);
    if (node.children.length === 0) return el("li", {}, el("div", { class: "trie-line" }, line));
    const below = [...node.children].sort((a, b) => this.#mass(b) - this.#mass(a)).map((next) => this.#item(next));
    if (node.label !== null) {
      below.unshift(el("li", {}, el("div", { class: "trie-line" }, bar(node.ends),
        el("span", { class: "share" }, percent(node.ends)), el("span", { class: "token end" }, "end"),
        el("span", { class: "muted" }, `the label ends here; ${percent(node.ends / (node.probability || 1))} of this branch`))));
    }
    return el("li", {}, el("details", { open: true }, el("summary", { class: "trie-line" }, line), el("ul", {}, below)));
  }

  #mass(child) {
    return this.byNode.get(child.node).probability;
  }

  /** Returns how many nodes leave no choice: their tokens need no forward of their own. */
  only() {
    return this.found.nodes.filter((node) => node.children.length === 1 && node.label === null).length;
  }

  node() {
    const root = this.byNode.get(0) ?? this.found.nodes[0];
    const items = [...root.children].sort((a, b) => this.#mass(b) - this.#mass(a)).map((child) => this.#item(child));
    return el("ul", { class: "trie", "aria-label": "Trie of the labels" }, items);
  }
}

function results(found) {
  const trie = new TrieView(found);
  const sum = found.labels.reduce((total, label) => total + label.probability, 0);
  const low = found.legal_mass < 0.5;
  return el("div", { class: "stack" },
    el("p", { id: "labels-summary" }, `${found.labels.length} labels add up to ${sum.toFixed(6)}, in ${found.forwards} forwards. `,
      `${trie.only()} of ${found.nodes.length} nodes leave no choice.`),
    el("p", { class: low ? "error" : "note", role: "status" },
      `${percent(found.legal_mass)} of the model's probability after the prompt was on first tokens of labels.`,
      low && " So these probabilities say little: the model expects another text."),
    found.warnings.map((warning) => el("p", { class: "note" }, warning)),
    el("h3", {}, "The trie, by tokens"),
    trie.node(),
    el("p", { class: "note" }, "Each line is a token, or several where only one may follow (grey). A bar is the probability of all ",
      "labels below it. Labels that begin with the same tokens share them. Every path to an end was decoded and compared ",
      "with the list, so the paths are exactly the labels."),
    el("h3", {}, "The labels"),
    table("Labels by probability", ["Label", "Probability", "Logarithm"],
      found.labels.map((label) => [label.label, percent(label.probability), label.log_probability.toFixed(3)])));
}

/**
 * Builds the tab when it is first shown.
 * @param {HTMLElement} root the empty panel
 * @param {import("./api.js").Api} api
 */
export function mount(root, api) {
  const example = select([["mail", "Kinds of mail"], ["topics", "A taxonomy of topics"]], { id: "labels-example" });
  const labels = el("textarea", { id: "labels-list", rows: 9, spellcheck: "false" });
  const text = el("textarea", { id: "labels-text", rows: 4 });
  const separator = el("input", { id: "labels-separator", value: " > " });
  const levels = select([
    ["listed", "The labels of the list"], ["leaves", "Only those with none below them"], ["all", "Also all above them"],
  ], { id: "labels-levels" });
  const button = el("button", { type: "submit" }, "Compute");
  const output = el("div", { class: "stack" });
  let asked = 0;

  const compute = async () => {
    asked += 1;
    const mine = asked;
    button.disabled = true;
    try {
      const found = await api.post("labels", { model: api.model, labels: labels.value, text: text.value,
        separator: separator.value, levels: levels.value });
      if (mine === asked) output.replaceChildren(results(found));
    } catch (error) {
      if (mine === asked) output.replaceChildren(errorBox(error));
    } finally {
      button.disabled = false;
    }
  };
  const choose = () => {
    [labels.value, text.value] = EXAMPLES[example.value];
    compute();
  };
  example.addEventListener("change", choose);
  window.addEventListener("model", compute);
  const form = el("form", { class: "stack", onsubmit: (event) => { event.preventDefault(); compute(); } },
    field("Example", example), field("Text", text),
    field("Labels", labels, "One on each line, a JSON array, or a JSON tree."),
    field("Separator of levels", separator), field("Levels", levels),
    el("div", { class: "actions" }, button));
  root.append(el("div", { class: "split" },
    el("div", { class: "stack" },
      el("p", {}, "A label is a few tokens, and labels share their first ones. The probability of a label is the product of ",
        "the masked probabilities on its path: exact, not sampled."),
      form),
    output));
  choose();
}
