"""The console in headless Chromium, watched: what it loads from elsewhere, and what goes wrong in it, fails the test.

axe.min.js beside this file looks for what keeps people from using a page (`Watched.obstacles`).
"""

from __future__ import annotations

import pathlib
from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Browser, ConsoleMessage, Page, Request, sync_playwright

AXE = (pathlib.Path(__file__).parent / "axe.min.js").read_text(encoding="utf-8")
CHROMIUM = "/usr/bin/chromium"
DESKTOP, PHONE = (1280, 800), (390, 844)


@contextmanager
def chromium(*options: str) -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", *options])
        try:
            yield browser
        finally:
            browser.close()


class Watched:
    """One window. `troubles` are errors of scripts, violations of the page's policy, and requests to elsewhere."""

    def __init__(
        self, browser: Browser, port: int, size: tuple[int, int] = DESKTOP, scheme: str = "light", tls: bool = False
    ) -> None:
        self.address = f"{'https' if tls else 'http'}://127.0.0.1:{port}/"
        self.troubles: list[str] = []
        self._context = browser.new_context(
            viewport={"width": size[0], "height": size[1]},
            color_scheme="dark" if scheme == "dark" else "light",
            accept_downloads=True,
        )
        self._context.set_default_timeout(20_000)
        self.page: Page = self._context.new_page()
        self.page.on("pageerror", lambda error: self.troubles.append(str(error)))
        self.page.on("console", self._said)
        self.page.on("request", self._asked)

    def _said(self, message: ConsoleMessage) -> None:
        if message.type == "error" and not message.text.startswith("Failed to load resource"):  # statements may fail
            self.troubles.append(message.text)

    def _asked(self, request: Request) -> None:
        if not request.url.startswith((self.address, "data:", "blob:")):
            self.troubles.append(f"asked for {request.url}")

    def open(self, page: str = "") -> None:
        self.page.goto(f"{self.address}#/{page}" if page else self.address)

    def log_in(self, user: str = "postgres", password: str = "") -> None:
        """From the log-in to the cluster."""
        self.open()
        self.page.fill("input[name=user]", user)
        self.page.fill("input[name=password]", password)
        self.page.click("button.primary")
        self.page.wait_for_selector(".map")

    def write(self, sql: str) -> None:
        """Replaces the text of the editor."""
        self.page.wait_for_selector(".cm-content")
        self.page.click(".cm-content")
        self.page.keyboard.press("Control+a")
        self.page.keyboard.press("Delete")
        self.page.keyboard.insert_text(sql)

    def run(self, sql: str, keys: str = "Control+Enter") -> None:
        """Writes and runs; returns when nothing runs any more."""
        self.write(sql)
        self.page.keyboard.press(keys)
        self.page.wait_for_selector(".editor-bar button.primary:not([disabled])")

    def obstacles(self) -> list[str]:
        """What axe-core finds, a line each."""
        self.page.evaluate(AXE)
        found = self.page.evaluate("axe.run(document, {resultTypes: ['violations']})")
        return [
            f"{item['id']}: {node['html'][:120]} {node.get('failureSummary', '')[:300]}"
            for item in found["violations"]
            for node in item["nodes"]
        ]

    def overflow(self) -> int:
        """Pixels by which the page is wider than the window."""
        wide: int = self.page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
        return wide

    def close(self) -> None:
        self._context.close()
