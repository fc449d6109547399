"""What turns `.ci/run` red, on a repository that has one test: so that green means something."""

import os
import shutil
import stat
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
BASE = """
import time, pytest
@pytest.mark.product
def test_of_a_product(): pass
def test_that_passes(): pass
"""
INI = """
[pytest]
markers =
  product: of what users get
timeout = 2
"""
TOOLS = "awk bash cat cp date dirname env grep head id mkdir mktemp rm sleep tail tee timeout"


def command(path: Path, text: str = "exit 0") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!{shutil.which('bash')}\n{text}\n", encoding="utf-8")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


def run(
    folder: Path, test: str, browser: bool = True, readme: str = "-n 2 tests"
) -> tuple[int, str]:
    """Exit status and output of CI on a repository with this test, and tools that do nothing."""
    for place in (".ci/run", "tests/conftest.py"):
        (folder / place).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / place, folder / place)
    blocks = f"```sh\nfalse\n```\n```sh\n.venv/bin/pytest -q {readme}\n```\n"
    (folder / "README.md").write_text(blocks, encoding="utf-8")
    (folder / "pytest.ini").write_text(INI, encoding="utf-8")
    (folder / "tests/test_it.py").write_text(BASE + test, encoding="utf-8")
    command(
        folder / ".venv/bin/pytest", f'exec {sys.executable} -m pytest -p no:cacheprovider "$@"'
    )
    for name in ("pip", "ruff", "mypy"):
        command(folder / ".venv/bin" / name)
    command(folder / ".venv/bin/playwright", "exit 1")
    (folder / "bin").mkdir()
    for name in TOOLS.split():
        (folder / "bin" / name).symlink_to(str(shutil.which(name)))
    if browser:
        command(folder / "bin/chromium")
    left = {
        key: value for key, value in os.environ.items() if not key.startswith(("CI_", "PYTEST"))
    }
    done = subprocess.run(
        [folder / ".ci/run"],
        env={**left, "PATH": str(folder / "bin")},
        capture_output=True,
        text=True,
        timeout=60,
    )
    return done.returncode, done.stdout


def test_green_ends_with_the_closing_line(tmp_path: Path) -> None:
    status, said = run(tmp_path, "")
    assert status == 0, said
    assert said.splitlines()[-1].startswith("2 passed in ")


@pytest.mark.parametrize(
    ("test", "told"),
    [
        ("def test_that_hangs():\n    while True: time.sleep(0.01)", "Timeout"),
        ("@pytest.mark.product\ndef test_that_hangs():\n    time.sleep(60)", "Timeout"),
        (
            "def test_it(): pytest.skip('nothing here')",
            "not tested: tests/test_it.py::test_it (nothing here)",
        ),
        ("pytest.importorskip('no_such_package')", "not tested: tests/test_it.py"),
        ("def test_it(): raise ValueError", "1 failed"),
    ],
    ids=["hang", "hang of a product", "skip", "skipped file", "failure"],
)
def test_red(tmp_path: Path, test: str, told: str) -> None:
    status, said = run(tmp_path, test)
    assert status != 0
    assert told in said
    assert "\nred: " in said


def test_without_tests_it_is_red(tmp_path: Path) -> None:
    assert run(tmp_path, "", readme="-k nothing tests")[0] == 5


def test_without_a_browser_it_is_red(tmp_path: Path) -> None:
    status, said = run(tmp_path, "", browser=False)
    assert status != 0
    assert "a browser is missing" in said


@pytest.mark.parametrize(("may", "status"), [("1", 0), ("0.9", 1)])
def test_what_there_is_no_time_for_is_named_and_may_not_be_too_much(
    tmp_path: Path, may: str, status: int
) -> None:
    slow = "import os\nos.environ['CI_UNTIL'] = '0'"  # as the conftest has read it already
    (tmp_path / "tests").mkdir()
    text = f"{slow}\n{(ROOT / 'tests/conftest.py').read_text(encoding='utf-8')}"
    (tmp_path / "tests/test_it.py").write_text(BASE, encoding="utf-8")
    (tmp_path / "tests/conftest.py").write_text(text, encoding="utf-8")
    (tmp_path / "pytest.ini").write_text(INI, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-n", "1", "tests"],
        cwd=tmp_path,
        env={**os.environ, "CI_NOTES": str(tmp_path), "CI_LEFT_OUT": may},
        capture_output=True,
        timeout=60,
    )
    assert done.returncode == status
    names = (tmp_path / "names/0").read_text(encoding="utf-8").splitlines()
    assert names == [
        f"not tested: tests/test_it.py::{name} (no time was left)"
        for name in ("test_of_a_product", "test_that_passes")
    ]


def test_the_list_of_tests_whose_types_are_not_strict_becomes_shorter() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    (loose,) = (
        one["module"]
        for one in settings["tool"]["mypy"]["overrides"]
        if "disable_error_code" in one
    )
    assert len(loose) <= 120
    assert [name for name in loose if not (ROOT / f"{name.replace('.', '/')}.py").exists()] == []
