"""In a node's process: placement looks often, and soon forgets what transactions have needed together."""

from __future__ import annotations

import functools

from shoal.cluster import member
from shoal.cluster.controller import ControllerSettings


def install() -> None:
    quick = functools.partial(ControllerSettings, interval=0.3, rest_after_move=1.0, rest_after_joint_use=8.0)
    member.ControllerSettings = quick  # type: ignore[misc,assignment]
