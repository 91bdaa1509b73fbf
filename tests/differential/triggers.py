"""Generated sets of triggers, statements that fire them, and what both servers give: notices, rows, errors with their
context, and the tables afterwards.

A set is made from its seed alone. Statements change rows of one key, or new rows in a given order, and a row has at
most one referring row: so triggers fire in an order that does not depend on where rows lie.

    python -m tests.differential --triggers --seconds 60
"""

from __future__ import annotations

import random
import re
from time import monotonic

import psycopg

from tests.differential.compare import REFUSED, Tally
from tests.outcome import Connection, full_outcome

SETUP = """
CREATE TABLE log (n int GENERATED ALWAYS AS IDENTITY, what text);
CREATE FUNCTION say() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
RAISE NOTICE '% % % % % % % %', TG_NAME, TG_WHEN, TG_LEVEL, TG_OP, TG_TABLE_NAME, TG_ARGV, OLD, NEW;
IF TG_OP = 'DELETE' THEN RETURN OLD; END IF; RETURN NEW; END $$;
CREATE FUNCTION alter_row() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
NEW.b := coalesce(NEW.b, 0) + 1; NEW.c := coalesce(NEW.c, '') || TG_NAME; RETURN NEW; END $$;
CREATE FUNCTION skip_row() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
IF coalesce(NEW.a, OLD.a) % 3 = TG_ARGV[0]::int THEN RETURN NULL; END IF;
IF TG_OP = 'DELETE' THEN RETURN OLD; END IF; RETURN NEW; END $$;
CREATE FUNCTION chosen() RETURNS trigger LANGUAGE plpgsql AS $$ DECLARE r record; q record; BEGIN
IF TG_OP = 'DELETE' THEN r := OLD; ELSE r := NEW; END IF; q := r;
CASE WHEN TG_WHEN = 'AFTER' THEN r := NULL; WHEN q.b IS NULL THEN r := q; r.b := 4; ELSE r := NULL; r := q; END CASE;
RAISE NOTICE '% % % %', r, q, r IS NULL, pg_typeof(q.b); RETURN r; END $$;
CREATE FUNCTION noisy(x anyelement) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN
RAISE NOTICE 'noisy % %', pg_typeof(x), x; RETURN x IS NOT NULL; END $$;
CREATE FUNCTION return_old() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN OLD; END $$;
CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
IF TG_LEVEL = 'ROW' AND coalesce(NEW.b, OLD.b) > 7 THEN RAISE EXCEPTION 'no % of %', TG_OP, coalesce(NEW.a, OLD.a)
USING HINT = TG_NAME; END IF; IF TG_OP = 'DELETE' THEN RETURN OLD; END IF; RETURN NEW; END $$;
CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
INSERT INTO log (what) VALUES (concat_ws(' ', TG_NAME, TG_OP, TG_TABLE_NAME, OLD.a, NEW.a, pg_trigger_depth()));
IF TG_OP = 'DELETE' THEN RETURN OLD; END IF; RETURN NEW; END $$;
CREATE FUNCTION run() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
IF pg_trigger_depth() < 4 THEN EXECUTE TG_ARGV[0]; END IF;
IF TG_OP = 'DELETE' THEN RETURN OLD; END IF; RETURN NEW; END $$;
CREATE FUNCTION try() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
IF pg_trigger_depth() < 4 THEN BEGIN EXECUTE TG_ARGV[0]; EXCEPTION WHEN others THEN
RAISE NOTICE 'handled % %', SQLSTATE, SQLERRM; END; END IF;
IF TG_OP = 'DELETE' THEN RETURN OLD; END IF; RETURN NEW; END $$
"""

COLUMNS = "a int PRIMARY KEY, b int CHECK (b < 40), c text"
PARTED = (
    "CREATE TABLE p (a int, b int, c text, PRIMARY KEY (a)) PARTITION BY RANGE (a)",
    "CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (5)",
    "CREATE TABLE p2 (c text, a int NOT NULL, b int)",
    "ALTER TABLE p ATTACH PARTITION p2 FOR VALUES FROM (5) TO (100)",
)
FUNCTIONS = (
    "say", "say", "chosen", "alter_row", "skip_row", "return_old", "refuse", "note", "note", "run", "run", "try",
)  # fmt: skip
CONDITIONS = {
    "INSERT": ("NEW.b > 2", "NEW.c IS NULL", "NEW.a % 2 = 0"),
    "DELETE": ("OLD.b > 2", "OLD.a % 2 = 0"),
    "UPDATE": ("NEW.b > OLD.b", "OLD.* IS DISTINCT FROM NEW.*", "NEW.a <> OLD.a", "OLD.c IS NOT DISTINCT FROM NEW.c"),
}


