"""The tab "Generate"."""

import json
import re

import pytest
from conftest import HOSTILE, SHOTS, is_too_wide, panel

KINDS = ["json_schema", "regex", "gbnf", "lark", "labels", "pattern", "structural_tag"]


def generate(page, button="#generate"):
    """Presses a button and waits for the end of its runs."""
    page.locator(button).click()
    page.locator(".runs[aria-busy=false] .run").first.wait_for()
    return page.locator(".run")


def written(run):
    """The text of the tokens that stayed."""
    return "".join(run.locator(".output [role=button]").all_text_contents()).replace("\u23ce", "")


def counts(run):
    found = re.match(r"(\d+) tokens? in (\d+) forwards?", run.locator(".status").inner_text())
    return int(found[1]), int(found[2])


@pytest.mark.parametrize("kind", KINDS)
def test_examples(pages, kind):
    page = pages.open()
    page.get_by_label("Constraint", exact=True).select_option(kind)
    run = generate(page).first
    assert "satisfies the constraint" in run.locator(".status").inner_text()
    tokens, forwards = counts(run)
    assert run.locator(".output [role=button]").count() == tokens
    heads = run.page.locator(".rung b").all_inner_texts()
    assert [head for head in heads if head.startswith("#")][-1] == f"#{forwards}"
    text = written(run)
    assert "EUR" in text or "Bright Glacier" in text
    if kind == "json_schema":
        assert json.loads(text)["vendor"] == "Bright Glacier Consulting"


def test_the_state_of_a_token(pages):
    page = pages.open()
    run = generate(page).first
    tokens = run.locator(".output [role=button]")
    tokens.first.focus()
    for _ in range(2):
        page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    state = page.locator(".state")
    state.get_by_text("Legal tokens").wait_for()
    assert state.locator(".chosen").count() >= 1
    assert tokens.nth(2).evaluate("node => node.classList.contains('marked')")
    state.get_by_label("Why may this text follow, or not?").fill("zzz")
    state.get_by_role("button", name="Explain").click()
    state.get_by_text("cannot stand there").wait_for()


def test_settings_side_by_side(pages):
    page = pages.open()
    page.locator("#second summary").click()
    runs = generate(page, "#compare")
    assert runs.count() == 2
    assert page.locator(".verdict.yes").inner_text().startswith("\u2713 The same text")
    assert written(runs.nth(0)) == written(runs.nth(1))
    (tokens, exact), (_, off) = counts(runs.nth(0)), counts(runs.nth(1))
    assert exact < off and off >= tokens
    assert runs.nth(1).locator(".o-forced, .o-copied, .o-drafted").count() == 0


def test_stop(pages):
    page = pages.open()
    page.get_by_label("Constraint", exact=True).select_option("regex")
    page.get_by_label("Its text").fill("[a-z ]{3000}")
    page.get_by_label("Mode", exact=True).first.select_option("off")
    page.get_by_label("Most tokens").fill("900")
    # The run is short, so the page itself presses the button at the fourth forward.
    page.evaluate("""new MutationObserver((_, observer) => {
        if (document.querySelectorAll(".rung").length < 4) return;
        observer.disconnect();
        document.querySelector("#stop").click();
    }).observe(document.querySelector("#panel-generate"), { childList: true, subtree: true })""")
    page.locator("#generate").click()
    page.locator(".status", has_text="Stopped").wait_for()
    assert page.locator(".rung").count() < 900


def test_errors_name_the_place(pages):
    page = pages.open()
    page.get_by_label("Its text").fill('{"type": "object", "properties": {"a": {"type": "strin"}}}')
    page.locator("#generate").click()
    error = page.locator(".run .error")
    error.wait_for()
    assert "/properties/a" in error.inner_text()
    # The browser reports the status of the answer.
    assert len(pages.faults) == 1 and "400" in pages.faults[0]
    pages.faults.clear()


def test_hostile_texts_stay_texts(pages):
    page = pages.open()
    page.get_by_label("Constraint", exact=True).select_option("labels")
    page.get_by_label("Its text").fill(HOSTILE)
    page.get_by_label("Prompt", exact=True).fill(HOSTILE)
    run = generate(page).first
    assert written(run) == HOSTILE
    run.locator(".output [role=button]").first.click()
    page.locator(".state").get_by_text("Legal tokens").wait_for()
    page.get_by_label("Constraint", exact=True).select_option("json_schema")
    page.get_by_label("Its text").fill(json.dumps({"type": "object", "required": [HOSTILE],
        "properties": {HOSTILE: {"enum": [HOSTILE]}}}))
    run = generate(page).first
    assert HOSTILE in written(run)
    page.get_by_label("Its text").fill(json.dumps({"type": HOSTILE}))
    page.locator("#generate").click()
    page.locator(".run .error", has_text="img").wait_for()
    assert page.evaluate("window.hacked") is None
    assert page.locator("main img").count() == 0
    pages.faults[:] = [fault for fault in pages.faults if "400" not in fault]


def look(page, name):
    """Generates, opens a state, and takes a picture."""
    run = generate(page).first
    run.locator(".output [role=button]").nth(3).click()
    page.locator(".state").get_by_text("Legal tokens").wait_for()
    assert not is_too_wide(page)
    page.evaluate("scrollTo(0, 0)")
    page.screenshot(path=f"{SHOTS}/{name}.png", full_page=True)


def test_pictures(pages):
    look(pages.open(width=1400), "playground-generate")
    look(pages.open(width=390, height=844), "playground-generate-narrow")
    look(pages.open(width=1400, dark=True), "playground-generate-dark")
    page = pages.open(width=1400)
    page.locator("#second summary").click()
    generate(page, "#compare")
    panel(page, "generate")
    page.screenshot(path=f"{SHOTS}/playground-compare.png", full_page=True)
