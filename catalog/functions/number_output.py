"""to_char of numbers and to_number (PostgreSQL 16 manual, 9.8; the NUM_ half of formatting.c).

to_char first converts a number to digits with a point (rounded to the template's decimals, '#' if they do not fit).
Then a writer walks through the template and writes digits, blanks and signs. to_number reads input and template in
parallel. The locale is C: the point is '.', the group separator ',', and the currency symbol a blank.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from decimal import ROUND_HALF_UP, Decimal

from catalog.errors import SqlError
from catalog.functions.floats import to_single
from catalog.functions.format_templates import (
    ACTION,
    SIGN_AFTER,
    SIGN_BEFORE,
    Node,
    NumberDescription,
    number_template,
)
from catalog.functions.integers import CHECKS
from catalog.functions.numeric import multiply, round_to, to_integer
from catalog.functions.numeric_math import power
from catalog.functions.registry import implement
from catalog.types.numeric import EXACT, apply_typmod, format_numeric, parse_numeric

_END = "\0"  # replaces digits that a short number does not have; the text ends there
_GROUPS, _CURRENCY = ",", " "
_FLOAT_DIGITS, _DOUBLE_DIGITS = 6, 15


def ordinal_suffix(digits: str, upper: bool) -> str:
    """Returns st, nd, rd or th for a number's text. Raises 22P02 if the text does not end in a digit."""
    if not digits or not ("0" <= digits[-1] <= "9"):
        raise SqlError("22P02", f'"{digits}" is not a number')
    last = "0" if len(digits) > 1 and digits[-2] == "1" else digits[-1]
    suffix = {"1": "st", "2": "nd", "3": "rd"}.get(last, "th")
    return suffix.upper() if upper else suffix


# ---- output ----


