"""The shell: policy, tabs, themes, key, narrow screens."""

import urllib.request

import pytest
from conftest import GUARDED_PAGE, HOSTILE, PAGE, TABS, is_too_wide, panel


def test_the_policy_is_strict_and_its_violations_are_seen(pages):
    with urllib.request.urlopen(PAGE) as answer:
        policy = answer.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    page = pages.open()
    panel(page, "generate")
    # A text cannot become elements, whatever writes it.
    with pytest.raises(Exception, match="TrustedHTML"):
        page.evaluate(f"document.body.innerHTML = '{HOSTILE}'")
    page.evaluate("document.body.setAttribute('style', 'color: red')")
    page.evaluate("fetch('http://127.0.0.1:9/').catch(() => {})")
    page.wait_for_timeout(200)
    assert any("style-src" in fault for fault in pages.faults)
    assert any("connect-src" in fault for fault in pages.faults)
    pages.faults.clear()


def test_tabs_follow_the_keyboard(pages):
    page = pages.open()
    page.locator("#tab-generate").focus()
    for name in [*TABS[1:], TABS[0]]:
        page.keyboard.press("ArrowRight")
        assert panel(page, name).is_visible()
        assert page.evaluate("document.activeElement.id") == f"tab-{name}"
        assert page.locator(f"#tab-{name}").get_attribute("aria-selected") == "true"
        assert page.locator("[role=tabpanel]:visible").count() == 1
    page.keyboard.press("End")
    assert panel(page, TABS[-1]).is_visible()
    page.keyboard.press("Home")
    assert panel(page, TABS[0]).is_visible()
    # One tab only is in the order of the Tab key.
    assert page.locator("[role=tab][tabindex='0']").count() == 1


def test_an_address_names_its_tab(pages):
    assert panel(pages.open("curve"), "curve").is_visible()


@pytest.mark.parametrize("tab", TABS)
@pytest.mark.parametrize("width", [390, 1600])
def test_no_tab_is_wider_than_the_screen(pages, tab, width):
    page = pages.open(tab, width=width, height=844)
    panel(page, tab)
    page.wait_for_timeout(150)
    assert not is_too_wide(page)


def test_every_control_has_a_name(pages):
    page = pages.open()
    for name in TABS:
        page.locator(f"#tab-{name}").click()
        panel(page, name)
    nameless = page.evaluate(
        """[...document.querySelectorAll("button, input, select, textarea")].filter((node) =>
            !(node.labels?.length || node.getAttribute("aria-label") || node.textContent.trim()))
            .map((node) => node.outerHTML)"""
    )
    assert nameless == []


def test_themes(pages):
    page = pages.open()
    background = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(background)
    page.locator("#theme").click()
    page.locator("#theme").click()
    assert page.locator("#theme").inner_text() == "Theme: dark"
    dark = page.evaluate(background)
    assert dark != light
    page.reload()
    panel(page, "generate")
    assert page.evaluate(background) == dark
    assert pages.open(dark=True).evaluate(background) == dark


def test_a_key_is_asked_for(pages):
    page = pages.open(base=GUARDED_PAGE)
    page.locator("#key-dialog").wait_for(state="visible")
    page.locator("#key").fill("wrong")
    page.locator("#key-ok").click()
    page.locator("#key-wrong").wait_for(state="visible")
    page.locator("#key").fill("secret")
    page.keyboard.press("Enter")
    panel(page, "generate")
    assert page.locator("#model option").count() == 1
    assert page.locator("#model").input_value() != ""
    # The browser reports the two refusals, and nothing else.
    assert len(pages.faults) == 2
    assert all("401" in fault for fault in pages.faults)
    pages.faults.clear()
