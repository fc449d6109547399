"""Failures that were recorded: what is read from a file, and what it cannot mean."""

import json
import math
import re
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from tests.building import scenario
from tests.lives import MORTAL
from tests.seams import dump_scenario, load_scenario, load_text
from tests.strategies.test_by_hand import BASE, merged
from varsim import Scenario, ScenarioError

DAY = 86_400.0
LINKS_OF_RACKS = {"bandwidth": "1 GB/s", "latency": "0 s", "oversubscription": 1}


def from_file(text: str, folder: Path, **given: Any) -> Any:
    """The failures of three workers that are recorded in a file."""
    (folder / "failed.csv").write_text(text)
    case = {
        "strategies": [{"kind": "on_write"}],
        "cluster": {"network": {**LINKS_OF_RACKS, "kind": "racks", "hosts_per_rack": 2}},
        "failures": {"horizon": "3 d", "recorded": {"file": "failed.csv", **given}},
    }
    file = folder / "case.yaml"
    file.write_text(json.dumps(merged(BASE, case)))
    made = load_scenario(file)
    assert isinstance(made, Scenario)
    assert made.failures is not None
    assert load_text(dump_scenario(made)) == made, "what was read is all that is needed afterwards"
    return made.failures.recorded


STEPFUN = "node,start_day,end_day,level,class,description\n"


def test_recorded_failures_are_read_from_a_file(tmp_path: Path) -> None:
    found = from_file("seconds,domain,member\n30,worker,0\n 7.5 , rack, 1\n", tmp_path)
    assert found.failures == ((30.0, "worker", 0), (7.5, "rack", 1))
    assert found.domains == ("worker", "rack")
    found = from_file("seconds,domain,member,until\n30,rack,1,50\n40,worker,0,\n", tmp_path)
    assert found.failures == ((30.0, "rack", 1, 50.0), (40.0, "worker", 0, None))


def test_a_table_of_servers_and_days_is_read_as_it_is(tmp_path: Path) -> None:
    lines = STEPFUN + '0,1.5,2.25,Hardware,GPU,"DBE, too many"\n2,2,,Network,NIC,down\n'
    found = from_file(lines, tmp_path)
    assert found.failures == ((1.5 * DAY, "worker", 0, 2.25 * DAY), (2 * DAY, "worker", 2, None))
    assert from_file(lines, tmp_path, domain="link").domains == ("link",)
    later = from_file(lines, tmp_path, since=f"{1.75 * DAY} s")
    assert later.played == ((0.25 * DAY, "worker", 2, math.inf),)


SIMPLE = "seconds,domain,member\n"


@pytest.mark.parametrize(
    ("text", "given", "why"),
    [
        (SIMPLE + "3,worker", {}, "line 2: 2 values where seconds,domain,member are three"),
        (SIMPLE + "1,worker,0\nsoon,rack,1", {}, "line 3: 'soon' is not a number of seconds"),
        (SIMPLE + "0,worker,1", {}, "line 2: seconds must be above 0 and finite, not 0"),
        (SIMPLE + "1,disk,1", {}, "line 2: domain must be one of worker, node, rack, link, server"),
        (SIMPLE + "1,rack,-1", {}, "line 2: member must be a number from 0 up, not '-1'"),
        (SIMPLE + "1,rack,1\n\n2,rack,1", {}, "line 3 is empty: leave it out"),
        (SIMPLE, {}, "line 2: no failures after the header"),
        (SIMPLE + "30,worker,0\n40,worker,9", {}, "failed.csv, line 3: worker 9, but there are 3"),
        ("node,day\n1,2\n", {}, "line 1: the header must be seconds,domain,member (and until"),
        (STEPFUN + "0,2,1,a,b,c\n", {}, "line 2: it ended at 86400 s, and began at 172800 s"),
        (STEPFUN + "0,2,3,a,b,c\n", {"repair": "5 s"}, "repair has no effect: each failure says"),
        (STEPFUN + "0,2,3,a,b,c\n", {"since": "48 h"}, "since: no failure comes after 48"),
        (SIMPLE + "1,rack,0\n", {"domain": "worker"}, "domain has no effect"),
    ],
)
def test_what_a_record_cannot_mean_is_refused(
    text: str, given: dict[str, Any], why: str, tmp_path: Path
) -> None:
    with pytest.raises(ScenarioError, match=re.escape(why)):
        from_file(text, tmp_path, **given)


@pytest.mark.parametrize(
    ("recorded", "why"),
    [
        ({"failures": ((1.0, "worker", 0), (2.0, "worker", 0, 3.0))}, "either each has an end"),
        (
            {"failures": ((1.0, "rack", 0),), "domain": "rack"},
            "domain has no effect without file",
        ),
    ],
)
def test_ends_are_of_all_failures_or_of_none(recorded: dict[str, Any], why: str) -> None:
    case = {**MORTAL, "failures": {"horizon": 100.0, "recorded": recorded}}
    with pytest.raises(ValidationError, match=why):
        scenario({"kind": case.pop("strategy")}, **case)
