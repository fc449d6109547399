"""What commands say of options that are no numbers, and of runs that they foresee."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from varsim.cli import app as cli
from varsim.cli.weighing import weigh_checked
from varsim.scenario.loading import load_scenario
from varsim.study.effort import Effort
from varsim.study.timing import Foreseen

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


def test_what_made_no_update_takes_at_least_so_long(capsys: pytest.CaptureFixture[str]) -> None:
    small = load_scenario(SMALL)
    weigh_checked(small, Effort(1, 2, 3), Foreseen(2.0, 2.0))
    assert "take about 2 s of one core, judging by short runs\n" in capsys.readouterr().err
    unseen = tuple(one.label for one in small.strategies[:2])
    weigh_checked(small, Effort(1, 2, 3), Foreseen(2.0, 2.0, unseen))
    said = capsys.readouterr().err
    first, second = (one.mention for one in small.strategies[:2])
    told = f"take at least 2 s of one core, judging by short runs, in which {first} and {second} "
    assert f"{told}made no update" in said
