"""Row security, cell by cell beside PostgreSQL, on both paths; and that faults in it are noticed."""

from __future__ import annotations

import pytest

from tests.oracle import PostgresServer
from tests.rights import row_matrix
from tests.rights.planted_rows import ROW_RIGHTS
from tests.samples import Part, parts
from tests.server import ShoalServer
from tests.torture.planted import PlantedServer


def test_every_cell_is_as_in_postgresql() -> None:
    with ShoalServer() as shoal, ShoalServer() as columnar, PostgresServer() as postgres:
        cells, wrong = row_matrix.run(shoal, columnar, postgres, row_matrix.is_sampled)
    assert not wrong, "\n".join(wrong[:20])
    assert cells > 600


@pytest.mark.long
def test_the_other_cells_are_as_in_postgresql() -> None:
    with ShoalServer() as shoal, ShoalServer() as columnar, PostgresServer() as postgres:
        _, wrong = row_matrix.run(shoal, columnar, postgres, lambda cell: not row_matrix.is_sampled(cell))
    assert not wrong, "\n".join(wrong[:20])


REVEALING = (
    "SELECT count(*), sum(level), max(note) FROM docs", "SELECT id FROM docs WHERE 1 / (level - 4) < 5 ORDER BY id",
    "SELECT y FROM (SELECT 1 / (level - 4) AS y, id FROM docs) s WHERE y < 5 ORDER BY id",
    "SELECT d.id FROM docs d JOIN levels l ON 1 / (d.level - 4) = l.level - l.level ORDER BY 1",
    "SELECT * FROM of_owner ORDER BY id", "SELECT counted(), seen()",
    "INSERT INTO docs VALUES (20, current_user, 100, 'a')",
    "INSERT INTO docs (id, who, level) VALUES (20, 'alice', 1), (21, 'bob', 9)",
    "UPDATE docs SET level = 9 WHERE id = 1",
    "UPDATE docs SET level = 1 WHERE 1 / (level - 4) < 5", "DELETE FROM docs WHERE id = 3", "COPY docs FROM STDIN",
    "SET LOCAL row_security = off; SELECT count(*) FROM docs",
)  # fmt: skip


SETS = (
    "own rows, forced", "several", "reads all, writes own", "writes all, reads own", "of a group", "chain", "function",
    "sub-query without rights", "low levels of all",
)  # fmt: skip


@pytest.mark.parametrize("part", parts(8))
def test_faults_are_noticed(part: Part) -> None:
    def chosen(cell: row_matrix.Cell) -> bool:
        return cell[0] in SETS and cell[2] in REVEALING and cell[1] in ("owner", "alice", "bob")

    with PostgresServer() as postgres:
        theirs = row_matrix.outcomes(postgres, "", chosen)
    for fault in part.of(ROW_RIGHTS):
        with PlantedServer("rows", fault) as server:
            ours = row_matrix.outcomes(server, row_matrix.COLUMNAR, chosen)
        assert row_matrix.differing(ours, theirs), fault
