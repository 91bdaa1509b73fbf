"""Registers, when imported, the functions that modules of catalog.system implement (pg_describe_object,
pg_identify_object, ...)."""

from __future__ import annotations

from catalog.system import parts  # noqa: F401 - each part registers its functions
