"""What is installed from the wheel: it has every file, and everything starts where there is no checkout.

The wheel is made of what a container's build sees (.dockerignore). Its environment takes the dependencies from the one
of the tests, so that nothing is downloaded.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import urllib.request
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from fnmatch import fnmatch
from importlib.metadata import version
from pathlib import Path

import pyarrow
import pytest

from tests.server import ROOT

LIMIT = 240  # seconds of one command on a loaded machine
LEFT_OUT = ("shoal/console/web/*",)  # sources of the console's page; what is made of them is packed


def context(to: Path) -> Path:
    """What .dockerignore lets into the build."""
    lines = (ROOT / ".dockerignore").read_text().split()
    assert lines[0] == "*"
    for name in (line[1:] for line in lines if line.startswith("!")):
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, to / name, ignore=shutil.ignore_patterns("__pycache__", "node_modules"))
        else:
            shutil.copy(source, to / name)
    return to


def files_of_packages() -> set[str]:
    """Every file of the packages that pyproject.toml names, as the wheel is to have it."""
    found = set()
    patterns = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]["find"]["include"]
    for package in ROOT.iterdir():
        if not (package / "__init__.py").exists() or not any(fnmatch(package.name, pattern) for pattern in patterns):
            continue
        for path in package.rglob("*"):
            if path.is_file() and not {"__pycache__", "node_modules"} & set(path.parts):
                found.add(str(path.relative_to(ROOT)))
    return {name for name in found if not any(fnmatch(name, pattern) for pattern in LEFT_OUT)}


def missing(wheel: Path) -> set[str]:
    """The files that the wheel lacks."""
    with zipfile.ZipFile(wheel) as archive:
        return files_of_packages() - set(archive.namelist())


def built(source: Path, to: Path) -> Path:
    """The wheel of a source tree. With a setuptools that is too old to make one here, pip gets a newer one."""
    here = tuple(int(part) for part in version("setuptools").split(".")[:2]) >= (70, 1)
    isolation = ["--no-build-isolation"] if here else []
    command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", *isolation, "-w", str(to), str(source)]
    subprocess.run(command, check=True, timeout=LIMIT)
    (wheel,) = to.glob("shoal-*.whl")
    return wheel


def apart() -> dict[str, str]:
    """The environment of commands that must not see the checkout: tests of Spark put it on PYTHONPATH."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(context(tmp_path_factory.mktemp("source")), tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of commands of an environment that has the wheel, and dependencies by a .pth file."""
    home = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(home)], check=True, timeout=LIMIT)
    commands = home / "bin"
    pip = [
        sys.executable,
        "-m",
        "pip",
        "--python",
        str(commands / "python"),
        "install",
        "-q",
        "--no-deps",
        "--no-index",
    ]
    # Where no checkout lies: pip would find its own description of the package there, and have nothing to do.
    subprocess.run([*pip, str(wheel)], check=True, timeout=LIMIT, cwd=home, env=apart())
    packages = home / "lib" / f"python{sysconfig.get_python_version()}" / "site-packages"
    (packages / "dependencies.pth").write_text(str(Path(pyarrow.__file__).parents[1]) + "\n")
    return commands


def attempt(command: list[str], cwd: Path) -> subprocess.CompletedProcess[str]:
    """A command, run where there is no checkout."""
    return subprocess.run(command, cwd=cwd, env=apart(), capture_output=True, text=True, timeout=LIMIT, check=False)


def run(command: list[str], cwd: Path) -> str:
    """What a command prints that succeeds."""
    done = attempt(command, cwd)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_wheel_has_every_file_of_the_packages(wheel: Path) -> None:
    assert missing(wheel) == set()
    assert len(files_of_packages()) > 600


def test_a_file_that_is_left_out_is_noticed(wheel: Path, tmp_path: Path) -> None:
    less = tmp_path / wheel.name
    gone = "catalog/data/extensions/pg_type.tsv"
    with zipfile.ZipFile(wheel) as whole, zipfile.ZipFile(less, "w") as archive:
        for name in whole.namelist():
            if name != gone:
                archive.writestr(name, whole.read(name))
    assert missing(less) == {gone}


