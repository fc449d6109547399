"""varsim: how distributed training keeps its variables in sync, simulated on real values.

>>> import varsim
>>> result = varsim.run("scenarios/quickstart.yaml", jobs=2)  # doctest: +SKIP
>>> result.summary  # doctest: +SKIP

`load` reads a file, a text or a dict into an experiment of training, of variables, or a sweep or
plan; `run`, `sweep`, `plan` and `explain` do what the commands of these names do, and return what
came of it; `compare` has two results side by side; `calibrate` makes measured files part of a
scenario; `tell` has what a result comes to as data; `register` makes strategies and other parts of
your own known to scenarios.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from varsim.calibration.fragment import calibrate as calibrate
    from varsim.cluster.workers.job import DeadlockError as DeadlockError
    from varsim.report.tell import tell as tell
    from varsim.scenario.extensions import register as register
    from varsim.scenario.fault import ScenarioError as ScenarioError
    from varsim.scenario.loading import load_scenario as load_scenario
    from varsim.scenario.training import Scenario as Scenario
    from varsim.scenario.variables import VariablesScenario as VariablesScenario
    from varsim.study.experiment import compare as compare
    from varsim.study.experiment import explain as explain
    from varsim.study.experiment import load as load
    from varsim.study.experiment import plan as plan
    from varsim.study.experiment import run as run
    from varsim.study.experiment import sweep as sweep
    from varsim.study.program import VariablesResult as VariablesResult
    from varsim.study.program import simulate_variables as simulate_variables
    from varsim.study.result import Result as Result
    from varsim.study.result import simulate as simulate
    from varsim.version import __version__ as __version__

# Where each public name lives: imported on first use, so that `import varsim` costs nothing.
_HOMES = {
    "DeadlockError": "varsim.cluster.workers.job",
    "Result": "varsim.study.result",
    "Scenario": "varsim.scenario.training",
    "ScenarioError": "varsim.scenario.fault",
    "VariablesResult": "varsim.study.program",
    "VariablesScenario": "varsim.scenario.variables",
    "calibrate": "varsim.calibration.fragment",
    "compare": "varsim.study.experiment",
    "explain": "varsim.study.experiment",
    "load": "varsim.study.experiment",
    "load_scenario": "varsim.scenario.loading",
    "plan": "varsim.study.experiment",
    "register": "varsim.scenario.extensions",
    "run": "varsim.study.experiment",
    "simulate": "varsim.study.result",
    "simulate_variables": "varsim.study.program",
    "sweep": "varsim.study.experiment",
    "tell": "varsim.report.tell",
    "__version__": "varsim.version",
}

__all__ = list(_HOMES)


def __getattr__(name: str) -> object:
    """The public name, from the module it lives in."""
    if name not in _HOMES:
        raise AttributeError(f"module 'varsim' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__} - {"TYPE_CHECKING", "import_module", "_HOMES"})
