"""What commands say of options that are no numbers."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.seams import app as cli

SMALL = Path(__file__).parent.parent / "small.yaml"


@pytest.mark.parametrize(
    ("option", "said"),
    [
        (("--seed", "abc"), "must be a whole number"),
        (("--replications", "1.5"), "must be a whole number"),
        (("--jobs", "0"), "from 1 to 4096"),
    ],
)
def test_what_is_no_number_is_refused_in_our_words(option: tuple[str, str], said: str) -> None:
    done = CliRunner().invoke(cli.app, ["run", str(SMALL), *option])
    assert done.exit_code == 2
    assert said in " ".join(done.stderr.split())
    assert "Input" not in done.stderr