def test_the_packages_come_from_the_wheel(installed: Path, tmp_path: Path) -> None:
    names = ["catalog", "engine", "replication", "shoal", "shoal_spark", "shoal_sqlglot", "sqllogictest", "wire"]
    program = f"import sys; import {', '.join(names)}\nfor n in {names}: print(sys.modules[n].__file__)"
    places = run([str(installed / "python"), "-c", program], tmp_path).split()
    assert len(places) == len(names)
    assert all(place.startswith(str(installed.parent)) for place in places)


def test_the_library_opens_a_directory(installed: Path, tmp_path: Path) -> None:
    statement = "SELECT sum(n) FROM generate_series(1, 9) n"
    program = f"import shoal\nwith shoal.open('d') as db: print(db.execute('{statement}').fetchone())"
    assert "45" in run([str(installed / "python"), "-c", program], tmp_path)


@contextmanager
def serving(installed: Path, cwd: Path) -> Iterator[dict[str, str]]:
    """`shoal serve`, and what its first line says."""
    command = [str(installed / "shoal"), "serve", "--data", "d", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"]
    process = subprocess.Popen(
        [*command, "--json"], cwd=cwd, env=apart(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None and process.stderr is not None
    try:
        line = process.stdout.readline()
        assert line, process.stderr.read()
        yield json.loads(line)
        process.terminate()
        assert process.wait(LIMIT) == 0
    finally:
        process.kill()
        process.communicate()


def test_a_server_its_console_and_its_prompt(installed: Path, tmp_path: Path) -> None:
    with serving(installed, tmp_path) as said:
        dsn, admin = said["ready"], said["administration"]
        statement = "SELECT count(*) > 100 AS many FROM pg_type"
        assert json.loads(run([str(installed / "shoal"), "sql", "--dsn", dsn, "--json", statement], tmp_path)) == {
            "many": True
        }
        run([str(installed / "shoal"), "sql", "--dsn", dsn, "CREATE EXTENSION citext"], tmp_path)
        with urllib.request.urlopen(f"{admin}/", timeout=LIMIT) as answer:
            parts = re.findall(r'(?:src|href)="(/[^"]+)"', answer.read().decode())
        assert len(parts) >= 3  # its code, its style, its icon
        for part in parts:
            with urllib.request.urlopen(admin + part, timeout=LIMIT) as answer:
                assert answer.read(), part


OWN = {"engine.py": "x = 1", "wire.py": "x = 1", "catalog/__init__.py": "x = 1", "replication/__init__.py": ""}


@pytest.mark.parametrize("name", OWN)
def test_a_program_s_own_module_of_such_a_name(installed: Path, tmp_path: Path, name: str) -> None:
    """Beside the script it comes before what is installed."""
    own = tmp_path / name
    own.parent.mkdir(exist_ok=True)
    own.write_text(OWN[name])
    module = name.removesuffix(".py").removesuffix("/__init__")
    work = "import shoal\nwith shoal.open('d') as db: print(db.execute('SELECT 5 * 9').fetchone())"
    script = tmp_path / "app.py"
    script.write_text(work)
    python = str(installed / "python")
    warned = attempt([python, str(script)], tmp_path)
    assert warned.returncode == 0 and "45" in warned.stdout
    assert f'"{module}" is the name of a package of Shoal' in warned.stderr and str(own) in warned.stderr
    script.write_text(f"import {module}\n{work}")
    done = attempt([python, str(script)], tmp_path)
    assert done.returncode == 1
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith(f'ImportError: Shoal needs its own package "{module}"') and str(own) in last


def test_a_folder_of_data_is_no_module(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "catalog").mkdir()
    (tmp_path / "catalog" / "items.csv").write_text("1")
    program = "import shoal, catalog, engine\nprint(catalog.__file__)"
    assert str(installed.parent) in run([str(installed / "python"), "-W", "error", "-c", program], tmp_path)
