"""A table that is loaded keeps LMDB's pages for as long as that takes, however it ends."""

from __future__ import annotations

import pathlib
from typing import Any

import lmdb
import pytest

from catalog.errors import SqlError
from engine.columnar.descriptions import describe_table
from engine.columnar.worker import tables
from engine.columnar.worker.database import open_database
from engine.columnar.worker.tables import Tables
from engine.storage.rows import RowCodec
from tests.engine.columnar.conftest import make_table
from tests.engine.storage.harness import Store, key

TABLE = make_table(20, [(23, -1), (25, -1)], (1,))


@pytest.fixture
def path(tmp_path: pathlib.Path) -> str:
    store = Store(tmp_path / "store")
    codec = RowCodec(TABLE)
    store.commit({key(number ^ 1 << 31, 20): codec.encode((number, "x" * 50)) for number in range(1, 3000)})
    found = store.space.checkpoint_path
    store.close()
    return found


def nobody_reads(path: str) -> bool:
    """Fails where this process still has the environment open."""
    with lmdb.open(path, readonly=True, max_dbs=4, map_size=1 << 40) as environment:
        return environment.readers() == "(no active readers)\n"


@pytest.mark.parametrize("step", ["CREATE TABLE", "INSERT", "a row", "COMMIT"])
def test_a_load_that_fails_reads_no_more(
    path: str, tmp_path: pathlib.Path, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection = open_database(256 << 20, 1, str(tmp_path))
    held = Tables(connection, lambda _: None)
    description: dict[str, Any] = {**describe_table(TABLE), "bases": []}
    if step == "CREATE TABLE":
        connection.execute("CREATE TABLE columns.t20 (x INTEGER)")
    elif step == "INSERT":
        monkeypatch.setattr(tables, "insert_rows", _fails)
    elif step == "a row":
        monkeypatch.setattr(tables, "rows_as_held", _fails)
    else:
        monkeypatch.setattr(tables, "definition", lambda table: "c1 INTEGER, c2 VARCHAR CHECK (length(c2) < 9)")
    with pytest.raises(Exception) as caught:
        held.load(description, path, "")
    assert nobody_reads(path)
    assert caught.value.__traceback__ is not None  # with all that it was met in
    connection.close()


def _fails(*_: Any) -> Any:
    raise SqlError("XX001", "a row that does not decode")


def test_what_a_lost_table_was_met_in_is_let_go_of(tmp_path: pathlib.Path) -> None:
    connection = open_database(256 << 20, 1, str(tmp_path))
    held = Tables(connection, lambda _: None)
    try:
        raise SqlError("53200", "out of memory", detail="so much", hint="less")
    except SqlError as error:
        held.lose(20, error)
    lost = held.lost[20]
    assert lost.__traceback__ is None
    assert (lost.sqlstate, lost.message, lost.detail, lost.hint) == ("53200", "out of memory", "so much", "less")
    connection.close()
