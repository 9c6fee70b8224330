"""Ways to damage a file: blindly, or in a way that its outermost checks still let through. All from one generator."""

from __future__ import annotations

import gzip
import io
import json
import struct
import zipfile

import numpy as np

ODD = (
    None,
    True,
    False,
    0,
    -1,
    1,
    2,
    3,
    7,
    10**6,
    2**31,
    2**53,
    2**63 - 1,
    2**63,
    10**30,
    -(10**30),
    0.5,
    -0.0,
    1e-320,
    1e308,
    float("nan"),
    float("inf"),
    -float("inf"),
    "",
    "0",
    "1/0",
    "1/3",
    "9" * 400,
    "1e999",
    "nan",
    "exact",
    "\x1b[2J\x9b",
    "../../x",
    "[red]x[/]",
    "a\nb",
    "\u202e",
    "\ud800",
    "x" * 3000,
    [],
    {},
    [[]],
    [0],
    [1, 2, 3],
    {"a": 1},
    [[[[[[[[]]]]]]]],
)
"""Values that somebody may have forgotten."""
TOKENS = (
    b"0",
    b"-1",
    b"1e999",
    b"NaN",
    b"Infinity",
    b"99999999999999999999",
    b"2147483648",
    b"1e12",
    b'"',
    b"'",
    b"[",
    b"]",
    b"{",
    b"}",
    b",",
    b":",
    b"\n",
    b"\r",
    b"\0",
    b"\xff",
    b"\xef\xbb\xbf",
    b"[" * 300,
    b'{"a":' * 300,
    b"=",
    b"..",
    b"/",
    b"true",
    b"state",
    b"_",
    b".",
    b"\x1b[2J",
    b"inf",
    b"#",
    b"[[x]]\n",
    b"a.b.c = 1\n",
    b"9" * 5000,
)


def damaged(data: bytes, kind: str, rng: np.random.Generator) -> bytes:
    """The bytes of a file of this kind (json, toml, csv, gz, npz, safetensors, bytes) after one or more changes."""
    if kind == "bytes" or rng.random() < 0.35:
        return _bytes(data, rng)
    if kind == "json":
        return _json(data, rng)
    if kind == "jsonl":
        lines = data.split(b"\n")
        at = int(rng.integers(len(lines)))
        lines[at] = _json(lines[at], rng) if lines[at] else b"[" * int(rng.integers(1, 2000))
        return b"\n".join(lines)
    if kind == "gz":
        return gzip.compress(_text(gzip.decompress(data), rng), 1, mtime=0)
    if kind == "npz":
        return _npz(data, rng)
    if kind == "safetensors":
        return _safetensors(data, rng)
    return _text(data, rng)


def _bytes(data: bytes, rng: np.random.Generator) -> bytes:
    """Flip, cut, repeat, overwrite."""
    out = bytearray(data)
    for _ in range(int(rng.integers(1, 5))):
        if not out:
            break
        at, size = int(rng.integers(len(out))), int(rng.integers(1, 30))
        way = int(rng.integers(6))
        if way == 0:
            out[at] ^= 1 << int(rng.integers(8))
        elif way == 1:
            out[at] = int(rng.choice([0, 1, 127, 128, 255]))
        elif way == 2:
            del out[at : at + size]
        elif way == 3:
            out[at:at] = out[at : at + size] * int(rng.integers(1, 4))
        elif way == 4:
            out[at : at + size] = rng.bytes(size)
        else:
            del out[at:]
    return bytes(out)


def _text(data: bytes, rng: np.random.Generator) -> bytes:
    """Put words where others stood; change, repeat or drop lines and numbers."""
    out = data
    for _ in range(int(rng.integers(1, 4))):
        token = TOKENS[int(rng.integers(len(TOKENS)))]
        digits = [i for i, c in enumerate(out) if 48 <= c < 58]
        way = int(rng.integers(4))
        if way == 0 and digits:
            at = digits[int(rng.integers(len(digits)))]
            out = out[:at] + token + out[at + 1 :]
        elif way == 1:
            lines = out.split(b"\n")
            i, j = rng.integers(len(lines), size=2)
            lines[i] = lines[j]
            out = b"\n".join(lines)
        else:
            at = int(rng.integers(len(out) + 1))
            out = out[:at] + token + out[at + int(rng.integers(3)) :]
    return out


def _json(data: bytes, rng: np.random.Generator) -> bytes:
    """Put an odd value somewhere into the tree."""
    try:
        tree = json.loads(data)
    except ValueError:
        return _text(data, rng)
    return json.dumps(odd_value(tree, rng)).encode()


