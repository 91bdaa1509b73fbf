"""Source packages from PyPI, and a Python environment that has what their suites need, both in the cache folder."""

from __future__ import annotations

import pathlib
import subprocess
import sys
import tarfile
import venv

from tests.conformance.suite import cache

# What the suites were written against: a suite and its driver are of one version.
VERSIONS = {
    "asyncpg": "0.32.0",
    "psycopg2": "2.9.13",
    "pg8000": "1.31.6",
    "sqlalchemy": "2.1.9",
}
INSTALLED = (
    f"asyncpg=={VERSIONS['asyncpg']}",
    f"psycopg2-binary=={VERSIONS['psycopg2']}",
    f"pg8000=={VERSIONS['pg8000']}",
    "psycopg[binary]>=3.3.9",
    "pytest>=8",
    "pytest-timeout",
    "pytest-mock",
    "pytest-benchmark",
    "pytz",
    "docutils",
    "uvloop",
    "distro",
    "greenlet",
    "typing_extensions",
)
FETCHING = 900.0  # seconds


def source(name: str) -> pathlib.Path:
    """The unpacked source package. Raises subprocess.CalledProcessError where pip cannot get it."""
    version = VERSIONS[name]
    place = cache() / f"{name}-{version}"
    if not place.exists():
        print(f"fetching {name} {version}", file=sys.stderr)
        packed = cache() / "packages"
        _pip("download", "-q", "--no-deps", "--no-binary", ":all:", "-d", str(packed), f"{name}=={version}")
        with tarfile.open(packed / f"{name}-{version}.tar.gz") as archive:
            archive.extractall(cache())
    return place


def python() -> pathlib.Path:
    """The interpreter of the suites' environment, made when it is first asked for."""
    place = cache() / "venv"
    made = place / ".made"
    wanted = "\n".join(INSTALLED)
    if not made.exists() or made.read_text() != wanted:
        print(f"making {place}", file=sys.stderr)
        venv.create(place, with_pip=True, clear=True)
        subprocess.run(
            [str(place / "bin" / "pip"), "install", "-q", "--disable-pip-version-check", *INSTALLED],
            check=True,
            timeout=FETCHING,
        )
        made.write_text(wanted)
    return place / "bin" / "python"


def _pip(*arguments: str) -> None:
    subprocess.run(
        [sys.executable, "-m", "pip", *arguments, "--disable-pip-version-check"], check=True, timeout=FETCHING
    )
