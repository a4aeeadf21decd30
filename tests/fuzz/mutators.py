# SPDX-License-Identifier: Apache-2.0
"""Damage to files and flags. A mutator takes what it changes and the random generator.

Mutators that need TensorFlow run in a process of their own (`cases.prepare`).
"""

import gzip
import json
import re
from pathlib import Path

import numpy as np

# === Bytes of any file ===

_INSERTED = (b"\0", b"\xff", b"\xef\xbb\xbf", b"\r", b"\n\n", b"\t", b'"', b"\xed\xa0\x80", b"\x1c")


def _flip_bit(data, rng):
    position = rng.randrange(len(data))
    return data[:position] + bytes([data[position] ^ 1 << rng.randrange(8)]) + data[position + 1 :]


def _insert(data, rng):
    position = rng.choice((0, rng.randrange(len(data) + 1), len(data)))
    return data[:position] + rng.choice(_INSERTED) + data[position:]


def _duplicate(data, rng):
    start, end = sorted(rng.randrange(len(data) + 1) for _ in range(2))
    return data[:end] + data[start:end] + data[end:]


def _remove(data, rng):
    start, end = sorted(rng.randrange(len(data) + 1) for _ in range(2))
    return data[:start] + data[end:]


BYTES = {
    "flip a bit": _flip_bit,
    "insert bytes": _insert,
    "truncate": lambda data, rng: data[: rng.randrange(len(data))],
    "duplicate a part": _duplicate,
    "remove a part": _remove,
    "empty": lambda data, rng: b"",
    "blank": lambda data, rng: b" \n",
    "twice": lambda data, rng: data * 2,
    "gzip": lambda data, rng: gzip.compress(data, mtime=0),
    "UTF-16": lambda data, rng: data.decode("latin-1").encode("utf-16"),
    "random bytes": lambda data, rng: rng.randbytes(200),
}


# === Lines of text and tables ===


def _swap_columns(lines, rng):
    line = rng.randrange(len(lines))
    lines[line] = "\t".join(reversed(lines[line].split("\t")))


def _set_cell(lines, rng):
    line = rng.randrange(len(lines))
    cells = lines[line].split("\t")
    odd = ("", "nan", "-1", "1e999", '"', "\u2028", "x" * 10**5, "[MASK] [SEP]", "\u0301" * 500)
    cells[rng.randrange(len(cells))] = rng.choice(odd)
    lines[line] = "\t".join(cells)


def _end_in_crlf(lines, rng):
    lines[:] = "\r\n".join(lines).split("\n")


LINES = {
    "drop the first line": lambda lines, rng: lines.pop(0),
    "drop a line": lambda lines, rng: lines.pop(rng.randrange(len(lines))),
    "blank line": lambda lines, rng: lines.insert(rng.randrange(len(lines)), ""),
    "repeat a line": lambda lines, rng: lines.insert(0, rng.choice(lines)),
    "sort lines": lambda lines, rng: lines.sort(),
    "swap columns": _swap_columns,
    "odd cell": _set_cell,
    "CRLF": _end_in_crlf,
}


def _edit_lines(edit, path, rng):
    lines = path.read_bytes().decode("utf-8", "surrogateescape").split("\n")
    edit(lines, rng)
    path.write_bytes("\n".join(lines).encode("utf-8", "surrogateescape"))


# === Values of JSON ===

_DEEP = "deeply nested"  # stands for what json.dumps itself could not write
_HUGE = "huge integer"
_ODD_JSON = (
    None, True, False, -1, 0, 1.5, 10**9, 2**31, 2**63, float("nan"), float("inf"), -1e308, "", "7",
    "\ud800", "\0", "x" * 10**5, [], {}, [[]], {"": 0}, [None], _DEEP, _HUGE,
)  # fmt: skip