class Generator:
    """Makes the statements of one seed."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.tables = ["p", "f"]

    def choose(self, *items: str) -> str:
        return self.chance.choice(items)

    def schema(self) -> list[str]:
        """Tables p and f, which refers to p; p may be partitioned, and v is a view of p."""
        action = self.choose("CASCADE", "CASCADE", "SET NULL", "SET DEFAULT", "NO ACTION", "RESTRICT")
        parted = self.chance.random() < 0.3
        made = list(PARTED) if parted else [f"CREATE TABLE p ({COLUMNS}{self._generated()})"]
        made.append(
            f"CREATE TABLE f ({COLUMNS}, r int DEFAULT 1 UNIQUE REFERENCES p ON DELETE {action} ON UPDATE "
            f"{self.choose('CASCADE', action)})"
        )
        made.append(
            "INSERT INTO p (a, b, c) SELECT i, i % 4, CASE WHEN i % 3 > 0 THEN 'x' END FROM generate_series(1, 8) i"
        )
        made.append("INSERT INTO f (a, b, c, r) SELECT i, i % 5, 'y', i - 1 FROM generate_series(2, 7) i")
        if parted:
            self.tables += ["p1", "p2"]
        else:
            made.append("CREATE VIEW v AS SELECT a, b, c FROM p WHERE a < 50")
            made.append(f"ALTER VIEW v ALTER b SET DEFAULT {self.chance.randrange(5)}")
            self.tables.append("v")
        return made

    def _generated(self) -> str:
        return self.choose("", "", ", g int GENERATED ALWAYS AS (b * 2 + a) STORED")

    def trigger(self, number: int) -> str:
        """CREATE TRIGGER. A few of them are errors."""
        table, function = self.choose(*self.tables), self.choose(*FUNCTIONS)
        level = "ROW" if self.chance.random() < 0.75 else "STATEMENT"
        timing = self.choose("BEFORE", "AFTER")
        if table == "v":
            timing, level = "INSTEAD OF", "ROW"
        events = self.chance.sample(("INSERT", "UPDATE", "DELETE"), self.chance.choice((1, 1, 2, 3)))
        if level == "STATEMENT":
            function = "say" if timing == "BEFORE" else self.choose("say", "run", "try")
        condition = ""
        if level == "ROW" and table != "v" and len(events) == 1 and self.chance.random() < 0.35:
            condition = f" WHEN ({self.choose(*CONDITIONS[events[0]])})"
        if table != "v" and self.chance.random() < 0.3:
            events = [f"UPDATE OF {self.choose('b', 'c', 'a, b')}" if item == "UPDATE" else item for item in events]
        shown = " OR ".join(events)
        constraint = ""
        if timing == "AFTER" and level == "ROW" and self.chance.random() < 0.25:
            constraint = self.choose("", " DEFERRABLE", " DEFERRABLE INITIALLY DEFERRED")
        kind = "CONSTRAINT TRIGGER" if constraint else "TRIGGER"
        name = f'"{self.choose("A", "Z", "a", "m", "z")}{number}"'
        argument = {"run": self.change(nested=True), "try": self.change(nested=True)}.get(function, "1")
        quoted = argument.replace("'", "''")
        return (
            f"CREATE {kind} {name} {timing} {shown} ON {table}{constraint} FOR EACH {level}{condition} "
            f"EXECUTE FUNCTION {function}('{quoted}')"
        )

    def change(self, nested: bool = False) -> str:
        """A statement that changes rows."""
        key, other = self.chance.randrange(1, 10), self.chance.randrange(1, 14)
        table = self.choose("p", "f", "p" if nested or "v" not in self.tables else "v")
        returning = "" if nested else self.choose("", " RETURNING a, b, c")
        match self.chance.randrange(9 if nested else 13):
            case 0 | 1:
                return f"INSERT INTO {table} (a, b, c) VALUES ({other + 8}, {self.number()}, 'n'){returning}"
            case 2 | 3:
                return f"UPDATE {table} SET b = {self.number()} WHERE a = {key}{returning}"
            case 4:
                return f"UPDATE {table} SET c = c || '!' WHERE a = {key}{returning}"
            case 5:
                return f"UPDATE {table} SET a = {other + 8} WHERE a = {key}{returning}"
            case 6 | 7:
                return f"DELETE FROM {table} WHERE a = {key}{returning}"
            case 8:
                table = "p" if table == "v" else table
                then = self.choose("NOTHING", "UPDATE SET b = excluded.b + 1", "UPDATE SET c = 'again' WHERE p.b > 1")
                return (
                    f"INSERT INTO {table} AS p (a, b, c) VALUES ({key}, {self.number()}, 'u') ON CONFLICT (a) DO "
                    f"{then}{returning}"
                )
            case 9:
                values = f"VALUES ({key if self.chance.random() < 0.6 else other + 8}, 2)"
                table = "f" if "v" not in self.tables else "p" if table == "v" else table
                return (
                    f"MERGE INTO {table} t USING ({values}) s (k, x) ON t.a = s.k "
                    f"WHEN MATCHED AND t.b > 2 THEN DELETE WHEN MATCHED THEN UPDATE SET b = t.b + s.x "
                    f"WHEN NOT MATCHED THEN INSERT (a, b) VALUES (s.k, s.x)"
                )
            case 10:
                return f"INSERT INTO {table} (a, b) SELECT i, i - 20 FROM generate_series(20, 22) i ORDER BY i"
            case 11:
                table = "p" if table == "v" else table
                head = self.choose(f"UPDATE {table} SET c = b", f"DELETE FROM {table}")
                return f"{head} WHERE noisy({self.choose('a', 'b', 'c')}) AND a = {key}{returning}"
            case _:
                table = "p" if table == "v" else table
                return (
                    f"WITH x AS (UPDATE p SET b = {self.number()} WHERE a = {key} RETURNING a) "
                    f"DELETE FROM f WHERE a = {other % 8} AND EXISTS (TABLE x){returning}"
                )

    def number(self) -> int:
        return self.chance.randrange(9)

    def statements(self) -> list[str]:
        """All statements of the seed."""
        made = self.schema()
        made += [self.trigger(number) for number in range(self.chance.randrange(2, 9))]
        for _ in range(8):
            if self.chance.random() < 0.12:
                made.append(self.choose(
                    "SET CONSTRAINTS ALL IMMEDIATE", "ALTER TABLE f DISABLE TRIGGER USER",
                    "ALTER TABLE f ENABLE TRIGGER ALL",
                    "SET LOCAL session_replication_role = replica", "SET LOCAL session_replication_role = origin",
                    "TRUNCATE f", "SET CONSTRAINTS ALL DEFERRED",
                ))  # fmt: skip
            made.append(self.change())
        return [*made, "SET CONSTRAINTS ALL IMMEDIATE"]


STATE = (
    "SELECT * FROM p ORDER BY a",
    "SELECT * FROM f ORDER BY a",
    "SELECT what FROM log ORDER BY n",
    "SELECT tgname, tgrelid::regclass, tgenabled, pg_get_triggerdef(oid) FROM pg_trigger WHERE NOT tgisinternal "
    "ORDER BY tgrelid::regclass::text, 1",
)


_OF_KEYS = re.compile(r'\n?SQL statement "(UPDATE|DELETE FROM) ONLY "sets"."[^\n]*')


def _comparable(found: tuple[object, ...]) -> tuple[object, ...]:
    """An outcome without PostgreSQL's queries for foreign keys."""

    def plain(item: object) -> object:
        if isinstance(item, str):
            return _OF_KEYS.sub("", item).lstrip("\n") or None
        return tuple(map(plain, item)) if isinstance(item, (list, tuple)) else item

    return tuple(map(plain, found))


