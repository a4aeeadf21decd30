# SPDX-License-Identifier: Apache-2.0
"""Modules that are imported when they are first used.

TensorFlow takes seconds to import. Scripts name the parts of the library that need it with
`module`, so that --help and mistakes in flags do not wait for it.
"""

import importlib


class _Module:
    def __init__(self, name):
        self._name = name

    def __getattr__(self, attribute):
        return getattr(importlib.import_module(self._name), attribute)


def module(name):
    """Stands for a module; it is imported with the first use of an attribute.

    Args:
        name: str, its full name.
    """
    return _Module(name)
