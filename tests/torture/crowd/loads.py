"""What runs beside the point reads: each does its work until `over` is set, and says what it has done.

A load raises what goes wrong; psycopg is used where its copy of everything does not matter, sockets where it would.
"""

from __future__ import annotations

import random
import socket
import struct
import threading
import time

import psycopg

from tests.torture.crowd.readers import STARTUP

ITEMS = 100_000  # of the IN list
PIECE = 1 << 20


def slow_reader(dsn: str, over: threading.Event, size: int) -> str:
    """Asks for a huge result, and takes some 100 kB of it a second."""
    parts = dict(part.split("=") for part in dsn.split())
    with socket.create_connection((parts["host"], int(parts["port"]))) as client:
        client.sendall(STARTUP)
        sql = b"SELECT i, repeat('x', 500) FROM generate_series(1, %d) AS i\0" % (size // 500)
        client.sendall(b"Q" + struct.pack("!i", len(sql) + 4) + sql)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
        taken = 0
        while not over.wait(0.5):
            data = client.recv(1 << 16)
            if not data:
                raise AssertionError("the slow reader's connection was closed")
            taken += len(data)
    return f"{taken / 1e6:.1f} MB taken of {size / 1e6:,.0f}"


def copy_in(dsn: str, over: threading.Event, size: int) -> str:
    """COPY FROM of `size` bytes, again and again."""
    line = b"%d\t%d\t" + b"y" * 80 + b"\n"
    copied = 0
    with psycopg.connect(dsn, autocommit=True) as connection:
        while not over.is_set():
            connection.execute("TRUNCATE crowd_copy")
            number = 0
            with connection.cursor().copy("COPY crowd_copy FROM STDIN") as copy:
                while number * len(line) < size and not over.is_set():
                    piece = b"".join([line % (number + i, i) for i in range(PIECE // len(line))])
                    number += PIECE // len(line)
                    copied += len(piece)
                    copy.write(piece)
    return f"{copied / 1e6:,.0f} MB copied"


def in_list(dsn: str, over: threading.Event, size: int) -> str:
    """SELECT ... WHERE id IN (100,000 numbers), another list each time."""
    done, rows = 0, size
    with psycopg.connect(dsn, autocommit=True) as connection:
        while not over.is_set():
            numbers = [random.randrange(1 << 30) for _ in range(ITEMS - 1)] + [rows - 1]
            statement = f"SELECT count(*) FROM crowd_points WHERE id IN ({', '.join(map(str, numbers))})"
            (found,) = connection.execute(statement.encode()).fetchone() or (0,)
            if found < 1:
                raise AssertionError("an IN list has found nothing")
            done += 1
    return f"{done} IN lists of {ITEMS:,} items"


def analytic(dsn: str, over: threading.Event, size: int) -> str:
    """A query that keeps the analytic worker busy, cancelled when the time is over."""
    done = 0
    with psycopg.connect(dsn, autocommit=True) as connection:

        def end() -> None:
            over.wait()
            time.sleep(0.1)
            connection.cancel_safe()

        ending = threading.Thread(target=end)
        ending.start()
        try:
            while not over.is_set():
                connection.execute(
                    b"SELECT a.id % 1000, count(*), sum(length(a.note) + b.id) FROM crowd_points AS a"
                    b" JOIN crowd_points AS b ON a.id % 997 = b.id % 997 GROUP BY 1 ORDER BY 3 DESC LIMIT 5"
                )
                done += 1
        except psycopg.errors.QueryCanceled:
            pass
        ending.join()
    return f"{done} analytic queries whole"


LOADS = {"slow reader": slow_reader, "COPY": copy_in, "IN list": in_list, "analytic query": analytic}