class _Writer:
    """NUM_processor and NUM_numpart_to_char: writes the digits of one number by a template."""

    def __init__(self, description: NumberDescription, digits: str, sign: str, blanks: int) -> None:
        self.form = description
        self.digits = digits
        self.sign = sign
        self.blanks = blanks  # positions before the first digit
        self.out: list[str] = []
        self.at = 0  # in digits
        self.current = 0
        self.inside = False  # has a digit been written?
        form = description
        form.zero_start = max(form.zero_start - 1, 0)
        if form.roman:
            self._only_roman()
        self.sign_written = self._sign_needs_no_place()
        self.count = form.post + form.pre - 1
        self.last_relevant: int | None = None
        if form.fill and form.decimal:
            self._find_last_relevant()
        if not self.sign_written and self.blanks == 0:
            self.count += 1

    def _only_roman(self) -> None:
        self.form = NumberDescription(fill=self.form.fill, roman=True)
        self.blanks, self.sign = 0, ""

    def _sign_needs_no_place(self) -> bool:
        form = self.form
        if form.plus or form.minus:
            return not (form.plus and not form.minus)
        if self.sign != "-" and form.bracket and form.fill:
            form.bracket = False
        written = self.sign == "+" and form.fill and not form.local_sign
        if form.sign_place == SIGN_BEFORE and form.pre == form.digits_before_sign:
            form.sign_place = SIGN_AFTER
        return written

    def _find_last_relevant(self) -> None:
        point = self.digits.find(".")
        if point < 0:
            return
        relevant = max(point, len(self.digits.rstrip("0")) - 1)
        if self.form.zero_end > self.blanks:
            relevant = max(relevant, min(len(self.digits) - 1, self.form.zero_end - self.blanks))
        self.last_relevant = relevant

    def _digit(self) -> str:
        return self.digits[self.at] if self.at < len(self.digits) else ""

    def _hidden_zero(self) -> bool:
        """Whether the next digit is the single 0 before a point, which 9.9 shows as a blank."""
        return not self.form.zero and self.at == 0 and self.digits[:1] == "0" and self.form.post != 0

    def _ends_at_point(self) -> bool:
        return self.last_relevant is not None and self.digits[self.last_relevant] == "."

    def write(self, nodes: tuple[Node, ...]) -> str:
        for node in nodes:
            if node.type == ACTION:
                self._action(node.text)
            else:
                self.out.append(node.text)
        return "".join(self.out).partition(_END)[0]

    def _action(self, word: str) -> None:
        form, upper = self.form, word.upper()
        if upper in ("9", "0", ".", "D"):
            if not form.roman:
                self._position(upper)
        elif upper in (",", "G"):
            if self.inside:
                self.out.append(_GROUPS)
            elif not form.fill:
                self.out.append(" ")
        elif upper == "L":
            self.out.append(_CURRENCY)
        elif upper == "RN":
            roman = self.digits if word == "RN" else self.digits.lower()
            self.out.append(roman if form.fill else f"{roman:>15}")
        elif upper == "TH":
            if not (form.roman or self.digits.startswith("#") or self.sign == "-" or form.decimal):
                self.out.append(ordinal_suffix(self.digits, upper=word == "TH"))
        elif upper in ("MI", "PL"):
            wanted = "-" if upper == "MI" else "+"
            if self.sign == wanted:
                self.out.append(wanted)
            elif not form.fill:
                self.out.append(" ")
        elif upper == "SG":
            self.out.append(self.sign)

    def _position(self, word: str) -> None:
        """Writes one 9, 0 or point of the template."""
        self.inside = False
        form = self.form
        reached = self.current >= self.blanks or (form.zero and form.zero_start == self.current)
        if not self.sign_written and reached and (not self._hidden_zero() or self._ends_at_point()):
            self._leading_sign()
        if self.current < self.blanks and (form.zero_start > self.current or not form.zero):
            if not form.fill:
                self.out.append(" ")
        elif form.zero and self.current < self.blanks and form.zero_start <= self.current:
            self.out.append("0")
            self.inside = True
        else:
            self._number_character(word)
            if self.at < len(self.digits):
                self.at += 1
        end = self.count + (1 if self.blanks else 0) + (1 if form.decimal else 0)
        if self.last_relevant is not None and self.last_relevant == self.at:
            end = self.current
        if self.current + 1 == end:
            self._trailing_sign()
        self.current += 1

    def _number_character(self, word: str) -> None:
        if self._digit() == ".":
            if not self._ends_at_point() or self.form.fill:
                self.out.append(".")
        elif self.last_relevant is not None and self.at > self.last_relevant and word != "0":
            pass
        elif self._hidden_zero():
            if not self.form.fill:
                self.out.append(" ")
            elif self._ends_at_point():
                self.out.append("0")
        else:
            self.out.append(self._digit() or _END)
            self.inside = True

    def _leading_sign(self) -> None:
        form = self.form
        if form.local_sign:
            if form.sign_place == SIGN_BEFORE:
                self.out.append("-" if self.sign == "-" else "+")
                self.sign_written = True
        elif form.bracket:
            self.out.append(" " if self.sign == "+" else "<")
            self.sign_written = True
        elif self.sign == "+":
            if not form.fill:
                self.out.append(" ")
            self.sign_written = True
        elif self.sign == "-":
            self.out.append("-")
            self.sign_written = True

    def _trailing_sign(self) -> None:
        if self.sign_written and self.form.bracket:
            self.out.append(" " if self.sign == "+" else ">")
        elif self.form.local_sign and self.form.sign_place == SIGN_AFTER:
            self.out.append("-" if self.sign == "-" else "+")


def _write(nodes: tuple[Node, ...], form: NumberDescription, text: str) -> str:
    """Writes the text of a rounded number, such as '-12.50', by a template."""
    sign, digits = ("-", text[1:]) if text.startswith("-") else ("+", text)
    point = digits.find(".")
    length = len(digits) if point < 0 else point
    blanks = max(form.pre - length, 0)
    if length > form.pre:
        digits = "#" * form.pre + "." + "#" * form.post
    return _Writer(form, digits, sign, blanks).write(nodes)


_ROMANS = ((1000, "M"), (900, "CM"), (500, "D"), (400, "CD"), (100, "C"), (90, "XC"), (50, "L"), (40, "XL"), (10, "X"),
           (9, "IX"), (5, "V"), (4, "IV"), (1, "I"))  # fmt: skip


def _roman(value: int) -> str:
    """Returns the Roman numeral of 1 to 3999; '###############' for other numbers."""
    if not 1 <= value <= 3999:
        return "#" * 15
    parts = []
    for size, digits in _ROMANS:
        count, value = divmod(value, size)
        parts.append(digits * count)
    return "".join(parts)


