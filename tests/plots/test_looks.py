"""A hue belongs to a family of strategies; who does not see all colours tells them apart, too."""

from itertools import combinations

import numpy as np
import pytest
from numpy.typing import NDArray

from varsim.report.charts.looks import DARK, DASHES, MARKERS, PARTS, PHASES, SHADES, VAIN, looks
from varsim.strategies import STRATEGIES, family

# Full dichromacy: Machado, Oliveira and Fernandes, "A Physiologically-based Model for Simulation of
# Color Vision Deficiency" (2009), for linear RGB.
SEEN = {
    "by all": np.eye(3),
    "without red cones": np.array(
        [
            [0.152286, 1.052583, -0.204868],
            [0.114503, 0.786281, 0.099216],
            [-0.003882, -0.048116, 1.051998],
        ]
    ),
    "without green cones": np.array(
        [
            [0.367322, 0.860646, -0.227968],
            [0.280085, 0.672501, 0.047413],
            [-0.011820, 0.042940, 0.968881],
        ]
    ),
    "without blue cones": np.array(
        [
            [1.255528, -0.076749, -0.178779],
            [-0.078411, 0.930809, 0.147602],
            [0.004733, 0.691367, 0.303900],
        ]
    ),
}


def oklab(color: str, seen: str = "by all") -> NDArray[np.float64]:
    """A colour in OKLab (Ottosson, 2020), in hundredths: equal distances look equally large."""
    rgb = np.array([int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    cones = np.array(
        [
            [0.4122214708, 0.5363325363, 0.0514459929],
            [0.2119034982, 0.6806995451, 0.1073969566],
            [0.0883024619, 0.2817188376, 0.6299787005],
        ]
    ) @ np.clip(SEEN[seen] @ linear, 0, 1)
    axes = np.array(
        [
            [0.2104542553, 0.7936177850, -0.0040720468],
            [1.9779984951, -2.4285922050, 0.4505937099],
            [0.0259040371, 0.7827717662, -0.8086757660],
        ]
    )
    found: NDArray[np.float64] = 100 * axes @ np.cbrt(cones)
    return found


@pytest.mark.parametrize("seen", SEEN)
@pytest.mark.parametrize("dark", [False, True])
def test_hues_of_families_are_apart(seen: str, dark: bool) -> None:
    hues = [shades[0] for shades in SHADES.values()]
    shown = [oklab(DARK.get(hue, hue) if dark else hue, seen) for hue in hues]
    assert min(np.linalg.norm(a - b) for a, b in combinations(shown, 2)) > 10


PAPERS: dict[str, dict[str, str]] = {"#ffffff": {}, DARK["#ffffff"]: DARK}


def contrast(color: str, paper: str) -> float:
    """The contrast ratio of WCAG 2.2."""

    def luminance(of: str) -> float:
        rgb = np.array([int(of[i : i + 2], 16) / 255 for i in (1, 3, 5)])
        linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
        return float(linear @ [0.2126, 0.7152, 0.0722]) + 0.05

    one, other = sorted((luminance(color), luminance(paper)))
    return other / one


def test_contrast_is_that_of_the_standard() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#767676", "#ffffff") == pytest.approx(4.54, abs=0.005), "least grey for text"


@pytest.mark.parametrize("variants", range(2, 9))
@pytest.mark.parametrize("name", SHADES)
def test_variants_of_a_family_are_told_apart(name: str, variants: int) -> None:
    """By hues that nobody else needs, as far as there are some."""
    found = [*looks({f"{name} {n}": name for n in range(variants)}).values()]
    assert found[0].color == SHADES[name][0]
    assert len({one.line for one in found[:6]}) == len(found[:6])
    assert len({one.mark for one in found}) == variants
    shown = [oklab(one.color) for one in found]
    assert min(np.linalg.norm(a - b) for a, b in combinations(shown, 2)) > 10


@pytest.mark.parametrize("paper", PAPERS)
@pytest.mark.parametrize("name", SHADES)
def test_shades_of_a_family_are_read_on_their_page(name: str, paper: str) -> None:
    shown = [PAPERS[paper].get(one, one) for one in SHADES[name]]
    # The hues of copies and of one alone, which are those of a published palette, have less.
    least = {("copies", "#ffffff"): 2.1, ("alone", "#ffffff"): 2.7}.get((name, paper), 3)
    assert contrast(shown[0], paper) > least
    assert all(contrast(one, paper) > 3 for one in shown[1:])
    light = [oklab(one)[0] for one in shown]
    assert abs(light[0] - light[1]) > 22
    assert min(abs(a - b) for a, b in combinations(light, 2)) > 15


def test_every_kind_has_a_family_and_the_hue_of_it() -> None:
    found = {kind: family(kind) for kind in STRATEGIES}
    assert set(found.values()) == set(SHADES)
    alike = {kind for kind, one in found.items() if one == "copies"}
    assert alike >= {"on_read", "local_sgd", "diloco", "easgd"}
    for kind, one in found.items():
        assert looks({kind: one})[kind].color == SHADES[one][0]


def test_variants_have_hues_that_are_free_then_shades_of_their_own() -> None:
    six = {f"ssp {bound}": "asynchronous" for bound in (0, 1, 2, 4, 8, 16)}
    found = looks({"on_write": "all-reduce", **six, "none": "asynchronous"})
    hues = [SHADES[one][0] for one in ("copies", "synchronous", "alone", "neighbours")]
    own = SHADES["asynchronous"]
    assert [found[name].color for name in six] == [own[0], *hues, own[1]]
    assert [found[name].line for name in six] == list(DASHES)
    assert [look.mark for look in found.values()] == list(MARKERS[:8])
    assert (found["none"].color, found["none"].line) == (own[2], DASHES[1])


def test_variants_of_two_families_differ_in_dash_as_their_darkest_shades_look_alike() -> None:
    kinds = ("backup_workers", "k_batch_sync", "k_async", "k_batch_async")
    found = looks({kind: family(kind) for kind in kinds})
    assert [found[kind].line for kind in kinds] == ["-", "--", "-", "-."]


@pytest.mark.parametrize("paper", PAPERS)
def test_what_workers_do_has_no_hue_of_a_family(paper: str) -> None:
    """No activity looks like a strategy, in light or dark."""
    dark = bool(PAPERS[paper])
    activities = {name: pair[dark] for name, pair in {**PHASES, "vain": VAIN, **PARTS}.items()}
    for family_name, shades in SHADES.items():
        hue = oklab(PAPERS[paper].get(shades[0], shades[0]))
        for name, color in activities.items():
            assert np.linalg.norm(hue - oklab(color)) > 10, (family_name, name)
