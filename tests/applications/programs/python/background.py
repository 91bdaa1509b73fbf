"""Servers of applications, beside the program that drives them."""

import contextlib
import os
import pathlib
import socket
import subprocess
import time
import urllib.request

LOG = pathlib.Path("server.log")
START_SECONDS = 120
STOP_SECONDS = 60


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextlib.contextmanager
def serve(command: list[str], health: str):
    """Runs the command until the block ends, which begins when the URL `health` answers. It prints into LOG."""
    with LOG.open("w") as log:
        server = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
    try:
        end = time.monotonic() + START_SECONDS
        while not _answers(health):
            assert time.monotonic() < end and server.poll() is None, LOG.read_text()[-3000:]
            time.sleep(0.5)
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(server.pid, 15)
        server.wait(STOP_SECONDS)


def _answers(url: str) -> bool:
    with contextlib.suppress(OSError), urllib.request.urlopen(url, timeout=2):
        return True
    return False


def check_log() -> None:
    """Raises AssertionError with the first traceback that the server printed."""
    text = LOG.read_text()
    assert "Traceback" not in text, text[max(text.index("Traceback") - 500, 0) :][:6000]