def _overflown_exponent(form: NumberDescription) -> str:
    """Returns ' #.##########', for NaN and infinities."""
    text = ["#"] * (form.pre + form.post + 6)
    text[0] = " "
    text[form.pre + 1] = "."
    return "".join(text)


def _signed_exponent(text: str) -> str:
    return text if text.startswith("-") else " " + text


def _scientific(value: Decimal, digits: int) -> str:
    """Returns a finite numeric as '1.23e+05' (numeric_out_sci)."""
    if not value:
        return f"{'0.' + '0' * digits if digits else '0'}e+00"
    exponent = value.adjusted()
    mantissa = value.scaleb(-exponent, EXACT).quantize(Decimal((0, (1,), -digits)), ROUND_HALF_UP, EXACT)
    return f"{mantissa:f}e{exponent:+03d}"


Formatted = Callable[[NumberDescription], str]


def _fill_template(template: str, make: Formatted) -> str:
    """Writes the number's text, which `make` returns, by a template. An empty template gives an empty text. Raises
    42601."""
    nodes, description = number_template(template)
    form = replace(description)
    if not template:
        return ""
    text = make(form)
    if form.exponent:
        return text
    if form.roman:
        return _Writer(form, text, "", 0).write(nodes)
    return _write(nodes, form, text)


def numeric_to_char(value: Decimal, template: str) -> str:
    """to_char(numeric, text). Raises 42601, 22003."""

    def make(form: NumberDescription) -> str:
        if form.roman:
            whole = round_to(value)
            assert isinstance(whole, Decimal)
            return _roman(to_integer(4)(whole))
        if form.exponent:
            if not value.is_finite():
                return _overflown_exponent(form)
            return _signed_exponent(_scientific(value, form.post))
        shifted = value
        if form.multiplied:
            shifted = multiply(value, Decimal(10) ** form.multiplier)
            form.pre += form.multiplier
        return format_numeric(round_to(shifted, form.post))

    return _fill_template(template, make)


def _checked_product(value: int, power_of_ten: int) -> int:
    return CHECKS[8](value * CHECKS[8](power_of_ten))


def _wrapping_product(value: int, power_of_ten: int) -> int:
    """Multiplies as C does for int, with wrap-around; PostgreSQL prints this product."""
    factor = power_of_ten if power_of_ten < 1 << 31 else -(1 << 31)
    return (value * factor + (1 << 31)) % (1 << 32) - (1 << 31)


def _integer_to_char(size: int) -> Callable[[int, str], str]:
    shift = _wrapping_product if size == 4 else _checked_product

    def to_char(value: int, template: str) -> str:
        def make(form: NumberDescription) -> str:
            if form.roman:
                return _roman(CHECKS[4](value))
            if form.exponent:
                if size == 8:
                    return _signed_exponent(_scientific(Decimal(value), form.post))
                return f"{float(value): .{form.post}e}"
            shifted = value
            if form.multiplied:
                shifted = shift(value, 10**form.multiplier)
                form.pre += form.multiplier
            return f"{shifted}.{'0' * form.post}" if form.post else str(shifted)

        return _fill_template(template, make)

    return to_char


def _float_to_char(precision: int, rounded: Callable[[float], float]) -> Callable[[float, str], str]:
    def to_char(value: float, template: str) -> str:
        def make(form: NumberDescription) -> str:
            if form.roman:
                return _roman(round(value) if math.isfinite(value) else 0)
            if form.exponent:
                return f"{value: .{form.post}e}" if math.isfinite(value) else _overflown_exponent(form)
            shifted = value
            if form.multiplied:
                power = rounded(float(f"1e{form.multiplier}"))  # infinity if out of range
                shifted = rounded(value * power)
                form.pre += form.multiplier
            length = len(_fixed_digits(abs(shifted), 0))
            if length >= precision:
                form.post = 0
            elif length + form.post > precision:
                form.post = precision - length
            return _fixed_digits(shifted, form.post)

        return _fill_template(template, make)

    return to_char


def _fixed_digits(value: float, digits: int) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return f"{value:.{digits}f}"


# ---- input ----


