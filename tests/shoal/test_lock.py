"""requirements.lock, of which images are built: it says what pyproject.toml says, every file with its hash, and nothing
of where files come from."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest
from packaging.markers import Marker
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.server import ROOT

LOCK = (ROOT / "requirements.lock").read_text()
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
OURS = "shoal (pyproject.toml)"
_HASH = re.compile(r"--hash=sha256:[0-9a-f]{64}")
_HOST = re.compile(r"://|--(extra-)?index-url|--find-links|--trusted-host|\b[a-z0-9-]+\.(org|com|net|io|dev|local)\b")
VERSIONS = ("3.11", "3.12", "3.13")
PLACES = (
    {"sys_platform": "linux", "platform_machine": "x86_64"},
    {"sys_platform": "linux", "platform_machine": "aarch64"},
)


@dataclass(frozen=True, slots=True)
class Locked:
    """One version of a package. `wanted_by`: who depends on it."""

    requirement: Requirement
    hashes: int
    wanted_by: tuple[str, ...]

    @property
    def name(self) -> str:
        return canonicalize_name(self.requirement.name)


def locked(text: str) -> Iterator[Locked]:
    """The packages of a lock file."""
    for block in re.split(r"\n(?=[^\s#])", text):
        lines = [line for line in block.splitlines() if line.strip()]
        names = [line.strip().removeprefix("#").strip() for line in lines if line.strip().startswith("#")]
        code = " ".join(line.rstrip("\\ ") for line in lines if not line.strip().startswith("#"))
        wanted = [name.removeprefix("via").strip() for name in names]
        found = _HASH.findall(code)
        yield Locked(Requirement(_HASH.sub("", code).strip()), len(found), tuple(name for name in wanted if name))


def environments() -> Iterator[dict[str, str]]:
    for version in VERSIONS:
        for place in PLACES:
            python = {"python_version": version, "python_full_version": version, "implementation_name": "cpython"}
            system = {"os_name": "posix", "platform_system": "Linux", "platform_python_implementation": "CPython"}
            yield {**python, **system, **place}


def _holds(marker: Marker | None, environment: dict[str, str]) -> bool:
    return marker is None or marker.evaluate({**environment, "extra": ""})


def problems(text: str, project: dict[str, object]) -> list[str]:
    """What is wrong with a lock file of a project."""
    found = [f"names a host: {line}" for line in text.splitlines() if _HOST.search(line)]
    there = list(locked(text))
    for item in there:
        if [one.operator for one in item.requirement.specifier] != ["=="] or not item.hashes:
            found.append(f"{item.name} is not pinned, or has no hash")
    groups: dict[str, list[str]] = project["dependency-groups"]  # type: ignore[assignment]
    direct = [*project["project"]["dependencies"], *groups["build"]]  # type: ignore[index]
    wanted = {canonicalize_name(Requirement(line).name): Requirement(line) for line in direct}
    for name, requirement in wanted.items():
        for environment in environments():
            if not _holds(requirement.marker, environment):
                continue
            versions = [
                next(iter(item.requirement.specifier)).version
                for item in there
                if item.name == name and _holds(item.requirement.marker, environment)
            ]
            if len(versions) != 1 or not requirement.specifier.contains(versions[0], prereleases=True):
                found.append(f"{requirement} is locked at {versions or 'nothing'} where {environment}")
    names = {item.name for item in there}
    for item in there:
        others = {name for name in item.wanted_by if not name.startswith("shoal")}
        if (len(others) < len(item.wanted_by)) is not (item.name in wanted):
            found.append(f"{item.name} is a dependency in one of both files only")
        if not item.wanted_by or not {canonicalize_name(name) for name in others} <= names:
            found.append(f"{item.name} is wanted by {item.wanted_by or 'nobody'}")
    return found


def test_it_agrees_with_the_project() -> None:
    assert not problems(LOCK, PROJECT)


def test_an_image_is_built_with_what_the_lock_has() -> None:
    assert PROJECT["dependency-groups"]["build"] == PROJECT["build-system"]["requires"]
    lines = (ROOT / "Dockerfile").read_text()
    assert "pip install --no-cache-dir --require-hashes -r /src/requirements.lock" in lines
    for command in re.findall(r"pip install[^&\n]*", lines):
        assert "--require-hashes" in command or {"--no-deps", "--no-build-isolation"} <= set(command.split())
    assert "!requirements.lock" in (ROOT / ".dockerignore").read_text().splitlines()


def test_contributing_says_how_it_is_made() -> None:
    (command,) = re.findall(r"^lock:.*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(), re.M)
    assert "uv pip compile pyproject.toml --group build --universal --generate-hashes" in command
    assert "`make lock`" in (ROOT / "CONTRIBUTING.md").read_text()


FAULTS: dict[str, Callable[[str], str]] = {
    "a dependency is missing": lambda text: re.sub(r"\nlmdb==(?:.*\\\n)+.*\n(?: +#.*\n)*", "\n", text),
    "an old version": lambda text: re.sub(r"\nlmdb==\S+", "\nlmdb==1.0", text),
    "not pinned": lambda text: text.replace("\nlmdb==", "\nlmdb>="),
    "one that is wanted no more": lambda text: (
        text + "unused==1.0 \\\n    --hash=sha256:" + "0" * 64 + "\n    # via shoal\n"
    ),
    "one of a package that has gone": lambda text: (
        text + "x==1.0 \\\n    --hash=sha256:" + "0" * 64 + "\n    # via gone\n"
    ),
    "no hash": lambda text: text + "uvloop2==1.0\n    # via uvloop\n",
    "a place": lambda text: "--index-url https://packages.example/simple\n" + text,
}


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_are_noticed(fault: str) -> None:
    text = FAULTS[fault](LOCK)
    assert text != LOCK
    try:
        assert problems(text, PROJECT)
    except ValueError:  # not even a list of requirements
        assert fault == "a place"
