/** The tab "Automaton". */

import { el } from "./dom.js";

export const title = "Automaton";

/**
 * Builds the tab when it is first shown.
 * @param {HTMLElement} root the empty panel
 * @param {import("./api.js").Api} api
 */
export function mount(root, api) {
  void api;
  root.append(el("p", { class: "muted" }, "Nothing here yet."));
}
