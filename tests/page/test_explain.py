"""The tabs that explain: Mask Explorer, Automaton, Labels and Curve."""

import json

import pytest
from conftest import HOSTILE, SHOTS, is_too_wide, panel
from playwright.sync_api import expect


def without_refusals(pages):
    """Forgets what the browser says about answers with status 400, which are wanted."""
    pages.faults[:] = [fault for fault in pages.faults if "status of 400" not in fault]


@pytest.fixture
def explorer(pages):
    page = pages.open("explorer")
    page.wait_for_selector("#explorer-reveal")
    return page


def choose_profile(page, profile):
    with page.expect_response("**/playground/api/explorer"):
        page.select_option("#explorer-profile", profile)
    page.wait_for_selector("#explorer-reveal:enabled")


def step(page):
    """Reveals and takes a token by keys."""
    page.locator("#explorer-reveal").focus()
    page.keyboard.press("r")
    with page.expect_response("**/playground/api/explorer"):
        page.keyboard.press("n")


def test_a_walk_by_keys_ends_valid_and_wrong(explorer):
    choose_profile(explorer, "mismatch")
    for _ in range(14):
        step(explorer)
        explorer.wait_for_selector("#explorer-reveal:enabled, #explorer-end")
    assert "Valid, and wrong" in explorer.locator("#explorer-end").inner_text()
    prefix = explorer.locator("#explorer-prefix").inner_text().replace("\n", "")
    assert prefix == '{"tool":"retrieve","source":"tickets","k":2}<eos>'
    # 14 positions of 17 words, each state met once; a second walk costs the cached one nothing.
    counts = lambda: [int(explorer.locator(f"#explorer-{name}").inner_text()) for name in ("naive", "cached")]
    first = counts()
    assert first[1] == 14 * 17
    explorer.locator("#explorer-reset").focus()
    with explorer.expect_response("**/playground/api/explorer"):
        explorer.keyboard.press("0")
    explorer.wait_for_selector("#explorer-reveal:enabled")
    assert counts() == [first[0] + 17, first[1]]


def test_a_prediction_is_judged(explorer):
    choose_profile(explorer, "confused")
    explorer.keyboard.press("Escape")
    explorer.locator("[data-guess=replaced]").click()
    assert explorer.locator("td.fate").count() == 0
    explorer.locator("#explorer-reveal").click()
    outcome = explorer.locator("#explorer-outcome").inner_text()
    assert outcome.startswith("Predicted.") and "DROP" not in outcome.split("Why")[0]
    assert float(explorer.locator("#explorer-rejected").inner_text().split()[0]) > 90
    # Top-p first keeps two words, and both are illegal.
    with explorer.expect_response("**/playground/api/explorer"):
        explorer.check("#explorer-first")
    explorer.wait_for_selector("#explorer-reveal:enabled")
    explorer.locator("[data-guess=nothing]").click()
    explorer.locator("#explorer-reveal").click()
    assert "Predicted. Nothing is left" in explorer.locator("#explorer-outcome").inner_text()
    assert explorer.locator("#explorer-next").is_disabled()


def test_without_the_mask_the_prefix_breaks(explorer):
    choose_profile(explorer, "confused")
    with explorer.expect_response("**/playground/api/explorer"):
        explorer.uncheck("#explorer-mask")
    explorer.wait_for_selector("#explorer-reveal:enabled")
    step(explorer)
    broken = explorer.wait_for_selector("#explorer-broken").inner_text()
    assert '"DROP"' in broken and "Possible there: {" in broken
    explorer.locator("#explorer-back").click()
    explorer.wait_for_selector("#explorer-reveal:enabled")


def test_the_chosen_model_can_be_stepped(explorer):
    choose_profile(explorer, "model")
    step(explorer)
    explorer.wait_for_selector("#explorer-reveal:enabled")
    assert explorer.locator("#explorer-prefix .token").count() == 1
    explorer.fill("#explorer-text", HOSTILE)
    with explorer.expect_response("**/playground/api/explorer"):
        explorer.locator("#explorer-text").blur()
    explorer.wait_for_selector("#explorer-reveal:enabled")
    assert explorer.locator("#panel-explorer img").count() == 0


