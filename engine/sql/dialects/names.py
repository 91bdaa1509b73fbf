"""The dialects of the setting `sql_dialect`, and their differences."""

from __future__ import annotations

from dataclasses import dataclass

SHOAL = "shoal"  # PostgreSQL's grammar with Shoal's additions, without translation


@dataclass(frozen=True, slots=True)
class Traits:
    """The meaning of SQL in a dialect.

    `folds_upper`: unquoted names are folded to upper case, not to lower case as in PostgreSQL. `divides_exactly`: a
    quotient of integers has a fraction; `divides_in_double`: it is a double. `null_on_zero`: division by zero is NULL.
    `escapes_like`: the default escape character of LIKE is the backslash. `greatest_is_strict`: GREATEST and LEAST of a
    NULL are NULL. `empty_is_null`: the empty string is NULL. `exponent_is_double`: 1e3 is a double. `truncates_casts`:
    a cast to an integer drops the fraction. `implies_recursive`: WITH may be recursive without RECURSIVE. `has_ilike`:
    the dialect has ILIKE. `keeps_dates`: a date plus an interval of days or longer is a date."""

    name: str
    folds_upper: bool = False
    divides_exactly: bool = True
    divides_in_double: bool = False
    null_on_zero: bool = False
    escapes_like: bool = False
    greatest_is_strict: bool = True
    empty_is_null: bool = False
    exponent_is_double: bool = True
    truncates_casts: bool = False
    implies_recursive: bool = False
    has_ilike: bool = False
    keeps_dates: bool = False


_TRAITS = (
    Traits("mysql", null_on_zero=True, escapes_like=True, keeps_dates=True),
    Traits(
        "spark", escapes_like=True, greatest_is_strict=False, truncates_casts=True, has_ilike=True, keeps_dates=True
    ),
    Traits("snowflake", folds_upper=True, exponent_is_double=False, has_ilike=True, keeps_dates=True),
    Traits("bigquery", escapes_like=True),
    Traits("tsql", divides_exactly=False, greatest_is_strict=False, truncates_casts=True, implies_recursive=True),
    Traits("oracle", folds_upper=True, empty_is_null=True, exponent_is_double=False, implies_recursive=True),
    Traits("duckdb", divides_in_double=True, greatest_is_strict=False, has_ilike=True),
)
TRAITS = {traits.name: traits for traits in _TRAITS}
DIALECTS = (SHOAL, *TRAITS)
