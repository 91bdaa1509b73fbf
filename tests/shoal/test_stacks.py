"""Recursion ends with RecursionError, and not with the process."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.server import ROOT

RECURSE = """
import resource, threading
from shoal.stacks import DeepExecutor, deep_thread, raise_stack_limits

def deeper():
    return sorted((1, 2), key=lambda _: deeper())  # takes most of the C stack

def recurse():
    try:
        deeper()
    except RecursionError:
        print("refused")
"""
WAYS = {
    "main thread": "raise_stack_limits()\nrecurse()",
    "other thread": "raise_stack_limits()\nthreading.Thread(target=recurse).start()",
    "engine of a program": "with deep_thread():\n    threading.Thread(target=recurse).start()",
    "work of a program's engine": "with DeepExecutor(1) as executor:\n    executor.submit(recurse).result()",
    "small hard limit": "resource.setrlimit(resource.RLIMIT_STACK, (8 << 20,) * 2)\nraise_stack_limits()\nrecurse()",
}


@pytest.mark.parametrize("way", WAYS)
def test_endless_recursion_is_refused_not_fatal(way: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", RECURSE + WAYS[way]], cwd=ROOT, capture_output=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"refused\n", b"")


def test_other_threads_of_a_program_keep_their_stacks() -> None:
    code = "import threading\nfrom shoal.stacks import deep_thread\nwith deep_thread():\n    pass\n"
    code += "print(threading.stack_size())"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, timeout=60, check=True)
    assert done.stdout == b"0\n"