def run_set(seed: int, postgres: Connection, shoal: Connection) -> tuple[str, str]:
    """(what Shoal refuses, how it differs) for the triggers and statements of a seed. The state is as before."""
    done: list[str] = []
    try:
        for connection in (postgres, shoal):
            connection.execute("BEGIN")
        for sql in (*Generator(seed).statements(), *STATE):
            done.append(sql)
            for connection in (postgres, shoal):
                connection.execute("SAVEPOINT s")
            theirs, ours = full_outcome(postgres, sql), full_outcome(shoal, sql)
            if _comparable(ours) != _comparable(theirs):
                if ours[1] in REFUSED:
                    return str(ours[2]), ""
                return "", "\n".join((f"seed {seed}", *done, f"  PostgreSQL {theirs}", f"  Shoal      {ours}"))
            if len(theirs) > 3:
                for connection in (postgres, shoal):
                    connection.execute("ROLLBACK TO s")
        return "", ""
    finally:
        for connection in (postgres, shoal):
            connection.execute("ROLLBACK")


def run_sets(first: int, seconds: float, postgres: Connection, shoal: Connection, most: int = 1_000_000) -> Tally:
    """The sets of triggers from a seed on, for some seconds."""
    tally = Tally()
    for connection in (postgres, shoal):
        connection.execute("DROP SCHEMA IF EXISTS sets CASCADE; CREATE SCHEMA sets; SET search_path = sets")
        connection.execute(SETUP.encode())
    ends = monotonic() + seconds
    for seed in range(first, first + most):
        if monotonic() > ends:
            break
        refused, failure = run_set(seed, postgres, shoal)
        tally.statements += 1
        if refused:
            tally.refused[refused] += 1
        elif failure:
            tally.failures.append(failure)
        else:
            tally.compared += 1
    return tally


def connect(dsn: str) -> Connection:
    return psycopg.connect(dsn, autocommit=True)
