# SPDX-License-Identifier: Apache-2.0
"""Models in Python: loading any of them, and asking them about texts."""
