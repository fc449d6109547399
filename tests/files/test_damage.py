"""A damaged run is known as one of ours, and replaced when it is made again."""

from pathlib import Path

from tests.handmade import a_result


def test_a_damaged_run_is_replaced_when_it_is_run_again(tmp_path: Path) -> None:
    there = tmp_path / "run"
    a_result({"a": (1, 2), "none": (2, 3)}).save(there)
    text = (there / "summary.json").read_text()
    (there / "summary.json").write_text(text[: len(text) // 2])
    a_result().save(there)
    assert '"strategy": "a"' not in (there / "summary.json").read_text()
