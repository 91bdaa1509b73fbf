"""The records of decisions: their numbers, their form, and the index that is made of them."""

from __future__ import annotations

import pathlib
import re
import shutil

import pytest

from tools.write_decisions_index import FOLDER, Decision, decisions, page

_SECTIONS = (["Context", "Decision", "Figures"], ["Context", "Decision", "Figures", "Consequences"])
_STATUS = re.compile(r"accepted|superseded by \[(\d{3})\]\((\d{3}-[\w-]+\.md)\)( for .+)?")


def number_faults(known: list[Decision]) -> list[str]:
    """What is wrong with the numbers of the records: each has one of its own, and none is missing."""
    numbers = [int(of.number) for of in known]
    return [
        *(f"{number:03} is taken twice" for number in sorted({n for n in numbers if numbers.count(n) > 1})),
        *(f"{number:03} is missing" for number in range(1, max(numbers)) if number not in numbers),
    ]


def test_the_index_is_what_the_command_writes() -> None:
    assert (FOLDER / "index.md").read_text(encoding="utf-8") == page(), "run python -m tools.write_decisions_index"


def test_numbers_are_unique_and_without_gaps() -> None:
    assert not number_faults(decisions())


def test_a_number_that_is_missing_or_taken_twice_is_noticed(tmp_path: pathlib.Path) -> None:
    for record in FOLDER.glob("00*.md"):
        shutil.copy(record, tmp_path)
    before = page(tmp_path)
    third = next(tmp_path.glob("003-*.md"))
    shutil.copy(third, tmp_path / "004-another.md")
    third.unlink()
    assert number_faults(decisions(tmp_path)) == ["004 is taken twice", "003 is missing"]
    assert page(tmp_path) != before


def test_a_record_without_its_first_lines_is_noticed(tmp_path: pathlib.Path) -> None:
    (tmp_path / "001-new.md").write_text("# New\n\n- Date: yesterday\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"001-new\.md"):
        decisions(tmp_path)


@pytest.mark.parametrize("of", decisions(), ids=lambda of: of.number)
def test_a_record_has_its_sections_and_a_status_that_leads_somewhere(of: Decision) -> None:
    text = (FOLDER / of.file).read_text(encoding="utf-8")
    assert re.findall(r"^#{1,2} (.+)$", text, re.M)[1:] in _SECTIONS
    status = _STATUS.fullmatch(of.status)
    assert status is not None, of.status
    if status[1]:
        assert status[2].startswith(status[1]) and (FOLDER / status[2]).exists()
