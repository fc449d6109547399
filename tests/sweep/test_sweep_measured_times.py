"""Times from a file: found beside the scenario from anywhere, and kept with the sweep."""

from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from tests.seams import app as cli
from tests.sweep.sweeping import BASE

LAW = "{kind: uniform, low: 80 ms, high: 120 ms}"
LATENCIES = "cluster.network.latency: [0 s, 1 ms]"
DISTRIBUTIONS = "cluster.compute: [{kind: trace, file: a.csv}, {kind: trace, file: more/b.csv}]"


def varsim(*arguments: object) -> Result:
    return CliRunner().invoke(cli.app, list(map(str, arguments)))


def sha256(done: Result) -> str:
    assert done.exit_code == 0, done.output
    (line,) = (one for one in done.stdout.splitlines() if one.startswith("result sha256: "))
    return line


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with measured times, and an empty one beside it."""
    made = tmp_path / "given"
    (made / "more").mkdir(parents=True)
    (tmp_path / "elsewhere").mkdir()
    (made / "a.csv").write_text("worker,seconds\n0,0.1\n0,0.12\n1,0.11\n")
    (made / "more" / "b.csv").write_text("worker,seconds\n0,0.2\n0,0.22\n1,0.21\n")
    return made


def written(folder: Path, block: str) -> str:
    """The name of a sweep of two strategies with times from a file, in the folder."""
    base = BASE.replace(LAW, "{kind: trace, file: a.csv}")
    (folder / "measured.yaml").write_text(base + f"sweep:\n  {block}\n  most_replications: 2\n")
    return "measured.yaml"


@pytest.mark.parametrize("block", [LATENCIES, DISTRIBUTIONS])
def test_the_same_from_everywhere(
    folder: Path, monkeypatch: pytest.MonkeyPatch, block: str
) -> None:
    name = written(folder, block)
    monkeypatch.chdir(folder)
    here = sha256(varsim("sweep", name, "--out", "../here", "--no-plots"))
    monkeypatch.chdir("../elsewhere")
    assert (
        sha256(varsim("sweep", Path("..", "given", name), "--out", "../there", "--no-plots"))
        == here
    )
    assert Path("../here/sweep.yaml").read_bytes() == Path("../there/sweep.yaml").read_bytes()
    for file in folder.rglob("*.csv"):
        file.unlink()
    assert sha256(varsim("sweep", "../here/sweep.yaml", "--out", "../again", "--no-plots")) == here
    assert Path("../here/sweep.yaml").read_bytes() == Path("../again/sweep.yaml").read_bytes()


@pytest.mark.parametrize(
    "options",
    [[], ["--set", "cluster.compute.file=a.csv,more/b.csv"]],
    ids=["in the file", "on the command line"],
)
def test_the_name_of_the_file_alone_is_not_varied(folder: Path, options: list[str]) -> None:
    block = LATENCIES if options else "cluster.compute.file: [a.csv, more/b.csv]"
    refused = varsim("check", folder / written(folder, block), *options)
    assert refused.exit_code == 2
    line, *_ = refused.stderr.splitlines()
    assert line.endswith(
        "error: cluster.compute.file is not varied: its times are kept with the sweep; vary the "
        "whole distribution, [{kind: trace, file: a.csv}, {kind: trace, file: b.csv}]"
    )


def test_another_file_is_read_where_times_were_kept(folder: Path) -> None:
    plain = folder / "plain.yaml"
    plain.write_text(BASE.replace(LAW, "{kind: trace, file: a.csv, seconds: [[0.5]]}"))
    assert "A batch takes 500 ms" in varsim("check", plain).stdout
    changed = varsim("check", plain, "--set", "cluster.compute.file=more/b.csv")
    assert "A batch takes 210 ms" in changed.stdout, changed.output
    missing = varsim("check", plain, "--set", "cluster.compute.file=nothing.csv")
    assert missing.exit_code == 2
    assert "there is no such file" in missing.stderr
