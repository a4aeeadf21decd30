# SPDX-License-Identifier: Apache-2.0
"""Flags that scripts share, and how a script starts and ends."""
