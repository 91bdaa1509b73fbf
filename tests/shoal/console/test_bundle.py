"""The bundle that is served is made from the sources that lie beside it, and loads nothing from elsewhere."""

from __future__ import annotations

import hashlib
import pathlib
import re

import shoal.console

CONSOLE = pathlib.Path(shoal.console.__file__).parent
WEB, STATIC = CONSOLE / "web", CONSOLE / "static"


def test_the_bundle_is_made_from_the_sources() -> None:
    """`make console` bundles them again."""
    names = [
        "build.mjs",
        "package-lock.json",
        "tsconfig.json",
        *sorted(f"src/{path.name}" for path in (WEB / "src").iterdir()),
    ]
    made = hashlib.sha256()
    for name in names:
        made.update(name.encode() + b"\0" + (WEB / name).read_bytes())
    assert (STATIC / "made-from.txt").read_text().strip() == made.hexdigest(), "run `make console`"


def test_the_page_names_no_other_place() -> None:
    page = (STATIC / "index.html").read_text()
    assert not re.findall(r'(?:src|href)="(?!/console/)', page)
    assert "url(" not in (STATIC / "main.css").read_text()


def test_every_library_has_its_licence() -> None:
    licences = (STATIC / "licences.txt").read_text()
    for library in ("@codemirror/view", "@lezer/common", "preact", "uplot"):
        assert re.search(rf"^{library} \d", licences, re.MULTILINE)
    assert licences.count("Permission is hereby granted") >= len(
        re.findall(r"^@?[a-z/-]+ \d+\.\d+\.\d+$", licences, re.MULTILINE)
    )
