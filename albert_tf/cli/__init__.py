# SPDX-License-Identifier: Apache-2.0
"""Flags of the scripts, and their start and end."""
