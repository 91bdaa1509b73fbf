"""`shoal init`, `sql`, `config`, `completion`, their exit statuses, and the page about them."""

from __future__ import annotations

import json
import os
import pathlib
import pty
import re
import select
import subprocess
import sys

import pytest

from engine.storage.directory_lock import lock_directory
from shoal.commands.cluster_access import one_line
from tests import forks
from tests.oracle import PostgresServer
from tools.write_cli_page import PAGE, page

_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[=>]|\x08")  # what a terminal is told beside text


def shoal(*arguments: object, given: str = "", **environment: str) -> tuple[int, str, str]:
    """Status, standard output, standard error."""
    done = forks.run(*map(str, arguments), given=given, environment={**os.environ, **environment})
    assert "Traceback" not in done.stderr
    return done.returncode, done.stdout, done.stderr


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    made = tmp_path_factory.mktemp("init") / "data"
    assert shoal("init", "--data", made)[0] == 0
    script = "CREATE TABLE t (a int PRIMARY KEY, b text, c bool, d jsonb);\n"
    script += """INSERT INTO t VALUES (1, 'x;"y"', true, '{"k": 1}'), (2, '', NULL, NULL);"""
    assert shoal("sql", "--data", made, given=script) == (0, "CREATE TABLE\nINSERT 0 2\n", "")
    return made


def test_the_page_of_the_command_line_is_current() -> None:
    assert PAGE.read_text() == page(), "write it again with: python -m tools.write_cli_page"


def test_a_second_init_leaves_the_database_alone(data: pathlib.Path) -> None:
    status, _, told = shoal("init", "--data", data)
    assert status == 1 and told.count("\n") == 1 and "not empty" in told
    assert shoal("sql", "--data", data, "--csv", "SELECT count(*) FROM t")[1] == "count\n2\n"


def test_one_statement_in_three_forms(data: pathlib.Path) -> None:
    query = "SELECT * FROM t ORDER BY a"
    assert shoal("sql", "--data", data, "--csv", query)[1] == 'a,b,c,d\n1,"x;""y""",t,"{""k"": 1}"\n2,"",,\n'
    rows = [json.loads(line) for line in shoal("sql", "--data", data, "--json", query)[1].splitlines()]
    assert rows == [{"a": 1, "b": 'x;"y"', "c": True, "d": {"k": 1}}, {"a": 2, "b": "", "c": None, "d": None}]
    assert shoal("sql", "--data", data, query)[1].endswith("(2 rows)\n")


def test_a_server_answers_as_a_directory_does(data: pathlib.Path, postgres_server: PostgresServer) -> None:
    query = "SELECT 1 AS a, 'x' AS b, true AS c, NULL AS d, 1.50 AS e; SELECT 2 AS f"
    for form in ("--json", "--csv", "--user=postgres"):
        here, there = shoal("sql", "--data", data, form, query), shoal("sql", "--dsn", postgres_server.dsn, form, query)
        assert here == there and here[0] == 0 and here[1]


def test_the_first_failure_ends_a_file(data: pathlib.Path, tmp_path: pathlib.Path) -> None:
    file = tmp_path / "f.sql"
    file.write_text("CREATE TABLE u (a int);\nSELECT nope;\nDROP TABLE u;\n")
    status, printed, told = shoal("sql", "--data", data, "-f", file)
    assert (status, printed) == (1, "CREATE TABLE\n")
    assert told == 'shoal: column "nope" does not exist (42703)\nLINE 1: SELECT nope\n               ^\n'
    assert shoal("sql", "--data", data, "DROP TABLE u")[0] == 0


LONG = ", ".join(f"column_{number}" for number in range(20))


