"""Pages of a headless browser that fail a test on any fault that the browser reports."""

import os

import pytest
from playwright.sync_api import sync_playwright

PAGE = os.environ["FFWD_TEST_PAGE"]
GUARDED_PAGE = os.environ["FFWD_TEST_GUARDED_PAGE"]
SHOTS = os.environ["FFWD_TEST_SHOTS"]
TABS = ["generate", "explorer", "automaton", "labels", "curve"]
# A text that runs a program if it becomes markup.
HOSTILE = "<img src=x onerror=window.hacked=1>"


@pytest.fixture(scope="session")
def browser():
    with sync_playwright() as playwright:
        arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = playwright.chromium.launch(
            executable_path=os.environ["FFWD_TEST_CHROMIUM"], args=arguments
        )
        yield browser
        browser.close()


class Pages:
    """Opens pages and collects errors, warnings, violations of the policy and foreign requests."""

    def __init__(self, browser):
        self.browser = browser
        self.contexts = []
        self.faults = []

    def open(self, tab="generate", width=1400, height=1000, dark=False, base=PAGE):
        context = self.browser.new_context(
            viewport={"width": width, "height": height},
            color_scheme="dark" if dark else "light",
            reduced_motion="reduce",
        )
        context.set_default_timeout(10_000)
        self.contexts.append(context)
        page = context.new_page()
        page.on("console", self._message)
        page.on("pageerror", lambda error: self.faults.append(f"error: {error}"))
        page.on("request", lambda request: self._request(request.url, base))
        page.goto(f"{base}#{tab}")
        return page

    def _message(self, message):
        if message.type in ("error", "warning"):
            self.faults.append(f"{message.type}: {message.text}")

    def _request(self, url, base):
        if not url.startswith((base, "data:")):
            self.faults.append(f"request: {url}")


@pytest.fixture
def pages(browser):
    pages = Pages(browser)
    yield pages
    for context in pages.contexts:
        context.close()
    assert pages.faults == []


def panel(page, name):
    """The panel of a tab, once it is shown."""
    found = page.locator(f"#panel-{name}")
    found.wait_for(state="visible")
    return found


def is_too_wide(page):
    """Whether the whole page scrolls sideways."""
    return page.evaluate("document.documentElement.scrollWidth > document.documentElement.clientWidth")
