"""Certificates of 127.0.0.1 for tests, each its own authority."""

from __future__ import annotations

import pathlib
import subprocess
from dataclasses import dataclass


@dataclass(frozen=True)
class Certificate:
    cert: str  # path of a PEM file
    key: str


def make_certificate(folder: pathlib.Path, name: str, address: str = "127.0.0.1") -> Certificate:
    made = Certificate(str(folder / f"{name}.crt"), str(folder / f"{name}.key"))
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
         "-subj", f"/CN={name}", "-addext", f"subjectAltName=IP:{address}", "-keyout", made.key, "-out", made.cert],
        check=True, capture_output=True, timeout=30,
    )  # fmt: skip
    return made
