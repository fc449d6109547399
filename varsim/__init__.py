"""varsim: how distributed training keeps its variables in sync, simulated on real values.

>>> import varsim
>>> result = varsim.run("scenarios/quickstart.yaml", jobs=2)  # doctest: +SKIP
>>> result.summary  # doctest: +SKIP

`load` gives the scenario of a file, a text or a dict, or the sweep or plan that it asks for;
`replace` gives the same with other values. `run`, `check`, `explain`, `sweep`, `plan` and `tune` do
what the commands of these names do, and return what came of it, which can be saved; `read` has
what was saved; `compare` has scenarios, or results, side by
side; `calibrate` makes measured files part of a scenario; `tell` has what a result comes to as
data; `register` makes strategies and other parts of your own known to scenarios. `varsim.tf` has
TensorFlow's API.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from varsim.calibration.fragment import calibrate as calibrate
    from varsim.report.files.read import read as read
    from varsim.report.tell import tell as tell
    from varsim.scenario.extensions import register as register
    from varsim.scenario.fault import ScenarioError as ScenarioError
    from varsim.scenario.training import Scenario as Scenario
    from varsim.study.comparison import compare as compare
    from varsim.study.experiment import check as check
    from varsim.study.experiment import explain as explain
    from varsim.study.experiment import load as load
    from varsim.study.experiment import plan as plan
    from varsim.study.experiment import run as run
    from varsim.study.experiment import sweep as sweep
    from varsim.study.experiment import tune as tune
    from varsim.version import __version__ as __version__

# Where each public name lives: imported on first use, so that `import varsim` costs nothing.
_HOMES = {
    "Scenario": "varsim.scenario.training",
    "ScenarioError": "varsim.scenario.fault",
    "calibrate": "varsim.calibration.fragment",
    "check": "varsim.study.experiment",
    "compare": "varsim.study.comparison",
    "explain": "varsim.study.experiment",
    "load": "varsim.study.experiment",
    "plan": "varsim.study.experiment",
    "read": "varsim.report.files.read",
    "register": "varsim.scenario.extensions",
    "run": "varsim.study.experiment",
    "sweep": "varsim.study.experiment",
    "tell": "varsim.report.tell",
    "tune": "varsim.study.experiment",
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
