"""What an application is, and how those of each language are installed and driven.

An application is installed once into a folder of the cache (`$XDG_CACHE_HOME/shoal-tests/applications`). It is
installed again when its packages change. Its program is copied beside its packages, and runs with PGHOST, PGPORT,
PGUSER, PGDATABASE and DATABASE_URL set, in an empty directory; it fails by its exit status.
"""

from __future__ import annotations

import hashlib
import os
import pathlib
import shutil
import subprocess
import sys
import venv
from dataclasses import dataclass, field
from typing import Protocol

PROGRAMS = pathlib.Path(__file__).parent / "programs"
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache")) / "shoal-tests" / "applications"
INSTALL_SECONDS = 1500.0
DRIVE_SECONDS = 300.0
SHOWN = 1500  # characters of what a failed program printed


class NotInstalled(Exception):  # noqa: N818 - an application that cannot be had here counts as not run
    """Why the application cannot run on this machine."""


class Failed(Exception):  # noqa: N818 - named for the outcome
    """What failed."""


@dataclass(frozen=True, slots=True)
class Database:
    """The server that an application uses alone."""

    port: int
    host: str = "127.0.0.1"
    user: str = "postgres"
    name: str = "postgres"

    @property
    def environment(self) -> dict[str, str]:
        """How programs are told."""
        return {
            "PGHOST": self.host,
            "PGPORT": str(self.port),
            "PGUSER": self.user,
            "PGDATABASE": self.name,
            "DATABASE_URL": f"postgresql://{self.user}@{self.host}:{self.port}/{self.name}",
            "PYTHONPATH": "",
            "TZ": "UTC",
        }


class Application(Protocol):
    """`version` is that of the application itself, as the registry names it."""

    name: str
    version: str

    def install(self) -> pathlib.Path:
        """The folder that it is installed in. Raises NotInstalled."""

    def drive(self, place: pathlib.Path, database: Database, directory: pathlib.Path) -> None:
        """Uses it as a user would; `directory` is empty. Raises Failed."""


