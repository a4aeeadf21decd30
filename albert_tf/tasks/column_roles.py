# SPDX-License-Identifier: Apache-2.0
"""What the columns of a table, or the keys of objects, hold: by usual names. Needs no TensorFlow.

No column has two roles. A column that is not read of one role may be read of another.
"""

import collections
import functools
import itertools
import re

EMPTY = (None, "")


@functools.cache  # a file has few different names
def plain(name):
    """What is compared of a name (str): `answerStart`, `answer_start` and `Answer Start` agree."""
    return re.sub(r"\(s\)$|[\W_]+", "", name.strip()).casefold()


def named(header, usual):
    """The columns that have usual names: dict from role to list of names, by precedence.

    Args:
        header: iterable of str.
        usual: dict from role to usual names, by precedence.
    """
    known = collections.defaultdict(list)
    for name in sorted(header, key=str.islower, reverse=True):  # `answer` comes before `Answer`
        known[plain(name)].append(name)
    return {
        role: [name for each in dict.fromkeys(map(plain, names)) for name in known.get(each, ())]
        for role, names in usual.items()
    }


def filled(rows, groups, are_texts=False):
    """The names of the columns that are read of several groups: list of str.

    The first group that has content is read. Another one is read too if it only has content in rows
    in which the former have none, as in two tables that were joined.

    Args:
        rows: list of dicts from name to value.
        groups: iterable of lists of names, by precedence.
        are_texts: bool, whether other groups must hold texts, with spaces: `document` may be the
            name of a file.
    """
    used, done = [], set()
    for names in groups:
        held = {n for n, row in enumerate(rows) if any(row.get(x) not in EMPTY for x in names)}
        is_next = not used or not are_texts
        is_next = is_next or all(" " in "".join(rows[n].get(x, "") for x in names) for n in held)
        if held and is_next and done.isdisjoint(held):
            used, done = [*used, *names], done | held
    return used


def used(rows, usual):
    """The columns that are read of each role: dict from role to list of names.

    Args:
        rows: list of dicts from name to value.
        usual: dict from role to usual names. The first role comes first, and the first name.
    """
    found, taken = {}, set()
    for role, names in named(dict.fromkeys(itertools.chain(*rows)), usual).items():
        free = [name for name in names if name not in taken]
        found[role] = filled(rows, ([name] for name in free)) or free[:1]
        taken.update(found[role])
    return found