def odd_value(tree: object, rng: np.random.Generator) -> object:
    """The tree with a random node replaced, removed, renamed or doubled."""
    if not isinstance(tree, dict | list) or not tree or rng.random() < 0.1:
        return ODD[int(rng.integers(len(ODD)))]
    keys = list(tree) if isinstance(tree, dict) else list(range(len(tree)))
    key = keys[int(rng.integers(len(keys)))]
    way = int(rng.integers(8))
    result = dict(tree) if isinstance(tree, dict) else list(tree)
    if way == 0:
        del result[key]
    elif way == 1 and isinstance(result, dict):
        result[str(ODD[int(rng.integers(len(ODD)))])] = result.pop(key)
    elif way == 2 and isinstance(result, list):
        result.insert(key, result[key])
    else:
        result[key] = odd_value(tree[key], rng)
    return result


def odd_array(array: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Another array in its place: odd entries, another shape or another type."""
    way = int(rng.integers(7))
    if way < 4 and array.size:
        out = array.copy()
        values = {"f": [np.nan, np.inf, -np.inf, -1.0, 0.0, 1e300, 1e-300], "b": [True, False]}.get(
            array.dtype.kind,
            [0, 1, 2, 5, 127, np.iinfo(array.dtype).max, np.iinfo(array.dtype).min]
            if array.dtype.kind in "iu"
            else ["x"],
        )
        with np.errstate(all="ignore"):
            flat = out.reshape(-1)
            flat[rng.integers(flat.size, size=1 if way else min(flat.size, 3))] = np.array(
                values[int(rng.integers(len(values)))]
            ).astype(array.dtype)
        return out
    if way == 4:
        shape = list(array.shape) or [1]
        shape[int(rng.integers(len(shape)))] = int(rng.choice([0, 1, 2, 5]))
        return np.resize(array, shape) if array.size else np.zeros(shape, array.dtype)
    if way == 5:
        kind = rng.choice(["float64", "float32", "int64", "int8", "uint8", "bool", "uint64", "float16"])
        with np.errstate(all="ignore"):
            return array.astype(kind) if array.dtype.kind != "U" else np.zeros(3, kind)
    return (array.reshape(-1), array[None], np.zeros(0, array.dtype))[int(rng.integers(3))]


def _safetensors(data: bytes, rng: np.random.Generator) -> bytes:
    """Change arrays or notes and write a whole file again; or change the header alone."""
    from safetensors.numpy import load, save

    (size,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + size])
    notes = dict(header.get("__metadata__", {}))
    way = int(rng.integers(10))
    if way == 0:  # the header is a lie
        header = odd_value(header, rng)
        text = json.dumps(header).encode()
        length = len(text) if rng.random() < 0.8 else int(rng.choice([0, 2**31, 2**63 - 1, 10**9]))
        return struct.pack("<Q", length) + text + data[8 + size :]
    arrays = dict(load(data))
    if way < 5 and notes:
        key = list(notes)[int(rng.integers(len(notes)))]
        try:
            notes[key] = json.dumps(odd_value(json.loads(notes[key]), rng))
        except ValueError:
            notes[key] = str(ODD[int(rng.integers(len(ODD)))])
    else:
        for _ in range(int(rng.integers(1, 3))):
            names = list(arrays)
            name = names[int(rng.integers(len(names)))]
            if rng.random() < 0.1:
                arrays[str(rng.choice(["x", *names]))] = arrays.pop(name)
            else:
                arrays[name] = np.ascontiguousarray(odd_array(arrays[name], rng))
    return save(arrays, metadata={key: text.encode(errors="replace").decode() for key, text in notes.items()})


def _npz(data: bytes, rng: np.random.Generator) -> bytes:
    """Change arrays, or the headers of arrays, and pack them again."""
    with np.load(io.BytesIO(data), allow_pickle=False) as file:
        arrays = {name: file[name] for name in file.files}
    name = list(arrays)[int(rng.integers(len(arrays)))]
    if rng.random() < 0.6:
        arrays[name] = odd_array(arrays[name], rng)
        out = io.BytesIO()
        np.savez_compressed(out, **arrays)
        return out.getvalue()
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for key, array in arrays.items():
            member = io.BytesIO()
            np.save(member, array, allow_pickle=False)
            content = member.getvalue()
            if key == name:
                content = _bytes(content[:128], rng) + content[128:] if rng.random() < 0.5 else _header(content, rng)
            archive.writestr(f"{key}.npy", content)
    return out.getvalue()


def _header(content: bytes, rng: np.random.Generator) -> bytes:
    """An .npy member that claims another shape or type."""
    shape = str(tuple(int(x) for x in rng.choice([0, 1, 2, 3, 10**6, 10**12, 2**62], size=int(rng.integers(4)))))
    kind = str(rng.choice(["<f8", "|O", "<i8", "<U9", "|V8", "<c16", "<M8[s]", "|S4"]))
    text = f"{{'descr': {kind!r}, 'fortran_order': False, 'shape': {shape}, }}".encode()
    return content[:8] + struct.pack("<H", len(text)) + text + content[10 + struct.unpack("<H", content[8:10])[0] :]
