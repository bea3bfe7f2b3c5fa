"""TensorBoard on this machine alone, and a browser without a window that looks at it."""

import contextlib
import os
import re
import shutil
import socket
import subprocess
import sys
from urllib.parse import quote

BROWSERS = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome")
WIDTH, HEIGHT = 1200, 760


def browser_path():
    """The path of a Chromium, `None` if there is none."""
    return next((path for path in map(shutil.which, BROWSERS) if path), None)


def missing():
    """What the pages can't be looked at without, in words; nothing if all is here."""
    if browser_path() is None:
        return "there is no Chromium; apt-get install chromium"
    try:
        import playwright.sync_api  # noqa: F401
        import tensorboard  # noqa: F401
    except ImportError as error:
        return f"{error.name} is not installed; pip install '.[browser]' in this folder"
    return ""


def _free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


@contextlib.contextmanager
def tensorboard(logdir):
    """The address of a TensorBoard over a folder of runs."""
    port = _free_port()
    command = [sys.executable, "-m", "tensorboard.main", "--logdir", str(logdir)]
    command += ["--host", "127.0.0.1", "--port", str(port)]
    command += ["--load_fast", "false", "--reload_interval", "0"]  # all runs are there
    environment = {**os.environ, "no_proxy": "127.0.0.1", "PYTHONWARNINGS": "ignore"}
    with subprocess.Popen(
        command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, env=environment
    ) as process:
        try:
            said = []
            for line in process.stderr:
                said.append(line)
                if re.search(r"TensorBoard .* at http", line):
                    break
            else:
                raise RuntimeError("TensorBoard does not start:\n" + "".join(said))
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()


@contextlib.contextmanager
def browser_page():
    """A page of Playwright's in the Chromium of this machine."""
    from playwright.sync_api import sync_playwright

    options = ["--no-sandbox", "--enable-unsafe-swiftshader", "--hide-scrollbars"]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=browser_path(), args=options)
        page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT})
        page.set_default_timeout(60_000)
        try:
            yield page
        finally:
            browser.close()


class Look:
    """Opens pages of a TensorBoard.

    Attributes:
        page: Playwright's page.
        errors: what the browser said of errors, so far.
        asked: the addresses that it has asked for.
    """

    def __init__(self, address, page):
        from playwright.sync_api import TimeoutError

        self.address, self.page, self.errors, self.asked = address, page, [], []
        self._too_late = TimeoutError
        page.on("request", lambda request: self.asked.append(request.url))
        page.on("pageerror", lambda error: self.errors.append(str(error)))

    def __call__(self, name, **where):
        """Open the page `name`, freshly; `where` are further settings in its address."""
        parts = [name, *(f"{key}={quote(value, safe='/^')}" for key, value in where.items())]
        # a new address behind the # alone does not load anything again
        self.page.goto("about:blank")
        self.page.goto(f"{self.address}/#{'&'.join(parts)}")
        return self.page

    def graph(self, run, tag=None):
        """Open the page Graphs with a run, and with one of the graphs that it has."""
        page = self("graphs")
        self._choose(0, run)
        if tag is not None:
            self._choose(1, tag)
        return page

    def _choose(self, menu, text):
        found = self.page.locator("paper-dropdown-menu").nth(menu)
        found.click()
        found.locator("paper-item", has_text=text).first.click()

    def finds(self, *words):
        """Wait until each of these texts stands on the page."""
        for text in words:
            self.page.get_by_text(text, exact=True).first.wait_for(state="attached")

    def nodes(self, *names):
        """Wait until the graph has nodes of these names."""
        for name in names:
            label = self.page.locator("text.nodelabel", has_text=name)
            label.first.wait_for(state="attached")

    def opens(self, name, child):
        """Double-click a node of the graph until it shows the node `child` that it holds.

        A click while the graph is still laid out or moves into place meets nothing.
        """
        node = self.page.locator("text.nodelabel", has_text=name).first
        within = self.page.locator("text.nodelabel", has_text=child).first
        for _ in range(3):
            self._stands_still(node)
            node.dblclick(force=True)
            with contextlib.suppress(self._too_late):
                within.wait_for(state="attached", timeout=15_000)
                return
        raise AssertionError(f"{name} does not open: {child} never came")

    def _stands_still(self, element):
        before = None
        while (now := element.bounding_box()) != before:
            before = now
            self.page.wait_for_timeout(300)