@pytest.fixture
def automaton(pages):
    page = pages.open("automaton")
    page.wait_for_selector("#automaton-summary")
    return page


def draw(page, kind, constraint, limit=80):
    page.select_option("#automaton-kind", kind)
    page.fill("#automaton-text", constraint)
    page.fill("#automaton-limit", str(limit))
    with page.expect_response("**/playground/api/automaton"):
        page.get_by_role("button", name="Draw").click()
    page.wait_for_selector("#panel-automaton button[type=submit]:enabled")


def test_a_decimal_number_has_four_states(automaton):
    assert automaton.locator("#automaton-summary").inner_text().startswith("4 states")
    assert automaton.locator(".state").count() == 4 and automaton.locator(".state.accepting").count() == 2
    automaton.locator('.state[data-state="2"]').focus()
    automaton.keyboard.press("Enter")
    assert "State 2" in automaton.locator("#panel-automaton [aria-live=polite]").inner_text()


def test_runs_open_and_close(automaton):
    draw(automaton, "json_schema", '{"type": "object", "properties": {"invoice": {"type": "boolean"}}, "required": ["invoice"]}')
    closed = automaton.locator(".state").count()
    run = automaton.locator(".edge.run").first
    assert "invoice" in run.text_content()
    run.focus()
    automaton.keyboard.press("Enter")
    assert automaton.locator(".state").count() > closed
    automaton.locator(".edge.opened").first.focus()
    automaton.keyboard.press("Enter")
    assert automaton.locator(".state").count() == closed
    automaton.get_by_role("button", name="Open all runs").click()
    rows = automaton.locator("#panel-automaton details tbody tr")
    assert automaton.locator(".state").count() == rows.count()


def test_what_is_too_large_or_wrong_is_said(pages, automaton):
    draw(automaton, "ebnf", 'root ::= "(" root ")" | "x"', 12)
    assert "Too large to draw: the first 12 states" in automaton.locator("#panel-automaton .error").inner_text()
    draw(automaton, "regex", f"({HOSTILE}")
    assert automaton.locator("#panel-automaton .error").count() == 1
    without_refusals(pages)
    draw(automaton, "choice", HOSTILE)
    assert "onerror" in automaton.locator(".edge.run").first.text_content()
    assert automaton.locator("#panel-automaton img").count() == 0


def test_the_layout_puts_every_edge_forward(automaton):
    """Layers of random graphs: edges that are not called back lead to the right."""
    wrong = automaton.evaluate("""async () => {
      const { layered } = await import("/playground/layered.js");
      let seed = 7;
      const below = (n) => { seed = (seed * 1103515245 + 12345) % 2147483648; return Math.floor((seed / 2147483648) * n); };
      let wrong = 0;
      for (let round = 0; round < 200; round += 1) {
        const count = 2 + below(14);
        const edges = Array.from({ length: below(3 * count) + 1 }, () => ({ from: below(count), to: below(count), width: 30 + below(90) }));
        const { nodes, routes, back } = layered(count, edges, { row: 50, gap: 60 });
        edges.forEach((edge, at) => {
          if (edge.from === edge.to) { wrong += routes[at].length; return; }
          const [a, b] = [routes[at][0], routes[at].at(-1)];
          if (a.x !== nodes[edge.from].x || b.y !== nodes[edge.to].y) wrong += 1;
          if ((a.x < b.x) === back.has(at) || Math.abs(a.x - b.x) < edge.width) wrong += 1;
        });
        for (let i = 0; i < count; i += 1) for (let j = 0; j < i; j += 1) {
          if (nodes[i].x === nodes[j].x && nodes[i].y === nodes[j].y) wrong += 1;
        }
      }
      return wrong;
    }""")
    assert wrong == 0


