"""PGP messages of the extension pgcrypto (RFC 4880): encryption with a password, and ASCII armor."""

from __future__ import annotations

import base64
import binascii
import functools
import hashlib
import re
import secrets
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from catalog.errors import SqlError, not_supported
from catalog.functions.base import Trait
from catalog.functions.pgcrypto_ciphers import cipher_with_key, run_cipher
from catalog.functions.registry import implement, implements
from catalog.types.base import Array
from catalog.types.texts import decode_utf8

_SYMMETRIC_KEY, _OF_PUBLIC_KEY, _WITHOUT_CHECK, _MARKER, _CHECKED = 3, 1, 9, 10, 18
_COMPRESSED, _LITERAL, _CHECKSUM = 8, 11, 19
_CIPHERS: Mapping[int, tuple[str, int]] = {
    2: ("des3", 24), 3: ("cast5", 16), 4: ("bf", 16), 7: ("aes", 16), 8: ("aes", 24), 9: ("aes", 32),
}  # fmt: skip
"""The cipher and the bytes of its key, by number."""
_CIPHER_NAMES = {
    "3des": 2, "cast5": 3, "bf": 4, "blowfish": 4, "aes": 7, "aes128": 7, "aes192": 8, "aes256": 9,
}  # fmt: skip
_HASHES = {1: "md5", 2: "sha1", 8: "sha256", 9: "sha384", 10: "sha512"}
_HASH_NAMES = {"md5": 1, "sha1": 2, "sha-1": 2, "sha256": 8, "sha384": 9, "sha512": 10}
_COMPRESSION = {1: -15, 2: 15}  # the parameter wbits of zlib
_BZIP2 = 3
_MOST_PLAIN = 1 << 30  # bytes
_CHECK_HEADER = b"\xd3\x14"


def _error(why: str) -> SqlError:
    return SqlError("39000", why)


def _corrupt() -> SqlError:
    return _error("Wrong key or corrupt data")


def _bad_argument() -> SqlError:
    return _error("Illegal argument to function")


# ---- options --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Options:
    cipher: int = 7
    key_cipher: int = 0  # 0: as `cipher`
    compression: int = 0
    level: int = 6
    mode: int = 3
    count: int = 0  # 0: a random one
    hash: int = 2
    converts: bool = False
    checks: bool = True
    session_key: bool = False
    unicode: bool = False


_OPTION = re.compile(r"[ \t\n\r,]*([a-z0-9-]+) *= *([^ \t\n\r,]+)[ \t\n\r]*(?=,|$)", re.IGNORECASE)