@pytest.mark.parametrize(
    "statement",
    [
        "SELEC 1", "SELECT nope", "SELECT 1 FROM\n  nowhere", "SELECT 1,\r\n\tnope,\r\n 2", "SELECT (1",
        "SELECT 'ä', nope",
        f"SELECT {LONG}", f"SELECT nope, {'1, ' * 40}2", f"SELECT {'1, ' * 40}nope",
        f"SELECT {'1, ' * 17}nope, {'1, ' * 9}2",
        f"SELECT {'1, ' * 15}nope", f"SELECT {'1, ' * 40}nope, {'1, ' * 40}2", "SELECT 1/0", "SELECT nope()",
    ],
)  # fmt: skip
def test_an_error_points_to_its_place_as_in_psql(
    data: pathlib.Path, postgres_server: PostgresServer, statement: str
) -> None:
    told = subprocess.run(
        ["psql", "-X", postgres_server.dsn, "-c", statement], capture_output=True, text=True, timeout=60, check=False
    )
    lines = told.stderr.rstrip("\n").split("\n")
    wanted = next((lines[at : at + 2] for at, line in enumerate(lines) if line.startswith("LINE ")), [])
    for where in (("--data", data), ("--dsn", postgres_server.dsn)):
        found = shoal("sql", *where, statement)[2].rstrip("\n").split("\n")
        assert [line for line in found if line.startswith("LINE ") or line.strip() == "^"] == wanted, where


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("one", "one"),
        ("", ""),
        ("refused\n\tIs the server running?", "refused. Is the server running?"),
        ("All failures were:\n- a\n- b", "All failures were: - a. - b"),
    ],
)
def test_lines_of_libpq_become_sentences(text: str, wanted: str) -> None:
    assert one_line(text) == wanted


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["sql", "--data", "DIR", "SELECT 1"], 1, "shoal init --data"),
        (["sql", "--dsn", "host=127.0.0.1 port=1", "SELECT 1"], 1, "Connection refused. Is the server running"),
        (["sql", "--dsn", "host=127.0.0.1 port=1", "SELECT 1"], 1, "Start a server with `shoal serve`"),
        (["sql", "-f", "/nowhere/f.sql"], 1, "cannot read /nowhere/f.sql"),
        (["config", "--config", "/nowhere/shoal.toml"], 1, "cannot read /nowhere/shoal.toml"),
        (["serve", "--listen", "nonsense", "--data", "DIR"], 1, "is not HOST:PORT"),
        (["swim"], 2, "invalid choice"),
        (["serve", "--depth", "3"], 2, "unrecognized arguments"),
        (["restore", "somewhere"], 2, "--data"),
        (["verify", "DIR"], 1, "DIR"),
        (["doctor", "DIR"], 1, "DIR"),
        (["init", "--data", "/dev/null/data"], 1, "/dev/null/data"),
        (["backup", "DIR", "--dsn", "host=127.0.0.1 port=1"], 1, "port 1 failed"),
        (["changes", "s", "--dsn", "host=127.0.0.1 port=1"], 1, "Connection refused"),
        (["checkpoint", "--dsn", "host=127.0.0.1 port=1", "--json"], 1, "port 1 failed"),
        (["checkpoint"], 2, "one of the arguments --cluster --dsn is required"),
        (["lead", "n2", "--cluster", "nonsense"], 1, "zk://"),
        (["store", "drain", "log://127.0.0.1:1", "--cluster", "nonsense"], 1, "zk://"),
        (["store", "swim"], 2, "invalid choice"),
        (["completion", "csh"], 2, "invalid choice"),
    ],
)
def test_what_is_wrong_has_a_status_and_a_reason(
    arguments: list[str], status: int, said: str, tmp_path: pathlib.Path
) -> None:
    found, _, told = shoal(*(str(tmp_path / "data") if word == "DIR" else word for word in arguments))
    assert found == status and said.replace("DIR", str(tmp_path)) in told
    assert "Traceback" not in told and (status == 2 or told.startswith("shoal: "))


def test_a_directory_in_use_is_reported_before_the_server_is_loaded(data: pathlib.Path) -> None:
    """Loading takes a second and a half of a processor, which is many seconds on a busy machine."""
    program = (
        "import sys; from shoal.cli import main; status = main(); print('engine.node' in sys.modules); sys.exit(status)"
    )
    lock = lock_directory(str(data))
    try:
        done = subprocess.run(
            [sys.executable, "-c", program, "serve", "--data", str(data)],
            capture_output=True, text=True, timeout=240, check=False,
        )  # fmt: skip
    finally:
        os.close(lock)
    told = (
        f'shoal: directory "{data}" is in use by another process. Stop process {os.getpid()}, connect to it if it is a'
    )
    assert (done.returncode, done.stdout) == (1, "False\n") and done.stderr.startswith(told)


