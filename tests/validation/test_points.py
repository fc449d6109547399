"""Points of closed forms: which are known, how files are read, how lines are judged."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.validation.points import POINT, point, with_unit
from validation.finding import Section, Verdict
from validation.points.estimate import FAMILIES, Estimate, Measured
from validation.points.findings import OUT_OF_SCOPE, findings
from validation.points.point import PointFileError, bundled_points, read_points
from validation.points.scenario import SEED

POINTS = [point for path in bundled_points() for point in read_points(path)]


def test_the_seed_of_a_point_is_none_of_what_comes_after() -> None:
    before = SEED.get()
    one, *_ = bundled_points()
    findings(read_points(one)[:1])
    assert SEED.get() == before


def test_every_family_is_known() -> None:
    assert {p.family for p in POINTS} == {*FAMILIES, *OUT_OF_SCOPE}
    assert not set(FAMILIES) & set(OUT_OF_SCOPE)
    assert len(POINTS) == 364


class TestFiles:
    def test_a_family_that_is_not_known_is_listed(self, tmp_path: Path) -> None:
        path = with_unit(tmp_path, point(), point(id="new-01", family="new", parameters={"x": 1}))
        told = {one.name: one for one in findings(read_points(path))}

        assert told["slow-worker-02"].verdict is Verdict.PASS
        assert told["slow-worker-02"].got == 7.25
        assert told["new-01"].verdict is Verdict.NOT_RUN
        assert told["new-01"].why == "a family that is not known"

    @pytest.mark.parametrize(
        ("changes", "problem"),
        [
            ({"id": None}, "id must be a text"),
            ({"expected": "much"}, "expected must be a number"),
            ({"expected": True}, "expected must be a number"),
            ({"expected": [1.0, 2.0]}, "expected has 2 numbers"),
            ({"tolerance_kind": "good"}, "tolerance_kind must be one of sim, det, num, asy"),
            ({"parameters": [1]}, "parameters must be an object"),
            ({"parameters": {"mode": "async", "n": 8, "T": 1.0}}, "parameters.f is missing"),
            (
                {"parameters": {**POINT["parameters"], "speed": 2}},
                "parameters.speed: the family has no such parameter",
            ),
            ({"parameters": {**POINT["parameters"], "n": 8.5}}, "parameters.n must be a whole"),
            ({"parameters": {**POINT["parameters"], "T": "1"}}, "parameters.T must be a number"),
        ],
        ids=repr,
    )
    def test_a_point_that_makes_no_sense_is_one_line(
        self, tmp_path: Path, changes: dict[str, Any], problem: str
    ) -> None:
        path = with_unit(tmp_path, point(id="fine"), point(**changes))
        with pytest.raises(PointFileError) as raised:
            read_points(path)

        (line,) = str(raised.value).splitlines()
        assert line.startswith(f"{path}: point 2")
        assert problem in line

    def test_two_points_of_one_name(self, tmp_path: Path) -> None:
        with pytest.raises(PointFileError, match="its id is that of another point"):
            read_points(with_unit(tmp_path, point(), point()))

    @pytest.mark.parametrize("text", ["{", "{}", "[]", "7"])
    def test_no_list_of_points(self, tmp_path: Path, text: str) -> None:
        path = tmp_path / "points.json"
        path.write_text(text)
        with pytest.raises(PointFileError, match=r"points\.json: "):
            read_points(path)


class TestVerdicts:
    """A family whose measure is given."""

    def lines(
        self, monkeypatch: pytest.MonkeyPatch, got: Estimate, points: int = 1, **changes: Any
    ) -> list[Any]:
        def measure(mode: str, n: int, T: float, f: float) -> Measured:  # noqa: N803
            return {"": got}

        monkeypatch.setitem(FAMILIES, "slow-worker", measure)
        text = [point(id=f"p-{number}", **changes) for number in range(points)]
        path = Path("points.json")
        path.write_text(json.dumps(text))
        return findings(read_points(path))

    @pytest.fixture(autouse=True)
    def _elsewhere(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)

    @pytest.mark.parametrize(
        ("kind", "off", "verdict"),
        [
            ("det", 5e-10, "pass"),
            ("det", 2e-9, "miss"),
            ("num", 5e-7, "pass"),
            ("num", 2e-6, "miss"),
        ],
    )
    def test_what_is_not_random(
        self, monkeypatch: pytest.MonkeyPatch, kind: str, off: float, verdict: str
    ) -> None:
        (line,) = self.lines(
            monkeypatch, Estimate(100 * (1 + off)), expected=100.0, tolerance_kind=kind
        )
        assert line.verdict == verdict

    @pytest.mark.parametrize(
        ("got", "half", "verdict"),
        [(100.3, 0.4, "pass"), (100.5, 0.4, "miss"), (100.3, 0.6, "miss")],
    )
    def test_what_is_random(
        self, monkeypatch: pytest.MonkeyPatch, got: float, half: float, verdict: str
    ) -> None:
        line, *_ = self.lines(
            monkeypatch, Estimate(got, half), expected=100.0, tolerance_kind="sim"
        )
        assert line.verdict == verdict
        assert (line.why == "") == (verdict == "pass")

    def test_one_random_miss_in_fifty_is_chance_and_two_are_not(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        good = self.lines(monkeypatch, Estimate(100.0, 0.4), points=99, expected=100.0)
        (bad, *_) = self.lines(monkeypatch, Estimate(101.0, 0.4), expected=100.0)
        section = Section("s", "s", "", "", [*good[:49], bad])

        assert section.broken() == []
        assert section._replace(findings=[*good[:49], bad, bad]).broken() == [bad, bad]

    def test_a_family_that_leans_to_one_side_misses(self, monkeypatch: pytest.MonkeyPatch) -> None:
        # Every line inside, all on the same side: 0.8 * 2.58 * sqrt(20) = 9.2 standard errors.
        *lines, share, lean = self.lines(
            monkeypatch, Estimate(100.32, 0.4), points=20, expected=100.0
        )
        assert {one.verdict for one in lines} == {Verdict.PASS}
        assert share.verdict is Verdict.PASS
        assert lean.verdict is Verdict.MISS
        assert lean.got == pytest.approx(9.2153, abs=1e-3)