def _number_reader(low: int, high: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        if not re.fullmatch("[0-9]{1,9}", text) or not low <= int(text) <= high:
            raise _bad_argument()
        return int(text)

    return read


def _name_reader(known: Mapping[str, int], what: str) -> Callable[[str], int]:
    def read(text: str) -> int:
        found = known.get(text.lower())
        if found is None:
            raise _error(f"Unsupported {what} algorithm")
        return found

    return read


def _mode(text: str) -> int:
    if text not in ("0", "1", "3"):
        raise _bad_argument()
    return int(text)


_FLAG = _number_reader(0, (1 << 31) - 1)
_READERS: Mapping[str, tuple[str, Callable[[str], object]]] = {
    "cipher-algo": ("cipher", _name_reader(_CIPHER_NAMES, "cipher")),
    "s2k-cipher-algo": ("key_cipher", _name_reader(_CIPHER_NAMES, "cipher")),
    "compress-algo": ("compression", _number_reader(0, 3)),
    "compress-level": ("level", _number_reader(0, 9)),
    "s2k-mode": ("mode", _mode),
    "s2k-count": ("count", _number_reader(1024, 65011712)),
    "s2k-digest-algo": ("hash", _name_reader(_HASH_NAMES, "hash")),
    "convert-crlf": ("converts", lambda text: bool(_FLAG(text))),
    "disable-mdc": ("checks", lambda text: not _FLAG(text)),
    "sess-key": ("session_key", lambda text: bool(_FLAG(text))),
    "unicode-mode": ("unicode", lambda text: bool(_FLAG(text))),
}


def _options_of(text: str) -> _Options:
    made, at = _Options(), 0
    while text[at:].strip(", \t\r\n"):
        found = _OPTION.match(text, at)
        reader = _READERS.get(found[1].lower()) if found else None
        if found is None or reader is None:
            raise _bad_argument()
        made = replace(made, **{reader[0]: reader[1](found[2])})  # type: ignore[arg-type]
        at = found.end()
    return made


# ---- keys and packets -----------------------------------------------------------------------------------------------


def _key_of(password: bytes, hash_: int, salt: bytes, count: int, size: int) -> bytes:
    """String-to-key (RFC 4880, 3.7.1): digests of the salt and the password, repeated to `count` bytes, each after one
    more zero byte than the one before."""
    text = salt + password
    if count > len(text):
        repeats, rest = divmod(count, len(text))
        text = text * repeats + text[:rest]
    made = b""
    while len(made) < size:
        zeros = b"\0" * (len(made) // hashlib.new(_HASHES[hash_]).digest_size)
        made += hashlib.new(_HASHES[hash_], zeros + text, usedforsecurity=False).digest()
    return made[:size]


def _decode_count(byte: int) -> int:
    return (16 + (byte & 15)) << (byte >> 4) + 6


def _encode_count(count: int) -> int:
    return next(byte for byte in range(256) if _decode_count(byte) >= count)


def _packet(tag: int, body: bytes) -> bytes:
    size = len(body)
    if size < 192:
        length = bytes((size,))
    elif size < 8384:
        length = bytes(((size - 192 >> 8) + 192, size - 192 & 255))
    else:
        length = b"\xff" + size.to_bytes(4, "big")
    return bytes((0xC0 | tag,)) + length + body


class _Reader:
    """Reads the packets of a message. Raises 39000."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def _take(self, count: int) -> bytes:
        found = self.data[self.at : self.at + count]
        if len(found) < count:
            raise _corrupt()
        self.at += count
        return found

    def packets(self) -> Iterator[tuple[int, bytes]]:
        while self.at < len(self.data):
            (header,) = self._take(1)
            if not header & 0x80:
                raise _corrupt()
            if header & 0x40:
                yield header & 0x3F, self._new_body()
            else:
                kind = header & 3
                size = len(self.data) - self.at if kind == 3 else int.from_bytes(self._take(1 << kind), "big")
                yield header >> 2 & 15, self._take(size)

    def _new_body(self) -> bytes:
        parts = []
        while True:
            (first,) = self._take(1)
            if first < 192:
                size = first
            elif first < 224:
                size = (first - 192 << 8) + self._take(1)[0] + 192
            elif first == 255:
                size = int.from_bytes(self._take(4), "big")
            else:
                parts.append(self._take(1 << (first & 31)))  # a part; another length follows it
                continue
            return b"".join((*parts, self._take(size)))


def _chain(cipher: int, key: bytes, vector: bytes | None, data: bytes, encrypts: bool) -> bytes:
    """Encrypts or decrypts in cipher feedback mode; without `vector` from zeros."""
    from cryptography.hazmat.decrepit.ciphers.modes import CFB

    algorithm, block = cipher_with_key(_CIPHERS[cipher][0], key)
    return run_cipher(algorithm, CFB(vector or b"\0" * block), data, encrypts)


def _block(cipher: int) -> int:
    return 16 if _CIPHERS[cipher][0] == "aes" else 8


# ---- encryption -----------------------------------------------------------------------------------------------------


def _encrypt(data: bytes, kind: bytes, password: str, options: _Options) -> bytes:
    if not password:
        raise _bad_argument()
    if options.converts and kind != b"b":
        data = data.replace(b"\n", b"\r\n")
    plain = _packet(_LITERAL, (b"u" if options.unicode and kind == b"t" else kind) + bytes(5) + data)
    if options.compression == _BZIP2:
        raise _error("Unsupported compression algorithm")
    if options.compression:
        packer = zlib.compressobj(options.level, wbits=_COMPRESSION[options.compression])
        body = bytes((options.compression,)) + packer.compress(plain) + packer.flush()
        plain = _packet(_COMPRESSED, body)
    header, key = _symmetric_key(password.encode(), options)
    cipher = options.cipher
    block = _block(cipher)
    prefix = secrets.token_bytes(block)
    prefix += prefix[-2:]
    if options.checks:
        check = hashlib.sha1(prefix + plain + _CHECK_HEADER, usedforsecurity=False).digest()
        body = _chain(cipher, key, None, prefix + plain + _CHECK_HEADER + check, True)
        return header + _packet(_CHECKED, b"\1" + body)
    begin = _chain(cipher, key, None, prefix, True)
    return header + _packet(_WITHOUT_CHECK, begin + _chain(cipher, key, begin[2:], plain, True))


def _symmetric_key(password: bytes, options: _Options) -> tuple[bytes, bytes]:
    """Returns the packet that says how the key comes from the password, and the key of the message."""
    cipher = (options.key_cipher or options.cipher) if options.session_key else options.cipher
    salt = secrets.token_bytes(8) if options.mode else b""
    how = bytes((options.mode, options.hash)) + salt
    count = 0
    if options.mode == 3:
        byte = _encode_count(options.count or 65536 + secrets.randbelow(253952 - 65536))
        count = _decode_count(byte)
        how += bytes((byte,))
    key = _key_of(password, options.hash, salt, count, _CIPHERS[cipher][1])
    if not options.session_key:
        return _packet(_SYMMETRIC_KEY, bytes((4, cipher)) + how), key
    own = secrets.token_bytes(_CIPHERS[options.cipher][1])
    sealed = _chain(cipher, key, None, bytes((options.cipher,)) + own, True)
    return _packet(_SYMMETRIC_KEY, bytes((4, cipher)) + how + sealed), own


# ---- decryption -----------------------------------------------------------------------------------------------------


def _decrypt(message: bytes, password: str, options: str, as_text: bool) -> bytes:
    wanted = _options_of(options)
    if not password:
        raise _bad_argument()
    cipher, key = 0, b""
    for tag, body in _Reader(message).packets():
        if tag == _SYMMETRIC_KEY:
            cipher, key = _open_key(body, password.encode())
        elif tag == _OF_PUBLIC_KEY:
            raise _corrupt()
        elif tag in (_CHECKED, _WITHOUT_CHECK):
            if not key:
                raise _corrupt()
            plain = _open(cipher, key, body, tag == _CHECKED)
            return _literal(plain, as_text, wanted.converts)
        elif tag != _MARKER:
            raise _corrupt()
    raise _corrupt()


def _open_key(body: bytes, password: bytes) -> tuple[int, bytes]:
    if len(body) < 4 or body[0] != 4:
        raise _corrupt()
    cipher, mode, hash_, rest = body[1], body[2], body[3], body[4:]
    if cipher not in _CIPHERS:
        raise _error("Unsupported cipher algorithm")
    if hash_ not in _HASHES:
        raise _error("Unsupported digest algorithm")
    needed = {0: 0, 1: 8, 3: 9}.get(mode)
    if needed is None or len(rest) < needed:
        raise _corrupt()
    count = _decode_count(rest[8]) if mode == 3 else 0
    key = _key_of(password, hash_, rest[: min(needed, 8)], count, _CIPHERS[cipher][1])
    sealed = rest[needed:]
    if not sealed:
        return cipher, key
    own = _chain(cipher, key, None, sealed, False)
    if own[0] not in _CIPHERS or len(own) - 1 != _CIPHERS[own[0]][1]:
        raise _corrupt()
    return own[0], own[1:]


def _open(cipher: int, key: bytes, body: bytes, checks: bool) -> bytes:
    begin = _block(cipher) + 2
    if checks:
        plain = _chain(cipher, key, None, body[1:], False)
        digest = hashlib.sha1(plain[:-20], usedforsecurity=False).digest()
        if body[:1] != b"\1" or plain[-22:-20] != _CHECK_HEADER or plain[-20:] != digest:
            raise _corrupt()
        plain = plain[:-22]
    else:
        start = _chain(cipher, key, None, body[:begin], False)
        plain = start + _chain(cipher, key, body[2:begin], body[begin:], False) if len(start) == begin else b""
    if len(plain) < begin or plain[begin - 4 : begin - 2] != plain[begin - 2 : begin]:
        raise _corrupt()
    return plain[begin:]


def _literal(plain: bytes, as_text: bool, converts: bool) -> bytes:
    for tag, body in _Reader(plain).packets():
        if tag == _COMPRESSED and body:
            return _literal(_unpack(body), as_text, converts)
        if tag != _LITERAL or len(body) < 2 or len(body) < body[1] + 6:
            raise _corrupt()
        if as_text and body[:1] not in (b"t", b"u"):
            raise _error("Not text data")
        data = body[body[1] + 6 :]
        return data.replace(b"\r\n", b"\n") if converts and body[:1] in (b"t", b"u") else data
    raise _corrupt()


def _unpack(body: bytes) -> bytes:
    if body[0] == 0:
        return body[1:]
    if body[0] == _BZIP2:
        raise _error("Unsupported compression algorithm")
    if body[0] not in _COMPRESSION:
        raise _corrupt()
    unpacker = zlib.decompressobj(_COMPRESSION[body[0]])
    try:
        found = unpacker.decompress(body[1:], _MOST_PLAIN)
    except zlib.error:
        raise _corrupt() from None
    if unpacker.unconsumed_tail:
        raise SqlError("54000", "compressed message is too large")
    return found


# ---- armor ----------------------------------------------------------------------------------------------------------

_LINE = 76
_ARMOR = re.compile(
    r"-----BEGIN [^\n]*-----[ \t\r]*\n((?:[^\n]+\n)*?)[ \t\r]*\n"
    r"([A-Za-z0-9+/=\s]*?)^=([A-Za-z0-9+/]{4})\s*^-----END [^\n]*-----",
    re.MULTILINE,
)


def _crc24_of_byte(value: int) -> int:
    for _ in range(8):
        value <<= 1
        if value & 0x1000000:
            value ^= 0x1864CFB
    return value


@functools.cache
def _crc24_table() -> tuple[int, ...]:
    return tuple(_crc24_of_byte(byte << 16) for byte in range(256))


def _crc24(data: bytes) -> bytes:
    table, value = _crc24_table(), 0xB704CE
    for byte in data:
        value = (value << 8 & 0xFFFFFF) ^ table[value >> 16 ^ byte]
    return value.to_bytes(3, "big")


def _armor(data: bytes, keys: Array | None = None, values: Array | None = None) -> str:
    text = base64.b64encode(data).decode()
    lines = [text[start : start + _LINE] for start in range(0, len(text), _LINE)]
    headers = [f"{key}: {value}" for key, value in _headers(keys, values)]
    check = "=" + base64.b64encode(_crc24(data)).decode()
    parts = ("-----BEGIN PGP MESSAGE-----", *headers, "", *lines, check, "-----END PGP MESSAGE-----", "")
    return "\n".join(parts)


def _headers(keys: Array | None, values: Array | None) -> Sequence[tuple[str, str]]:
    if keys is None or values is None:
        return ()
    for array in (keys, values):
        if len(array.dimensions) > 1:
            raise SqlError("2202E", "wrong number of array subscripts")
    if len(keys.elements) != len(values.elements):
        raise SqlError("2202E", "mismatched array dimensions")
    for array, what in ((keys, "key"), (values, "value")):
        for item in array.elements:
            _check_header(item, what)
    return [(str(key), str(value)) for key, value in zip(keys.elements, values.elements, strict=True)]


def _check_header(item: Any, what: str) -> None:
    if item is None:
        raise SqlError("22004", f"null value not allowed for header {what}")
    if not item.isascii():
        raise SqlError("22023", f"header {what} must not contain non-ASCII characters")
    if what == "key" and ": " in item:
        raise SqlError("22023", 'header key must not contain ": "')
    if "\n" in item:
        raise SqlError("22023", f"header {what} must not contain newlines")


def _find_armor(text: str) -> re.Match[str]:
    found = _ARMOR.search(text)
    if found is None:
        raise _error("Corrupt ascii-armor")
    return found


@implements("pg_dearmor", traits=(Trait.SLOW,))
def _dearmor(text: str) -> bytes:
    found = _find_armor(text)
    try:
        data = base64.b64decode("".join(found[2].split()), validate=True)
        check = base64.b64decode(found[3], validate=True)
    except binascii.Error:
        raise _error("Corrupt ascii-armor") from None
    if _crc24(data) != check:
        raise _error("Corrupt ascii-armor")
    return data


@implements("pgp_armor_headers")
def _armor_headers(text: str) -> list[tuple[str, str]]:
    pairs = []
    for line in _find_armor(text)[1].splitlines():
        key, colon, value = line.partition(": ")
        if not colon:
            raise _error("Corrupt ascii-armor")
        pairs.append((key, value))
    return pairs


@implements("pgp_key_id_w")
def _key_id(_: bytes) -> str:
    not_supported("pgp_key_id()")


def _register() -> None:
    implement("pg_armor", _armor, traits=(Trait.SLOW,))
    for name, kind in (("text", b"t"), ("bytea", b"b")):
        implement(
            f"pgp_sym_encrypt_{name}",
            lambda data, password, options="", kind=kind: _encrypt(
                data.encode() if kind == b"t" else data, kind, password, _options_of(options)
            ),
        )
    implement(
        "pgp_sym_decrypt_text",
        lambda message, password, options="": decode_utf8(_decrypt(message, password, options, True)),
    )
    implement(
        "pgp_sym_decrypt_bytea", lambda message, password, options="": _decrypt(message, password, options, False)
    )


_register()
