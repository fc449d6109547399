"""What `varsim calibrate` says of files that it cannot read, each mistake in a line of its own."""

from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML
from typer.testing import CliRunner

from tests.seams import app as cli

REFUSED = Path(__file__).parents[1] / "data" / "calibration" / "refused.yaml"


@pytest.mark.parametrize("case", YAML(typ="safe").load(REFUSED), ids=lambda case: case["case"])
def test_every_mistake_is_one_line(
    case: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path(case["file"]).write_text(case["text"])
    result = CliRunner().invoke(cli.app, ["calibrate", case["file"], *case["options"], "--quiet"])

    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.splitlines() == [f"varsim: {line}" for line in case["says"]]