def test_labels_add_up(pages):
    page = pages.open("labels")
    page.wait_for_selector("#labels-summary")
    assert "4 labels add up to 1.000000" in page.locator("#labels-summary").inner_text()
    with page.expect_response("**/playground/api/labels"):
        page.select_option("#labels-example", "topics")
    expect(page.locator("#labels-summary")).to_contain_text("9 labels")
    assert page.locator(".trie strong").count() == 9
    assert page.locator(".token.end").count() > 0 and page.locator(".token.only").count() > 0
    page.fill("#labels-list", f"{HOSTILE}\nother")
    with page.expect_response("**/playground/api/labels"):
        page.get_by_role("button", name="Compute").click()
    expect(page.locator("#labels-summary")).to_contain_text("2 labels")
    assert page.locator(".trie strong", has_text=HOSTILE).count() == 1 and page.locator("#panel-labels img").count() == 0
    page.fill("#labels-list", "a\na")
    with page.expect_response("**/playground/api/labels"):
        page.get_by_role("button", name="Compute").click()
    page.wait_for_selector("#panel-labels [role=alert]")
    without_refusals(pages)


def test_the_curve_follows_its_sliders(pages):
    page = pages.open("curve")
    page.wait_for_selector(".curve .line.machine")
    page.locator("#curve-fraction").fill("75")
    page.locator("#curve-ratio").fill("20")
    items = page.locator("#curve-readout li").all_inner_texts()
    assert items[0].endswith("4.00 times") and items[1].endswith("2.50 times")
    # The cost of a run is that of the best cut into forwards: compared with trying all.
    agrees = page.evaluate("""async () => {
      const { costOf, leastCost } = await import("/playground/curve.js");
      const points = [{ rows: 1, ratio: 1 }, { rows: 2, ratio: 1.5 }, { rows: 4, ratio: 1.8 }, { rows: 6, ratio: 5 }];
      const all = (n) => n === 0 ? 0 : Math.min(...Array.from({ length: n }, (_, i) => costOf(points, i + 1) + all(n - i - 1)));
      return [1, 2, 3, 5, 8, 11].every((n) => Math.abs(all(n) - leastCost(points, n)) < 1e-9);
    }""")
    assert agrees
    page.get_by_role("button", name="Measure here").click()
    expect(page.locator(".mark-here")).to_have_count(5, timeout=60_000)
    arms = [{"arm": "off", "speedup": {"median": 1}}, {"arm": "exact", "speedup": {"median": 3.5}},
            {"arm": "forced", "speedup": {"median": 3.1}}]
    report = {"points": [{"fraction": 0.7, "arms": arms}]}
    page.set_input_files("#curve-file", {"name": "fraction.json", "mimeType": "application/json", "buffer": json.dumps(report).encode()})
    page.wait_for_selector(".mark-exact")
    assert page.locator(".mark-file").count() == 1
    page.set_input_files("#curve-file", {"name": "other.json", "mimeType": "application/json", "buffer": b"{}"})
    page.wait_for_selector("#panel-curve .error")


@pytest.mark.parametrize(("name", "width", "dark"), [("", 1400, False), ("-narrow", 390, False), ("-dark", 1400, True)])
def test_screenshots(pages, name, width, dark):
    page = pages.open("explorer", width=width, dark=dark)
    page.wait_for_selector("#explorer-reveal")
    choose_profile(page, "confused")
    page.locator("#explorer-reveal").click()
    page.wait_for_selector("#explorer-outcome")
    page.evaluate("window.scrollTo(0, 0)")
    page.screenshot(path=f"{SHOTS}/playground-explorer{name}.png", full_page=True)
    assert not is_too_wide(page)
    for tab, ready in [("automaton", "schema"), ("labels", "topics"), ("curve", None)]:
        page.locator(f"#tab-{tab}").click()
        panel(page, tab)
        if ready:
            page.wait_for_selector(f"#{tab}-summary")
            with page.expect_response(f"**/playground/api/{tab}"):
                page.select_option(f"#{tab}-example", ready)
        else:
            page.wait_for_selector(".curve .line.machine")
        page.wait_for_timeout(200)
        page.screenshot(path=f"{SHOTS}/playground-{tab}{name}.png", full_page=True)
        assert not is_too_wide(page)
