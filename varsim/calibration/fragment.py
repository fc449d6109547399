"""Measurements as a YAML fragment of a scenario, with errors of the fit as comments."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from varsim.calibration.compute_text import compute_part
from varsim.calibration.forms import Measurements, Options, read_files
from varsim.calibration.measurement import UnreadableError
from varsim.calibration.network_text import network_part, nodes_part


class Fragment(NamedTuple):
    """Lines of YAML, and the CSV of step times that they name, if they do."""

    lines: tuple[str, ...]
    csv: str | None = None


def fragment(
    measured: Measurements, size: float | None, beside: str | None, per_node: int | None = None
) -> Fragment:
    """A part of `cluster`: network and compute, whichever was measured.

    `size` (bytes): the messages for which the network is to be right, by default the largest
    measured. `per_node`: workers of a node, where the network is to be of kind nodes. `beside`: the
    name of a CSV that may be written beside the fragment; without one all is in the YAML. Of traces
    alone the network is left out where it cannot be fitted. Raises UnreadableError where nothing
    can be.
    """
    comments = list(measured.notes)
    yaml: list[str] = []
    csv = None
    if per_node is not None and size is not None:
        raise UnreadableError(["--size has no effect: links of nodes are right for all sizes"])
    if measured.transfers:
        try:
            if per_node is None:
                network = network_part(measured.transfers, size)
            else:
                network = nodes_part(measured.transfers, per_node)
        except UnreadableError as error:
            if size is not None or per_node is not None or not measured.traced:
                raise
            comments.append(f"network: left out: {error}")
        else:
            comments += network.comments
            yaml.append(network.yaml)
    elif size is not None:
        raise UnreadableError(["--size has no effect: no transfers were measured"])
    elif per_node is not None:
        raise UnreadableError(["--workers-per-node has no effect: no transfers were measured"])
    if measured.steps is not None:
        compute = compute_part(measured.steps, beside)
        comments += compute.comments
        yaml += compute.yaml
        csv = compute.csv
    lines = (*(f"# {line}" for line in comments), "cluster:", *(f"  {line}" for line in yaml))
    return Fragment(lines, csv)


def calibrate(
    files: Sequence[str | Path],
    options: Options | None = None,
    *,
    size: float | None = None,
    per_node: int | None = None,
) -> Fragment:
    """Fragment of `cluster` from measured files: nccl-tests, tables, traces, step times.

    `options`: what the files do not say. Otherwise as `fragment`; raises UnreadableError, and
    OSError where there is no such file.
    """
    paths = [Path(file) for file in files]
    measured = read_files(paths, Options() if options is None else options, lambda line: None)
    return fragment(measured, size, None, per_node)
