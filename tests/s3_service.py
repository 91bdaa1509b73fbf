"""moto's S3 service, with puts one after the other.

Its server has a thread for each request, and a put looks for the object before it stores one: of two puts at once that
must not replace an object, both could succeed.
"""

from __future__ import annotations

import threading
from functools import cache
from typing import Any

from moto.s3.responses import S3Response
from moto.server import ThreadedMotoServer


def s3_service() -> ThreadedMotoServer:
    """A service at a free port of this machine, which is not started yet."""
    _put_one_by_one()
    return ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)


@cache
def _put_one_by_one() -> None:
    lock, put = threading.Lock(), S3Response.put_object

    def put_object(response: Any) -> Any:
        with lock:
            return put(response)

    S3Response.put_object = put_object  # type: ignore[method-assign]