class _Reader:
    """NUM_processor and NUM_numpart_from_char: reads input by a template."""

    def __init__(self, description: NumberDescription, text: str) -> None:
        self.form = description
        self.text = text
        self.at = 0
        self.sign = " "
        self.number: list[str] = []
        self.before = self.behind = 0  # digits read
        self.point = False

    def _over(self) -> bool:
        return self.at >= len(self.text)

    def read(self, nodes: tuple[Node, ...]) -> str:
        """Returns the number's text: a sign or blank, digits, a point. Raises 0A000."""
        if self.form.exponent:
            raise SqlError("0A000", '"EEEE" not supported for input')
        if self.form.roman:
            raise SqlError("0A000", '"RN" not supported for input')
        for node in nodes:
            if self._over():
                break
            if node.type != ACTION or self._action(node.text.upper()):
                self.at += 1
        digits = "".join(self.number)
        self.form.post = self.behind
        return self.sign + digits.removesuffix(".")

    def _action(self, word: str) -> bool:
        """Reads the input of one key word. Returns whether the caller has to skip one more character."""
        if word in ("9", "0", ".", "D"):
            self._part(word)
            return True
        if word in (",", "G"):
            if self.form.fill and not self.number:
                return False
            return self.text[self.at] == _GROUPS
        if word == "L":
            self._pass_over(len(_CURRENCY))
        elif word == "TH":
            if not self.form.decimal:
                self._pass_over(2)
        elif word in ("MI", "PL", "SG"):
            if self.text[self.at] in {"MI": "-", "PL": "+", "SG": "+-"}[word]:
                self.sign = self.text[self.at]
                return True
            self._pass_over(1)
        return False

    def _pass_over(self, count: int) -> None:
        """Skips up to `count` characters that cannot belong to a number."""
        while count > 0 and not self._over() and self.text[self.at] not in "0123456789.,+-":
            self.at += 1
            count -= 1

    def _part(self, word: str) -> None:
        """Reads a 9, 0 or point, and stays at the last character read."""
        if self.text[self.at] == " ":
            self.at += 1
        if self._over():
            return
        if self.sign == " " and word in ("0", "9") and not self.before + self.behind:
            self._sign_before()
        if self._over():
            return
        taken = False
        char = self.text[self.at]
        if "0" <= char <= "9":
            if self.point and self.behind == self.form.post:
                return
            self.number.append(char)
            self.behind, self.before = (self.behind + 1, self.before) if self.point else (self.behind, self.before + 1)
            taken = True
        elif self.form.decimal and not self.point and char == ".":
            self.number.append(".")
            self.point = taken = True
        if self.sign == " " and self.before + self.behind > 0:
            self._sign_behind(taken)

    def _sign_before(self) -> None:
        char = self.text[self.at]
        if self.form.local_sign and self.form.sign_place == SIGN_BEFORE:
            if char in "+-":
                self.sign = char
                self.at += 1
        elif char == "-" or (self.form.bracket and char == "<"):
            self.sign = "-"
            self.at += 1
        elif char == "+":
            self.sign = "+"
            self.at += 1

    def _sign_behind(self, taken: bool) -> None:
        following = self.text[self.at + 1 : self.at + 2]
        if self.form.local_sign:
            if taken and following and following in "+-":
                self.sign = following
                self.at += 1
        elif not taken and (self.form.plus or self.form.minus) and self.text[self.at] in "+-":
            self.sign = self.text[self.at]


def to_number(text: str, template: str) -> Decimal | None:
    """to_number. Raises 22P02, 22003, 0A000, 42601."""
    if not template:
        return None
    nodes, description = number_template(template)
    form = replace(description)
    number = _Reader(form, text).read(nodes)
    precision = form.pre + form.multiplier + form.post
    value = apply_typmod(((precision << 16) | form.post) + 4)(parse_numeric(number))
    assert isinstance(value, Decimal)
    if form.multiplied:
        value = multiply(value, power(Decimal(10), Decimal(-form.multiplier)))
    return value


implement("numeric_to_char", numeric_to_char)
implement("int4_to_char", _integer_to_char(4))
implement("int8_to_char", _integer_to_char(8))
implement("float4_to_char", _float_to_char(_FLOAT_DIGITS, to_single))
implement("float8_to_char", _float_to_char(_DOUBLE_DIGITS, float))
implement("numeric_to_number", to_number)
