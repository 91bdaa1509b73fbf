"""Built-in functions that are one Python operator on internal-form values: written into the plan instead of called.

Keyed by prosrc, as the implementations are. Only functions whose Python operator gives PostgreSQL's result for every
value that is not NULL are here: integer and date arithmetic is checked for its range, floats (NaN) and numerics (scale)
are not here at all. `{0}` and `{1}` are the arguments, `{t}` a fresh local name.
"""

from __future__ import annotations

_COMPARISONS = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}

# prefixes of prosrc whose six comparisons are Python's
_COMPARABLE = (
    *("int2", "int4", "int8", "int24", "int42", "int28", "int82", "int48", "int84"),
    *("bool", "oid", "text_", "date_", "timestamp_", "time_", "uuid_", "bytea", "name", "char"),
)

_RANGES = {"int2": (-(2**15), "smallint"), "int4": (-(2**31), "integer"), "int8": (-(2**63), "bigint")}

# prosrc prefix -> type of the result
_ARITHMETIC = {
    **{"int2": "int2", "int4": "int4", "int8": "int8", "int24": "int4", "int42": "int4"},
    **{"int28": "int8", "int82": "int8", "int48": "int8", "int84": "int8"},
}


def _templates() -> dict[str, str]:
    found = {f"{prefix}{name}": f"({{0}} {sign} {{1}})" for prefix in _COMPARABLE for name, sign in _COMPARISONS.items()}
    found["texteq"], found["textne"] = "({0} == {1})", "({0} != {1})"
    for prefix, result in _ARITHMETIC.items():
        low, name = _RANGES[result]
        for function, sign in (("pl", "+"), ("mi", "-"), ("mul", "*")):
            found[f"{prefix}{function}"] = (
                f"({{t}} if {low} <= ({{t}} := {{0}} {sign} {{1}}) <= {-low - 1} else overflow({name!r}))"
            )
    for prefix, (low, name) in _RANGES.items():
        found[f"{prefix}um"] = f"({{t}} if ({{t}} := -{{0}}) <= {-low - 1} else overflow({name!r}))"
        found[f"{prefix}up"] = "{0}"
    found["int48"] = found["i2toi4"] = found["int28"] = "{0}"
    return found


TEMPLATES = _templates()
