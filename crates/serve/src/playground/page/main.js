/**
 * The shell of the playground: the tabs, the choice of the model, and the colour theme.
 *
 * A tab is a module with `title` and `mount(root, api)`. It is mounted when it is first shown. A
 * panel gets the event `shown` whenever it is shown, and the window the event `model` when another
 * model is chosen.
 */

import { Api } from "./api.js";
import { el } from "./dom.js";
import { startTheme } from "./theme.js";
import * as automaton from "./automaton.js";
import * as curve from "./curve.js";
import * as explorer from "./explorer.js";
import * as generate from "./generate.js";
import * as labels from "./labels.js";

const TABS = { generate, explorer, automaton, labels, curve };

const api = new Api();
const mounted = new Set();

/** Returns the name of the tab in the address, or of the first one. */
function named() {
  const name = location.hash.slice(1).split("/")[0];
  return Object.hasOwn(TABS, name) ? name : Object.keys(TABS)[0];
}

/** Builds the list of tabs and their empty panels, by ARIA's pattern for tabs. */
function buildTabs() {
  const list = document.getElementById("tabs");
  const panels = document.getElementById("panels");
  for (const [name, tab] of Object.entries(TABS)) {
    const button = el("button", {
      type: "button", role: "tab", id: `tab-${name}`, "aria-controls": `panel-${name}`,
      onclick: () => open(name),
    }, tab.title);
    list.append(button);
    panels.append(el("section", {
      role: "tabpanel", id: `panel-${name}`, "aria-labelledby": `tab-${name}`, hidden: true,
    }));
  }
  list.addEventListener("keydown", moveByKey);
}

/** Moves between tabs with the arrow keys, Home and End. */
function moveByKey(event) {
  const names = Object.keys(TABS);
  const at = names.indexOf(named());
  const next = {
    ArrowRight: (at + 1) % names.length, ArrowLeft: (at + names.length - 1) % names.length,
    Home: 0, End: names.length - 1,
  }[event.key];
  if (next === undefined) return;
  event.preventDefault();
  open(names[next]);
  document.getElementById(`tab-${names[next]}`).focus();
}

function open(name) {
  if (named() !== name || !location.hash) history.replaceState(null, "", `#${name}`);
  show();
}

/** Shows the tab that the address names. */
function show() {
  const name = named();
  for (const other of Object.keys(TABS)) {
    const chosen = other === name;
    const button = document.getElementById(`tab-${other}`);
    button.setAttribute("aria-selected", String(chosen));
    button.tabIndex = chosen ? 0 : -1;
    document.getElementById(`panel-${other}`).hidden = !chosen;
  }
  const panel = document.getElementById(`panel-${name}`);
  if (!mounted.has(name)) {
    mounted.add(name);
    TABS[name].mount(panel, api);
  }
  panel.dispatchEvent(new CustomEvent("shown"));
}

/** Fills the list of models. */
async function listModels() {
  const select = document.getElementById("model");
  try {
    const models = await api.get("../../v1/models");
    select.replaceChildren(...models.data.map((model) => el("option", { value: model.id }, model.id)));
  } catch (error) {
    select.replaceChildren(el("option", { value: "" }, error.message));
  }
  api.model = select.value;
  select.addEventListener("change", () => {
    api.model = select.value;
    window.dispatchEvent(new CustomEvent("model"));
  });
}

startTheme(document.getElementById("theme"));
buildTabs();
window.addEventListener("hashchange", show);
await listModels();
show();
