"""A real browser for tests of pages: the Chromium of the machine, or that of Playwright."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest


@contextmanager
def chromium() -> Iterator[Any]:
    """Playwright's handle of a Chromium that runs; the test is skipped where there is none."""
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as driver:
        own = driver.chromium.executable_path
        found = shutil.which("chromium") or shutil.which("google-chrome") or own
        if not Path(found).exists():
            pytest.skip("no Chromium on this machine")
        browser = driver.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield browser
        browser.close()
