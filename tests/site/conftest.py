"""The built site, served, and a browser that reaches nothing else."""

import shutil
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest
from playwright.sync_api import sync_playwright

from tests import ROOT

SITE = ROOT / "docs" / "_build" / "html"
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
)
SIZES = {"desktop": {"width": 1366, "height": 900}, "phone": {"width": 390, "height": 844}}


class Quiet(SimpleHTTPRequestHandler):
    """Serves files and does not talk about it."""

    def log_message(self, format, *args):
        pass


@pytest.fixture(scope="session")
def site():
    assert (SITE / "index.html").exists(), "the site must be built: run `make docs-test`"
    return SITE


@pytest.fixture(scope="session")
def address(site):
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=site))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="session")
def browser():
    found = [path for path in map(shutil.which, BROWSERS) if path]
    assert found, "a Chromium must be installed: run `make docs-test` or `apt-get install chromium`"
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=found[0], args=FLAGS)
        yield chromium
        chromium.close()


@pytest.fixture
def open_page(browser, address):
    """Return a function that opens tabs, and a list of what went wrong in any of them."""
    wrong, contexts = [], []

    def only_here(request):
        if not request.url.startswith((address, "data:", "blob:")):
            wrong.append(f"asked the network for {request.url}")

    def new(size="desktop", theme="light"):
        context = browser.new_context(viewport=SIZES[size], color_scheme=theme, base_url=address)
        contexts.append(context)
        context.on("request", only_here)
        page = context.new_page()
        page.on("pageerror", lambda error: wrong.append(f"{page.url}: {error}"))
        page.on("console", lambda said: said.type == "error" and wrong.append(said.text))
        page.on("response", lambda got: got.status >= 400 and wrong.append(f"no {got.url}"))
        return page

    new.wrong = wrong
    yield new
    for context in contexts:
        context.close()