def test_copy_through_the_command_is_refused(data: pathlib.Path, postgres_server: PostgresServer) -> None:
    for where in (("--data", data), ("--dsn", postgres_server.dsn)):
        for statement in ("COPY (SELECT 1) TO STDOUT", "CREATE TEMP TABLE c (a int); COPY c FROM STDIN"):
            status, printed, told = shoal("sql", *where, statement)
            assert status == 1 and "COPY 1" not in printed and "use psql" in told


def test_columns_of_one_name_are_refused_in_json(data: pathlib.Path) -> None:
    status, printed, told = shoal("sql", "--data", data, "--json", "SELECT 1 AS a, 2 AS a")
    assert status == 1 and not printed and "with AS" in told


def test_config_says_where_from() -> None:
    status, printed, _ = shoal("config", "--json", "--node", "n1", SHOAL_LISTEN="127.0.0.1:6543")
    found = json.loads(printed)
    assert status == 0
    assert found["node"] == {"value": "n1", "from": "flag"}
    assert found["listen"] == {"value": "127.0.0.1:6543", "from": "environment"}
    assert found["commit_timeout"] == {"value": 10.0, "from": "default"}


def test_bash_completes_commands_and_options(tmp_path: pathlib.Path) -> None:
    script = tmp_path / "shoal.bash"
    script.write_text(shoal("completion", "bash")[1])
    ask = f"source {script}; COMP_WORDS=(shoal res); COMP_CWORD=1; _shtab_shoal; echo ${{COMPREPLY[@]}}"
    ask += "; COMP_WORDS=(shoal restore --to-); COMP_CWORD=2; _shtab_shoal; echo ${COMPREPLY[@]}"
    done = subprocess.run(["bash", "-c", ask], capture_output=True, text=True, timeout=20, check=True)
    assert done.stdout.splitlines() == ["restore", "--to-lsn --to-time"]


def test_fish_completes_commands_and_options(tmp_path: pathlib.Path) -> None:
    script = tmp_path / "shoal.fish"
    script.write_text(shoal("completion", "fish")[1])
    ask = f"source {script}; complete -C 'shoal res'; complete -C 'shoal restore --to-'"
    done = subprocess.run(["fish", "-c", ask], capture_output=True, text=True, timeout=20, check=True)
    assert [line.split("\t")[0] for line in done.stdout.splitlines()] == ["restore", "--to-lsn", "--to-time"]


def test_zsh_completes_commands_and_options(tmp_path: pathlib.Path) -> None:
    """In a terminal, as its completion works nowhere else: what Tab makes of a word is echoed behind it."""
    (tmp_path / "_shoal").write_text(shoal("completion", "zsh")[1])
    terminal, inside = pty.openpty()
    shell = subprocess.Popen(["zsh", "-f", "-i"], stdin=inside, stdout=inside, stderr=inside, start_new_session=True)
    os.close(inside)
    try:
        os.write(
            terminal, f"fpath=({tmp_path} $fpath); autoload -Uz compinit; compinit -u -D; echo set$((1))\n".encode()
        )
        _until(terminal, "set1")
        os.write(terminal, b"shoal rest\t")
        _until(terminal, "shoal restore")
        os.write(terminal, b"--to-l\t")
        _until(terminal, "--to-lsn")
    finally:
        shell.kill()
        shell.wait()
        os.close(terminal)


def _until(terminal: int, wanted: str) -> None:
    """Reads what a terminal shows until it shows this."""
    shown = ""
    while wanted not in shown:
        assert select.select([terminal], [], [], 20)[0], shown
        shown = _CONTROL.sub("", shown + os.read(terminal, 4096).decode(errors="replace"))


def test_statements_in_another_dialect(data: pathlib.Path, tmp_path: pathlib.Path) -> None:
    file = tmp_path / "f.sql"
    file.write_text("SELECT 'it\\'s;' AS `a`;\nSELECT 1 / 2 AS b;\n")
    status, printed, told = shoal("sql", "--data", data, "--dialect", "mysql", "--csv", "-f", file)
    assert (status, told, printed.splitlines()[:2]) == (0, "", ["a", "it's;"])
    assert float(printed.splitlines()[3]) == 0.5
    told = shoal("sql", "--data", data, "--dialect=mysql", "SELECT `nope`")[2]
    assert told == (
        'shoal: column "nope" does not exist (42703)\nLINE 1: SELECT nope\n               ^\nQUERY: SELECT nope\n'
    )
    assert "invalid choice: 'cobol'" in shoal("sql", "--dialect", "cobol", "SELECT 1")[2]
