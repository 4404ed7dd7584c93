"""Test a built wheel, not the source tree: `make test-wheel`.

test_wheel.py WHEEL        install it into an empty environment; run the demo and the unit tests
test_wheel.py --installed  run the unit tests with the package that this Python has installed
test_wheel.py --engine     check that this Python's package brings the native engine, and that it can be loaded
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
COPIED = ("tests", "pyproject.toml")  # pyproject.toml contains the options of pytest
# They run the scripts of bench/ or docs/hooks/, which are not part of a wheel.
NEED_SOURCE_TREE = (
    "tests/unit/lab/test_bench.py",
    "tests/unit/lab/test_bench_quality.py",
    "tests/unit/lab/test_preparing.py",
    "tests/compat/test_public_api.py",
)
ENGINE = "from glassformer.engine.library import library; print(library()._name)"
# The only variables that the empty environment takes over, with those that begin with one of the prefixes: pip's say
# where packages come from, pytest's in how many processes the tests run.
KEPT = ("PATH", "SYSTEMROOT", "TEMP", "TMP", "OMP_NUM_THREADS", "CC")
KEPT_PREFIXES = ("PIP_", "PYTEST_")


def run(*command: str | Path, folder: Path, environment: dict[str, str] | None = None) -> None:
    print("$", *command, flush=True)
    subprocess.run(list(map(str, command)), cwd=folder, env=environment, check=True)


def packaged_engine(folder: Path) -> None:
    """Check that the engine is part of the package: without a compiler and a cache folder, no other can be loaded."""
    environment = os.environ | {"CC": "no-compiler", "XDG_CACHE_HOME": str(folder / "no-cache")}
    run(sys.executable, "-c", ENGINE, folder=folder, environment=environment)


def unit_tests(python: Path, folder: Path, environment: dict[str, str] | None = None) -> None:
    """Run a copy of the unit tests, next to which there is no source tree."""
    for name in COPIED:
        (shutil.copytree if (ROOT / name).is_dir() else shutil.copyfile)(ROOT / name, folder / name)
    processes = ("--numprocesses", "auto", "--maxprocesses", "4", "--dist", "worksteal")
    tests = ("-m", "pytest", "-q", *processes, "tests/unit", "tests/compat")
    ignored = (f"--ignore={path}" for path in NEED_SOURCE_TREE)
    run(python, *tests, *ignored, folder=folder, environment=environment)


def empty_environment(folder: Path) -> tuple[Path, dict[str, str]]:
    """Make a virtual environment and a home folder; return the folder of its commands, and its variables."""
    venv.create(folder / "venv", with_pip=True)
    home = folder / "home"
    home.mkdir()
    variables = {name: os.environ[name] for name in os.environ if name in KEPT or name.startswith(KEPT_PREFIXES)}
    commands = folder / "venv" / ("Scripts" if os.name == "nt" else "bin")
    return commands, variables | {"HOME": str(home), "USERPROFILE": str(home), "PYTHONUTF8": "1"}


def whole_wheel(wheel: Path, folder: Path) -> None:
    """Install the wheel alone and run the demo; install what the tests need and run them."""
    commands, environment = empty_environment(folder)
    install = (commands / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
    install = (*install, "-c", ROOT / "constraints.txt")
    work = folder / "work"
    work.mkdir()
    run(*install, wheel, folder=work, environment=environment)
    run(commands / "glassformer", "demo", folder=work, environment=environment)
    run(*install, f"{wheel}[test]", folder=work, environment=environment)
    unit_tests(commands / "python", work, environment)


def main(arguments: list[str]) -> None:
    if len(arguments) != 1:
        sys.exit(__doc__)
    with tempfile.TemporaryDirectory() as folder:
        if arguments == ["--engine"]:
            packaged_engine(Path(folder))
        elif arguments == ["--installed"]:
            unit_tests(Path(sys.executable), Path(folder))
        else:
            whole_wheel(Path(arguments[0]).resolve(), Path(folder))


if __name__ == "__main__":
    main(sys.argv[1:])
