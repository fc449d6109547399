"""What users install: built from the repository, it runs alone in an empty environment."""

import os
import subprocess
import sys
import venv
from pathlib import Path
from zipfile import ZipFile

import pytest

ROOT = Path(__file__).parent.parent

# Nothing of this checkout, of its environment or of its tests is to be found by what is installed.
ALONE = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
SWEEP = """
sweep: {cluster.workers: [3, 4]}
"""


def told(*command: str | Path, cwd: Path) -> str:
    """What a command says; it must succeed."""
    done = subprocess.run(
        list(map(str, command)), cwd=cwd, env=ALONE, capture_output=True, text=True, timeout=500
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.mark.slow
@pytest.mark.product
def test_installed_in_an_empty_environment_every_command_runs(tmp_path: Path) -> None:
    venv.create(tmp_path / "tools", with_pip=True)
    pip, uv = tmp_path / "tools/bin/pip", tmp_path / "tools/bin/uv"
    told(pip, "install", "-q", "build", cwd=tmp_path)
    has_uv = not subprocess.run([pip, "install", "-q", "uv"], capture_output=True).returncode

    # From the sdist, and so from nothing that is not in that.
    build = [tmp_path / "tools/bin/python", "-m", "build", "-q", "--outdir", "dist"]
    told(*build, "--installer", "uv" if has_uv else "pip", ROOT, cwd=tmp_path)
    assert len(list((tmp_path / "dist").glob("varsim-*.tar.gz"))) == 1
    (wheel,) = (tmp_path / "dist").glob("varsim-*.whl")
    with ZipFile(wheel) as content:
        names = content.namelist()
    assert {name.split("/")[0].partition("-")[0] for name in names} == {"varsim"}
    assert {"varsim/py.typed", "varsim/data/scenarios/quickstart.yaml"} <= set(names)

    venv.create(tmp_path / "empty", with_pip=not has_uv)
    python, varsim = tmp_path / "empty/bin/python", tmp_path / "empty/bin/varsim"
    install = (
        [uv, "pip", "install", "--python", python] if has_uv else [python, "-m", "pip", "install"]
    )
    told(*install, "-q", wheel, cwd=tmp_path)
    found = told(python, "-c", "import varsim; print(varsim.__file__)", cwd=tmp_path)
    assert Path(found.strip()).is_relative_to(tmp_path / "empty")

    small = (ROOT / "tests/small.yaml").read_text(encoding="utf-8")
    (tmp_path / "small.yaml").write_text(small, encoding="utf-8")
    (tmp_path / "sweep.yaml").write_text(small + SWEEP, encoding="utf-8")
    assert "on_write" in told(varsim, "list", "strategies", cwd=tmp_path)
    assert told(varsim, "check", "small.yaml", cwd=tmp_path).startswith("small is valid")
    assert "report: " in told(varsim, "run", "small.yaml", cwd=tmp_path)
    assert "result sha256: " in told(varsim, "sweep", "sweep.yaml", "--out", "swept", cwd=tmp_path)
    assert "report: " in told(varsim, "run", "quickstart", "--out", "shown", cwd=tmp_path)
    for page in ("shown/report.html", "swept/report.html"):
        assert (tmp_path / page).stat().st_size > 10_000

    if has_uv:
        uvx = [uv, "tool", "run", "--python", sys.executable, "--from", wheel, "varsim"]
        assert told(*uvx, "version", cwd=tmp_path).startswith("varsim ")
        assert "Fastest: " in told(*uvx, "run", "quickstart", "--no-plots", cwd=tmp_path)