def _nodes(value):
    """All (container, key) pairs of a JSON value."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, inner in items:
        yield value, key
        if isinstance(inner, dict | list):
            yield from _nodes(inner)


def _rename(container, key, rng):
    if isinstance(container, dict):
        container[f"{key}_"] = container.pop(key)
    else:
        container.insert(0, container[key])  # a list has no names: an element twice


def _add(container, key, rng):
    if isinstance(container, dict):
        container["unknown"] = rng.choice(_ODD_JSON)
    else:
        container.append(rng.choice(_ODD_JSON))


JSON = {
    "odd value": lambda container, key, rng: container.__setitem__(key, rng.choice(_ODD_JSON)),
    "delete": lambda container, key, rng: container.__delitem__(key),
    "rename or repeat": _rename,
    "add": _add,
}


def _edit_json(edit, path, rng):
    # One object, or one on each line: of those the first is edited.
    data = path.read_bytes()
    first, *rest = data.split(b"\n") if data.count(b"\n{") else [data]
    value = [json.loads(first)]
    edit(*rng.choice(list(_nodes(value))), rng)
    text = json.dumps(value[0]) if value else ""
    text = text.replace(f'"{_DEEP}"', "[" * 10**5 + "]" * 10**5)
    path.write_bytes(b"\n".join([text.replace(f'"{_HUGE}"', "9" * 5000).encode(), *rest]))


# === Features of TFRecords ===

_ODD_INTEGERS = (-1, 2, 10**6, 2**31, 2**32 + 1, 2**63 - 1, -(2**63))
_ODD_FLOATS = (float("nan"), float("inf"), -1.0, 1e30)


def _odd_element(features, name, rng):
    values = features[name].int64_list.value or features[name].float_list.value
    odd = _ODD_INTEGERS if features[name].int64_list.value else _ODD_FLOATS
    if values:
        values[rng.randrange(len(values))] = rng.choice(odd)


def _other_type(features, name, rng):
    count = len(features[name].int64_list.value)
    other = rng.choice(("float", "bytes", "none"))
    features[name].Clear()
    if other == "float":
        features[name].float_list.value.extend([1.0] * count)
    elif other == "bytes":
        features[name].bytes_list.value.append(b"x")


def _other_length(features, name, rng):
    kind = features[name].WhichOneof("kind")
    if kind:
        values = getattr(features[name], kind).value
        values[:] = rng.choice((values[:-1], values[:1], [*values, *values[-1:]], list(values) * 2))


RECORDS = {
    "odd element": _odd_element,
    "other type": _other_type,
    "other length": _other_length,
    "drop a feature": lambda features, name, rng: features.pop(name),
}


def _edit_records(edit, path, rng):
    import tensorflow as tf

    found = list(tf.compat.v1.io.tf_record_iterator(str(path)))
    first = rng.choice((0, 0, rng.randrange(len(found))))
    last = rng.choice((first, len(found) - 1))  # one, or all from there
    state = rng.getstate()
    for i in range(first, last + 1):
        rng.setstate(state)  # the same in all of them
        example = tf.train.Example.FromString(found[i])
        features = example.features.feature
        edit(features, rng.choice(sorted(features)), rng)
        found[i] = example.SerializeToString(deterministic=True)
    with tf.io.TFRecordWriter(str(path)) as writer:
        for record in found:
            writer.write(record)


# === Tensors of checkpoints ===


def _set_element(number):
    def edit(tensors, name, rng):
        if tensors[name].dtype == np.float32 and tensors[name].size:
            changed = np.array(tensors[name])
            changed.flat[rng.randrange(changed.size)] = number
            tensors[name] = changed

    return edit


def _other_dtype(tensors, name, rng):
    if tensors[name].dtype.kind in "fi":
        dtype = rng.choice((np.int32, np.float16, np.float64, np.int64, np.bool_))
        tensors[name] = tensors[name].astype(dtype)
    else:
        tensors[name] = np.float32(1)


def _other_shape(tensors, name, rng):
    value = tensors[name]
    tensors[name] = rng.choice((value.T, value[None], value.reshape(-1), value.reshape(-1)[:-1]))


def _odd_step(tensors, name, rng):
    odd = (np.int64(-1), np.int64(2**40), np.float32(1.5), np.array(b"two"), np.array([1, 2]))
    for key in ("global_step", "step/.ATTRIBUTES/VARIABLE_VALUE"):
        tensors[key] = rng.choice(odd)


TENSORS = {
    "nan": _set_element(np.nan),
    "inf": _set_element(np.inf),
    "1e38": _set_element(1e38),
    "other dtype": _other_dtype,
    "other shape": _other_shape,
    "drop": lambda tensors, name, rng: tensors.pop(name),
    "rename": lambda tensors, name, rng: tensors.update({f"{name}_": tensors.pop(name)}),
    "odd step": _odd_step,
}


def _edit_tensors(edit, path, rng):
    import tensorflow as tf

    prefix = re.sub(r"\.(index|data-\d+-of-\d+)$", "", str(path))
    reader = tf.train.load_checkpoint(prefix)
    tensors = {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}
    edit(tensors, rng.choice(sorted(tensors)), rng)
    values = [tf.constant(value) for value in tensors.values()]
    slices = [""] * len(tensors)
    tf.raw_ops.SaveV2(
        prefix=prefix, tensor_names=list(tensors), shape_and_slices=slices, tensors=values
    )


# === Paths ===


def _make_directory(path, rng):
    path.unlink()
    path.mkdir()


def _link_to_itself(path, rng):
    path.unlink()
    path.symlink_to(path.name)


def _swap(path, rng):
    others = sorted(other for other in Path().rglob("*") if other.is_file() and other != path)
    path.write_bytes(rng.choice(others).read_bytes())


PATHS = {
    "missing": lambda path, rng: path.unlink(),
    "a directory": _make_directory,
    "a link to itself": _link_to_itself,
    "the content of another file": _swap,
}


# === Choice ===


def _edit_any(edit, path, rng):
    if edit in PATHS.values():
        edit(path, rng)
    else:
        path.write_bytes(edit(path.read_bytes(), rng))


# Pattern of a path, what may be done to such a file beside that which may be done to any.
_KINDS = (
    (r"\.jsonl?$|^race/", (_edit_json, JSON)),
    (r"\.(txt|tsv)$|/checkpoint$", (_edit_lines, LINES)),
    (r"\.tf_?record$", (_edit_records, RECORDS)),
    (r"\.index$|\.data-\d+-of-\d+$", (_edit_tensors, TENSORS)),
)


def damage_file(path, rng):
    """Damages a file of the working directory (relative Path); says what was done (str)."""
    fitting = [kind for pattern, kind in _KINDS if re.search(pattern, str(path))]
    apply, edits = rng.choice([(_edit_any, PATHS | BYTES), *fitting[:1] * 2])
    name = rng.choice(sorted(edits))
    apply(edits[name], path, rng)
    return f"{path}: {name}"


_ODD_VALUES = (
    "", "0", "-1", "1", "7", "0.5", "nan", "inf", "-inf", "1e-50", "1e400", "2147483648",
    "9223372036854775807", "99999999999999999999", "true", "\u00e9", "no/such", "[", "*", "{}", ",",
    "a,b", "x" * 5000, ".",
)  # fmt: skip
# A large value is no mistake there, and takes its time.
_ENDLESS = {"num_train_steps", "train_step", "num_trials", "continuous_eval_timeout"}
_ENDLESS |= {"num_train_epochs"}


def odd_flag(names, rng):
    """`--name=value` with a value that it should not have, or with the name of some file."""
    name = rng.choice(names)
    present = sorted(path.name for path in Path().iterdir())
    value = rng.choice((*_ODD_VALUES, *present[:3]))
    if name in _ENDLESS and re.fullmatch(r"\d{2,}|inf|1e400", value):
        value = "-1"
    return f"--{name}={value}"
