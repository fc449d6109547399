"""The scenarios that come with varsim: each is run by its name, from anywhere."""

from pathlib import Path
from typing import Final

_PACKAGE: Final = Path(__file__).parents[1]
# Inside an installed package; beside it in a checkout.
_FOLDERS: Final = (_PACKAGE / "data" / "scenarios", _PACKAGE.parent / "scenarios")


def bundled() -> dict[str, Path]:
    """Name of each -> its file."""
    folder = next((one for one in _FOLDERS if one.is_dir()), _FOLDERS[0])
    return {file.stem: file for file in sorted(folder.glob("*.yaml"))}


def located(path: Path) -> Path:
    """The file that is meant: what is there, or the bundled scenario of this name."""
    if path.name != str(path) or path.suffix or path.exists():
        return path
    return bundled().get(path.name, path)