def run(command: list[str], directory: pathlib.Path, seconds: float, environment: dict[str, str]) -> str:
    """What the command printed. Raises Failed with the end of it when the command fails or takes too long."""
    settings = {**os.environ, **environment}
    try:
        done = subprocess.run(
            command, cwd=directory, env=settings, capture_output=True, text=True, timeout=seconds, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise Failed(f"{command[0]} did not end within {error.timeout:.0f} s") from None
    output = done.stdout + done.stderr
    if done.returncode:
        raise Failed(output[-SHOWN:].strip() or f"{command[0]} ended with status {done.returncode}")
    return output


def install_once(
    name: str, wanted: str, tools: tuple[str, ...], commands: list[list[str]], source: pathlib.Path | None = None
) -> pathlib.Path:
    """The folder of what `commands` install, run in it once for each text `wanted`. `source`: a folder with what they
    build, copied before. Raises NotInstalled."""
    for tool in tools:
        if shutil.which(tool) is None:
            raise NotInstalled(f"{tool} is not on this machine")
    if source is not None:
        wanted += "".join(file.read_text() for file in sorted(source.iterdir()))
    place = CACHE / f"{name}-{hashlib.sha256(wanted.encode()).hexdigest()[:12]}"
    installed = place / ".installed"
    if not installed.exists():
        place.mkdir(parents=True, exist_ok=True)
        if source is not None:
            copy_programs(source, place)
        print(f"installing {name}", file=sys.stderr, flush=True)
        for command in commands:
            try:
                run(command, place, INSTALL_SECONDS, {"npm_config_nodedir": "/usr"})
            except Failed as error:
                raise NotInstalled(f"cannot install it here: {str(error)[-300:]}") from None
        installed.write_text(wanted)
    return place


def copy_programs(source: pathlib.Path, place: pathlib.Path) -> None:
    """The files that drive the application, beside its packages."""
    shutil.copytree(source, place, dirs_exist_ok=True)


@dataclass(frozen=True)
class NodeApplication:
    """`packages`: what npm installs. The program is index.mjs in its folder of `programs`."""

    name: str
    version: str
    packages: tuple[str, ...]
    scripts: bool = False  # whether the packages' install scripts run
    seconds: float = DRIVE_SECONDS

    def install(self) -> pathlib.Path:
        """See Application."""
        packages = [f"{self.name}@{self.version}", *self.packages]
        command = ["npm", "install", "--no-audit", "--no-fund", "--no-package-lock"]
        command += [] if self.scripts else ["--ignore-scripts"]
        return install_once(
            self.name, " ".join(packages), ("node", "npm"), [["npm", "init", "--yes"], [*command, *packages]]
        )

    def drive(self, place: pathlib.Path, database: Database, directory: pathlib.Path) -> None:
        """See Application."""
        copy_programs(PROGRAMS / self.name, place)
        work = place / "work"  # Node resolves packages from the file that imports them: migrations are written here
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir()
        run(["node", str(place / "index.mjs")], work, self.seconds, database.environment)


@dataclass(frozen=True)
class PythonApplication:
    """`packages`: what pip installs beside it. The program is main.py in its folder of `programs`."""

    name: str
    version: str
    packages: tuple[str, ...] = ()
    extra: str = ""
    seconds: float = DRIVE_SECONDS
    environment: dict[str, str] = field(default_factory=dict)

    def install(self) -> pathlib.Path:
        """See Application."""
        packages = [f"{self.name}{self.extra}=={self.version}", *self.packages]
        wanted = " ".join(packages)
        python = str(pathlib.Path("venv") / "bin" / "python")
        commands = [
            [sys.executable, "-m", venv.__name__, "--clear", "venv"],
            [python, "-m", "pip", "install", "-q", "--disable-pip-version-check", *packages],
        ]
        return install_once(self.name, wanted, (), commands)

    def drive(self, place: pathlib.Path, database: Database, directory: pathlib.Path) -> None:
        """See Application."""
        copy_programs(PROGRAMS / "python", directory)
        copy_programs(PROGRAMS / self.name, directory)
        python = place / "venv" / "bin" / "python"
        settings = {
            **database.environment,
            "PATH": f"{python.parent}{os.pathsep}{os.environ['PATH']}",
            "HOME": str(directory),
            **self.environment,
        }
        run([str(python), "main.py"], directory, self.seconds, settings)


@dataclass(frozen=True)
class MavenApplication:
    """Its folder of `programs` has a pom.xml with its dependencies, and Main.java."""

    name: str
    version: str
    seconds: float = DRIVE_SECONDS

    def install(self) -> pathlib.Path:
        """See Application."""
        commands = [
            ["mvn", "-q", "-B", "dependency:copy-dependencies", "-DoutputDirectory=lib"],
            ["javac", "-nowarn", "-cp", "lib/*", "-d", "classes", "Main.java"],
        ]
        tools = ("mvn", "javac", "java")
        return install_once(self.name, self.version, tools, commands, PROGRAMS / self.name)

    def drive(self, place: pathlib.Path, database: Database, directory: pathlib.Path) -> None:
        """See Application."""
        path = os.pathsep.join([str(place / "classes"), str(place), f"{place / 'lib'}/*"])
        run(["java", "-cp", path, "Main"], directory, self.seconds, database.environment)


@dataclass(frozen=True)
class GoApplication:
    """Its folder of `programs` has main.go. `modules`: what it imports, with versions."""

    name: str
    version: str
    modules: tuple[str, ...]
    seconds: float = DRIVE_SECONDS

    def install(self) -> pathlib.Path:
        """See Application."""
        commands = [["go", "mod", "init", "driven"], ["go", "get", *self.modules], ["go", "build", "-o", "driven", "."]]
        return install_once(self.name, " ".join(self.modules), ("go",), commands, PROGRAMS / self.name)

    def drive(self, place: pathlib.Path, database: Database, directory: pathlib.Path) -> None:
        """See Application."""
        run([str(place / "driven")], directory, self.seconds, database.environment)
