# SPDX-License-Identifier: Apache-2.0
"""The Python API: loads models and runs them on texts."""
