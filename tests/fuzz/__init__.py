# SPDX-License-Identifier: Apache-2.0
"""The scripts on damaged input, and killed while they write: `python -m tests.fuzz --help`.

`corpus` makes small valid inputs, `commands` are the command lines that read them, `mutators`
damage files and flags, `processes` runs a command in a forked process, `cases` and `crashes` join
them and judge what came out.
"""
